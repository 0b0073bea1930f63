"""The last events of a soak on disk: written in parts, and deleted when they are older than anybody asks for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyarrow.parquet as pq

from actors.trace.events import Stamped
from orchestrator.files import writing
from orchestrator.trace.read import events_table
from orchestrator.trace.rows import COLUMNS, row_to_stamped

PART_EVENTS = 50_000


class Part(msgspec.Struct, frozen=True):
    """A file: the numbers of its first and last event in the whole trace, and their clocks."""

    path: Path
    first: int
    last: int
    from_us: int
    to_us: int


class TraceStore:
    """``folder``: of the parts, of which there may be some. ``keep_us``: how far back they stay."""

    def __init__(self, folder: Path, keep_us: int) -> None:
        self._folder = folder
        self._keep_us = keep_us
        self._open: list[tuple[int, Stamped]] = []
        folder.mkdir(parents=True, exist_ok=True)
        self._parts = sorted((_part(path) for path in folder.glob("part-*.parquet")), key=lambda part: part.first)

    def add(self, number: int, event: Stamped) -> None:
        """The next event, with its number."""
        self._open.append((number, event))
        if len(self._open) >= PART_EVENTS:
            self.flush()

    def flush(self) -> None:
        """Write what is in memory. Raises NotWritten."""
        if not self._open:
            return
        (first, begins), (last, ends) = self._open[0], self._open[-1]
        path = self._folder / f"part-{first:014}-{last:014}-{begins.wall:020}-{ends.wall:020}.parquet"
        with writing(path):
            pq.write_table(events_table(event for _, event in self._open), path, compression="zstd")
        self._parts.append(_part(path))
        self._open = []

    def expire(self, now_us: int) -> None:
        """Delete what is older than is kept."""
        for part in [part for part in self._parts if part.to_us < now_us - self._keep_us]:
            part.path.unlink(missing_ok=True)
            self._parts.remove(part)

    def take_back(self, events: int) -> None:
        """Forget all but the first ``events`` of the trace."""
        self._open = []
        for part in [part for part in self._parts if part.last >= events]:
            part.path.unlink(missing_ok=True)
            self._parts.remove(part)

    def between(self, from_us: int, to_us: int) -> Iterator[tuple[int, Stamped]]:
        """The events of a time that are still there, with their numbers, in order."""
        for part in self._parts:
            if part.to_us >= from_us and part.from_us <= to_us:
                for number, event in enumerate(_events(part.path), part.first):
                    if from_us <= event.wall <= to_us:
                        yield number, event
        for number, event in self._open:
            if from_us <= event.wall <= to_us:
                yield number, event


def _part(path: Path) -> Part:
    first, last, from_us, to_us = map(int, path.name.removeprefix("part-").removesuffix(".parquet").split("-"))
    return Part(path, first, last, from_us, to_us)


def _events(path: Path) -> Iterator[Stamped]:
    for batch in pq.ParquetFile(path).iter_batches(PART_EVENTS, columns=list(COLUMNS)):
        for row in batch.to_pylist():
            yield row_to_stamped(row)
