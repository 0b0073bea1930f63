"""``krift run``: carry out a scenario, break it, judge it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
from rich.console import Console

from actors.defects import DEFECTS
from chaos.errors import InputError, Mistake, nearest
from chaos.incidents.library import load
from chaos.plan import Plan
from chaos.scenario.loader import Loaded
from chaos.scenario.resolve import resolve
from chaos.schedule import timeline
from orchestrator.cli.options import parse_seeds
from orchestrator.cli.progress import ProgressLine
from orchestrator.report.console import console
from orchestrator.report.text import one_line, print_contrast, print_verdict
from orchestrator.runner import Carried, Session, Settings, reproduce_command
from orchestrator.verdict import combined_exit_code, encode_verdict
from orchestrator.version import __version__

IN_FULL = 3
"""As many runs are reported in full; of more there is a line each, and a table."""
KEPT = 10
"""As many runs are all kept; of more only those that did not go as expected."""


@click.command("run")
@click.argument("scenario")
@click.option(
    "--runtime",
    type=click.Choice(["live", "sim"]),
    default="sim",
    show_default=True,
    help="Ray actors that speak gRPC, or virtual time in this process.",
)
@click.option("--variant", "variants", multiple=True, metavar="NAME", help="Only these variants; all if not given.")
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), help="The scenario's own if not given.")
@click.option("--seeds", callback=parse_seeds, metavar="N|A-B", help="A run for each seed: 1 to N, or A to B.")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Override a value, e.g. features.kip-207=seed or config.min.insync.replicas=2.",
)
@click.option(
    "--cluster",
    default="local",
    show_default=True,
    metavar="local|ray://...",
    help="Where live nodes run: a Ray of our own on this machine, or one that is there.",
)
@click.option("--defect", "defects", multiple=True, metavar="NAME", help="Switch on a deliberate bug.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("runs"),
    show_default=True,
    help="Where run directories go.",
)
@click.option(
    "--keep",
    type=click.Choice(["auto", "all", "unexpected"]),
    default="auto",
    show_default=True,
    help=f"Which run directories stay; auto: all of up to {KEPT} runs.",
)
@click.option("--dry-run", is_flag=True, help="Print the resolved timeline and start nothing.")
@click.option("--json", "as_json", is_flag=True, help="One verdict a line on stdout, and nothing else.")
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
def command(
    scenario: str,
    runtime: str,
    variants: tuple[str, ...],
    seed: int | None,
    seeds: list[int] | None,
    settings: tuple[str, ...],
    cluster: str,
    defects: tuple[str, ...],
    out: Path,
    keep: str,
    dry_run: bool,
    as_json: bool,
    quiet: bool,
) -> int:
    """Run SCENARIO (a file, or a name of the library): all its variants in turn, unless some are named."""
    if seed is not None and seeds is not None:
        raise click.UsageError("--seed and --seeds exclude each other")
    _check_defects(defects)
    plans = _plans(load(scenario), variants, [seed] if seeds is None else list(seeds), settings, defects)
    if dry_run:
        for plan in plans:
            click.echo(timeline(plan))
        return 0
    keep_all = keep == "all" or (keep == "auto" and len(plans) <= KEPT)
    chosen = Settings(
        runtime="live" if runtime == "live" else "sim",
        out=out,
        keep="all" if keep_all else "unexpected",
        address=_address(cluster, runtime),
    )
    talk, page = console(stderr=True), console(stderr=as_json)
    carried: list[Carried] = []
    with Session(chosen) as session:
        for plan in plans:
            again = reproduce_command(scenario, plan, chosen.runtime, settings, defects)
            talk.print(_first_line(plan, chosen.runtime), soft_wrap=True)
            with ProgressLine(_title(plan), quiet) as line:
                done = session.carry_out(plan, again, line.show)
            carried.append(done)
            _report(page, talk, done, again, len(plans), as_json)
            if done.interrupted:
                break
    if len(plans) > 1 and not as_json:
        print_contrast(page, [done.verdict for done in carried])
    return 130 if carried[-1].interrupted else combined_exit_code(done.exit_code for done in carried)


def _plans(
    loaded: Loaded,
    variants: tuple[str, ...],
    seeds: list[int] | list[None] | list[int | None],
    settings: tuple[str, ...],
    defects: tuple[str, ...],
) -> list[Plan]:
    """Everything is resolved before anything starts: a mistake anywhere costs no run."""
    chosen = list(variants) or list(loaded.scenario.variants) or [""]

    def every() -> Iterator[Plan]:
        for variant in chosen:
            for seed in seeds:
                yield resolve(loaded, variant, seed, settings, defects)

    return list(every())


def _check_defects(defects: tuple[str, ...]) -> None:
    expected = f"one of {', '.join(DEFECTS)}"
    unknown = [
        Mistake("--defect", 0, name, "no such defect", expected, nearest(name, DEFECTS))
        for name in defects
        if name not in DEFECTS
    ]
    if unknown:
        raise InputError(unknown)


def _address(cluster: str, runtime: str) -> str:
    if cluster == "local":
        return ""
    if not cluster.startswith("ray://"):
        raise InputError([Mistake("--cluster", 0, "", f"{cluster!r} is no cluster", "local, or ray://HOST:PORT")])
    if runtime != "live":
        raise InputError([Mistake("--cluster", 0, "", "a sim run needs no cluster", "--runtime live with it")])
    return cluster


def _title(plan: Plan) -> str:
    return f"{plan.scenario} ({plan.variant})" if plan.variant else plan.scenario


def _first_line(plan: Plan, runtime: str) -> str:
    drawn = "; ".join(f"{place} = {', '.join(names)}" for place, names in plan.drawn.items()) or "nothing"
    defects = f", defects {', '.join(plan.defects)}" if plan.defects else ""
    return f"krift {__version__}: {_title(plan)}, {runtime}, seed {plan.seed}{defects}, drawn: {drawn}"


def _report(page: Console, talk: Console, done: Carried, again: str, runs: int, as_json: bool) -> None:
    if as_json:
        click.echo(encode_verdict(done.verdict).decode())
    elif runs <= IN_FULL or done.interrupted:
        print_verdict(page, done.verdict)
    else:
        page.print(one_line(done.verdict), soft_wrap=True)
    if done.error:
        talk.print(f"the run could not be carried out: {done.error}", soft_wrap=True)
    if done.directory is not None:
        talk.print(f"kept in {done.directory}", soft_wrap=True)
    talk.print(f"again: {again}", soft_wrap=True)
