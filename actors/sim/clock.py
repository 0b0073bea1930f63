"""The clock a node is shown: virtual time, in milliseconds, plus whatever skew a fault gives it."""

from __future__ import annotations


class ShownClock:
    """``skew_us`` is added to the true time. The trace is stamped with the true time, never with this one."""

    __slots__ = ("skew_us",)

    def __init__(self) -> None:
        self.skew_us = 0

    def ms(self, now_us: int) -> int:
        """What the node sees at ``now_us``: whole milliseconds since the start of the run."""
        return (now_us + self.skew_us) // 1000
