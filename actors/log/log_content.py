"""What the log of a replica has, and questions about it (``UnifiedLog.java``)."""

from __future__ import annotations

from bisect import bisect_right
from operator import attrgetter

import msgspec

from actors.log.batch import EMPTY_PREFIX_HASH, UNKNOWN_PREFIX_HASH, Batch
from actors.log.leader_epoch_cache import LeaderEpochCache
from actors.log.log_validator import DEFAULT_LOG_CONFIG, LogConfig
from actors.log.producer_state import ProducerStateManager
from actors.log.segments import LogBase, LogSegment, segment_file
from actors.log.transaction_index import TransactionIndex

BASE_OFFSET = attrgetter("base_offset")


class LogContent(msgspec.Struct):
    """All offsets from ``start_offset`` to ``end_offset``, in batches from ``base`` on. Of a tiered log remote storage
    alone has what is between; of any other, what lies before the start is kept from the base on, but not shown.
    ``highest_remote_offset``: the last offset that is known to be copied, -1 none. ``checkpointed_start``: where a log
    that was loaded began by its checkpoint, as long as it is not known whether it is tiered; then -1.

    ``segments``: its parts, oldest first; the last one is *active*, and takes what is appended.
    """

    tp: str = ""
    start_offset: int = 0
    high_watermark: int = 0
    config: LogConfig = DEFAULT_LOG_CONFIG
    segments: list[LogSegment] = []
    batches: list[Batch] = []
    epochs: LeaderEpochCache = msgspec.field(default_factory=LeaderEpochCache)
    producers: ProducerStateManager = msgspec.field(default_factory=ProducerStateManager)
    aborted: TransactionIndex = msgspec.field(default_factory=TransactionIndex)
    highest_remote_offset: int = -1
    checkpointed_start: int = -1

    def __post_init__(self) -> None:
        if not self.segments:
            self.segments = [LogSegment(segment_file(self.tp, 0))]

    # ---- reading -----------------------------------------------------------------------------------------

    @property
    def base(self) -> LogBase:
        """Where its batches begin."""
        return self.segments[0].base

    @property
    def local_start_offset(self) -> int:
        """Where begins what this broker has itself, and shows."""
        return max(self.start_offset, self.base.offset)

    @property
    def active(self) -> LogSegment:
        """The segment that takes what is appended."""
        return self.segments[-1]

    @property
    def files(self) -> list[str]:
        """The files of all segments."""
        return [segment.file for segment in self.segments]

    @property
    def end_offset(self) -> int:
        """LEO: the next offset to be written."""
        return self.batches[-1].last_offset + 1 if self.batches else self.base.offset

    @property
    def last_epoch(self) -> int:
        """Leader epoch of the last batch, or of what was before an empty log; -1 if that is nothing."""
        return self.batches[-1].epoch if self.batches else self.base.epoch

    @property
    def end_ph(self) -> int:
        """Prefix hash at the log end."""
        return self.batches[-1].ph if self.batches else self.base.ph

    @property
    def last_stable_offset(self) -> int:
        """LSO: the high watermark, or where a transaction begins that is open, or whose marker is not below it; the log
        start where that beginning is no longer in the log (``UnifiedLog.maybeIncrementFirstUnstableOffset``)."""
        unstable = self.producers.first_unstable_offset
        return self.high_watermark if unstable is None else min(max(unstable, self.start_offset), self.high_watermark)

    def ph_at(self, offset: int) -> int:
        """Prefix hash at a batch boundary; AssertionError elsewhere."""
        return self.boundary(offset).ph

    def ph_below(self, offset: int) -> int:
        """Prefix hash at the boundary at or below an offset, as far as this broker has it."""
        if offset < self.base.offset:
            return UNKNOWN_PREFIX_HASH if offset else EMPTY_PREFIX_HASH
        return self.boundary(self.boundary_at_or_below(offset)).ph

    def known_ph_at(self, offset: int) -> int:
        """Prefix hash at an offset; unknown if it is within a batch, or before what this broker has."""
        within = offset < self.base.offset or self.boundary_at_or_below(offset) != offset
        return UNKNOWN_PREFIX_HASH if within else self.ph_at(offset)

    def boundary(self, offset: int) -> LogBase:
        """What a log has that begins at this batch boundary; AssertionError elsewhere."""
        if offset == self.base.offset:
            return self.base
        if offset == self.end_offset:
            return LogBase(offset, self.batches[-1].ph, self.batches[-1].epoch)
        index = bisect_right(self.batches, offset - 1, key=BASE_OFFSET) - 1
        if index < 0 or self.batches[index].end_offset != offset:
            raise AssertionError(f"{self.tp}: {offset} is no batch boundary")
        return LogBase(offset, self.batches[index].ph, self.batches[index].epoch)

    def segment_around(self, offset: int) -> tuple[int, int]:
        """Where the segment begins and ends that has an offset, or would."""
        end = self.end_offset
        for segment in reversed(self.segments):
            if segment.base.offset <= offset:
                return (segment.base.offset, end)
            end = segment.base.offset
        return (end, end)

    def read(self, from_offset: int, limit_offset: int, max_bytes: int, at_least_one: bool = True) -> list[Batch]:
        """Batches that hold ``from_offset`` and later ones, as far as they end at or below ``limit_offset``, at most
        ``max_bytes`` of them but perhaps ``at_least_one`` (KIP-74)."""
        index = max(bisect_right(self.batches, from_offset, key=BASE_OFFSET) - 1, 0)
        found: list[Batch] = []
        size = 0
        for position in range(index, len(self.batches)):
            batch = self.batches[position]
            if batch.end_offset > limit_offset:
                break
            if batch.end_offset <= from_offset:
                continue
            size += batch.size_bytes
            if size > max_bytes and (found or not at_least_one):
                break
            found.append(batch)
        return found

    def boundary_at_or_below(self, offset: int) -> int:
        """The greatest batch boundary that is not above ``offset``, where high watermarks are kept.

        Another offset can only come from a checkpoint older than a truncation, or from a follower whose log parted
        from the leader's and that fetches at a version which does not say so.
        """
        end = self.end_offset
        if offset >= end:
            return end
        index = bisect_right(self.batches, offset, key=BASE_OFFSET)
        return self.batches[index - 1].base_offset if index else self.base.offset

    def boundary_at_or_above(self, offset: int) -> int:
        """The least batch boundary that is not below ``offset``."""
        below = self.boundary_at_or_below(offset)
        if below >= offset or below == self.end_offset:
            return below
        return self.batches[bisect_right(self.batches, offset, key=BASE_OFFSET) - 1].end_offset

    def bounded_high_watermark(self, offset: int) -> int:
        """What a high watermark of ``offset`` is in this log: not above its end, and not below its local start, as that
        was below a high watermark once (``UnifiedLog.updateHighWatermarkMetadata``)."""
        return max(self.boundary_at_or_below(offset), self.boundary_at_or_above(self.local_start_offset))

    def bytes_between(self, from_offset: int, limit_offset: int, enough: int) -> int:
        """Bytes that ``read`` could return, counted no further than ``enough``."""
        if from_offset >= limit_offset or from_offset >= self.end_offset:
            return 0
        size = 0
        for position in range(max(bisect_right(self.batches, from_offset, key=BASE_OFFSET) - 1, 0), len(self.batches)):
            batch = self.batches[position]
            if batch.end_offset > limit_offset:
                break
            if batch.end_offset > from_offset:
                size += batch.size_bytes
                if size >= enough:
                    break
        return size

    def epoch_end_offset(self, epoch: int) -> tuple[int, int]:
        """(largest epoch <= ``epoch``, its exclusive end), (-1, -1) if undefined; see LeaderEpochCache."""
        return self.epochs.end_offset_for(epoch, self.end_offset)

    def find_by_timestamp(self, timestamp_ms: int) -> tuple[int, int, int] | None:
        """(offset, timestamp, epoch) of the first record, in offset order, with at least this timestamp."""
        for batch in self.batches:
            for index, record in enumerate(batch.records):
                shown = not batch.is_control and batch.base_offset + index >= self.start_offset
                if shown and record.timestamp_ms >= timestamp_ms:
                    return (batch.base_offset + index, record.timestamp_ms, batch.epoch)
        return None

    def find_max_timestamp(self) -> tuple[int, int, int] | None:
        """(offset, timestamp, epoch) of the first record that carries the greatest timestamp."""
        best: tuple[int, int, int] | None = None
        for batch in self.batches:
            for index, record in enumerate(batch.records):
                if not batch.is_control and (best is None or record.timestamp_ms > best[1]):
                    best = (batch.base_offset + index, record.timestamp_ms, batch.epoch)
        return best
