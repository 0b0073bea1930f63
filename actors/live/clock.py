"""The clocks of a live node: the machine's own for the trace, and the one the node is shown."""

from __future__ import annotations

import time


class LiveClock:
    """``physical_us`` stamps the trace. What the node is shown began at the machine's time, runs with the monotonic
    clock (so that it agrees with timers) and is off by ``skew_us``."""

    def __init__(self) -> None:
        self.skew_us = 0
        self._offset_us = time.time_ns() // 1000 - time.monotonic_ns() // 1000

    def physical_us(self) -> int:
        """Microseconds since the epoch, by the machine's clock."""
        return time.time_ns() // 1000

    def shown_ms(self) -> int:
        """Milliseconds since the epoch, as the node sees it."""
        return (time.monotonic_ns() // 1000 + self._offset_us + self.skew_us) // 1000
