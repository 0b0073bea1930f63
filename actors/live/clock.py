"""The clocks of a live node: the machine's own for the trace, and the two that the node is shown."""

from __future__ import annotations

import time

from actors.control import ClockSkew
from actors.machine_clock import Change, MachineClock

TOGETHER_NS = 200_000
READS = 8
"""Within what time two clocks are read to say the same moment, and how often that is tried."""


class LiveClock:
    """``physical_us`` stamps the trace. What the node is shown began at the machine's time, runs with its monotonic
    clock (so that it agrees with timers), and is as wrong as faults make it."""

    def __init__(self) -> None:
        self.machine = MachineClock()
        self._offset_us = time.time_ns() // 1000 - time.monotonic_ns() // 1000

    def physical_us(self) -> int:
        """Microseconds since the epoch, by the machine's clock."""
        return time.time_ns() // 1000

    def shown_ms(self) -> int:
        """Milliseconds since the epoch that ``step`` is given."""
        return self.machine.monotonic_us(self._true_us()) // 1000

    def moment(self) -> tuple[int, int]:
        """``physical_us`` and ``shown_ms`` of one moment. A busy machine may stop the process between the two: what a
        node's events say of how long something took would not fit the times of these events, so both are read again."""
        read = _both()
        for _ in range(READS - 1):
            if read[0] <= TOGETHER_NS:
                break
            read = min(read, _both())
        _, wall_ns, monotonic_ns = read
        return wall_ns // 1000, self.machine.monotonic_us(monotonic_ns // 1000 + self._offset_us) // 1000

    def true_s(self, delay_ms: int) -> float:
        """How many seconds a delay of the node's truly is."""
        return self.machine.true_us(delay_ms * 1000) / 1e6

    def begin(self, skew: ClockSkew) -> Change:
        """A fault begins."""
        return self.machine.begin(skew, self._true_us())

    def end(self, fault: str) -> Change:
        """A fault ends."""
        return self.machine.end(fault, self._true_us())

    def _true_us(self) -> int:
        return time.monotonic_ns() // 1000 + self._offset_us


def _both() -> tuple[int, int, int]:
    """How long it took to read the wall clock and the monotonic one, and what they showed; nanoseconds."""
    monotonic_ns = time.monotonic_ns()
    wall_ns = time.time_ns()
    return time.monotonic_ns() - monotonic_ns, wall_ns, monotonic_ns
