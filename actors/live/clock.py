"""The clocks of a live node: the machine's own for the trace, and the two that the node is shown."""

from __future__ import annotations

import time

from actors.control import ClockSkew
from actors.machine_clock import Change, MachineClock


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
