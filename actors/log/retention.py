"""Which segments of a log are deleted, and why (``UnifiedLog.deleteOldSegments``).

Segments go whole, from the oldest on, as far as the high watermark has passed them; of a segment that is active and not
empty the log rolls first. Of a log that is copied to remote storage they go by local limits, as far as they are copied,
and the log start stays: what is gone here is read from there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from actors.log.replica_log import ReplicaLog
from actors.node.files import Files
from actors.node.step import Step

Why = Literal["retention-ms", "retention-bytes"]
"""By which limit something goes, locally or in remote storage."""


def delete_old_segments(step: Step, files: Files, log: ReplicaLog) -> bool:
    """Delete what lies below the log start, what is too much, and what is too old; whether the log start moved."""
    start = log.start_offset
    below = _due(step, files, log, (segment_end <= log.local_start_offset for segment_end in _segment_ends(log)[:-1]))
    if below and "segments-below-start-stay" not in step.defects:
        log.drop_segments(step, files, below)
    if "excess-stays" not in step.defects:
        _delete(step, files, log, _due(step, files, log, _too_much(step, log)), "retention-bytes")
    if "old-segments-stay" not in step.defects:
        _delete(step, files, log, _due(step, files, log, _too_old(step, log)), "retention-ms")
    return log.start_offset != start


def _segment_ends(log: ReplicaLog) -> list[int]:
    """Where each segment ends: the base of the next one, or the log end."""
    return [*(segment.base.offset for segment in log.segments[1:]), log.end_offset]


def _too_much(step: Step, log: ReplicaLog) -> Iterator[bool]:
    limit, size = log.config.own_retention_bytes, sum(segment.size_bytes for segment in log.segments)
    excess = size - limit if limit >= 0 or "no-limit-is-none-kept" in step.defects else -1
    for segment in log.segments:
        before, excess = excess, excess - segment.size_bytes
        yield before > 0 if "excess-rounded-up" in step.defects else excess >= 0


def _too_old(step: Step, log: ReplicaLog) -> Iterator[bool]:
    limit_ms, by_first = log.config.own_retention_ms, "first-record-is-too-old" in step.defects
    for segment in log.segments:
        newest_ms = segment.rolling_ms if by_first else segment.largest_timestamp_ms
        yield 0 <= limit_ms < step.wall_ms - newest_ms


def _due(step: Step, files: Files, log: ReplicaLog, wanted: Iterator[bool]) -> int:
    """How many segments, from the oldest on, are to go and may: an empty one that is active stays. One that is active
    and must be copied first is full from now on."""
    count, limit = 0, log.high_watermark
    if "retention-past-watermark" in step.defects:
        limit = log.end_offset
    for segment, end, goes in zip(log.segments, _segment_ends(log), wanted, strict=False):
        if not goes or limit < end or (segment is log.active and not segment.size_bytes):
            break
        if segment is log.active and "active-segment-stays" in step.defects:
            break
        if not _is_dispensable(step, log, end):
            if segment is log.active:
                log.roll(step, files)
            break
        count += 1
    return count


def _is_dispensable(step: Step, log: ReplicaLog, end: int) -> bool:
    """Whether nobody needs this replica's segment that ends there: it lies below the log start, or is copied
    (``UnifiedLog.isSegmentEligibleForDeletion``)."""
    if not log.config.is_copied or end <= log.start_offset or "local-retention-uncopied" in step.defects:
        return True
    return end - 1 <= log.highest_remote_offset


def _delete(step: Step, files: Files, log: ReplicaLog, count: int, reason: Why) -> None:
    if not count:
        return
    if count == len(log.segments):
        log.roll(step, files)
    start = log.segments[count].base.offset
    if log.config.is_copied:
        # The start moves first, and the segments go then (``UnifiedLog.deleteSegments``): a process that ends in
        # between leaves no log that begins where nobody has said.
        if start > log.start_offset:
            log.record_local_start(step, reason, start)
        log.drop_segments(step, files, count)
        return
    if "retention-within-segment" in step.defects:
        start = min(log.boundary_at_or_above(start + 1), log.high_watermark)
    log.increment_start_offset(step, start, reason)
    log.drop_segments(step, files, count)
