"""What is different about the metadata log: it is one segment, and begins where a snapshot ends
(``KafkaMetadataLog.scala``)."""

from __future__ import annotations

from actors.config import LONG_MAX
from actors.log.batch import Batch
from actors.log.log_validator import LogConfig
from actors.log.replica_log import ReplicaLog
from actors.log.segments import LogBase, LogSegment
from actors.node.codec import decode
from actors.node.files import Files
from actors.node.step import Step
from actors.trace.events import LogStart

ONE_SEGMENT = LogConfig(segment_bytes=LONG_MAX, segment_ms=LONG_MAX)
"""It never rolls."""


def load_metadata_log(tp: str, file: str, entries: list[bytes], base: LogBase, now_ms: int) -> ReplicaLog:
    """The log as its file has it, which begins at ``base``. The high watermark is the log start: the owner knows
    better."""
    log = ReplicaLog(tp, base.offset, base.offset, ONE_SEGMENT, [LogSegment(file, base)])
    for entry in entries:
        log.restore(decode(entry, Batch), now_ms)
    return log


def drop_below(log: ReplicaLog, step: Step, files: Files, offset: int) -> None:
    """Begin at ``offset``, a batch boundary that is not above the high watermark: a snapshot that ends there stands for
    the batches below, which go."""
    if offset > log.high_watermark:
        raise AssertionError(f"{log.tp}: dropping up to {offset}, above the high watermark {log.high_watermark}")
    base, count = log.boundary(offset), sum(batch.end_offset <= offset for batch in log.batches)
    del log.batches[:count]
    _begin_at(log, base)
    log.epochs.truncate_from_start(offset)
    step.record(LogStart(log.tp, offset, "retention", base.epoch, base.ph))
    files.drop_head(step, log.active.file, count)


def restart_at(log: ReplicaLog, step: Step, files: Files, base: LogBase, leader_epoch: int) -> None:
    """Give up all batches for a snapshot that ends where the log begins (``UnifiedLog.truncateFullyAndStartAt``)."""
    log.batches = []
    _begin_at(log, base)
    log.epochs.entries.clear()
    log.producers.rebuild(log.batches)
    log.aborted.truncate_to(0)
    step.record(LogStart(log.tp, base.offset, "snapshot", base.epoch, base.ph))
    files.truncate(step, log.active.file, 0)
    log.set_high_watermark(step, "follower", leader_epoch, base.offset, [])


def _begin_at(log: ReplicaLog, base: LogBase) -> None:
    log.active.base, log.start_offset = base, base.offset
    log.active.measure(log.batches)
