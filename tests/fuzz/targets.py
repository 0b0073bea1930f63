"""The readers of files that may come from somebody else, each with sound files to begin with."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path

import msgspec

from actors.trace.events import Stamped
from actors.trace.journal import JournalError, JournalHeader, encode_header, read_segment
from actors.trace.lines import DAMAGE, decode_line, encode_line
from chaos.errors import KriftError
from chaos.failure_store import StoredFailure, read_failure
from chaos.incidents import library
from chaos.nemesis import library as nemesis_library
from chaos.scenario.resolve import resolve
from chaos.sources import find, from_text
from orchestrator.compressed import write_compressed
from orchestrator.engines.frontier import Arrival, pieces_of, row_of
from orchestrator.engines.in_process import InProcessEngine
from orchestrator.engines.shard import Shard
from orchestrator.run_dir import RunDir, wrong
from orchestrator.runner import Session, Settings
from orchestrator.soak.base import Base, judged, read_base
from orchestrator.trace.read import line_to_stamped, read_events, trace_of
from orchestrator.trace.rows import stamped_to_row
from orchestrator.trace.write import write_events, write_trace
from orchestrator.verdict import read_verdict

STEADY = Path(__file__).parents[1] / "parity" / "scenarios" / "steady.yaml"

REFUSED = (KriftError,)
"""How a reader tells a user what is wrong."""
NO_LINE = DAMAGE
"""How the reader of a line tells its caller, which names the file and the line."""


class Target(msgspec.Struct, frozen=True):
    """A reader. read: takes a file's content and a folder of its own. refusals: what it may raise."""

    name: str
    samples: Callable[[], Sequence[bytes]]
    read: Callable[[bytes, Path], object]
    refusals: tuple[type[Exception], ...] = REFUSED


@cache
def run() -> RunDir:
    """A run that was kept."""
    folder = Path(tempfile.mkdtemp(prefix="krift-fuzz-"))
    with Session(Settings("sim", folder)) as session:
        done = session.carry_out(resolve(find(str(STEADY)).loaded(None)))
    assert done.directory is not None
    return RunDir(done.directory)


def events() -> Iterator[Stamped]:
    """One event of each type of that run, in order."""
    seen = set()
    for event in read_events(run().path):
        if type(event.body) not in seen:
            seen.add(type(event.body))
            yield event


def scenarios() -> list[bytes]:
    """Incidents of the library."""
    return [library.text(name).encode() for name in library.names()]


def nemeses() -> list[bytes]:
    """Those that are shipped."""
    return [nemesis_library.text(name).encode() for name in nemesis_library.names()]


def resolved(data: bytes, folder: Path) -> None:
    """A scenario in all its variants; a nemesis as it is drawn once."""
    (folder / "file.yaml").write_bytes(data)
    source = find(str(folder / "file.yaml"))
    for variant in source.variants or [""]:
        resolve(source.loaded(1), variant, 1)


def in_text(data: bytes, folder: Path) -> None:
    """The same of text that a program has."""
    source = from_text(data.decode(errors="replace"), "text")
    resolve(source.loaded(1), (source.variants or [""])[0], 1)


def manifest(data: bytes, folder: Path) -> object:
    """manifest.json of a run."""
    (folder / "manifest.json").write_bytes(data)
    return RunDir(folder).read_manifest()


def verdict(data: bytes, folder: Path) -> object:
    """verdict.json of a run."""
    (folder / "manifest.json").write_bytes((run().path / "manifest.json").read_bytes())
    (folder / "verdict.json").write_bytes(data)
    return read_verdict(RunDir(folder))


def trace(data: bytes, folder: Path) -> None:
    """A file of the trace."""
    (folder / "manifest.json").write_bytes((run().path / "manifest.json").read_bytes())
    (folder / "trace").mkdir(exist_ok=True)
    (folder / "trace" / "part-00000.parquet").write_bytes(data)
    for _ in trace_of(RunDir(folder)):
        continue


def small_trace() -> list[bytes]:
    """A whole trace of a few events."""
    folder = Path(tempfile.mkdtemp(prefix="krift-fuzz-"))
    write_events(folder, events())
    return [(folder / "trace" / "part-00000.parquet").read_bytes()]


def bodies() -> list[bytes]:
    """What is in the rows of a trace."""
    return [str(stamped_to_row(event)["body"]).encode() for event in events()]


def row(data: bytes, folder: Path) -> None:
    """A sound file of the trace, in whose row somebody wrote something."""
    text = data.decode(errors="replace")
    write_trace(folder, [next(events())], lambda event: stamped_to_row(event) | {"body": text})
    (folder / "manifest.json").write_bytes((run().path / "manifest.json").read_bytes())
    for _ in trace_of(RunDir(folder)):
        continue


def lines() -> list[bytes]:
    """Lines of the log of a node."""
    return [encode_line(event) for event in events()]


def line(data: bytes, folder: Path) -> object:
    """A line of a log."""
    return line_to_stamped(decode_line(data))


def journals() -> list[bytes]:
    """The beginning of a journal."""
    return [encode_header(JournalHeader(2, "run", "broker-1", "broker", 0, 0, None))]


def journal(data: bytes, folder: Path) -> object:
    """A segment of a journal."""
    return read_segment(data)


def bases() -> list[bytes]:
    """What checks knew that a soak put aside, of the sim and live."""
    engine, shard = InProcessEngine(), Shard(0, 1)
    engine.feed_all(events())
    shard.take(events(), [Arrival(pieces_of(map(row_of, events())))])
    shard.advance()
    known = (Base(at_us=0, engine=engine.saved()), Base(at_us=0, shards=[shard.saved()]))
    return [msgspec.msgpack.encode(each) for each in known]


def base(data: bytes, folder: Path) -> None:
    """What the checks knew before some evidence."""
    write_compressed(folder / "base.bin", data)
    found = read_base(RunDir(folder))
    assert found is not None
    judged(RunDir(folder), found, events())


def failures() -> list[bytes]:
    """An entry of the failure store."""
    scenario = find(str(STEADY)).loaded(None)
    plan = resolve(scenario)
    entry = StoredFailure(signature="l6-x", sentence="s", document=plan.document, found="2026-01-01", krift="0.1.0")
    return [msgspec.json.encode(entry)]


def failure(data: bytes, folder: Path) -> None:
    """An entry of the failure store."""
    (folder / "entry.json").write_bytes(data)
    found = read_failure(folder / "entry.json")
    if isinstance(found, str):
        raise wrong("entry.json", found)


TARGETS = (
    Target("scenario", scenarios, resolved),
    Target("nemesis", nemeses, resolved),
    Target("text", scenarios, in_text),
    Target("manifest", lambda: [(run().path / "manifest.json").read_bytes()], manifest),
    Target("verdict", lambda: [(run().path / "verdict.json").read_bytes()], verdict),
    Target("trace", small_trace, trace),
    Target("row", bodies, row),
    Target("line", lines, line, NO_LINE),
    Target("journal", journals, journal, (JournalError,)),
    Target("base", bases, base),
    Target("failure", failures, failure),
)
