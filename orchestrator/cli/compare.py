"""``krift compare``: the same seeds under two settings, and what the difference is. How a KIP is judged."""

from __future__ import annotations

import math
import re
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec

from chaos.errors import InputError, Mistake
from chaos.scenario.layers import parse_settings
from chaos.sources import file_text
from chaos.words import some
from orchestrator.campaigns.comparison import (
    Comparison,
    MeasuredPair,
    Pair,
    Side,
    alike,
    differences,
    measure,
    per_pair,
    side,
    violations,
)
from orchestrator.campaigns.order import SimOrder
from orchestrator.campaigns.spread import spread
from orchestrator.campaigns.work import code_id
from orchestrator.cli.asked import Mistakes, Options, find_checked
from orchestrator.cli.options import check_master, parse_seeds, runs_option
from orchestrator.cli.outputs import Outputs, output_options
from orchestrator.files import write_bytes, write_text, writing
from orchestrator.interrupts import INTERRUPTED, Interrupts
from orchestrator.report.comparison import print_comparison, svg
from orchestrator.report.console import page
from orchestrator.report.junit_of_many import suites_of_comparison
from orchestrator.report.summary import summary_of_comparison
from orchestrator.run_dir import check_root, write_json, wrong
from orchestrator.verdict import INCONCLUSIVE, NOT_CARRIED_OUT
from orchestrator.version import __version__

