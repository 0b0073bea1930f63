"""``krift report``: show the verdict of a run that is there."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from orchestrator.report.console import console
from orchestrator.report.text import print_verdict
from orchestrator.run_dir import RunDir, open_run_dir, wrong
from orchestrator.verdict import Verdict, encode_verdict, read_verdict


@click.command("report")
@click.argument("run", default="latest")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("runs"),
    show_default=True,
    help="Where run directories are.",
)
@click.option("--json", "as_json", is_flag=True, help="The verdict on stdout, and nothing else.")
def command(run: str, out: Path, as_json: bool) -> int:
    """Show the verdict of RUN (a directory, a name under --out, or "latest"); exit as the run did."""
    verdict = load_verdict(open_run_dir(out, run))
    if as_json:
        click.echo(encode_verdict(verdict).decode())
    else:
        print_verdict(console(), verdict)
    return verdict.exit_code


def load_verdict(directory: RunDir) -> Verdict:
    """The verdict of a run. Raises InputError if there is none."""
    try:
        return read_verdict(directory.verdict)
    except OSError:
        raise wrong(
            directory.path, "no verdict.json", "a run that came to its end; krift check RUN makes one"
        ) from None
    except msgspec.DecodeError as error:
        raise wrong(directory.verdict, f"not a verdict: {error}") from None
