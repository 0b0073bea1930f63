"""``krift incidents``: the library."""

from __future__ import annotations

from pathlib import Path

import click
from rich.table import Table

from chaos import sources
from chaos.errors import InputError, Mistake
from chaos.incidents.library import add, incidents, own_incidents
from chaos.nemesis.library import nemeses
from orchestrator.cli.subject import SMALL, Choice, find_subject
from orchestrator.report.console import page
from orchestrator.shrinking.promotion import promote


@click.group("incidents", invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """The library of incidents and nemeses; without a subcommand, list it."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_command)


@command.command("list")
def list_command() -> None:
    """List every incident with its variants, sources and purpose, your own last; and every nemesis with its purpose."""
    own, wrong = own_incidents()
    table = _table("name", "variants", "source", "about")
    for incident in [*incidents(), *own]:
        table.add_row(incident.name, ", ".join(incident.variants), ", ".join(incident.source), incident.about)
    generators = _table("nemesis", "about")
    for nemesis in nemeses():
        generators.add_row(nemesis.name, nemesis.about)
    shown, talk = page(), page(stderr=True)
    shown.show(table)
    shown.say()
    shown.show(generators)
    for mistakes in wrong:
        talk.say(f"an incident of your own cannot be used: {mistakes}")


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", show_edge=False)
    for column in columns:
        table.add_column(column)
    return table


@command.command("show")
@click.argument("name")
def show_command(name: str) -> None:
    """Print the file of NAME, an incident or a nemesis."""
    page().raw(sources.text(name))


@command.command("add")
@click.argument("run", default="latest")
@click.option(
    "--name", default="", metavar="NAME", help="Its name; made from the invariant and the run's if not given."
)
@click.option(
    "--runs",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("runs"),
    show_default=True,
    metavar="DIR",
    help="Directory that has the run directories.",
)
def add_command(run: str, name: str, runs: Path) -> int:
    """Put a failing RUN into the library, as an incident of your own: a run's directory (its shrunk.yaml, if there is
    one), a name under --runs, "latest", a scenario file such as krift shrink writes, or a file of the failure store."""
    subject = find_subject(_small(run, runs), runs, Choice())
    promoted = promote(subject.plan, subject.origin, subject.text, name)
    if promoted is None:
        problem = "it does not fail: nothing was violated in its run in the sim"
        raise InputError([Mistake(run, 0, "", problem, "a run that violates an invariant, or breaks")])
    path = add(promoted.name, promoted.text)
    talk = page(stderr=True)
    if promoted.doubts:
        talk.say(f"its run does not end as it expects: {'; '.join(promoted.doubts)}")
    page().say(f"{promoted.name}: {promoted.about}")
    talk.say(f"written to  {path}")
    talk.say(f"run it with krift run {promoted.name}")
    return 0


def _small(run: str, runs: Path) -> str:
    """What krift shrink has left in a run's directory, if RUN is one and it has."""
    for directory in (Path(run), runs / run):
        small = directory / SMALL
        if small.is_file():
            return str(small)
    return run
