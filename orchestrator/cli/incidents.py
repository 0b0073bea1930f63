"""``krift incidents``: the library."""

from __future__ import annotations

import click
from rich.table import Table

from chaos import sources
from chaos.incidents.library import incidents
from chaos.nemesis.library import nemeses
from orchestrator.report.console import page


@click.group("incidents", invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """The library of incidents and nemeses; without a subcommand, list it."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_command)


@command.command("list")
def list_command() -> None:
    """Name, variants, sources and purpose of every incident; name and purpose of every nemesis."""
    table = _table("name", "variants", "source", "about")
    for incident in incidents():
        table.add_row(incident.name, ", ".join(incident.variants), ", ".join(incident.source), incident.about)
    generators = _table("nemesis", "about")
    for nemesis in nemeses():
        generators.add_row(nemesis.name, nemesis.about)
    shown = page()
    shown.show(table)
    shown.say()
    shown.show(generators)


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
