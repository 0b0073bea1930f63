"""``krift report``: show the verdict of a run that is there."""

from __future__ import annotations

from pathlib import Path

import click

from orchestrator.cli.options import runs_option
from orchestrator.report.console import page
from orchestrator.report.text import print_verdict
from orchestrator.run_dir import open_run_dir
from orchestrator.verdict import exit_code, json_line, read_verdict


@click.command("report")
@click.argument("run", default="latest")
@runs_option
@click.option("--json", "as_json", is_flag=True, help="The verdict on stdout, as one line of JSON, and nothing else.")
def command(run: str, out: Path, as_json: bool) -> int:
    """Show the verdict of RUN (a directory, a name under --out, or "latest"); the exit code is that of the run."""
    directory = open_run_dir(out, run)
    manifest = directory.read_manifest()
    verdict = read_verdict(directory)
    shown = page()
    if as_json:
        shown.raw(json_line(verdict))
        return exit_code(verdict, manifest.status)
    print_verdict(shown, verdict)
    shown.say(f"ran         {manifest.started} to {manifest.ended or '(unknown)'}, krift {manifest.krift}")
    if manifest.detail:
        shown.say(f"status      {manifest.status}: {manifest.detail}")
    if manifest.reproduce:
        shown.say(f"again       {manifest.reproduce}")
    shown.say(f"kept in     {directory.path}")
    return exit_code(verdict, manifest.status)
