"""High watermarks that a broker's checkpoint has from before its disk lost the log below them."""

from __future__ import annotations

import msgspec

from actors.trace.events import NodeDown, Stamped
from orchestrator.invariants.folds.fold import Profile

INTERVAL = "replica.high.watermark.checkpoint.interval.ms"

OLD_CHECKPOINT = (
    "The broker's disk had lost the log, and not the checkpoint of its high watermark. It ended before it wrote "
    "a new one, and began with the old one again, bounded by its log's new end. Kafka's brokers do the same."
)


class OldCheckpoints(msgspec.Struct):
    """Of one partition, by broker. had: its high watermark; old: what the checkpoint may have from before a loss;
    begun: the incarnation that took the partition up last, and when it first did."""

    tp: str = ""
    interval_us: int = 0
    had: dict[str, int] = {}
    old: dict[str, int] = {}
    begun: dict[str, tuple[int, int]] = {}

    @staticmethod
    def of(tp: str, profile: Profile) -> OldCheckpoints:
        """Those of a topic partition. A broker writes its checkpoint within two intervals, whatever its clock does."""
        interval_ms = profile.number(INTERVAL)
        return OldCheckpoints(tp, 2000 * interval_ms)

    def moved(self, event: Stamped, high_watermark: int) -> None:
        """A broker has a high watermark."""
        self.had[event.node] = high_watermark
        if self.begun.get(event.node, (-1, 0))[0] != event.incarnation:
            self.begun[event.node] = (event.incarnation, event.wall)

    def ended(self, event: Stamped, body: NodeDown) -> None:
        """A process is gone: it may have written its checkpoint since it began, and its disk may have lost the log."""
        incarnation, since_us = self.begun.get(event.node, (-1, 0))
        lived_us = event.wall - since_us if incarnation == event.incarnation else 0
        if body.mode == "clean" or lived_us > self.interval_us:
            self.old.pop(event.node, None)
        if self.tp in body.lost:
            self.old[event.node] = max(self.had.get(event.node, 0), self.old.get(event.node, 0))

    def has(self, node: str, high_watermark: int) -> bool:
        """Whether a broker may have a high watermark, or a higher one, from such a checkpoint."""
        return high_watermark <= self.old.get(node, -1)
