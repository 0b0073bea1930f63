"""Which segments of a log are deleted, and why (``UnifiedLog.deleteOldSegments``).

Segments go whole, from the oldest on, as far as the high watermark has passed them; of a segment that is active and not
empty the log rolls first.
"""

from __future__ import annotations

from collections.abc import Iterator

from actors.log.replica_log import ReplicaLog, StartReason
from actors.node.files import Files
from actors.node.step import Step


def delete_old_segments(step: Step, files: Files, log: ReplicaLog) -> bool:
    """Delete what lies below the log start, what is too much, and what is too old; whether the log start moved."""
    start = log.start_offset
    below = _count(step, log, (segment_end <= log.local_start_offset for segment_end in _segment_ends(log)[:-1]))
    if below:
        log.drop_segments(step, files, below)
    _delete(step, files, log, _count(step, log, _too_much(log)), "retention-bytes")
    _delete(step, files, log, _count(step, log, _too_old(step, log)), "retention-ms")
    return log.start_offset != start


def _segment_ends(log: ReplicaLog) -> list[int]:
    """Where each segment ends: the base of the next one, or the log end."""
    return [*(segment.base.offset for segment in log.segments[1:]), log.end_offset]


def _too_much(log: ReplicaLog) -> Iterator[bool]:
    limit, size = log.config.retention_bytes, sum(segment.size_bytes for segment in log.segments)
    excess = size - limit if limit >= 0 else -1
    for segment in log.segments:
        excess -= segment.size_bytes
        yield excess >= 0


def _too_old(step: Step, log: ReplicaLog) -> Iterator[bool]:
    limit_ms = log.config.retention_ms
    for segment in log.segments:
        yield 0 <= limit_ms < step.wall_ms - segment.largest_timestamp_ms


def _count(step: Step, log: ReplicaLog, wanted: Iterator[bool]) -> int:
    """How many segments, from the oldest on, are to go and may: an empty one that is active stays."""
    count, limit = 0, log.high_watermark
    if "retention-past-watermark" in step.defects:
        limit = log.end_offset
    for segment, end, goes in zip(log.segments, _segment_ends(log), wanted, strict=False):
        if not goes or limit < end or (segment is log.active and not segment.size_bytes):
            break
        count += 1
    return count


def _delete(step: Step, files: Files, log: ReplicaLog, count: int, reason: StartReason) -> None:
    if not count:
        return
    if count == len(log.segments):
        log.roll(step, files)
    start = log.segments[count].base.offset
    if "retention-within-segment" in step.defects:
        start = min(log.boundary_at_or_above(start + 1), log.high_watermark)
    log.increment_start_offset(step, start, reason)
    log.drop_segments(step, files, count)
