"""``krift incidents``: the library."""

from __future__ import annotations

import click
from rich.table import Table

from chaos.incidents.library import incidents, text
from orchestrator.report.console import page


@click.group("incidents", invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """The library of incidents; without a subcommand, list it."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_command)


@command.command("list")
def list_command() -> None:
    """Name, variants, sources and purpose of every incident."""
    table = Table(box=None, pad_edge=False, header_style="dim", show_edge=False)
    for column in ("name", "variants", "source", "about"):
        table.add_column(column)
    for incident in incidents():
        table.add_row(incident.name, ", ".join(incident.variants), ", ".join(incident.source), incident.about)
    page().show(table)


@command.command("show")
@click.argument("name")
def show_command(name: str) -> None:
    """Print the scenario file of NAME."""
    page().raw(text(name))
