"""``krift soak``: one cluster under faults for hours or days, checked while it goes on."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click
import msgspec

from chaos.errors import InputError, Mistake, nearest
from chaos.rounds import Rounds, kept_for
from chaos.scenario.durations import Malformed, format_duration, parse_duration_us
from chaos.sources import is_path, is_taken
from orchestrator.cli.asked import Mistakes, Options, find_checked
from orchestrator.cli.options import MAX_SEED, runs_option
from orchestrator.cli.status_line import StatusLine
from orchestrator.cli.where import Where, where_options
from orchestrator.driving import is_held
from orchestrator.report.console import page
from orchestrator.report.text import print_verdict
from orchestrator.run_dir import check_root, utc_now
from orchestrator.soak.directory import Asked, Found, SoakDir, Status, open_soak
from orchestrator.soak.ledger import Ledger
from orchestrator.soak.metrics import MetricsServer, parse_place
from orchestrator.soak.soaking import begin, carry_on, new_standing, resumable, rounds_of
from orchestrator.soak.words import at_a_glance, begun_us, line, one_line
from orchestrator.verdict import json_line
from orchestrator.version import __version__


class SoakGroup(click.Group):
    """What is no subcommand is a scenario to begin with, unless there is none of that name, and it looks like one."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in ("-h", "--help") and args[0] not in self.commands:
            near = nearest(args[0], self.commands)
            if near and not _is_scenario(args[0]):
                ctx.fail(f"there is no command, scenario or nemesis {args[0]!r}; did you mean krift soak {near}?")
            args = ["start", *args]
        return super().parse_args(ctx, args)


def _is_scenario(word: str) -> bool:
    return is_path(word) or is_taken(word) or Path(word).is_file()


@click.group("soak", cls=SoakGroup)
def command() -> None:
    """Run one cluster under faults for hours or days, and check it while it goes on.

    krift soak SCENARIO begins a soak (its options: krift soak start --help), krift soak status shows the status of one,
    krift soak resume continues one whose driver was killed.
    """


def _duration(least_us: int) -> Callable[[click.Context, click.Parameter, str], int]:
    def read(ctx: click.Context, param: click.Parameter, value: str) -> int:
        try:
            number = parse_duration_us(value)
        except Malformed as error:
            raise click.BadParameter(f"{error.problem}; expected {error.expected}", ctx, param) from None
        if number < least_us:
            raise click.BadParameter(f"{value!r} is below {format_duration(least_us)}", ctx, param)
        return number

    return read


_show_options = (
    click.option(
        "--metrics",
        metavar="[HOST:]PORT",
        help="Serve metrics for Prometheus there, under /metrics; on 127.0.0.1 if no HOST is given.",
    ),
    click.option("--json", "as_json", is_flag=True, help="Print the verdict as JSON on stdout, and nothing else."),
    click.option("--quiet", is_flag=True, help="No progress on stderr."),
)


def _showing(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_show_options):
        function = option(function)
    return function


