"""The page of a comparison: which promises were broken on which side, which seeds part, and what was measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import msgspec

from chaos.words import some
from orchestrator.campaigns.comparison import Comparison, Difference, MeasuredPair, Side, Violated, per_pair
from orchestrator.campaigns.record import RunRecord
from orchestrator.page.blocks import (
    BARE_KEY,
    BROKEN,
    NOT_DONE,
    UNBROKEN,
    UNDECIDED,
    Block,
    Cell,
    Fate,
    Part,
    Strip,
    Tone,
    plain,
    strip,
)
from orchestrator.report.comparison import (
    TELLING,
    apart,
    interval,
    number,
    placed,
    probability,
    same,
    share,
    shown,
    telling,
)
from orchestrator.run_dir import RESTORE, read_json, why, wrong
from orchestrator.verdict import INCONCLUSIVE, NOT_CARRIED_OUT

COMPARISON, PAIRS = "comparison.json", "pairs.ndjson"
COMPARISON_SCHEMA = "krift-comparison/v1"
PARTED_MAX = 5
"""Pairs whose commands are shown."""


def read_comparison(directory: Path) -> Comparison:
    """What was compared. Raises InputError."""
    expected = "a directory that krift compare wrote"
    return read_json(directory / COMPARISON, Comparison, COMPARISON_SCHEMA, expected)


def read_pairs(directory: Path) -> list[MeasuredPair]:
    """Its pairs of runs, by seed; none if they were not kept. Raises InputError if they are damaged."""
    path = directory / PAIRS
    if not path.is_file():
        return []
    try:
        return [msgspec.json.decode(line, type=MeasuredPair) for line in path.read_bytes().splitlines()]
    except OSError as error:
        raise wrong(path, f"cannot be read: {why(error)}", "a file that you may read") from None
    except msgspec.MsgspecError as error:
        raise wrong(path, f"damaged: {error}", RESTORE) from None


def headline(found: Comparison) -> tuple[str, Tone]:
    """What it came to in a sentence, and its tone."""
    runs = f"{some(found.pairs, 'pair')} of runs"
    if not found.violated:
        return f"{runs}: no promise was violated on either side", "held"
    told = "; ".join(f"{each.invariant} violated in {each.a} of a and {each.b} of b" for each in found.violated[:4])
    more = f"; and {some(len(found.violated) - 4, 'other promise')}" if len(found.violated) > 4 else ""
    return f"{runs}: {told}{more}", "violated"


def exit_code(found: Comparison) -> int:
    """How the comparison ended."""
    if found.a.not_carried_out or found.b.not_carried_out:
        return NOT_CARRIED_OUT
    return INCONCLUSIVE if found.a.undecided or found.b.undecided else 0


def lines(found: Comparison) -> list[str]:
    """What the sides are."""
    sides = [f"a  {found.a.label}", f"b  {found.b.label}"]
    return sides + ([f"both  {', '.join(found.common)}"] if found.common else [])


def blocks(found: Comparison, pairs: Sequence[MeasuredPair]) -> Iterator[Block]:
    """All that a reader may want to know."""
    if found.violated:
        columns = ("promise", "violated in a", "violated in b", ">only a", ">only b", ">p", "what is promised")
        yield Block(
            "Promises that were violated", [], "", columns, [_promise(each, found.pairs) for each in found.violated]
        )
    if pairs:
        yield Block("Runs, by seed", strips=_sides(found, pairs), key=BARE_KEY)
        yield from _parted(pairs)
    yield _measures(found, [pair for pair in pairs if pair.counts])
    if alike := same(found.differences):
        rows = [plain([each.title, number(each.a, each.unit)]) for each in alike]
        yield Block("The same in all pairs", columns=("measure", ">mean of a run"), rows=rows)
    sides = (("a", found.a), ("b", found.b))
    doubts = [plain([name, f"{runs:,}", reason]) for name, side in sides for reason, runs in side.why.items()]
    if doubts:
        yield Block(
            "Runs that are undecided, or could not be carried out", columns=("side", ">runs", "why"), rows=doubts
        )


def _promise(each: Violated, pairs: int) -> list[Cell]:
    rates = [
        Cell(
            f"{runs} of {pairs} ({share(low)}-{share(high)} %)",
            bar=_rate(runs, pairs),
            said=f"{runs} of {pairs} violated",
        )
        for runs, (low, high) in ((each.a, each.a_rate), (each.b, each.b_rate))
    ]
    sure = Cell(probability(each.p), "violated" if each.p < TELLING else "")
    return [Cell(each.invariant), *rates, Cell(str(each.only_a)), Cell(str(each.only_b)), sure, Cell(each.title)]


def _rate(violated: int, pairs: int) -> list[Part]:
    return [Part("violated", violated / pairs), Part("held", 1 - violated / pairs)]


def _sides(found: Comparison, pairs: Sequence[MeasuredPair]) -> list[Strip]:
    return [
        _side("a", found.a, [pair.a.record for pair in pairs]),
        _side("b", found.b, [pair.b.record for pair in pairs]),
    ]


def _side(name: str, side: Side, runs: Sequence[RunRecord]) -> Strip:
    fates = []
    for run in runs:
        broken = _broken(run)
        if run.exit_code == NOT_CARRIED_OUT:
            kind = NOT_DONE
        else:
            kind = BROKEN if broken else UNDECIDED if run.undecided else UNBROKEN
        fates.append(Fate(kind, f"seed {run.seed}", ", ".join(broken)))
    return strip(f"{name}: {side.label}", fates, BARE_KEY)


def _broken(run: RunRecord) -> list[str]:
    return [name for name, each in run.tallies.items() if each.status == "violated"]


def _parted(pairs: Sequence[MeasuredPair]) -> Iterator[Block]:
    """The first pairs in which other promises were violated on one side than on the other."""
    rows = []
    for a, b in ((pair.a.record, pair.b.record) for pair in pairs if pair.counts):
        if _broken(a) != _broken(b):
            names = [", ".join(_broken(run)) or "nothing" for run in (a, b)]
            commands = [Cell(run.order.again(run.seed), code=True) for run in (a, b)]
            rows.append([Cell(str(a.seed)), *map(Cell, names), *commands])
    if rows:
        columns = (">seed", "violated in a", "violated in b", "a again", "b again")
        before = [f"The first of {some(len(rows), 'pair')}."] if len(rows) > PARTED_MAX else []
        yield Block("Pairs with different violations", before, "", columns, rows[:PARTED_MAX])


def _measures(found: Comparison, pairs: Sequence[MeasuredPair]) -> Block:
    columns = (
        "measure (mean of a run)",
        ">a",
        ">b",
        ">b - a",
        "pairs, mean and interval",
        ">95 % interval",
        ">b lower / higher",
    )
    values = partial(per_pair, pairs)
    rows = [_measure(each, values(each.metric) if pairs else []) for each in shown(found.differences)]
    before = ["Grey bars: b - a of the pairs. Dot and line: the mean and its 95 % interval. Dashed line: 0."]
    return Block("What was measured", before, "", columns, rows)


def _measure(each: Difference, values: Sequence[float]) -> list[Cell]:
    tone: Tone = "" if telling(each) else "vacuous"
    texts = [each.title, number(each.a, each.unit), number(each.b, each.unit), apart(each)]
    place = placed(each, values)
    picture = Cell("", span=None if place.flat else place, said=f"b - a {apart(each)}, {interval(each)}")
    rest = [interval(each), f"{each.lower} / {each.higher}"]
    return [*(Cell(text, tone) for text in texts), picture, *(Cell(text, tone) for text in rest)]