DEFAULT_SEEDS = range(1, 101)
FEW = 20
"""Up to as many pairs are run in this process: Spark would not have started yet when they are done."""
PER_TASK = 4
LOOKED_AT = 10
"""As many seeds are looked at before anything is run, to see whether the two sides differ at all."""
PROGRESS_SECONDS = 5.0


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line asks for. ``text``: of the scenario if it is a file."""

    scenario: str
    text: str
    common: tuple[str, ...]
    a: Side
    b: Side
    seeds: range
    defects: tuple[str, ...]
    master: str | None

    def pair(self, seed: int) -> Pair:
        """The two runs of a seed."""
        a, b = (
            SimOrder(self.scenario, each.variant, seed, (*self.common, *each.settings), self.defects, self.text)
            for each in (self.a, self.b)
        )
        return Pair(a, b)

    def check(self) -> None:
        """Find every mistake before anything starts. Raises InputError."""
        options = (("--set", self.common), ("--a", self.a.settings), ("--b", self.b.settings))
        _mistakes(self).tell([f"{option} {setting}" for option, settings in options for setting in settings])
        pairs = (self.pair(seed) for seed in self.seeds[:LOOKED_AT])
        if all(alike(pair.a.plan(), pair.b.plan()) for pair in pairs):
            problem = f"a ({self.a.label}) and b ({self.b.label}) make the same runs"
            raise wrong("--a, --b", problem, "two settings that differ, e.g. --a features.kip-207=off")

    def again(self) -> str:
        """The command that does it again."""
        parts = ["krift", "compare", self.scenario]
        for name, given in (("a", self.a), ("b", self.b)):
            parts += [f"--variant-{name}", given.variant] if given.variant else []
            parts += [word for setting in given.settings for word in (f"--{name}", setting)]
        parts += [word for setting in self.common for word in ("--set", setting)]
        parts += [word for defect in self.defects for word in ("--defect", defect)]
        parts += ["--seeds", f"{self.seeds[0]}-{self.seeds[-1]}"]
        return shlex.join(parts if self.master is None else [*parts, "--master", self.master])


@click.command("compare")
@click.argument("scenario")
@click.option("--a", multiple=True, metavar="KEY=VALUE", help="Set a value on side a, e.g. features.kip-207=off.")
@click.option("--b", multiple=True, metavar="KEY=VALUE", help="Set a value on side b, e.g. features.kip-207=seed.")
@click.option("--variant", metavar="NAME", help="The variant of both sides; none if not given.")
@click.option("--variant-a", metavar="NAME", help="The variant of side a.")
@click.option("--variant-b", metavar="NAME", help="The variant of side b.")
@click.option("--set", "common", multiple=True, metavar="KEY=VALUE", help="Set a value on both sides.")
@click.option(
    "--seeds",
    callback=parse_seeds,
    metavar="N|A-B",
    help="Seeds of the pairs: 1 to N, or A to B; 1 to 100 if not given.",
)
@click.option("--defect", "defects", multiple=True, metavar="NAME", help="Plant this bug on both sides.")
@click.option(
    "--master",
    metavar="URL",
    help=f"Spark's master; if not given, up to {FEW} pairs run in this process, more in Spark on this machine's cores.",
)
@runs_option
@click.option("--json", "as_json", is_flag=True, help="The comparison on stdout, as one object, and nothing else.")
@output_options
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
def command(
    scenario: str,
    a: tuple[str, ...],
    b: tuple[str, ...],
    variant: str | None,
    variant_a: str | None,
    variant_b: str | None,
    seeds: range | None,
    out: Path,
    as_json: bool,
    junit_file: Path | None,
    summary_file: Path | None,
    quiet: bool,
    **options: Any,
) -> int:
    """Run SCENARIO with the same seeds under two settings, and compare them."""
    if variant is not None and (variant_a is not None or variant_b is not None):
        raise click.UsageError("--variant is for both sides: it excludes --variant-a and --variant-b")
    request = Request(
        scenario=scenario,
        text=_text(scenario),
        a=Side(variant_a or variant or "", list(a)),
        b=Side(variant_b or variant or "", list(b)),
        seeds=seeds or DEFAULT_SEEDS,
        **options,
    )
    if request.master is not None:
        check_master(request.master)
    request.check()
    check_root(out)
    outputs = Outputs(junit_file, summary_file)
    outputs.check()
    return _compare(request, out, as_json, quiet, outputs)


def _compare(request: Request, out: Path, as_json: bool, quiet: bool, outputs: Outputs) -> int:
    talk, shown = page(stderr=True), page()
    talk.say(f"krift {__version__}: {request.scenario}, a: {request.a.label}, b: {request.b.label}")
    progress = _Progress(len(request.seeds), talk.say if not quiet else lambda line: None)
    pairs: list[MeasuredPair] = []
    interrupted = False
    with Interrupts() as interrupts:
        for each in _all(request, interrupts):
            if each is not None:
                pairs.append(each)
            progress.show(len(pairs))
            # A run in this process hears the signal itself, and is cut short by it.
            interrupted = each is None or interrupts.asked
            if interrupted:
                break
    # They come as executors end them, and intervals are to be the same each time.
    pairs.sort(key=lambda pair: pair.a.record.order.seed or 0)
    if not any(pair.counts for pair in pairs):
        if interrupted:
            raise KeyboardInterrupt
        for pair in pairs[:1]:
            failed = pair.a.record if pair.a.record.exit_code == NOT_CARRIED_OUT else pair.b.record
            talk.say(f"no pair of runs could be carried out; the first: {failed.sentence}")
        return NOT_CARRIED_OUT
    counted, found = _worked_out(request, pairs, out)
    if as_json:
        shown.raw(msgspec.json.encode(found).decode() + "\n")
    else:
        print_comparison(shown, found)
    _keep(found, pairs, counted)
    outputs.write(lambda: suites_of_comparison(found), lambda: summary_of_comparison(found))
    talk.say(f"kept in     {found.kept_in} (plot.svg, comparison.json, pairs.ndjson)")
    talk.say(f"again       {found.again}")
    if interrupted:
        talk.say(
            f"interrupted after {len(pairs)} of {some(len(request.seeds), 'pair')}; the finished pairs are compared"
        )
        return INTERRUPTED
    return exit_code(found)


def exit_code(found: Comparison) -> int:
    """4 if a run could not be carried out, 3 if one is undecided, else 0: violations are what is compared."""
    if found.a.not_carried_out or found.b.not_carried_out:
        return NOT_CARRIED_OUT
    return INCONCLUSIVE if found.a.undecided or found.b.undecided else 0


def _all(request: Request, interrupts: Interrupts) -> Iterator[MeasuredPair | None]:
    """Each pair when it is done; None, and no more, once a signal cut one short."""
    pairs = (request.pair(seed) for seed in request.seeds)
    if request.master is None and len(request.seeds) <= FEW:
        yield from map(measure, pairs)
        return
    from orchestrator.engines.spark_session import spark_session

    spark = spark_session() if request.master is None else spark_session(request.master)

    def tick() -> None:
        if interrupts.asked:
            raise KeyboardInterrupt

    try:
        yield from spread(spark, pairs, partial(measure, code=code_id()), per_task=PER_TASK, tick=tick)
    except KeyboardInterrupt:
        yield None
    finally:
        spark.stop()


def _worked_out(request: Request, pairs: Sequence[MeasuredPair], out: Path) -> tuple[list[MeasuredPair], Comparison]:
    """The pairs that count, and what they say."""
    counted = [pair for pair in pairs if pair.counts]
    name = re.sub(r"[^\w.-]+", "-", Path(request.scenario).stem)
    directory = out / f"compare-{name}-{datetime.now(UTC).strftime('%Y%m%d-%H%M%S-%f')[:-3]}"
    return counted, Comparison(
        krift=__version__,
        scenario=request.scenario,
        common=[*request.common, *(f"defect {defect}" for defect in request.defects)],
        a=side(request.a, [pair.a.record for pair in pairs]),
        b=side(request.b, [pair.b.record for pair in pairs]),
        seeds=(request.seeds[0], request.seeds[-1]),
        pairs=len(counted),
        violated=violations(counted),
        differences=differences(counted),
        again=request.again(),
        kept_in=str(directory),
    )


def _keep(found: Comparison, pairs: Sequence[MeasuredPair], counted: Sequence[MeasuredPair]) -> None:
    """Write it down with its evidence. Raises NotWritten."""
    directory = Path(found.kept_in)
    with writing(directory):
        directory.mkdir(parents=True)
    write_json(directory / "comparison.json", found)
    write_bytes(directory / "pairs.ndjson", b"".join(msgspec.json.encode(pair) + b"\n" for pair in pairs))
    write_text(directory / "plot.svg", svg(found, partial(per_pair, counted)))


def _text(scenario: str) -> str:
    """The scenario file, if it is one: an executor does not see it."""
    try:
        return file_text(scenario)
    except (InputError, ValueError):  # no file, or none that can be read: whoever loads it says so
        return ""


def _mistakes(request: Request) -> Mistakes:
    """Every mistake in the scenario and the options, each named as it was given."""
    mistakes = Mistakes()
    for option, each in (("--a", request.a), ("--b", request.b)):
        settings = (*request.common, *each.settings)
        found = Mistakes()
        given = Options([each.variant], request.seeds[0], [settings], request.defects)
        find_checked(request.scenario, given, found)
        for setting in parse_settings(settings)[0]:
            if setting.path == ("seed",):
                found.add([Mistake(setting.option, 0, "", "the sides share their seeds", "--seeds, for both")])
        own = {f"--set {setting}": f"{option} {setting}" for setting in each.settings}
        mistakes.add(msgspec.structs.replace(told, file=own.get(told.file, told.file)) for told in found.found)
    return mistakes


class _Progress:
    """A line every few seconds."""

    def __init__(self, pairs: int, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._pairs, self._say, self._clock = pairs, say, clock
        self._begun = clock()
        self._next = self._begun + PROGRESS_SECONDS

    def show(self, done: int) -> None:
        """``done`` pairs are over."""
        now = self._clock()
        if now < self._next or not done:
            return
        self._next = now + PROGRESS_SECONDS
        took = now - self._begun
        left = math.ceil(took / done * (self._pairs - done))
        self._say(f"{done} of {some(self._pairs, 'pair')}, {120 * done / took:.0f} runs a minute, about {left} s left")
