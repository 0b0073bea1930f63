"""The segments of each replica's log, as far as the trace tells their sizes and ages."""

from __future__ import annotations

import msgspec

from actors.trace.events import LogAppend, LogLocalStart, LogStart
from orchestrator.invariants.mirrors.log_mirror import ANEW

BATCH_BYTES, RECORD_BYTES = 61, 10
"""What a batch and a record of it have at least, where the trace does not tell the size of the batch."""
UNKNOWN_BYTES = 1 << 62
"""The most that something may have of which nobody knows the size."""
UNKNOWN_MS = 1 << 62
"""The age of what nobody knows the timestamps of."""
REMEMBERED = 4096
"""Batches of a partition whose timestamps are remembered until the last follower has them."""


def least_bytes(body: LogAppend) -> int:
    """The size that a batch has at least."""
    return body.size or BATCH_BYTES + RECORD_BYTES * len(body.uids)


class Timestamps(msgspec.Struct):
    """The newest timestamp of batches, by base offset and leader epoch: leaders tell them, and followers do not. With
    it, whether the leader told it, or it is the time of an append."""

    newest: dict[tuple[int, int], tuple[int, bool]] = {}

    def of(self, body: LogAppend, wall_us: int, *, clock_is_right: bool = True) -> int:
        """That of an appended batch. A marker has the time of its append, by the clock of the leader, which the trace
        does not tell: nobody knows it if that clock is not right."""
        place = (body.base, body.batch_epoch)
        if body.role == "leader":
            own_ms = wall_us // 1000 if clock_is_right else UNKNOWN_MS
            self.newest[place] = (max(body.timestamps, default=own_ms), bool(body.timestamps))
            if len(self.newest) > REMEMBERED:
                del self.newest[next(iter(self.newest))]
        return self.newest.get(place, (UNKNOWN_MS, False))[0]

    def told(self, body: LogAppend) -> int:
        """That of an appended batch which ``of`` was asked for, as its leader told it, -1 it did not."""
        newest_ms, told = self.newest.get((body.base, body.batch_epoch), (-1, False))
        return newest_ms if told else -1


class Segment(msgspec.Struct):
    """A segment of a replica: from ``base`` on, its size at least and at most, and the newest timestamp in it, -1 none.
    told_ms: the newest one of which it is certain that a leader told it and that it is in it, -1 none."""

    base: int
    least_bytes: int = 0
    newest_ms: int = -1
    told_ms: int = -1
    most_bytes: int = 0

    def may_have(self, size: int) -> None:
        """It may have so much more, 0 nobody knows how much."""
        self.most_bytes = min(self.most_bytes + (size or UNKNOWN_BYTES), UNKNOWN_BYTES)

    def has_more(self) -> None:
        """It has batches of which the trace does not tell."""
        self.may_have(0)
        self.newest_ms = UNKNOWN_MS


