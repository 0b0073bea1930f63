"""Writes a growing record in closed chunks, so that a reader which never looks at a file twice misses nothing.

A chunk is ``<stem>-<n>.open`` while it grows and ``<stem>-<n>.jsonl`` when it is full, or old. What was handed to the
operating system survives SIGKILL; only the last line of an open chunk can be torn.
"""

from __future__ import annotations

import os
from pathlib import Path

from actors.live.disk import write_all

CHUNK_BYTES_MAX = 1 << 20
CHUNK_AGE_MAX_US = 2_000_000
"""When a chunk is old, unless its run has many."""

OPEN = ".open"
CLOSED = ".jsonl"


class ChunkWriter:
    """The chunks ``<directory>/<stem>-<n>`` of one incarnation. ``add`` buffers, ``flush`` is one write().
    ``age_max_us``: when a chunk is old."""

    def __init__(self, directory: Path, stem: str, age_max_us: int = CHUNK_AGE_MAX_US) -> None:
        self._directory = directory
        self._stem = stem
        self._age_max_us = age_max_us
        self._number = 0
        self._fd = -1
        self._size = 0
        self._born_us = 0
        self._pending: list[bytes] = []
        directory.mkdir(parents=True, exist_ok=True)

    def add(self, line: bytes) -> None:
        """Take a line (newline included) for the next flush."""
        self._pending.append(line)

    def flush(self, now_us: int) -> None:
        """Hand everything taken so far to the operating system; closes the chunk when it is full or old."""
        if self._pending:
            data = b"".join(self._pending)
            self._pending.clear()
            if self._fd < 0:
                path = self._directory / f"{self._stem}-{self._number}{OPEN}"
                self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
                self._born_us = now_us
            write_all(self._fd, data)
            self._size += len(data)
        if self._size >= CHUNK_BYTES_MAX or (self._size and now_us - self._born_us >= self._age_max_us):
            self._close_chunk()

    def close(self, now_us: int) -> None:
        """Flush, and close the last chunk."""
        self.flush(now_us)
        if self._size:
            self._close_chunk()

    def _close_chunk(self) -> None:
        os.close(self._fd)
        stem = self._directory / f"{self._stem}-{self._number}"
        os.rename(f"{stem}{OPEN}", f"{stem}{CLOSED}")
        self._fd, self._size = -1, 0
        self._number += 1
