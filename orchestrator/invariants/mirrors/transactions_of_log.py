"""What a log says of transactions: which records are in one, how it ended, and how far a reader of committed ones may
go (``ProducerStateManager.java``, ``TransactionIndex.java``). Made from the batches, not from what brokers say."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from copy import deepcopy
from typing import Literal

import msgspec

from actors.node.isolation import READ_COMMITTED
from actors.trace.events import LogAppend

OPEN = -1
"""In place of a marker's offset while there is none."""
MARKERS_REMEMBERED = 64
"""Markers of a producer id that are remembered in a log."""
RANGES_REMEMBERED = 1 << 16
"""Ranges of offsets of aborted transactions that are remembered in a log."""

Fate = Literal["plain", "aborted", "open", "unknown"]
"""Of a record: it is for everybody (in a committed transaction, or in none), in an aborted one, or in one that nobody
has ended; or that is forgotten."""


class Transactional(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Of a batch in a transaction, or a marker: ``marker`` commit or abort, "" it is none."""

    producer_id: int
    producer_epoch: int
    marker: str = ""
    coordinator_epoch: int = -1


def transactional(body: LogAppend) -> Transactional | None:
    """What an append says of transactions, None if nothing."""
    if not (body.transactional or body.marker) or body.producer_id < 0:
        return None
    return Transactional(body.producer_id, body.producer_epoch, body.marker, body.coordinator_epoch)


class Span(msgspec.Struct):
    """A transaction in one log: ``ranges``: offsets of its batches, [base, end); ``marker``: offset of the first one
    after them."""

    producer_id: int
    producer_epoch: int
    ranges: list[tuple[int, int]]
    marker: int = OPEN
    commits: bool = False

    @property
    def first(self) -> int:
        """Where it begins."""
        return self.ranges[0][0]


class Marker(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A marker in a log."""

    offset: int
    producer_epoch: int
    commits: bool
    coordinator_epoch: int


class TransactionsOfLog(msgspec.Struct):
    """``open``: by producer id. ``ended``: in the order of their markers, as far as a truncation, or a high watermark,
    may still touch them. ``markers``: by producer id, the newest ones, those of no data too; ``marker_forgotten``:
    offset of the last one that is remembered no more, -1 there is none. ``control``, ``aborted``: ranges of offsets
    that a reader does not get, the latter one of committed transactions, in order; ``forgotten``: up to where ranges
    were forgotten."""

    open: dict[int, Span] = {}
    ended: list[Span] = []
    markers: dict[int, list[Marker]] = {}
    marker_forgotten: int = -1
    control: list[tuple[int, int]] = []
    aborted: list[tuple[int, int]] = []
    forgotten: int = 0

    # ---- following a log -----------------------------------------------------------------------------------

    def append(self, base: int, end: int, what: Transactional | None, control: bool) -> Span | None:
        """A batch came to the end. Returns the transaction that it has ended."""
        if control:
            self._hide(self.control, (base, end))
        if what is None:
            return None
        if not what.marker:
            span = self.open.get(what.producer_id)
            if span is None:
                self.open[what.producer_id] = Span(what.producer_id, what.producer_epoch, [(base, end)])
            else:
                span.ranges.append((base, end))
            return None
        known = self.markers.setdefault(what.producer_id, [])
        known.append(Marker(base, what.producer_epoch, what.marker == "commit", what.coordinator_epoch))
        for marker in known[:-MARKERS_REMEMBERED]:
            self.marker_forgotten = max(self.marker_forgotten, marker.offset)
        del known[:-MARKERS_REMEMBERED]
        span = self.open.pop(what.producer_id, None)
        if span is not None:
            span.marker, span.commits = base, what.marker == "commit"
            self.ended.append(span)
            if not span.commits:
                for each in span.ranges:
                    self._hide(self.aborted, each)
        return span

    def _hide(self, ranges: list[tuple[int, int]], new: tuple[int, int]) -> None:
        if ranges and new < ranges[-1]:
            insort(ranges, new)
        else:
            ranges.append(new)
        if len(ranges) > 2 * RANGES_REMEMBERED:
            self.forgotten = max(self.forgotten, ranges[RANGES_REMEMBERED - 1][1])
            del ranges[:RANGES_REMEMBERED]

    def cut(self, to: int) -> None:
        """The log ends at ``to`` now: what was ended above is open again."""
        if not (self.open or self.ended or self.control or self.markers):
            return
        for producer_id, known in list(self.markers.items()):
            kept = [each for each in known if each.offset < to]
            if kept:
                self.markers[producer_id] = kept
            else:
                del self.markers[producer_id]
        del self.control[bisect_left(self.control, (to, to)) :]
        while self.ended and self.ended[-1].marker >= to:
            span = self.ended.pop()
            if not span.commits:
                for each in span.ranges:
                    index = bisect_left(self.aborted, each)
                    if index < len(self.aborted) and self.aborted[index] == each:
                        del self.aborted[index]
            if span.first < to:
                # One of the same producer id that began later lies above the cut, and goes.
                span.marker = OPEN
                self.open[span.producer_id] = span
        for producer_id, span in list(self.open.items()):
            span.ranges = [each for each in span.ranges if each[0] < to]
            if not span.ranges:
                del self.open[producer_id]

    def up_to(self, end: int) -> TransactionsOfLog:
        """The same of a log that ends at ``end``, as a follower takes it over with a copy of what lies below."""
        found = deepcopy(self)
        found.cut(end)
        return found

    def forget(self, floor: int) -> None:
        """No log is cut below ``floor``, and every high watermark is there."""
        keep = bisect_left(self.ended, floor, key=_marker_of)
        del self.ended[:keep]

    def forget_ended(self, high_watermark: int) -> None:
        """The same for who does not know of a floor: of what ended below a high watermark, all but the last ones."""
        if len(self.ended) > 2 * MARKERS_REMEMBERED:
            below = bisect_left(self.ended, high_watermark, key=_marker_of)
            del self.ended[: max(below - MARKERS_REMEMBERED, 0)]

    # ---- reading -------------------------------------------------------------------------------------------

    @property
    def any(self) -> bool:
        """Whether there is anything that a reader does not get, or may not yet."""
        return bool(self.open or self.ended or self.control)

    def stable_offset(self, high_watermark: int) -> int:
        """The last stable offset: below it no transaction is open, nor ended by a marker that is not replicated."""
        least = high_watermark
        for span in self.open.values():
            least = min(least, span.first)
        for span in reversed(self.ended):
            if span.marker < high_watermark:
                break
            least = min(least, span.first)
        return least

    def fate(self, offset: int) -> Fate:
        """What has become of the record at an offset."""
        if _range_of(self.aborted, offset) >= 0:
            return "aborted"
        for span in self.open.values():
            if span.first <= offset and any(base <= offset < end for base, end in span.ranges):
                return "open"
        if offset < self.forgotten:
            return "unknown"
        return "plain"

    def marker_of(self, offset: int) -> int:
        """The offset of the marker that ended the transaction of a record, ``OPEN`` if there is none that a truncation
        may still touch."""
        for span in reversed(self.ended):
            if any(base <= offset < end for base, end in span.ranges):
                return span.marker
        return OPEN

    def fate_below(self, offset: int, end: int) -> Fate:
        """The same, as the log below ``end`` tells."""
        for span in reversed(self.ended):
            if span.marker < end:
                break
            if any(base <= offset < last for base, last in span.ranges):
                return "open"
        return self.fate(offset)

    def hidden_until(self, offset: int, isolation: int) -> int:
        """Where the first record at or above ``offset`` is that a reader gets, as far as the log tells: control batches
        are for nobody, aborted transactions not for who reads committed ones."""
        while True:
            end = _range_of(self.control, offset)
            if end < 0 and isolation == READ_COMMITTED:
                end = _range_of(self.aborted, offset)
            if end < 0:
                return offset
            offset = end

    def last_marker(self, producer_id: int) -> Marker | None:
        """The last marker of a producer id."""
        known = self.markers.get(producer_id)
        return known[-1] if known else None


def _marker_of(span: Span) -> int:
    return span.marker


def _range_of(ranges: list[tuple[int, int]], offset: int) -> int:
    """The end of the range that holds an offset, -1 if none does."""
    index = bisect_right(ranges, (offset, 1 << 62)) - 1
    return ranges[index][1] if index >= 0 and ranges[index][0] <= offset < ranges[index][1] else -1
