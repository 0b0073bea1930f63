"""``krift export``: a run in the formats of other tools."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path

import click

from actors.trace.events import Stamped
from orchestrator.cli.options import check_file, runs_option
from orchestrator.export.edn import edn
from orchestrator.export.perfetto import perfetto
from orchestrator.export.shiviz import shiviz
from orchestrator.files import write_pieces
from orchestrator.report.console import page
from orchestrator.run_dir import open_run_dir
from orchestrator.trace.read import trace_of

FORMATS: dict[str, Callable[[Iterable[Stamped]], Iterator[str]]] = {"perfetto": perfetto, "shiviz": shiviz, "edn": edn}

TOGETHER = 500
"""Pieces that are written at once."""


@click.command("export")
@click.argument("run", default="latest")
@click.option(
    "--format",
    "form",
    type=click.Choice(list(FORMATS)),
    required=True,
    help="Perfetto's trace events; ShiViz's log with vector clocks; Jepsen's history of operations.",
)
@click.option(
    "--to",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The file to write; stdout if not given.",
)
@runs_option
def command(run: str, form: str, to: Path | None, out: Path) -> int:
    """Write the trace of RUN (a directory, a name under --out, or "latest") for another tool."""
    directory = open_run_dir(out, run)
    directory.trace_parts()
    pieces = FORMATS[form](trace_of(directory))
    if to is None:
        shown = page()
        while not shown.gone and (some := list(islice(pieces, TOGETHER))):
            shown.raw("".join(some))
        return 0
    check_file("--to", to)
    write_pieces(to, pieces)
    page(stderr=True).say(f"written to  {to}")
    return 0
