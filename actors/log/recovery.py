"""Recovery of a log whose process did not end well (``LogLoader.recoverLog``, ``LogSegment.recover``)."""

from __future__ import annotations

import msgspec

from actors.log.batch import Batch
from actors.log.replica_log import ReplicaLog, load_log
from actors.node.codec import decode
from actors.node.files import Files
from actors.node.step import Step
from actors.trace.events import LogTrunc


def recover_log(step: Step, files: Files, tp: str, file: str, entries: list[bytes]) -> ReplicaLog:
    """The log up to its first bad batch, the rest of the file cut off. Leader epochs and producer state come from
    what is left. A batch is good if it can be read, begins where the one before ends, and has no older leader epoch;
    the disk has compared the checksums of what it read."""
    batches = [_read(entry) for entry in entries]
    good = end = 0
    epoch = -1
    for batch in batches:
        if batch is None or batch.base_offset != end or batch.epoch < epoch:
            break
        end, epoch = batch.end_offset, batch.epoch
        good += 1
    if "recovery-drops-last" in step.defects and good:
        good -= 1
    log = load_log(tp, file, entries[:good])
    if good < len(entries):
        was = max((batch.end_offset for batch in batches[good:] if batch is not None), default=log.end_offset)
        step.record(LogTrunc(tp, was, log.end_offset, "recovery", log.last_epoch, log.end_ph))
        files.truncate(step, file, good)
    return log


def _read(entry: bytes) -> Batch | None:
    try:
        batch: Batch = decode(entry, Batch)
    except (msgspec.DecodeError, ValueError):
        return None
    return batch
