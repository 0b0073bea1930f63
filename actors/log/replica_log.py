"""The log of one replica: batches, leader epochs, producers, transactions, high watermark (``UnifiedLog.java``)."""

from __future__ import annotations

from bisect import bisect_right
from typing import Literal

import msgspec

from actors.log.batch import (
    EMPTY_PREFIX_HASH,
    UNKNOWN_PREFIX_HASH,
    Batch,
    LogRecord,
    make_batch,
    take_batch,
)
from actors.log.control_records import ControlRecordType, EndTxnMarker, marker_of
from actors.log.leader_epoch_cache import EpochEntry
from actors.log.log_content import BASE_OFFSET, LogContent
from actors.log.log_validator import invalid_timestamps, validate_batch
from actors.log.producer_state import TransactionVersion
from actors.log.segments import LogBase, LogSegment, SegmentHeader, segment_file
from actors.log.transaction_index import AbortedTxn
from actors.node.codec import encode
from actors.node.errors import KafkaError
from actors.node.files import Files
from actors.node.spec import METADATA_PARTITION
from actors.node.step import Step
from actors.trace.events import LogAppend, LogDrop, LogHw, LogLocalStart, LogRoll, LogStart, LogTrunc
from krift.v1.records import RecordBatch

ReplicaRole = Literal["leader", "follower"]
StartReason = Literal[
    "retention-ms", "retention-bytes", "delete-records", "leader", "remote", "out-of-range", "truncation", "load"
]
LocalStartReason = Literal["retention-ms", "retention-bytes", "load"]
TruncationReason = Literal["diverge", "high-watermark", "out-of-range", "recovery", "last-stable-offset"]

SKIPPED_EVERY = 50
"""The defect leader-skips-offset leaves out an offset after one batch in so many."""

_DECISIONS: dict[ControlRecordType, Literal["commit", "abort"]] = {
    ControlRecordType.COMMIT: "commit",
    ControlRecordType.ABORT: "abort",
}


class AppendResult(msgspec.Struct, frozen=True, gc=False):
    """What became of a leader's append; of a batch that was there already, its old offsets. ``record_errors``: places
    in the batch of the records that were to blame."""

    error: KafkaError
    base_offset: int = -1
    last_offset: int = -1
    record_errors: tuple[int, ...] = ()


