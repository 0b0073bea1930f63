"""A comparison for people: two tables, and a picture."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import resources

import msgspec
from rich.table import Table
from rich.text import Text

from chaos.words import some, times
from orchestrator.campaigns.comparison import Comparison, Difference, Side, Violated
from orchestrator.metrics import of_one_partition
from orchestrator.report.console import Page, printable

REASONS_SHOWN = 3
TELLING = 0.05
"""Of p: below it the sides differ by more than chance explains in one of twenty cases."""
BINS = 48
"""Into as many the differences of pairs are counted, from the least to the greatest."""


def print_comparison(page: Page, found: Comparison) -> None:
    """What was compared, which promises were broken on which side, and what was measured, with its interval."""
    first, last = found.seeds
    page.say(f"{found.scenario}, sim, seeds {first}-{last}: {some(found.pairs, 'pair')} of runs compared", "bold")
    if found.common:
        page.say(f"  both  {', '.join(found.common)}")
    for name, each in (("a", found.a), ("b", found.b)):
        page.say(f"  {name}     {each.label}")
    page.say()
    if found.violated:
        page.show(_violated(found))
    else:
        page.say(f"no promise was violated in any of the {some(2 * found.pairs, 'run')}")
    page.say()
    page.show(_measures(shown(found.differences)))
    for line in _alike(found.differences):
        page.say(printable(line), "dim")
    for name, each in (("a", found.a), ("b", found.b)):
        for line in remarks(name, each):
            page.say(line, "magenta")


def remarks(name: str, given: Side) -> list[str]:
    """What could not be told of a side."""
    lines = []
    if given.not_carried_out:
        lines.append(f"{some(given.not_carried_out, 'run')} of {name} could not be carried out, and is ignored")
    if given.undecided:
        lines.append(f"{some(given.undecided, 'run')} of {name} undecided, but compared")
    shown = list(given.why.items())[:REASONS_SHOWN]
    return lines + [f"  {times(number)}: {reason}" for reason, number in shown if lines]


VIOLATED_COLUMNS = ("promise", ">violated in a", ">violated in b", ">only a", ">only b", ">p", "what is promised")
MEASURE_COLUMNS = ("measure (mean of a run)", ">a", ">b", ">b - a", ">95 % interval", ">b lower / higher")


def shares_of(found: Comparison, each: Violated) -> tuple[str, str]:
    """In how many runs of each side, with its interval: ``100 of 100 (96.4-100 %)``."""
    a, b = (
        f"{runs} of {found.pairs} ({share(low)}-{share(high)} %)"
        for runs, (low, high) in ((each.a, each.a_rate), (each.b, each.b_rate))
    )
    return a, b


def violated_row(found: Comparison, each: Violated) -> list[str]:
    """A promise's line of the table."""
    only = [str(each.only_a), str(each.only_b), probability(each.p)]
    return [each.invariant, *shares_of(found, each), *only, printable(each.title)]


def measure_row(each: Difference) -> list[str]:
    """A measure's line of the table."""
    cells = [number(value, each.unit) for value in (each.a, each.b)]
    return [printable(each.title), *cells, apart(each), interval(each), f"{each.lower} / {each.higher}"]


def _violated(found: Comparison) -> Table:
    table = _table(VIOLATED_COLUMNS)
    for each in found.violated:
        table.add_row(*violated_row(found, each), style="bold" if each.p < TELLING else "")
    return table


def _measures(differing: Sequence[Difference]) -> Table:
    table = _table(MEASURE_COLUMNS)
    for each in differing:
        title, *cells = measure_row(each)
        table.add_row(Text(title, "bold" if telling(each) else "dim"), *cells)
    return table


def _table(columns: Sequence[str]) -> Table:
    """Columns that begin with ">" have numbers; the last of others may be long."""
    table = Table(box=None, pad_edge=False, header_style="dim", show_edge=False)
    for place, name in enumerate(columns):
        right = name.startswith(">")
        table.add_column(name.lstrip(">"), justify="right" if right else "left", no_wrap=right or not place)
    return table


def shown(differences: Sequence[Difference]) -> list[Difference]:
    """Those for people: of several partitions only what sums them up, and not what is the same in all pairs."""
    return [each for each in differences if not of_one_partition(each.metric) and (each.lower or each.higher)]


