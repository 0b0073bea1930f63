"""The collected trace, written: ordered Parquet, in files of a bounded size."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from actors.trace.events import Stamped
from orchestrator.files import writing
from orchestrator.trace.read import GROUP_ROWS, TRACE
from orchestrator.trace.rows import COLUMNS, stamped_to_row
from orchestrator.trace.schema import ARROW_SCHEMA

FILE_ROWS = 100_000
"""Rows of one file: a Spark task reads at least one, and so does a step of a stream, which has them in memory."""


Item = TypeVar("Item")


class TraceWriter(Generic[Item]):
    """Writes the trace of a run while it comes: ``with TraceWriter(directory, as_row) as writer``. It appears as a
    whole when the block ends, and not at all after an exception, as half a trace is none. ``as_row``: makes a row of
    what is added. ``total``: how many were added."""

    def __init__(self, directory: Path, as_row: Callable[[Item], Mapping[str, Any]]) -> None:
        self.total = 0
        self._as_row = as_row
        self._folder = directory / TRACE
        self._aside = directory / f"{TRACE}.{os.getpid()}.tmp"
        self._group: list[Item] = []
        self._file: pq.ParquetWriter | None = None
        self._files = 0
        self._rows = 0  # of the file that is open

    def __enter__(self) -> TraceWriter[Item]:
        with writing(self._folder):
            self._aside.mkdir(parents=True, exist_ok=True)
        return self

    def add(self, item: Item) -> None:
        """The next one, in the trace's order. Raises NotWritten."""
        self._group.append(item)
        self.total += 1
        if len(self._group) == GROUP_ROWS:
            self._write()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._write()
                self._close()
                shutil.rmtree(self._folder, ignore_errors=True)
                with writing(self._folder):
                    os.replace(self._aside, self._folder)
            elif self._file is not None:
                self._file.close()
        finally:
            shutil.rmtree(self._aside, ignore_errors=True)

    def _write(self) -> None:
        """Write what is in memory; a file that has nothing, too, if there is no other."""
        if not self._group and self.total:
            return
        with writing(self._path):
            if self._file is None:
                self._file = pq.ParquetWriter(self._aside / self._path.name, ARROW_SCHEMA, compression="zstd")
            rows = [self._as_row(item) for item in self._group]
            arrays = [[row[name] for row in rows] for name in COLUMNS]
            self._file.write_batch(pa.record_batch(arrays, schema=ARROW_SCHEMA))
        self._rows += len(self._group)
        self._group.clear()
        if self._rows == FILE_ROWS:
            self._close()

    def _close(self) -> None:
        if self._file is not None:
            with writing(self._path):
                self._file.close()
            self._file, self._rows = None, 0
            self._files += 1

    @property
    def _path(self) -> Path:
        """Where the file will be that is open or comes next."""
        return self._folder / f"part-{self._files:05}.parquet"


def write_trace(directory: Path, items: Iterable[Item], as_row: Callable[[Item], Mapping[str, Any]]) -> int:
    """Write a trace of which all is there to ``directory/trace``; returns how many rows. Raises NotWritten."""
    with TraceWriter(directory, as_row) as writer:
        for item in items:
            writer.add(item)
    return writer.total


def write_events(directory: Path, events: Iterable[Stamped]) -> int:
    """``write_trace`` for events."""
    return write_trace(directory, events, stamped_to_row)