class ReplicaLog(LogContent):
    """A log that is appended to, cut, and dropped from its beginning on. Its files hold one entry per batch, in order.
    The owner decides when to Sync them."""

    # ---- appending ---------------------------------------------------------------------------------------

    def append_as_leader(
        self,
        step: Step,
        files: Files,
        batch: RecordBatch,
        leader_epoch: int,
        guard: int | None = None,
    ) -> AppendResult:
        """Append a producer's batch, if nothing stands against it: offsets and leader epoch are assigned here. guard:
        what the verification of its transaction has begun with, ``UNVERIFIED`` if it did not; None: it need not."""
        records = batch.records
        config = self.config
        refusal = validate_batch(batch, records, step.wall_ms, config)
        if refusal:
            to_blame = invalid_timestamps(records, step.wall_ms, config)
            return AppendResult(
                refusal, record_errors=tuple(to_blame) if refusal == KafkaError.INVALID_TIMESTAMP else ()
            )
        hole = 1 if "leader-skips-offset" in step.defects and len(self.batches) % SKIPPED_EVERY == 1 else 0
        appended = take_batch(self.end_ph, self.end_offset + hole, leader_epoch, batch)
        self._make_room(step, files, appended)
        if batch.producer_id >= 0:
            known = self.producers.find_duplicate(
                batch.producer_id, batch.producer_epoch, batch.base_sequence, len(records)
            )
            if known is not None and "remembers-last-batch" in step.defects:
                last = self.producers.entries[batch.producer_id].batches[-1]
                known = known if known is last else None
            if known is not None:
                if "oldest-duplicate" in step.defects:
                    known = self.producers.entries[batch.producer_id].batches[0]
                return AppendResult(KafkaError.NONE, known.base_offset, known.last_offset)
            error = self._check_producer(step, batch, guard)
            if error == KafkaError.INVALID_PRODUCER_EPOCH and "old-producer-epoch-taken" in step.defects:
                error = KafkaError.NONE
            if error and "skip-sequence-check" not in step.defects:
                return AppendResult(error)
        self._write(step, files, appended, "leader", leader_epoch)
        return AppendResult(KafkaError.NONE, appended.base_offset, appended.last_offset)

    def append_transactional(
        self, step: Step, files: Files, batch: RecordBatch, leader_epoch: int, guard: int | None
    ) -> AppendResult:
        """Append a batch of a transaction that has no sequence, as a coordinator writes it for its producer."""
        appended = take_batch(self.end_ph, self.end_offset, leader_epoch, batch)
        self._make_room(step, files, appended)
        error = KafkaError.NONE
        if guard is not None:
            error = self.producers.check_verified(batch.producer_id, batch.producer_epoch, guard)
        known = self.producers.entries.get(batch.producer_id)
        if not error and known is not None and batch.producer_epoch < known.producer_epoch:
            error = KafkaError.INVALID_PRODUCER_EPOCH
        if error:
            return AppendResult(error)
        self._write(step, files, appended, "leader", leader_epoch)
        return AppendResult(KafkaError.NONE, appended.base_offset, appended.last_offset)

    def _check_producer(self, step: Step, batch: RecordBatch, guard: int | None) -> KafkaError:
        """What stands against a batch that is no duplicate (``UnifiedLog.analyzeAndValidateProducerState``)."""
        producers = self.producers
        if batch.is_transactional and guard is not None:
            error = producers.check_verified(batch.producer_id, batch.producer_epoch, guard)
            if error:
                return error
        error = producers.check(batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.is_transactional)
        by_marker = error == KafkaError.INVALID_PRODUCER_EPOCH and not producers.entries[batch.producer_id].batches
        return KafkaError.NONE if by_marker and "epochs-of-markers-unheeded" in step.defects else error

    def append_marker(
        self,
        step: Step,
        files: Files,
        producer: tuple[int, int],
        marker: EndTxnMarker,
        uid: str,
        leader_epoch: int,
        version: TransactionVersion = 0,
    ) -> AppendResult:
        """Append the marker that ends a transaction of ``producer`` (id and epoch), also where none is open here."""
        producer_id, producer_epoch = producer
        batch = marker.to_batch(producer_id, producer_epoch, step.wall_ms, uid)
        appended = take_batch(self.end_ph, self.end_offset, leader_epoch, batch)
        self._make_room(step, files, appended)
        if "late-marker-taken" in step.defects:
            version = 0
        error = self.producers.check_marker(producer_id, producer_epoch, marker.coordinator_epoch, version)
        if error == KafkaError.TRANSACTION_COORDINATOR_FENCED and "former-coordinators-marker-taken" in step.defects:
            error = KafkaError.NONE
        if error:
            return AppendResult(error)
        self._write(step, files, appended, "leader", leader_epoch)
        return AppendResult(KafkaError.NONE, appended.base_offset, appended.last_offset)

    def append_records(
        self, step: Step, files: Files, records: list[LogRecord], leader_epoch: int, *, is_control: bool = False
    ) -> Batch:
        """Append records of the leader's own (the quorum's log): no producer, no checks."""
        batch = make_batch(self.end_ph, self.end_offset, leader_epoch, records, is_control=is_control)
        self._append(step, files, batch, "leader", leader_epoch)
        return batch

    def cut_to_stable(self, step: Step, files: Files, stable: int, leader_epoch: int) -> list[Batch]:
        """Drop everything at or above ``stable``, below which nothing is undecided; returns the markers that were
        there, in order. Some of them end transactions that begin below, which are open without them (KAFKA-7408)."""
        cut = self.batches[bisect_right(self.batches, stable - 1, key=BASE_OFFSET) :]
        markers = [batch for batch in cut if batch.is_control and marker_of(batch.records) is not None]
        self.truncate_to(step, files, stable, "last-stable-offset", leader_epoch)
        return markers

    def append_again(self, step: Step, files: Files, marker: Batch, uid: str, leader_epoch: int) -> None:
        """Append a marker that was cut off, of the same producer and coordinator, in a leader epoch of its own: another
        replica may have the former one at that offset. No check: it was in the log before."""
        records = [msgspec.structs.replace(record, uid=uid) for record in marker.records]
        end_txn = marker_of(marker.records)
        if end_txn is not None and "markers-again-of-no-coordinator" in step.defects:
            unsigned = msgspec.structs.replace(end_txn, coordinator_epoch=-1)
            records = unsigned.to_batch(marker.producer_id, marker.producer_epoch, step.wall_ms, uid).records
        batch = RecordBatch(
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            base_sequence=marker.base_sequence,
            is_control=True,
            is_transactional=marker.is_transactional,
            records=records,
        )
        self._append(step, files, take_batch(self.end_ph, self.end_offset, leader_epoch, batch), "leader", leader_epoch)

    def append_as_follower(self, step: Step, files: Files, batches: list[RecordBatch], leader_epoch: int) -> int:
        """Append what a leader sent, as it is; returns how many batches.

        Stops at the first batch whose epoch exceeds ``leader_epoch`` (it was not fetched for that epoch), and skips
        batches that the log already holds. An empty log that begins within the first batch begins with that
        (``Partition.appendRecordsToFollowerOrFutureReplica``). AssertionError if a batch does not begin at the log end.
        """
        appended = 0
        for batch in batches:
            if batch.partition_leader_epoch > leader_epoch:
                break
            if batch.base_offset + len(batch.records) <= self.end_offset:
                continue
            if batch.base_offset < self.end_offset and not self.batches:
                base = LogBase(batch.base_offset, self.base.ph)
                self.truncate_fully_and_start_at(step, files, base, leader_epoch, "out-of-range")
            if batch.base_offset != self.end_offset:
                raise AssertionError(f"{self.tp}: batch at {batch.base_offset}, log ends at {self.end_offset}")
            taken = batch
            if "follower-reorders-batch" in step.defects and self.tp != METADATA_PARTITION:
                taken = msgspec.structs.replace(batch, records=batch.records[::-1])
            copy = take_batch(self.end_ph, batch.base_offset, batch.partition_leader_epoch, taken)
            self._append(step, files, copy, "follower", leader_epoch)
            appended += 1
        return appended

    def _note_epoch(self, batch: Batch) -> None:
        """A batch without a leader epoch (an old message format) makes logs incomparable: the cache is cleared."""
        if batch.epoch < 0:
            self.epochs.entries.clear()
        else:
            self.epochs.assign(batch.epoch, batch.base_offset)

    def _note_producer(self, batch: Batch, indexed: bool = True) -> None:
        """What a batch tells of its producer, and of a transaction that it ends."""
        completed = self.producers.update(batch)
        if completed is not None and completed.is_aborted and indexed:
            stable = self.producers.stable_offset_after(completed)
            self.aborted.append(
                AbortedTxn(completed.producer_id, completed.first_offset, completed.last_offset, stable)
            )

    def _append(self, step: Step, files: Files, batch: Batch, role: ReplicaRole, leader_epoch: int) -> None:
        self._make_room(step, files, batch)
        self._write(step, files, batch, role, leader_epoch)

    def _make_room(self, step: Step, files: Files, batch: Batch) -> None:
        """Begin a new segment for a batch that does not fit. A leader does so before it looks whether the batch is its
        producer's next one: also for a batch that it refuses, or has already (``UnifiedLog.append``)."""
        full = self.active.must_roll(batch, batch.size_bytes, step.wall_ms, self.config)
        if "segments-always-full" in step.defects and self.tp != METADATA_PARTITION:
            full = True
        if full and "segments-never-full" not in step.defects:
            self.roll(step, files)

    def _write(self, step: Step, files: Files, batch: Batch, role: ReplicaRole, leader_epoch: int) -> None:
        self._note_epoch(batch)
        self.batches.append(batch)
        self.active.add(batch, batch.size_bytes, step.wall_ms)
        outlives = batch.is_control and "verification-outlives-marker" in step.defects
        verifications = dict(self.producers.verifications) if outlives else {}
        if role == "leader" or "producers-of-leaders-only" not in step.defects:
            self._note_producer(batch, role == "leader" or "aborted-index-of-leaders-only" not in step.defects)
        if outlives:
            self.producers.verifications = verifications
        if "stable-offset-before-replication" in step.defects:
            self.producers.unreplicated.clear()
        stamped = role == "leader" and self.tp != METADATA_PARTITION and not batch.is_control
        marker = marker_of(batch.records) if batch.is_control and batch.is_transactional else None
        step.record(
            LogAppend(
                self.tp,
                role,
                batch.base_offset,
                batch.last_offset,
                batch.epoch,
                leader_epoch,
                batch.producer_id,
                batch.producer_epoch,
                batch.base_sequence,
                batch.is_control,
                [record.uid for record in batch.records],
                [record.timestamp_ms for record in batch.records] if stamped else [],
                told_hash(batch.ph),
                batch.is_transactional,
                "" if marker is None else _DECISIONS[marker.type],
                -1 if marker is None else marker.coordinator_epoch,
                batch.size_bytes,
            )
        )
        files.append(step, self.active.file, [encode(batch)])

    # ---- segments and the log start ----------------------------------------------------------------------

    def roll(self, step: Step, files: Files) -> None:
        """Begin a new segment, unless the active one is empty; what is in that one is made durable
        (``UnifiedLog.roll``)."""
        full = self.active
        if not full.size_bytes:
            return
        base = self.boundary(self.end_offset)
        self._add_segment(step, files, base)
        if "full-segments-unsynced" not in step.defects:
            files.sync(step, full.file)
        step.record(LogRoll(self.tp, base.offset))

    def _add_segment(self, step: Step, files: Files, base: LogBase) -> None:
        """Behind the others, with a header of what is known at its base."""
        file, producers = segment_file(self.tp, base.offset), self.producers.snapshot()
        epochs = [entry for entry in self.epochs.entries if entry.start_offset < base.offset]
        segment = LogSegment(file, base, base.offset > 0, producers, touched_ms=step.wall_ms, epochs=epochs)
        self.segments.append(segment)
        files.append(step, file, [segment.header] if segment.headed else [])

    def increment_start_offset(self, step: Step, offset: int, reason: StartReason) -> bool:
        """Move the log start up to ``offset``, which is not above the high watermark, if it is above the log start;
        leader epochs that ended before go (``UnifiedLog.maybeIncrementLogStartOffset``)."""
        if offset <= self.start_offset:
            return False
        self.start_offset = offset
        self.epochs.truncate_from_start(offset)
        self.record_start(step, reason)
        return True

    def record_start(self, step: Step, reason: StartReason) -> None:
        """Put into the trace where the log begins."""
        below = self.boundary_at_or_below(self.start_offset)
        exact = below == self.start_offset
        step.record(
            LogStart(
                self.tp,
                self.start_offset,
                reason,
                self.boundary(below).epoch if exact else -1,
                told_hash(self.ph_at(below)) if exact else None,
                self.high_watermark,
            )
        )

    def drop_segments(self, step: Step, files: Files, count: int) -> None:
        """Drop the ``count`` oldest segments, which are not the active one, and their files. The log start is behind
        them already, or they are copied to remote storage."""
        base = self.segments[count].base.offset
        assert self.config.is_copied or base <= self.start_offset, f"{self.tp}: segments up to {base} are in use"
        step.record(LogDrop(self.tp, base))
        for segment in self.segments[:count]:
            if "dropped-segments-stay" not in step.defects:
                files.delete(step, segment.file)
        del self.segments[:count]
        del self.batches[: bisect_right(self.batches, base - 1, key=BASE_OFFSET)]
        self.aborted.drop_below(base)

    def record_local_start(self, step: Step, reason: LocalStartReason, local: int) -> None:
        """Put into the trace where begins what this broker has itself, above the log start."""
        step.record(LogLocalStart(self.tp, local, reason, self.start_offset, self.high_watermark))

    def settle_start(self, step: Step) -> None:
        """The topic's configuration is known: a tiered log that was loaded begins where its checkpoint says, also if
        that is below its first segment (``LogLoader.load``)."""
        if self.checkpointed_start < 0:
            return
        start, self.checkpointed_start = self.checkpointed_start, -1
        if self.config.remote_storage and start < self.start_offset:
            self.start_offset = start
            self.record_start(step, "load")
            self.record_local_start(step, "load", self.local_start_offset)
        self.epochs.truncate_from_start(self.start_offset)

    def truncate_fully_and_start_at(
        self,
        step: Step,
        files: Files,
        base: LogBase,
        leader_epoch: int,
        reason: StartReason,
        cut_by: TruncationReason = "diverge",
    ) -> None:
        """Give up everything, and begin at ``base`` with nothing, its prefix hash perhaps to be told yet
        (``UnifiedLog.truncateFullyAndStartAt``)."""
        self.producers.restore({})
        self.epochs.entries = []
        self._restart(step, files, base, leader_epoch, reason, cut_by=cut_by)

    def begin_behind_copy(
        self,
        step: Step,
        files: Files,
        header: SegmentHeader,
        epochs: list[EpochEntry],
        start_offset: int,
        leader_epoch: int,
    ) -> None:
        """Give up everything, and begin with nothing behind a copy in remote storage, whose objects told the producers
        and the leader epochs up to there. What lies before is read from remote storage, from ``start_offset`` on."""
        self.producers.restore(header.producers)
        self.epochs.entries = list(epochs)
        self._restart(step, files, header.base, leader_epoch, "remote", start_offset)

    def _restart(
        self,
        step: Step,
        files: Files,
        base: LogBase,
        leader_epoch: int,
        reason: StartReason,
        start_offset: int | None = None,
        cut_by: TruncationReason = "diverge",
    ) -> None:
        # An empty log has nothing to be cut, also where it begins lower than before.
        was, old, ph = self.end_offset if self.batches else -1, self.files, told_hash(base.ph)
        self.batches, self.segments = [], []
        self.aborted.truncate_to(0)
        self.start_offset = base.offset if start_offset is None else start_offset
        if was > base.offset:
            step.record(LogTrunc(self.tp, was, base.offset, cut_by, leader_epoch, ph))
        if reason == "remote":
            epochs = {str(entry.epoch): entry.start_offset for entry in self.epochs.entries}
            told = (self.start_offset, self.high_watermark, base.epoch, ph, epochs)
            step.record(LogLocalStart(self.tp, base.offset, reason, *told))
        else:
            step.record(LogStart(self.tp, base.offset, reason, base.epoch, ph, self.high_watermark))
        for file in old:
            files.delete(step, file)
        self._add_segment(step, files, base)
        if "anew-keeps-watermark" not in step.defects:
            self.set_high_watermark(step, "follower", leader_epoch, base.offset, [])

    def delete(self, step: Step, files: Files) -> None:
        """Remove its files."""
        for file in self.files:
            files.delete(step, file)

    def begin_behind_all(self, step: Step, files: Files, ph: int, leader_epoch: int) -> None:
        """The leader's log begins where this one ends, so that nothing here is a part of it: begin there, too.
        Producers stay known. ``ph``: prefix hash there, of the leader (ghost data): what is below may be something
        else, as no leader epochs are compared below the start of a log."""
        base = LogBase(self.end_offset, ph)
        self.epochs.entries = []
        self._restart(step, files, base, leader_epoch, "out-of-range")

    def take_prefix_hash(self, step: Step, files: Files, ph: int) -> None:
        """An empty log that does not begin at 0 is told the prefix hash there (ghost data)."""
        if self.batches or self.base.ph != UNKNOWN_PREFIX_HASH or len(self.segments) > 1:
            return
        active = self.active
        active.base = msgspec.structs.replace(active.base, ph=ph)
        files.truncate(step, active.file, 0)
        files.append(step, active.file, [active.header])

    # ---- changing what is there --------------------------------------------------------------------------

    def truncate_to(self, step: Step, files: Files, offset: int, reason: TruncationReason, leader_epoch: int) -> None:
        """Drop every batch that reaches beyond ``offset``; nothing happens if none does.

        The high watermark goes down with the log end. Producer state is derived anew from what is left. Below what this
        broker has, the log begins anew.
        """
        was = self.end_offset
        keep = len(self.batches)
        while keep and self.batches[keep - 1].end_offset > offset:
            keep -= 1
        if offset < self.base.offset:
            base = LogBase(offset, UNKNOWN_PREFIX_HASH if offset else EMPTY_PREFIX_HASH)
            self.truncate_fully_and_start_at(step, files, base, leader_epoch, "truncation", reason)
            return
        if keep == len(self.batches):
            return
        del self.batches[keep:]
        self.start_offset = min(self.start_offset, self.end_offset)
        self.epochs.truncate_from_end(self.end_offset)
        self.producers.rebuild(self.batches, self.high_watermark, self.segments[0].producers)
        self.aborted.truncate_to(0 if "aborted-index-lost-at-truncation" in step.defects else self.end_offset)
        step.record(LogTrunc(self.tp, was, self.end_offset, reason, leader_epoch, told_hash(self.end_ph)))
        self._cut_files(step, files)
        if self.high_watermark > self.end_offset:
            self.set_high_watermark(step, "follower", leader_epoch, self.end_offset, [])

    def _cut_files(self, step: Step, files: Files) -> None:
        """Of batches that were cut off: whole segments go, and the end of the one that is active then."""
        while len(self.segments) > 1 and self.active.base.offset > self.end_offset:
            files.delete(step, self.segments.pop().file)
        active = self.active
        left = self.batches[bisect_right(self.batches, active.base.offset - 1, key=BASE_OFFSET) :]
        active.measure(left)
        files.truncate(step, active.file, active.headed + len(left))

    def set_high_watermark(
        self, step: Step, role: ReplicaRole, leader_epoch: int, new: int, counted: list[int]
    ) -> None:
        """Move the high watermark and record it; nothing happens if it stays where it is."""
        if new == self.high_watermark:
            return
        self.high_watermark = new
        self.producers.advance(new)
        step.record(
            LogHw(
                self.tp,
                role,
                leader_epoch,
                new,
                self.end_offset,
                self.start_offset,
                sorted(counted),
                told_hash(self.ph_at(new)),
            )
        )

    def restore(self, batch: Batch, now_ms: int) -> None:
        """A batch that its file has, behind those before."""
        self._note_epoch(batch)
        self.batches.append(batch)
        self.active.add(batch, batch.size_bytes, now_ms)
        self._note_producer(batch)


def told_hash(ph: int) -> int | None:
    """A prefix hash as the trace has it."""
    return None if ph == UNKNOWN_PREFIX_HASH else ph
