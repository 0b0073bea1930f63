"""In place of Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any


class Here:
    """Does pieces in turn, in this process. ``done``: how many it did."""

    def __init__(self) -> None:
        self.done = 0

    def spread(
        self, spark: Any, pieces: Iterable[Any], work: Callable[[Any], Any], *, per_task: int, tick: Callable[[], None]
    ) -> Iterator[Any]:
        for piece in pieces:
            tick()
            self.done += 1
            yield work(piece)
