"""The event heap: what happens at which moment of virtual time, and in which order where moments coincide."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

Act = Callable[[Any], None]


class EventQueue:
    """Virtual time and what is still to happen. ``now_us``: microseconds since the start of the run.

    An entry is a tuple (time, number, act, argument): of two at the same moment the one that was put in first comes
    first, and no comparison ever reaches the act.
    """

    __slots__ = ("_heap", "_number", "now_us", "stopped")

    def __init__(self) -> None:
        self.now_us = 0
        self.stopped = False
        self._heap: list[tuple[int, int, Act, Any]] = []
        self._number = 0

    def __len__(self) -> int:
        return len(self._heap)

    def at(self, time_us: int, act: Act, argument: Any) -> None:
        """Call ``act(argument)`` at ``time_us``, after everything already due at that moment."""
        self._number = number = self._number + 1
        heappush(self._heap, (time_us, number, act, argument))

    def run(self, limit_us: int) -> bool:
        """Let virtual time pass until ``stopped`` is set, nothing is left, or the next entry lies beyond ``limit_us``
        (then time stands at the limit, and the answer is False)."""
        heap = self._heap
        while heap and not self.stopped:
            if heap[0][0] > limit_us:
                self.now_us = limit_us
                return False
            self.now_us, _, act, argument = heappop(heap)
            act(argument)
        return True
