"""``krift run``: carry out a scenario, break it, judge it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from chaos.errors import KriftError
from chaos.plan import Plan
from chaos.scenario.resolve import resolve
from chaos.schedule import timeline
from chaos.sources import Source
from chaos.words import duration, some, switched, varied
from orchestrator.cli.asked import Mistakes, Options, find_checked
from orchestrator.cli.carrying import Carrying
from orchestrator.cli.options import MAX_SEED, full_option, parse_seeds, runs_option, story_option
from orchestrator.cli.outputs import Outputs, output_options
from orchestrator.cli.progress import ProgressLine
from orchestrator.cli.where import Where, where_options
from orchestrator.interrupts import INTERRUPTED
from orchestrator.report.console import Page, page
from orchestrator.report.junit import Judged
from orchestrator.report.text import one_line, print_contrast, print_verdict
from orchestrator.run_dir import check_root
from orchestrator.runner import Carried, Runtime, Settings, reproduce_command
from orchestrator.verdict import Verdict, combined_exit_code, json_line
from orchestrator.version import __version__
from orchestrator.workers import cores

IN_FULL = 3
"""As many runs are reported in full; of more there is a line each, and a table."""
MAX_JOBS = 256
KEPT = 10
"""As many runs are all kept; of more only those that did not go as expected."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line asks for. ``seeds``: (None,) for the scenario's own. ``jobs``: runs in the
    sim at a time."""

    scenario: str
    source: Source
    runtime: Runtime
    variants: Sequence[str]
    seeds: Sequence[int | None]
    settings: tuple[str, ...]
    defects: tuple[str, ...]
    where: Where
    out: Path
    keep: str
    as_json: bool
    jobs: int
    outputs: Outputs
    quiet: bool
    full: bool
    story: bool

    @property
    def runs(self) -> int:
        """How many runs that makes."""
        return len(self.variants) * len(self.seeds)

    def plan(self, number: int) -> Plan:
        """The plan of a run, counted from 0: variant by variant, seed by seed."""
        variant, seed = self.variants[number // len(self.seeds)], self.seeds[number % len(self.seeds)]
        return resolve(self.source.loaded(seed), variant, seed, self.settings, self.defects)

    def remedy(self, verdict: Verdict) -> str:
        """The command for the variant in which what is violated as expected holds; "" if there is none, or it runs
        anyway."""
        name = self.source.remedy(verdict.variant) if verdict.expected else ""
        if not name or name in self.variants:
            return ""
        plan = resolve(self.source.loaded(verdict.seed), name, verdict.seed, self.settings, self.defects)
        return reproduce_command(self.scenario, plan, self.runtime, self.settings, self.defects) + self.where.words

    def again(self, plan: Plan) -> str:
        """The command that does a run again."""
        return reproduce_command(self.scenario, plan, self.runtime, self.settings, self.defects) + self.where.words


@click.command("run")
@click.argument("scenario")
@click.option(
    "--runtime",
    type=click.Choice(["live", "sim"]),
    default="sim",
    show_default=True,
    help="live: Ray actors that speak gRPC; sim: virtual time, in this process.",
)
@click.option("--variant", "variants", multiple=True, metavar="NAME", help="Run only this variant; may be repeated.")
@click.option("--seed", type=click.IntRange(0, MAX_SEED), help="Seed of the run; the scenario's own if not given.")
@click.option("--seeds", callback=parse_seeds, metavar="N|A-B", help="A run for each seed: 1 to N, or A to B.")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Override a value, e.g. features.kip-207=seed or config.min.insync.replicas=2.",
)
@where_options
@click.option("--defect", "defects", multiple=True, metavar="NAME", help="Plant this bug; may be repeated.")
@runs_option
@click.option(
    "--keep",
    type=click.Choice(["auto", "all", "unexpected"]),
    default="auto",
    show_default=True,
    help=f"Which run directories to keep; auto: all of up to {KEPT} runs; of more runs, only unexpected ones.",
)
@click.option(
    "--jobs",
    type=click.IntRange(1, MAX_JOBS),
    metavar="N",
    help=f"Runs at a time, if more than {IN_FULL} runs are in the sim; the number of cores if not given.",
)
@click.option("--dry-run", is_flag=True, help="Print the resolved timeline and start nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON verdict per line on stdout, and nothing else.")
@output_options
@full_option
@story_option
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
def command(
    seed: int | None,
    seeds: range | None,
    dry_run: bool,
    runtime: str,
    variants: tuple[str, ...],
    jobs: int | None,
    junit_file: Path | None,
    summary_file: Path | None,
    **options: Any,
) -> int:
    """Run SCENARIO (a file, or a name of the library): all its variants in turn, unless some are named. A nemesis
    draws a scenario from each seed."""
    if seed is not None and seeds is not None:
        raise click.UsageError("--seed and --seeds exclude each other")
    if dry_run and options["as_json"]:
        raise click.UsageError("--dry-run prints a timeline for people, and --json only verdicts")
    chosen: Sequence[int | None] = [seed] if seeds is None else seeds
    given = Options(variants, chosen[0], [options["settings"]], options["defects"])
    where = Where(*(options.pop(name) for name in ("cluster", "master", "tls", "insecure")))
    mistakes = Mistakes()
    source = find_checked(options["scenario"], given, mistakes)
    where.check(runtime, mistakes)
    mistakes.tell()
    assert source is not None, "there would be a mistake to tell"
    request = Request(
        source=source,
        runtime="live" if runtime == "live" else "sim",
        variants=list(dict.fromkeys(variants)) or source.variants or [""],
        seeds=chosen,
        jobs=jobs or cores(),
        where=where,
        outputs=Outputs(junit_file, summary_file),
        **options,
    )
    if dry_run:
        shown = page()
        for plan in map(request.plan, range(request.runs)):
            shown.raw(timeline(plan) + "\n")
        return 0
    check_root(request.out)
    request.outputs.check()
    return _run_all(request)


def _run_all(request: Request) -> int:
    """Carry out every run and report it. A Ctrl-C ends the run that goes on, and the command with it; what came before
    is summed up."""
    keep_all = request.keep == "all" or (request.keep == "auto" and request.runs <= KEPT)
    where = request.where
    settings = Settings(
        request.runtime,
        request.out,
        "all" if keep_all else "unexpected",
        where.address,
        where.spark_master,
        tls=where.tls,
        insecure=where.insecure,
    )
    talk, shown = page(stderr=True), page()
    talk.say(_announcement(request))
    carried: list[Carried] = []
    failed: KriftError | None = None
    interrupted = False
    with ProgressLine(request.runs, request.quiet) as progress:

        def deliver(done: Carried) -> bool:
            carried.append(done)
            progress.ended(done.exit_code == 0)
            with progress.aside():
                _report(shown, talk, request, done)
            return not (shown.gone and len(carried) < request.runs)

        def begin(plan: Plan) -> str:
            if request.runs <= IN_FULL:
                with progress.aside():
                    talk.say(_first_line(request, plan))
            return _title(plan)

        carrying = Carrying(settings, request.plan, request.again, progress, begin, deliver)
        try:
            if request.runs > IN_FULL and request.runtime == "sim" and request.jobs > 1:
                carrying.in_workers(request.runs, request.jobs)
            else:
                carrying.one_by_one(request.runs)
        except KeyboardInterrupt:
            interrupted = True
        except KriftError as error:
            failed = error
        interrupted |= carrying.interrupted
    _sum_up(shown, talk, request, carried)
    request.outputs.write_runs(Judged(done.verdict, done.started, done.again, done.exit_code) for done in carried)
    if failed is not None:
        raise failed
    if interrupted:
        kept = "the recorded events are kept" if carrying.begun else "nothing was recorded"
        talk.say(f"interrupted after {len(carried)} of {some(request.runs, 'run')}; {kept}")
        return INTERRUPTED
    return combined_exit_code(done.exit_code for done in carried)


def _title(plan: Plan) -> str:
    return varied(plan.scenario, plan.variant)


def _announcement(request: Request) -> str:
    about = f": {request.source.about}" if request.source.about else ""
    first = f"krift {__version__}: {request.source.name}{about}"
    if request.runs == 1:
        return first
    low, high = request.seeds[0], request.seeds[-1]
    seeds = "" if len(request.seeds) == 1 else f", seeds {low} to {high}"
    variants = f", variants {', '.join(map(switched, request.variants))}" if request.variants != [""] else ""
    if request.runtime == "live":
        least = sum(request.plan(number).duration_us for number in range(request.runs)) / 1_000_000
        seeds += f", at least {duration(least)}"
    return f"{first}\n{some(request.runs, 'run')}, {request.runtime}{variants}{seeds}"


def _first_line(request: Request, plan: Plan) -> str:
    about = request.source.about_variant(plan.variant)
    about = f": {about}" if about else ""
    defects = f", defects {', '.join(plan.defects)}" if plan.defects else ""
    drawn = "".join(f", drawn {place} = {', '.join(names)}" for place, names in plan.drawn.items())
    return f"{_title(plan)}, {request.runtime}, seed {plan.seed}{defects}{drawn}{about}"


def _report(shown: Page, talk: Page, request: Request, done: Carried) -> None:
    """One run: in full or as a line; where it is kept and how to do it again if somebody may want to know."""
    in_full = request.runs <= IN_FULL or done.interrupted
    if request.as_json:
        shown.raw(json_line(done.verdict))
    elif in_full:
        print_verdict(shown, done.verdict, full=request.full, story=request.story)
    else:
        shown.say(one_line(done.verdict))
    if done.error:
        talk.say(f"the run could not be carried out: {done.error}")
    if in_full or done.exit_code != 0:
        # Lines of JSON, and lines of many runs, stand alone on stdout.
        beside = talk if request.as_json or not in_full else shown
        if done.directory is not None:
            beside.say(f"kept in     {done.directory}")
            beside.say(f"a page      krift report {done.directory} --html")
        beside.say(f"again       {done.again}")
        if (remedy := request.remedy(done.verdict)) and in_full:
            beside.say(f"the remedy  {remedy}")
    if in_full and not request.as_json:
        shown.say()


def _sum_up(shown: Page, talk: Page, request: Request, carried: Sequence[Carried]) -> None:
    if request.runs == 1 or not carried:
        return
    if not request.as_json:
        print_contrast(shown, [done.verdict for done in carried], full=request.full)
    counts = {code: sum(done.exit_code == code for done in carried) for code in (0, 1, 3, 4)}
    words = {0: "as expected", 1: "not as expected", 3: "undecided", 4: "not carried out"}
    parts = [f"{number} {words[code]}" for code, number in counts.items() if number]
    talk.say(f"{len(carried)} of {some(request.runs, 'run')}: {', '.join(parts)}")
