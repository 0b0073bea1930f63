"""``krift shrink``: the smallest scenario that still fails the same way, with its story."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec

from chaos.errors import InputError, Mistake
from chaos.failure_store import DirectoryStore
from chaos.home import failures_directory
from chaos.scenario.durations import format_duration
from chaos.shrink.lean import lean
from chaos.shrink.measure import Size, size_of
from chaos.shrink.shrinker import BUDGET, Shrinker, Standing, Try
from chaos.shrink.steady import steadier
from chaos.words import some
from orchestrator.campaigns.failures import failure_of
from orchestrator.campaigns.signature import signature
from orchestrator.cli.options import MAX_SEED, check_file, check_master, with_retries
from orchestrator.cli.status_line import StatusLine
from orchestrator.cli.subject import SMALL, Choice, Subject, find_subject
from orchestrator.files import write_text
from orchestrator.interrupts import INTERRUPTED
from orchestrator.report.console import Page, page
from orchestrator.shrinking.failure import Failure, failure_in
from orchestrator.shrinking.result import Origin, Shrunk, Told, in_words, summary, tell
from orchestrator.shrinking.trial import failed_at, look, on_spark, one_by_one, plan_of
from orchestrator.sim_run import SimRun, run_in_sim
from orchestrator.version import __version__

SEEDS_ASKED = 5
"""As many other seeds are tried with the smallest scenario, to tell how much it depends on its draws."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line asks for."""

    what: str
    subject: Subject
    file: Path
    same: str
    budget: int
    master: str
    as_json: bool
    quiet: bool


@click.command("shrink")
@click.argument("run", default="latest")
@click.option("--variant", default="", metavar="NAME", help="Of a scenario: the variant that fails.")
@click.option("--seed", type=click.IntRange(0, MAX_SEED), help="Of a scenario: the seed; its own if not given.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Of a scenario: override a value.")
@click.option("--defect", "defects", multiple=True, metavar="NAME", help="Of a scenario: plant this bug.")
@click.option(
    "--out",
    "file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The file to write; shrunk.yaml in the run's directory, or NAME-shrunk.yaml here, if not given.",
)
@click.option(
    "--runs",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("runs"),
    show_default=True,
    metavar="DIR",
    help="Directory that has the run directories.",
)
@click.option(
    "--same",
    type=click.Choice(["sentence", "invariant"]),
    default="sentence",
    show_default=True,
    help=(
        "What counts as the same failure: the same invariant and the same sentence but for names and numbers, or just "
        "the same invariant."
    ),
)
@click.option("--budget", type=click.IntRange(1), default=BUDGET, show_default=True, help="Maximum number of runs.")
@click.option("--master", default="", metavar="URL", help="Run candidates in parallel on Spark, such as local[2].")
@click.option("--json", "as_json", is_flag=True, help="One object on stdout, and nothing else.")
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
def command(
    run: str,
    runs: Path,
    variant: str,
    seed: int | None,
    settings: tuple[str, ...],
    defects: tuple[str, ...],
    file: Path | None,
    **options: Any,
) -> int:
    """Make a failing RUN small: a run's directory, a name under --runs, "latest", a file of the failure store, or a
    scenario. Candidates run in the sim; the smallest that fails the same way is written with its story."""
    if options["master"]:
        check_master(options["master"])
    subject = find_subject(run, runs, Choice(variant, seed, settings, defects))
    request = Request(what=run, subject=subject, file=file or _default_file(subject), **options)
    check_file("--out", request.file)
    return _shrink(request)


def _default_file(subject: Subject) -> Path:
    if subject.directory is not None:
        return subject.directory.path / SMALL
    return Path(f"{subject.plan.scenario}-shrunk.yaml")


def _shrink(request: Request) -> int:
    talk, plan = page(stderr=True), request.subject.plan
    talk.say(f"krift {__version__}: shrink {request.subject.origin.source}")
    first = run_in_sim(plan)
    if first.status == "interrupted":
        raise KeyboardInterrupt
    failure = _failure(request, first)
    talk.say(f"{failure.invariant or 'not carried out'}: {failure.sentence}")
    began = time.monotonic()
    status = StatusLine(request.quiet)
    with _candidates(request.master, failure) as (fails, width):
        shrinker = Shrinker(
            lean(plan.document),
            fails,
            failed_us=failed_at(first, failure),
            look=look,
            budget=request.budget,
            width=width,
            show=lambda standing: status.show(partial(_progress, standing, request.budget)),
        )
        interrupted, other_seeds = False, (0, 0)
        document: Mapping[str, Any] = shrinker.best
        try:
            with status:
                shrinker.run()
                document, other_seeds = _steady(shrinker.best, fails)
        except KeyboardInterrupt:
            interrupted = True
            document = shrinker.best
    shrunk = Shrunk(
        failure=failure,
        document=dict(document),
        before=shrinker.before,
        after=size_of(document),
        runs=shrinker.runs,
        other_seeds=other_seeds,
    )
    told = tell(shrunk, request.subject.origin)
    write_text(request.file, told.text)
    _save(shrunk, first, request.subject.origin)
    _report(request, shrinker, shrunk, told, time.monotonic() - began, interrupted)
    return INTERRUPTED if interrupted else 0


