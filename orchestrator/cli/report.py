"""``krift report``: show the verdict of a run that is there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from chaos.errors import InputError, Mistake
from orchestrator.cli.options import runs_option
from orchestrator.report.console import page
from orchestrator.report.junit import Judged, junit
from orchestrator.report.text import print_verdict
from orchestrator.run_dir import RunDir, open_run_dir
from orchestrator.trace.read import trace_of
from orchestrator.verdict import exit_code, json_line, read_verdict


@click.command("report")
@click.argument("run", default="latest")
@runs_option
@click.option("--json", "as_json", is_flag=True, help="The verdict on stdout, as one line of JSON, and nothing else.")
@click.option("--junit", "as_junit", is_flag=True, help="The verdict on stdout, as JUnit XML, and nothing else.")
@click.option(
    "--event",
    "wanted",
    multiple=True,
    metavar="ID",
    help="Instead of the verdict this event of the trace (node/incarnation/number), as one line of JSON.",
)
def command(run: str, out: Path, as_json: bool, as_junit: bool, wanted: tuple[str, ...]) -> int:
    """Show the verdict of RUN (a directory, a name under --out, or "latest"); the exit code is that of the run."""
    if (bool(wanted), as_json, as_junit).count(True) > 1:
        raise click.UsageError("--json, --junit and --event each print something else: give one of them")
    directory = open_run_dir(out, run)
    manifest = directory.read_manifest()
    if wanted:
        _show_events(directory, wanted)
        return 0
    verdict = read_verdict(directory)
    shown = page()
    if as_json or as_junit:
        shown.raw(json_line(verdict) if as_json else junit([Judged(verdict, manifest.started, manifest.reproduce)]))
        return exit_code(verdict, manifest.status)
    print_verdict(shown, verdict)
    shown.say(f"ran         {manifest.started} to {manifest.ended or '(unknown)'}, krift {manifest.krift}")
    if manifest.zero_ms >= 0:
        shown.say(f"time 0      {manifest.zero_ms}, zero to krift replay --at")
    if manifest.detail:
        shown.say(f"status      {manifest.status}: {manifest.detail}")
    if manifest.reproduce:
        shown.say(f"again       {manifest.reproduce}")
    shown.say(f"kept in     {directory.path}")
    return exit_code(verdict, manifest.status)


def _show_events(directory: RunDir, wanted: Sequence[str]) -> None:
    """The wanted events in the order of the trace, each with its id and the envelope's other columns but the run.
    Raises InputError for what is not in the trace."""
    missing = dict.fromkeys(wanted)
    lines = []
    for event in trace_of(directory):
        if event.id in missing:
            del missing[event.id]
            envelope = {"id": event.id, "wall": event.wall, "logical": event.logical, "cause": event.cause}
            lines.append(msgspec.json.encode(envelope | {"req": event.req, "body": event.body}).decode() + "\n")
            if not missing:
                break
    if missing:
        problem, expected = "no such event in this run's trace", "node/incarnation/number, as a verdict names events"
        raise InputError([Mistake(f"--event {each}", 0, "", problem, expected) for each in missing])
    page().raw("".join(lines))