def same(differences: Sequence[Difference]) -> list[Difference]:
    """Those that are the same in all pairs."""
    return [each for each in differences if not of_one_partition(each.metric) and not (each.lower or each.higher)]


def _alike(differences: Sequence[Difference]) -> Iterator[str]:
    """What is said of those that are the same in all pairs. Some are 0, and a reader may ask for just that."""
    if alike := "; ".join(f"{each.title} {number(each.a, each.unit)}" for each in same(differences) if each.a):
        yield f"the same in all pairs (mean of a run): {alike}"
    if none := "; ".join(each.title for each in same(differences) if not each.a):
        yield f"0 in all runs: {none}"


def telling(each: Difference) -> bool:
    """Whether the interval leaves out 0."""
    return each.low is not None and each.high is not None and (each.low > 0 or each.high < 0)


def number(value: float, unit: str, sign: str = "", digits: int | None = None) -> str:
    """``6.78 s``: with so many decimals, or as many as make three digits that count."""
    digits = _digits(value) if digits is None else digits
    text = format(round(value, digits) + 0.0, f"{sign},.{digits}f")
    return f"{text} {unit}" if unit else text


def _digits(*values: float) -> int:
    greatest = max(map(abs, values))
    return min(4, max(0, 2 - math.floor(math.log10(greatest)))) if greatest else 0


def apart(each: Difference) -> str:
    """``+3.38 s``, as exact as its interval."""
    return number(each.difference, each.unit, "+", _digits(each.difference, each.low or 0.0, each.high or 0.0))


def interval(each: Difference) -> str:
    """``+3.35 to +3.41 s``."""
    if each.low is None or each.high is None:
        return "none for one pair"
    if each.low == each.high:
        return "alike in all pairs"
    digits = _digits(each.difference, each.low, each.high)
    return f"{number(each.low, '', '+', digits)} to {number(each.high, each.unit, '+', digits)}"


def share(rate: float) -> str:
    """In per cent: ``98.2``."""
    return f"{100 * rate:.1f}".removesuffix(".0")


def probability(p: float) -> str:
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def svg(found: Comparison, per_pair: Callable[[str], Sequence[float]]) -> str:
    """The comparison as a picture that needs nothing else. ``per_pair``: b - a of a metric, of each pair."""
    from jinja2 import Environment

    text = (resources.files(__package__) / "comparison.svg.j2").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    rows = [_row(each, per_pair) for each in shown(found.differences)]
    helpers: Mapping[str, object] = {"number": number, "apart": apart, "interval": interval, "share": share}
    return environment.from_string(text).render(found=found, rows=rows, printable=printable, **helpers) + "\n"


def _row(each: Difference, per_pair: Callable[[str], Sequence[float]]) -> dict[str, object]:
    return {"each": each, **msgspec.structs.asdict(placed(each, per_pair(each.metric)))}


class Placed(msgspec.Struct, frozen=True):
    """A measure as a picture needs it: places from 0 to 1 on an axis of its own, which has 0 on it. zero: where that
    is. mean, low, high: of b - a. bars: where pairs are, and how many, from 0 to 1. telling: whether the interval
    leaves out 0. flat: whether all pairs are at 0."""

    zero: float
    mean: float
    low: float
    high: float
    bars: list[tuple[float, float]]
    telling: bool
    flat: bool


def placed(each: Difference, values: Sequence[float]) -> Placed:
    """Where a measure lies. ``values``: b - a of each pair."""
    low = each.difference if each.low is None else each.low
    high = each.difference if each.high is None else each.high
    least, most = min(0.0, low, *values), max(0.0, high, *values)
    width = (most - least) or 1.0

    def place(value: float) -> float:
        return round((value - least) / width, 4)

    counts = [0] * BINS
    for value in values:
        counts[min(BINS - 1, int(place(value) * BINS))] += 1
    fullest = max(counts, default=0) or 1
    bars = [(index / BINS, round(count / fullest, 3)) for index, count in enumerate(counts) if count]
    return Placed(place(0.0), place(each.difference), place(low), place(high), bars, telling(each), most == least)
