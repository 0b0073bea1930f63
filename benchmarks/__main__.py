"""``python -m benchmarks [NAME ...]``: measures, and prints a table; ``--json``: every round."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import click
import msgspec

from benchmarks.figures import Figure, as_data, machine, table, with_figures

SECONDS = {"sim": 20.0, "live": 3.0, "memory": 3.0, "campaign": 30.0, "check": 20.0, "stream": 20.0}
"""Benchmark -> length of a round: virtual seconds of a run (the scenario's own duration), seconds of a burst, seconds
of load before a look, seconds of one core's runs, virtual seconds of the run whose trace is checked."""


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(list(SECONDS)))
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(1), help="Times that each is measured.")
@click.option("--seconds", type=click.FloatRange(0.1), help="Length of a round instead of the benchmark's own.")
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Write all rounds to this file, too.")
@click.option(
    "--write",
    "document",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Put the figures into this Markdown file, between its marks.",
)
def main(
    names: tuple[str, ...], rounds: int, seconds: float | None, json_path: Path | None, document: Path | None
) -> None:
    """Measure NAMES (all of them if none is given), each in turns with its yardstick."""
    about = machine()
    click.echo(", ".join(f"{key} {value}" for key, value in about.items()))
    found: list[Figure] = []
    for name in dict.fromkeys(names or SECONDS):
        click.echo(f"measuring {name}: {rounds} rounds", err=True)
        found += import_module(f"benchmarks.{name}").figures(rounds, SECONDS[name] if seconds is None else seconds)
    click.echo(table(found))
    if json_path is not None:
        data = {"machine": about, "figures": [as_data(figure) for figure in found]}
        json_path.write_bytes(msgspec.json.format(msgspec.json.encode(data)) + b"\n")
    if document is not None:
        document.write_text(with_figures(document.read_text(encoding="utf-8"), about, found), encoding="utf-8")


if __name__ == "__main__":
    main()
