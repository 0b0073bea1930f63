"""The total order of a run's trace, from its logs."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from pathlib import Path

from actors.trace.lines import Line, decode_line
from orchestrator.trace.collect import incarnations


class OrderError(AssertionError):
    """An incarnation's own clock went back: a bug of the runtime."""


def merged(directory: Path) -> Iterator[Line]:
    """Every event of the logs, in the trace's order; each incarnation's log is read once, a line at a time."""
    return heapq.merge(*(_lines(chunks) for chunks in incarnations(directory).values()), key=lambda line: line.order)


def _lines(chunks: list[Path]) -> Iterator[Line]:
    last = (-1, -1, -1)
    for path in chunks:
        with path.open("rb") as file:
            for data in file:
                line = decode_line(data)
                here = (line.wall, line.logical, line.seq)
                if here[:2] <= last[:2] or here[2] <= last[2]:
                    raise OrderError(f"{path}: event {line.seq} is stamped {here[:2]} after {last[:2]}")
                last = here
                yield line
