"""Writes the journal of one incarnation (``actors.trace.journal``): a few segments, the oldest thrown away."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from actors.live.disk import write_all
from actors.live.setup import Setup
from actors.node.codec import encode
from actors.node.contract import Node
from actors.node.effects import AnyEffect
from actors.node.events import AnyEvent
from actors.node.spec import Role
from actors.trace.journal import FORMAT_VERSION, JournalHeader, encode_entry, encode_header

SEGMENT_BYTES_MAX = 8 << 20
SEGMENTS_KEPT = 8
SUFFIX = ".journal"


def old_segments(folder: Path, before_s: float) -> list[Path]:
    """The segments of a node that were last written before a time (seconds since 1970), but for its newest one."""
    places = {path: tuple(map(int, path.stem.split("-"))) for path in folder.glob(f"*{SUFFIX}")}
    newest = max(places.values(), default=())
    return [path for path, place in places.items() if place != newest and path.stat().st_mtime < before_s]


class JournalWriter:
    """The segments ``<directory>/<incarnation>-<n>.journal`` of a node. ``add`` is one write(). age_max_s: when a
    segment is full, whatever its size. clock: in seconds."""

    def __init__(
        self,
        directory: Path,
        run: str,
        node: str,
        role: Role,
        incarnation: int,
        age_max_s: float = math.inf,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._directory = directory
        self._age_max_s = age_max_s
        self._clock = clock
        self._begun_s = 0.0
        self._header = JournalHeader(FORMAT_VERSION, run, node, role, incarnation, 0, None)
        self._steps = 0
        self._number = -1
        self._fd = -1
        self._size = 0
        directory.mkdir(parents=True, exist_ok=True)

    def before(self, node: Node) -> None:
        """To be called before every step: begins a new segment, with the node's state in front, when the last is
        full."""
        if self._fd < 0:
            self._begin(None)
        elif self._size >= SEGMENT_BYTES_MAX or self._clock() - self._begun_s >= self._age_max_s:
            self._begin(encode(node))

    def add(self, now_ms: int, event: AnyEvent, effects: list[AnyEffect]) -> None:
        """Note a step, before its effects are carried out."""
        self._write(encode_entry(now_ms, event, effects))
        self._steps += 1

    def close(self) -> None:
        """Close the segment."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _begin(self, snapshot: bytes | None) -> None:
        self.close()
        self._number += 1
        self._size, self._begun_s = 0, self._clock()
        self._fd = os.open(self._path(self._number), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
        self._write(encode_header(msgspec.structs.replace(self._header, first_step=self._steps, snapshot=snapshot)))
        self._path(self._number - SEGMENTS_KEPT).unlink(missing_ok=True)

    def _write(self, data: bytes) -> None:
        write_all(self._fd, data)
        self._size += len(data)

    def _path(self, number: int) -> Path:
        return self._directory / f"{self._header.incarnation}-{number}{SUFFIX}"


def journal_of(setup: Setup) -> JournalWriter:
    """The journal of an incarnation."""
    spec, age_max_s = setup.spec, setup.journal_age_max_s
    return JournalWriter(Path(setup.journals), setup.run, spec.name, spec.role, setup.incarnation, age_max_s)
