"""How a log is read when its broker starts, and its recovery where the last process did not end well
(``LogLoader.java``, ``LogSegment.recover``)."""

from __future__ import annotations

import msgspec

from actors.log.batch import Batch
from actors.log.replica_log import ReplicaLog, told_hash
from actors.log.segments import LogBase, LogSegment, is_header, parse_segment_file, read_header, segment_file
from actors.node.codec import decode
from actors.node.events import DiskImage
from actors.node.files import Files
from actors.node.step import Step
from actors.trace.events import LogRoll, LogTrunc


def logs_on_disk(disk: DiskImage) -> dict[str, DiskImage]:
    """The files of segments, by partition, and there by their base offsets."""
    found: dict[str, DiskImage] = {}
    for file in sorted(disk):
        parsed = parse_segment_file(file)
        if parsed is not None:
            found.setdefault(parsed[0], {})[file] = disk[file]
    return found


class Damaged(Exception):
    """Files of a log that no process left which ended well."""


def load_log(step: Step, tp: str, disk: DiskImage, start: LogBase) -> ReplicaLog:
    """A log as its files have it, after a process that ended well. ``start``: of its checkpoint. The high watermark is
    the log start: the owner knows better. Raises Damaged: a power loss may have undone the removal of the file that
    says so."""
    log: ReplicaLog | None = None
    for file, entries in disk.items():
        segment = _read_segment(file, entries, step.wall_ms)
        if segment is None:
            raise Damaged(f"{file}: no header")
        log = _with_segment(log, tp, segment)
        kept = -1 if "clean-load-drops-last" in step.defects and file == list(disk)[-1] else None
        for entry in entries[segment.headed : kept]:
            batch = _read(entry)
            if batch is None or batch.base_offset != log.end_offset:
                raise Damaged(f"{file}: no batch at {log.end_offset}")
            log.restore(batch, step.wall_ms)
    assert log is not None, f"{tp}: no segment"
    _settle_start(log, start)
    return log


class _Recovered(msgspec.Struct):
    """``log``: the good part, if there is any. ``dropped``: files behind it; ``cut``: that with its end, and how many
    entries are left there; ``lost``: the batches that are not in it, None one that cannot be read."""

    log: ReplicaLog | None = None
    dropped: list[str] = []
    cut: tuple[str, int] | None = None
    lost: list[Batch | None] = []

    @property
    def is_over(self) -> bool:
        """Whether something bad was found: what follows goes."""
        return bool(self.dropped or self.cut)


def recover_log(step: Step, files: Files, tp: str, disk: DiskImage, start: LogBase) -> ReplicaLog:
    """The log up to its first bad batch, all behind that cut off. Leader epochs and producer state come from what is
    left. A batch is good if it can be read, begins where the one before ends, and has no older leader epoch; the disk
    has compared the checksums of what it read. A log that ends below its start begins there with nothing
    (``LogLoader.deleteSegmentsIfLogStartGreaterThanLogEnd``)."""
    found = _Recovered()
    for file, entries in disk.items():
        _recover_segment(step, tp, found, file, entries, is_last=file == list(disk)[-1])
    log = ReplicaLog(tp) if found.log is None else found.log
    if found.lost:
        was = max((batch.end_offset for batch in found.lost if batch is not None), default=log.end_offset)
        step.record(LogTrunc(tp, was, log.end_offset, "recovery", log.last_epoch, told_hash(log.end_ph)))
    for file in found.dropped:
        files.delete(step, file)
    if found.cut is not None:
        files.truncate(step, *found.cut)
    if log.end_offset < start.offset:
        return _begin_anew(step, files, log, start)
    _settle_start(log, start)
    _tell_empty_segment(step, log)
    return log


def _tell_empty_segment(step: Step, log: ReplicaLog) -> None:
    """An empty segment behind others: the last process may have ended in ``ReplicaLog.roll``, before the trace had
    it."""
    if len(log.segments) > 1 and not log.active.size_bytes:
        step.record(LogRoll(log.tp, log.active.base.offset))


def _recover_segment(step: Step, tp: str, found: _Recovered, file: str, entries: list[bytes], *, is_last: bool) -> None:
    segment = None if found.is_over else _read_segment(file, entries, step.wall_ms)
    if segment is None or (found.log is not None and segment.base.offset != found.log.end_offset):
        found.dropped.append(file)
        found.lost += [_read(entry) for entry in entries if not is_header(entry)]
        return
    log = found.log = _with_segment(found.log, tp, segment)
    batches = [_read(entry) for entry in entries[segment.headed :]]
    good, end, epoch = 0, log.end_offset, log.last_epoch
    for batch in batches:
        if batch is None or batch.base_offset != end or batch.epoch < epoch:
            break
        end, epoch = batch.end_offset, batch.epoch
        good += 1
    if "recovery-drops-last" in step.defects and good and (is_last or good < len(batches)):
        good -= 1
    for batch in batches[:good]:
        assert batch is not None
        log.restore(batch, step.wall_ms)
    if good < len(batches):
        found.cut = (file, segment.headed + good)
        found.lost += batches[good:]


def _begin_anew(step: Step, files: Files, old: ReplicaLog, start: LogBase) -> ReplicaLog:
    """In place of a log of which too little is left: an empty one that begins at ``start``."""
    for file in old.files:
        files.delete(step, file)
    segment = LogSegment(segment_file(old.tp, start.offset), start, True, touched_ms=step.wall_ms)
    files.append(step, segment.file, [segment.header])
    return ReplicaLog(old.tp, start.offset, start.offset, segments=[segment])


def _read_segment(file: str, entries: list[bytes], now_ms: int) -> LogSegment | None:
    """The segment of a file, without its batches; None where its header is lost."""
    parsed = parse_segment_file(file)
    assert parsed is not None, f"{file} is no segment's"
    if not parsed[1]:
        return LogSegment(file, touched_ms=now_ms)
    header = read_header(entries, parsed[1])
    if header is None:
        return None
    return LogSegment(file, header.base, True, header.producers, touched_ms=now_ms, epochs=header.epochs)


def _with_segment(log: ReplicaLog | None, tp: str, segment: LogSegment) -> ReplicaLog:
    if log is not None:
        log.segments.append(segment)
        return log
    base = segment.base.offset
    log = ReplicaLog(tp, base, base, segments=[segment])
    log.producers.restore(segment.producers)
    log.epochs.entries = list(segment.epochs)
    return log


def _settle_start(log: ReplicaLog, start: LogBase) -> None:
    """Begin at the checkpoint, or with the first segment if that is later: whether the log is tiered, so that it may
    begin before that, is known when its topic's configuration is (``ReplicaLog.settle_start``)."""
    if start.offset < log.base.offset:
        log.checkpointed_start = start.offset
    elif start.offset > log.base.offset:
        log.start_offset = log.high_watermark = start.offset
    log.epochs.truncate_from_start(start.offset)
    log.epochs.truncate_from_end(log.end_offset)  # as LogLoader.load: not even the epoch of an emptied log is left


def _read(entry: bytes) -> Batch | None:
    try:
        batch: Batch = decode(entry, Batch)
    except (msgspec.DecodeError, ValueError):
        return None
    return batch
