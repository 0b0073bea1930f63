"""Counting what happens so often that the trace hears of it only where it is very often."""

from __future__ import annotations

import msgspec

TOLD = 50
"""After so many within one second the trace is told."""


class Often(msgspec.Struct):
    """Counts within a second of node time, and begins anew with the next."""

    second: int = -1
    number: int = 0

    def count(self, now_ms: int) -> bool:
        """One more; whether these are ``TOLD`` since the trace was told last."""
        second = now_ms // 1000
        if second != self.second:
            self.second, self.number = second, 0
        self.number += 1
        return self.number % TOLD == 0
