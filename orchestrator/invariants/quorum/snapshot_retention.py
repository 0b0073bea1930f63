"""Which snapshots of the metadata log are to go when a member looks at them (``KafkaMetadataLog.maybeClean``)."""

from __future__ import annotations

import msgspec

from actors.trace.events import QClean
from orchestrator.invariants.folds.fold import Profile, Witness

TOLD = 4
"""So many of the oldest snapshots the trace tells of (``q.clean``)."""
MAX_BYTES, MAX_MS = "metadata.max.retention.bytes", "metadata.max.retention.ms"


class Limits(msgspec.Struct, frozen=True):
    """Bytes of log and snapshots, and the age of a snapshot, above which the oldest snapshots go; -1: no limit."""

    size: int
    age_ms: int

    @classmethod
    def of(cls, profile: Profile, node: str) -> Limits:
        """Those that a node starts with."""
        return cls(profile.number(MAX_BYTES, node), profile.number(MAX_MS, node))


class Look(msgspec.Struct):
    """What a member saw when it looked, by which event. start: where its log begins, as it has told since."""

    seen: QClean
    limits: Limits
    by: Witness
    start: int

    @property
    def due(self) -> int:
        """Where its log is to begin when it is done."""
        count = self._count()
        return self.seen.oldest[count].end if count else self.seen.start

    @property
    def told_all(self) -> bool:
        """Whether a snapshot which is to stay is one of those that the trace tells of."""
        return len(self.seen.oldest) < TOLD or self._count() < TOLD - 1

    def why(self, end: int) -> str:
        """The figures from which it follows whether the snapshot that ends there is to go: those of after the ones
        before it went."""
        index = next(index for index, each in enumerate(self.seen.oldest) if each.end == end)
        age_ms = self.seen.now_ms - self.seen.oldest[index].last_ms
        return (
            f"log and snapshots had {self._size(index):,} bytes ({MAX_BYTES} is {self.limits.size:,}), that one was "
            f"{age_ms:,} ms old ({MAX_MS} is {self.limits.age_ms:,}), and it had applied the committed log up to "
            f"{self._reached:,}"
        )

    @property
    def _reached(self) -> int:
        return min(self.seen.high_watermark, self.seen.applied)

    def _size(self, gone: int) -> int:
        """Bytes that are left without so many of the oldest snapshots, and the log below the next one."""
        below = self.seen.oldest[gone].below if gone else 0
        freed = below + sum(each.size for each in self.seen.oldest[:gone])
        return self.seen.log_size + self.seen.snapshots_size - freed

    def _count(self) -> int:
        """How many of the oldest are to go: first by the size of all, then by their age."""
        count = 0
        while self._may_go(count) and 0 <= self.limits.size < self._size(count):
            count += 1
        while self._may_go(count) and 0 <= self.limits.age_ms < self.seen.now_ms - self.seen.oldest[count].last_ms:
            count += 1
        return count

    def _may_go(self, index: int) -> bool:
        """Whether a next one takes its place: with that the log begins, of what is committed and applied."""
        if index + 1 >= len(self.seen.oldest):
            return False
        return self.seen.start < self.seen.oldest[index + 1].end <= self._reached
