"""The high watermarks that the leaders of a partition have had."""

from __future__ import annotations

import msgspec

from orchestrator.invariants.folds.memory import CHANGES_REMEMBERED


class ToldWatermarks(msgspec.Struct):
    """``highest``: leader epoch -> the highest one of its leader, whether or not that was given up before."""

    highest: dict[int, int] = {}

    def take(self, epoch: int, high_watermark: int) -> None:
        """The leader of an epoch has one."""
        self.highest[epoch] = max(self.highest.get(epoch, 0), high_watermark)
        if len(self.highest) > CHANGES_REMEMBERED:  # of the two oldest the older one stands for both
            one, other = sorted(self.highest)[:2]
            self.highest[one] = max(self.highest[one], self.highest.pop(other))

    def reached(self, end: int, before: int) -> bool:
        """Whether the leader of some epoch before one had its high watermark at ``end`` or above."""
        return any(epoch < before and end <= highest for epoch, highest in self.highest.items())