def _failure(request: Request, run: SimRun) -> Failure:
    """What the run to be shrunk fails with. Raises InputError if it does not."""
    found = failure_in(run, "invariant" if request.same == "invariant" else "sentence")
    if found is not None:
        return found
    doubts = f"; {run.verdict.undecided[0]}" if run.verdict.undecided else ""
    problem = f"it does not fail: its run in the sim is {run.verdict.outcome}{doubts}"
    raise InputError([Mistake(request.what, 0, "", problem, "a run that violates an invariant, or breaks")])


@contextmanager
def _candidates(master: str, failure: Failure) -> Iterator[tuple[Try, int]]:
    """What runs candidates, and how many at a time."""
    if not master:
        yield partial(one_by_one, failure), 1
        return
    from orchestrator.engines.spark_session import spark_session

    spark = spark_session(with_retries(master))
    try:
        yield partial(on_spark, spark, failure), spark.sparkContext.defaultParallelism
    finally:
        spark.stop()


def _steady(document: Mapping[str, Any], fails: Try) -> tuple[Mapping[str, Any], tuple[int, int]]:
    """Of a scenario and the same with more time the one that fails with the most other seeds; the smallest of those
    that are alike in that. And with how many of how many it does."""
    best, most = document, -1
    for candidate in (document, *steadier(document)):
        if candidate is not document and not next(iter(fails([candidate]))).failed:
            continue
        seeds = [{**candidate, "seed": seed} for seed in _other_seeds(document)]
        failed = sum(shown.failed for shown in fails(seeds))
        if failed > most:
            best, most = candidate, failed
        if most == SEEDS_ASKED:
            break
    return best, (most, SEEDS_ASKED)


def _other_seeds(document: Mapping[str, Any]) -> list[int]:
    return [seed for seed in range(101, 102 + SEEDS_ASKED) if seed != document["seed"]][:SEEDS_ASKED]


def _save(shrunk: Shrunk, first: SimRun, origin: Origin) -> None:
    """Put the smallest into the failure store, if a campaign has put this failure there."""
    store, kind = DirectoryStore(failures_directory()), signature(first)
    if kind and store.fetch(kind) is not None:
        plan = plan_of(shrunk.document)
        store.save(failure_of(plan, kind, shrunk.failure.sentence, origin.source, shrunk=True))


def _progress(standing: Standing, budget: int) -> str:
    size = standing.size
    clients, nodes = some(size.clients, "client"), some(size.nodes, "node")
    now = f"{some(size.steps, 'step')}, {format_duration(size.chaos_us)}, {clients}, {nodes}"
    return f"shrinking: {standing.name}, run {standing.runs} of at most {budget}, {standing.smaller} smaller; now {now}"


def _report(
    request: Request, shrinker: Shrinker, shrunk: Shrunk, told: Told, seconds: float, interrupted: bool
) -> None:
    talk, shown = page(stderr=True), page()
    for odd in shrinker.odd:
        talk.say(f"Krift failed on a candidate, which counts as not failing: {odd}")
    ended = "interrupted" if interrupted else shrinker.why
    if request.as_json:
        shown.raw(msgspec.json.encode(_object(request, shrinker, shrunk, told, seconds, ended)).decode() + "\n")
    else:
        _print(shown, shrinker, shrunk, told, seconds, ended)
    talk.say(f"written to  {request.file}")
    talk.say(f"again       {shlex.join(['krift', 'run', str(request.file)])}")


def _print(shown: Page, shrinker: Shrinker, shrunk: Shrunk, told: Told, seconds: float, ended: str) -> None:
    for line in in_words(shrunk.before, shrunk.after):
        shown.say(line)
    shown.say(f"{some(shrinker.runs, 'run')} in {seconds:.0f} s: {ended}")
    failed, tried = shrunk.other_seeds
    if tried:
        shown.say(f"with other seeds it fails in {failed} of {some(tried, 'run')}")
    if not told.reproduces:
        shown.say(
            f"its run to the end is {told.run.verdict.outcome}, but not all as expected: "
            f"{'; '.join(told.run.verdict.undecided) or told.run.detail}"
        )
    for name, count in shrinker.counts.items():
        if count.tried:
            shown.say(f"  {name:<18} {count.smaller:>3} of {count.tried:>3} candidates were smaller and failed", "dim")


def _object(
    request: Request, shrinker: Shrinker, shrunk: Shrunk, told: Told, seconds: float, ended: str
) -> dict[str, Any]:
    failed, tried = shrunk.other_seeds
    return {
        "source": request.subject.origin.source,
        "invariant": shrunk.failure.invariant,
        "sentence": shrunk.failure.sentence,
        "file": str(request.file),
        "ended": ended,
        "runs": shrinker.runs,
        "seconds": round(seconds, 1),
        "before": _sizes(shrunk.before),
        "after": _sizes(shrunk.after),
        "other_seeds": {"failed": failed, "tried": tried},
        "as_expected": told.reproduces,
        "passes": summary(shrinker.counts),
    }


def _sizes(size: Size) -> Mapping[str, int]:
    return size._asdict()