class OwnLog(msgspec.Struct):
    """A replica of a process that is up, or comes back. ``segments``: oldest first; of a tiered log with those that the
    process has dropped locally. start, local: where the log begins, and what it has itself; end: where it ends. role:
    it has taken up one since it is up, so that it knows the topic's configuration. below: where the last full segment
    ends that the process has left behind its log start; dropped: of what it has on its disk no file ends before."""

    segments: list[Segment] = []
    start: int = 0
    local: int = 0
    end: int = 0
    high_watermark: int = 0
    role: bool = False
    below: int = 0
    dropped: int = 0

    def append(self, body: LogAppend, newest_ms: int, told_ms: int = -1) -> None:
        """A batch came to the end."""
        if not self.segments:
            self.segments.append(Segment(body.base))
            self.dropped = body.base  # no file need begin there
            if body.base:
                self.segments[0].has_more()
        active = self.segments[-1]
        if body.base != self.end:
            active.has_more()
        self.end = body.last + 1
        active.least_bytes += least_bytes(body)
        active.may_have(body.size)
        active.newest_ms = max(active.newest_ms, newest_ms)
        active.told_ms = max(active.told_ms, told_ms)

    def roll(self, base: int) -> None:
        """A new segment takes what comes; a process that recovers a log also tells of one that is known."""
        if self.segments and self.segments[-1].base == base:
            del self.segments[-1]
        self.segments.append(Segment(base))

    def take_up(self, end: int, high_watermark: int) -> None:
        """It takes up a role, with a log that ends there. The last batch that a process told of may not have come to
        its disk, and one that did may not have come into the trace."""
        if end < self.end:
            self.cut(end)
        elif end > self.end and self.segments:
            self.segments[-1].has_more()
        self.role, self.end, self.high_watermark = True, end, high_watermark

    def cut(self, to: int) -> None:
        """The log ends there. How much of the active segment is left is not known: no more than before."""
        while self.segments and self.segments[-1].base > to:
            self.segments.pop()
        if self.segments:
            self.segments[-1].least_bytes = 0
        self.doubt()
        self.end = min(self.end, to)
        self.high_watermark = min(self.high_watermark, to)

    def doubt(self) -> None:
        """Something of the active segment may be gone."""
        if self.segments:
            self.segments[-1].told_ms = -1

    def lose_empty(self) -> None:
        """The active segment may be gone if nothing is in it: then the one before goes on."""
        if len(self.segments) > 1 and not self.segments[-1].least_bytes:
            lost = self.segments.pop()
            if lost.most_bytes:
                self.segments[-1].may_have(lost.most_bytes)

    def begin(self, body: LogStart | LogLocalStart) -> None:
        """The log, or its local part, begins there."""
        self.start = body.new if isinstance(body, LogStart) else body.log_start
        if body.reason in ANEW or (isinstance(body, LogLocalStart) and body.reason == "remote"):
            self.segments, self.local, self.end = [Segment(body.new)], body.new, body.new
            self.below = self.dropped = body.new
            return
        self.local = max(self.local, body.new)
        self._drop()
        if isinstance(body, LogLocalStart):
            self.dropped = max(self.dropped, body.new if body.reason == "load" else 0)
        elif body.reason != "load" and self.segments and self.segments[0].base <= self.start:
            self.below = self.segments[0].base

    def ends(self) -> None:
        """The process ends. What the next one finds below the log start, and whether it begins there, is not known."""
        self.role, self.high_watermark, self.below = False, 0, 0

    def _drop(self) -> None:
        """Forget segments that lie before the log."""
        while len(self.segments) > 1 and self.segments[1].base <= self.start:
            del self.segments[0]

    def between(self, new: int) -> list[Segment]:
        """The full segments that the process has itself, and not any more when what it has begins at ``new``."""
        ends = [segment.base for segment in self.segments[1:]]
        return [each for each, end in zip(self.segments, ends, strict=False) if self.local < end <= new]

    def oldest(self) -> tuple[Segment, int, int] | None:
        """The oldest segment that the process has itself, where it ends, and the least size of what follows. None: it
        has none, or the active one alone, and there is perhaps nothing in that."""
        ends = [*(segment.base for segment in self.segments[1:]), self.end]
        for segment, end in zip(self.segments, ends, strict=False):
            if end > self.local:
                is_full = segment is not self.segments[-1]
                return (segment, end, self.behind(end)) if is_full or segment.least_bytes else None
        return None

    def is_active(self, end: int) -> bool:
        """Whether what ends there ends in, or with, the active segment."""
        return bool(self.segments) and end > self.segments[-1].base

    def behind(self, end: int) -> int:
        """The size at least of all segments that begin there or later."""
        return sum(each.least_bytes for each in self.segments if each.base >= end)

    def most_behind(self, offset: int) -> int:
        """The size at most of all segments that end behind it."""
        if not self.segments or offset < self.segments[0].base:
            return UNKNOWN_BYTES
        last = self.segments[-1]
        full = zip(self.segments, self.segments[1:], strict=False)
        return last.most_bytes + sum(each.most_bytes for each, following in full if following.base > offset)
