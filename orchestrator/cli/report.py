"""``krift report``: show the verdict of a run that is there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import msgspec

from actors.trace.events import Stamped
from chaos.errors import InputError, Mistake
from orchestrator.cli.options import check_file, full_option, runs_option, story_option
from orchestrator.report.console import page, printable
from orchestrator.report.junit import Judged, junit
from orchestrator.report.text import print_verdict
from orchestrator.run_dir import RunDir, open_run_dir
from orchestrator.story.events_in_words import in_words
from orchestrator.story.surroundings import Surroundings
from orchestrator.trace.read import trace_of
from orchestrator.verdict import exit_code, json_line, read_verdict


@click.command("report")
@click.argument("run", default="latest")
@runs_option
@click.option(
    "--json", "as_json", is_flag=True, help="The verdict, or the events, on stdout as lines of JSON, and nothing else."
)
@click.option("--junit", "as_junit", is_flag=True, help="The verdict on stdout, as JUnit XML, and nothing else.")
@click.option(
    "--html",
    "as_html",
    is_flag=True,
    help="Write an HTML page, a single file: of a run, a campaign, a comparison or an exam.",
)
@click.option(
    "--to",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="With --html: the file to write; report.html in the directory of RUN if not given.",
)
@full_option
@story_option
@click.option(
    "--event",
    "wanted",
    multiple=True,
    metavar="ID",
    help="Instead of the verdict: this event of the trace (node/incarnation/number), in words, with its neighbours.",
)
@click.option("--why", is_flag=True, help="With --event: also the chain of its causes.")
def command(
    run: str,
    out: Path,
    as_json: bool,
    as_junit: bool,
    as_html: bool,
    to: Path | None,
    full: bool,
    story: bool,
    wanted: tuple[str, ...],
    why: bool,
) -> int:
    """Show the verdict of RUN (a directory, a name under --out, or "latest"), or write a page of it; the exit code is
    that of the run."""
    if as_html and (as_json or as_junit or wanted or full or story):
        raise click.UsageError("--html writes a page with all there is: it goes with --to and --out alone")
    if to is not None and not as_html:
        raise click.UsageError("--to is for the page that --html writes")
    if as_html:
        return _write_page(out, run, to)
    if as_junit and (as_json or wanted):
        raise click.UsageError("--junit, --json and --event print different things: give one of them")
    if why and (as_json or not wanted):
        raise click.UsageError("--why shows the causes of an --event, and not as JSON")
    directory = open_run_dir(out, run)
    manifest = directory.read_manifest()
    if wanted:
        found = _found(directory, wanted, why)
        page().raw(_as_json(found) if as_json else "".join(f"{line}\n" for line in _in_words(found, why)))
        return 0
    verdict = read_verdict(directory)
    shown = page()
    if as_json or as_junit:
        judged = Judged(verdict, manifest.started, manifest.reproduce, exit_code(verdict, manifest.status))
        shown.raw(json_line(verdict) if as_json else junit([judged]))
        return judged.exit_code
    print_verdict(shown, verdict, full=full, story=story)
    shown.say(f"ran         {manifest.started} to {manifest.ended or '(unknown)'}, krift {manifest.krift}")
    if manifest.zero_ms >= 0:
        since = "after the run's start" if verdict.runtime == "sim" else "since 1970"
        shown.say(f"time 0      {manifest.zero_ms} ms {since}; krift replay --at zero+MS counts from it")
    if manifest.detail:
        shown.say(f"status      {manifest.status}: {manifest.detail}")
    if manifest.reproduce:
        shown.say(f"again       {manifest.reproduce}")
    shown.say(f"kept in     {directory.path}")
    return exit_code(verdict, manifest.status)


def _write_page(root: Path, which: str, to: Path | None) -> int:
    from orchestrator.page.subjects import write_page

    if to is not None:
        check_file("--to", to)
    written = write_page(root, which, to)
    page().say(str(written.path))
    return written.exit_code


def _found(directory: RunDir, wanted: Sequence[str], why: bool) -> Surroundings:
    """Raises InputError for what is not in the trace."""
    found = Surroundings(lambda: trace_of(directory), wanted, why=why)
    if found.missing:
        problem, expected = "no such event in this run's trace", "node/incarnation/number, as a verdict names events"
        raise InputError([Mistake(f"--event {each}", 0, "", problem, expected) for each in found.missing])
    return found


def _as_json(found: Surroundings) -> str:
    """The events, each with its id and the envelope's other columns but the run."""
    lines = []
    for event in found.events:
        envelope = {"id": event.id, "wall": event.wall, "logical": event.logical, "cause": event.cause}
        lines.append(msgspec.json.encode(envelope | {"req": event.req, "body": event.body}).decode() + "\n")
    return "".join(lines)


def _in_words(found: Surroundings, why: bool) -> Iterator[str]:
    """Each event among those of its node, and what led to it."""
    for number, event in enumerate(found.events):
        if number:
            yield ""
        yield _line(event, found.zero_us)
        yield from (f"    {name}: {value}" for name, value in _fields(event))
        before, after = found.neighbours(event)
        yield f"  on {event.node} before it" if before else f"  it is the first on {event.node}"
        yield from (f"    {_line(each, found.zero_us)}" for each in before)
        yield f"  on {event.node} after it" if after else f"  it is the last on {event.node}"
        yield from (f"    {_line(each, found.zero_us)}" for each in after)
        if why:
            yield "  why, from effect to cause (from: a message of another node; after: the node's own event before)"
            for how, each in found.causes(event):
                yield f"    {how:<8}{_line(each, found.zero_us)}"
        elif event.cause:
            yield f"  caused by {event.cause} (--why has the whole chain)"


def _line(event: Stamped, zero_us: int) -> str:
    return f"{(event.wall - zero_us) / 1_000_000:>9.3f} s  {printable(in_words(event))}  [{event.id}]"


def _fields(event: Stamped) -> Iterator[tuple[str, str]]:
    for name, value in msgspec.to_builtins(event.body).items():
        if name != "type":
            yield name, printable(msgspec.json.encode(value).decode())