@command.command("start")
@click.argument("scenario")
@click.option("--duration", callback=_duration(1_000_000), default="24h", show_default=True, help="How long.")
@click.option(
    "--runtime",
    type=click.Choice(["live", "sim"]),
    default="sim",
    show_default=True,
    help="live: Ray actors that speak gRPC; sim: virtual time, in this process.",
)
@click.option("--seed", type=click.IntRange(0, MAX_SEED), default=1, show_default=True, help="Seed of all draws.")
@click.option("--variant", default="", metavar="NAME", help="Variant of the scenario; needed if it has variants.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Override a value, as of krift run.")
@click.option("--defect", "defects", multiple=True, metavar="NAME", help="Plant this bug; may be repeated.")
@click.option(
    "--calm",
    callback=_duration(0),
    default="10s",
    show_default=True,
    help="How long the healed cluster is left alone between two rounds.",
)
@click.option(
    "--on-violation",
    type=click.Choice(["continue", "stop"]),
    default="continue",
    show_default=True,
    help="What to do when a promise is broken, except for known findings about Kafka; the evidence is always kept.",
)
@click.option(
    "--keep",
    callback=_duration(180_000_000),
    default="10m",
    show_default=True,
    help="How long checked events stay on disk; evidence is never deleted.",
)
@click.option(
    "--retention",
    callback=_duration(0),
    default="10m",
    show_default=True,
    help="How long brokers keep records, if SCENARIO has no setting of its own for that; 0s: as long as Kafka does.",
)
@click.option(
    "--checkpoint",
    callback=_duration(1_000_000),
    default="60s",
    show_default=True,
    help="How often the state of the checks is saved.",
)
@where_options
@runs_option
@_showing
def start(
    scenario: str,
    out: Path,
    metrics: str | None,
    as_json: bool,
    quiet: bool,
    variant: str,
    seed: int,
    settings: tuple[str, ...],
    defects: tuple[str, ...],
    **options: Any,
) -> int:
    """Begin a soak of SCENARIO: a nemesis, which draws another schedule for each round, or a scenario, whose schedule
    is repeated."""
    where = Where(*(options.pop(name) for name in ("cluster", "master", "tls", "insecure")))
    mistakes = Mistakes()
    where.check(options["runtime"], mistakes)
    if where.spark_master:
        problem, expected = "a soak checks in a Spark of its own", "local, or the address of a Ray cluster"
        mistakes.add([Mistake("--cluster spark", 0, "", problem, expected)])
    given = Options((variant,) if variant else (), seed, [settings], defects)
    source = find_checked(scenario, given, mistakes)
    place = None if metrics is None else mistakes.attempt(lambda: parse_place(metrics))
    mistakes.tell()
    assert source is not None, "there would be a mistake to tell"
    if source.variants and not variant:
        expected = f"--variant with one of {', '.join(source.variants)}"
        problem = f"{scenario} has variants, and a soak runs one of them"
        raise InputError([Mistake("--variant", 0, "", problem, expected)])
    rounds = Rounds(source, seed, variant, settings, defects)
    if kept := kept_for(rounds.plan, options["retention"]):
        settings = (*settings, *kept)
        rounds = Rounds(source, seed, variant, settings, defects)
    check_root(out)
    asked = Asked(
        krift=__version__,
        soak="",
        word=scenario,
        runtime=options["runtime"],
        seed=seed,
        variant=variant,
        settings=list(settings),
        defects=list(defects),
        duration_us=options["duration"],
        calm_us=options["calm"],
        keep_us=options["keep"],
        checkpoint_us=options["checkpoint"],
        on_violation=options["on_violation"],
        started=utc_now(),
        cluster=where.words,
        address=where.address,
        tls=where.tls,
        insecure=where.insecure,
    )
    soak = begin(out, asked, rounds)
    return _carry_on(soak, rounds, place, as_json, quiet)


@command.command("resume")
@click.argument("soak", default="latest")
@runs_option
@_showing
def resume(soak: str, out: Path, metrics: str | None, as_json: bool, quiet: bool) -> int:
    """Continue SOAK (a directory, a name under --out, or "latest"), whose driver was killed or interrupted."""
    found = open_soak(out, soak)
    asked = resumable(found)
    place = None if metrics is None else parse_place(metrics)
    return _carry_on(found, rounds_of(asked), place, as_json, quiet)


@command.command("status")
@click.argument("soak", default="latest")
@runs_option
@click.option("--json", "as_json", is_flag=True, help="Print the status as JSON.")
def status(soak: str, out: Path, as_json: bool) -> int:
    """Show where SOAK stands (a directory, a name under --out, or "latest")."""
    found = open_soak(out, soak)
    standing = found.read_status()
    if as_json:
        page().raw(msgspec.json.encode(standing).decode() + "\n")
    else:
        page().raw(at_a_glance(standing, Ledger(found.findings).found, is_held(found.path)))
    return 0


def _carry_on(soak: SoakDir, rounds: Rounds, place: tuple[str, int] | None, as_json: bool, quiet: bool) -> int:
    talk, shown = page(stderr=True), page()
    asked = soak.read_asked()
    with ExitStack() as stack:
        progress = stack.enter_context(StatusLine(quiet))
        known: list[Status] = []

        def show(status: Status) -> None:
            known[:] = [status]
            progress.show(lambda: one_line(status))

        def tell(found: Found) -> None:
            talk.say(f"found       {line(found, begun_us(asked.runtime, asked.started))}")

        standing = new_standing(soak, asked, rounds, show)
        talk.say(
            f"krift {__version__}: soak of {rounds.plan.scenario} for {format_duration(asked.duration_us)}, "
            f"{asked.runtime}, seed {asked.seed}\nkept in     {soak.path}"
        )
        standing.write()
        if place is not None:
            server = stack.enter_context(MetricsServer(place, lambda: standing.status))
            talk.say(f"metrics     http://{server.place}/metrics")
        result = carry_on(soak, tell, standing)
    if as_json:
        shown.raw(json_line(result.verdict))
    else:
        print_verdict(shown, result.verdict)
    if result.status not in ("completed", ""):
        talk.say(f"the soak was {result.status}{f': {result.detail}' if result.detail else ''}")
    talk.say(f"kept in     {soak.path}")
    return result.code
