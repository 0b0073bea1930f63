"""Copying the segments of a partition that this broker leads (``RemoteLogManager.RLMCopyTask``).

A run copies in order what is full, committed and not copied yet, one segment after the other: its metadata say that a
copy begins, its objects go to the store one by one, and its metadata say that it is finished. Where that fails, what
was copied is deleted, and the next run begins with a new copy under another id.
"""

from __future__ import annotations

import base64
import hashlib
from typing import Literal

import msgspec

from actors.broker.partition import Partition
from actors.broker.remote_log.copied_offset import find_highest_remote_offset, find_log_start_offset
from actors.broker.remote_log.remote_log_metadata import RemoteLogMetadataManager
from actors.broker.remote_log.segment_deletion import SegmentDeletion
from actors.broker.remote_log.segment_metadata import SegmentMetadata, SegmentState
from actors.broker.remote_log.store_calls import StoreCall
from actors.broker.remote_log.tracing import record_segment
from actors.broker.turn import Turn
from actors.config import LONG_MAX
from actors.log.leader_epoch_cache import EpochEntry
from actors.log.replica_log import ReplicaLog
from actors.log.segment_objects import objects_of
from actors.log.segments import SegmentHeader
from krift.v1.remote_storage import CopyLogSegmentDataRequest, RemoteLogSegmentId

At = Literal["waiting", "next", "publish-started", "objects", "publish-finished", "cleaning"]


class CopyTask(msgspec.Struct):
    """due_ms: when the next run begins. copied: the last offset that was copied, None not known yet. left: base offsets
    of the segments that this run will copy, and where each ends. objects: of the present one that are to be copied."""

    due_ms: int = 0
    copied: int | None = None
    at: At = "waiting"
    left: list[tuple[int, int]] = []
    current: SegmentMetadata | None = None
    objects: list[tuple[str, bytes]] = []
    publication: int = 0
    deletion: SegmentDeletion | None = None
    store: StoreCall = msgspec.field(default_factory=StoreCall)
    failed: bool = False

    @property
    def copying(self) -> str:
        """The id of the segment that is being copied, "" none."""
        return "" if self.current is None else self.current.key

    def advance(self, turn: Turn, partition: Partition, manager: RemoteLogMetadataManager, purpose: str) -> bool:
        """Go on as far as possible; True: the run is over."""
        while True:
            at, publication = self.at, self.publication
            match at:
                case "waiting":
                    self._begin(turn, partition, manager)
                case "next":
                    if not self._take_next(turn, partition, manager):
                        self.at = "waiting"
                        return True
                case "publish-started" | "publish-finished":
                    self._published(turn, partition, manager)
                case "objects":
                    self._copy(turn, partition, manager, purpose)
                case "cleaning":
                    self._clean(turn, partition, manager, purpose)
            if (self.at, self.publication) == (at, publication):
                return False

    # ---- a run -------------------------------------------------------------------------------------------

    def _begin(self, turn: Turn, partition: Partition, manager: RemoteLogMetadataManager) -> None:
        """See which segments are to be copied. The views must be ready."""
        self.at, self.left = "next", []
        self.failed = self.failed and "failed-copy-ends-task" in turn.step.defects
        log = partition.log
        cache = turn.readers.segments_of(partition)
        if self.copied is None:
            start = find_log_start_offset(cache, log)
            if start > log.high_watermark:
                return  # a later run looks again (``UnifiedLog.maybeIncrementLogStartOffset`` throws)
            if "log-start-unfound" in turn.step.defects:
                start = log.start_offset
            if "log-start-at-last-copy" in turn.step.defects:
                copies = [each for entry in log.epochs.entries for each in cache.of_epoch(entry.epoch)]
                start = max((each.start_offset for each in copies), default=start)
            if not log.increment_start_offset(turn.step, start, "remote"):
                log.record_start(turn.step, "remote")
            self.copied = find_highest_remote_offset(cache, log)
            if "copies-again-from-start" in turn.step.defects:
                self.copied = -1
            log.highest_remote_offset = self.copied
        stable = log.last_stable_offset
        if "copies-uncommitted" in turn.step.defects:
            stable = log.end_offset
        if self.copied < stable:
            now_ms = turn.step.wall_ms if "copy-lag-unheeded" not in turn.step.defects else 0
            any_size = "copy-lag-of-any-size" in turn.step.defects
            self.left = candidates(log, max(self.copied + 1, log.start_offset), stable, now_ms, any_size=any_size)
            if "copies-newest-first" in turn.step.defects:
                self.left.reverse()

    def _take_next(self, turn: Turn, partition: Partition, manager: RemoteLogMetadataManager) -> bool:
        """Begin with the next segment; False: there is none, or this run has failed."""
        if not self.left or self.failed:
            return False
        base, end = self.left.pop(0)
        objects = segment_objects(partition.log, base, end)
        if objects is None:
            return True
        identity = f"{manager.life}/{partition.key}/{manager.events}"
        digest = hashlib.blake2b(identity.encode(), digest_size=16).digest()
        where = RemoteLogSegmentId(
            topic=partition.topic,
            topic_id=partition.topic_id,
            partition=partition.index,
            segment_id=base64.urlsafe_b64encode(digest).decode().rstrip("="),
        )
        self.current = metadata_of(turn, partition, where, base, end)
        self.objects = list(objects.items())
        record_segment(turn, partition, self.current, "copying")
        self.at, self.publication = "publish-started", 0
        if "copies-untold" in turn.step.defects:
            self.at = "objects"
        else:
            self.publication = manager.add(turn, partition, self.current)
        return True

    def _published(self, turn: Turn, partition: Partition, manager: RemoteLogMetadataManager) -> None:
        current = self._current
        outcome = manager.outcome(turn, self.publication)
        if outcome is None:
            return
        if outcome == "failed":
            self._fail(turn, partition)
        elif self.at == "publish-started":
            self.at, self.publication = "objects", 0
        else:
            record_segment(turn, partition, current, "copied")
            self.copied = partition.log.highest_remote_offset = current.end_offset
            self.at, self.publication, self.current = "next", 0, None

    def _copy(self, turn: Turn, partition: Partition, manager: RemoteLogMetadataManager, purpose: str) -> None:
        """Copy the next object, and tell of the whole when all are there."""
        current = self._current
        while self.objects:
            kind, data = self.objects[0]
            if self.store.request is None:
                self.store.ask(CopyLogSegmentDataRequest(segment=current.id, object=kind, data=data))
            if not self.store.advance(turn, purpose):
                return
            if self.store.take() is None and "copy-errors-ignored" not in turn.step.defects:
                self.at = "cleaning"
                return
            del self.objects[0]
        self.at, state = "publish-finished", SegmentState.COPY_SEGMENT_FINISHED
        if "copy-end-untold" in turn.step.defects:
            state = SegmentState.COPY_SEGMENT_STARTED
        self.publication = manager.update(turn, partition, current, state)

    def _clean(self, turn: Turn, partition: Partition, manager: RemoteLogMetadataManager, purpose: str) -> None:
        """What was copied of a segment goes away again, as far as possible."""
        if "half-copies-stay" in turn.step.defects:
            self._fail(turn, partition)
            return
        if self.deletion is None:
            self.deletion = SegmentDeletion(self._current)
        if self.deletion.advance(turn, partition, self.store, manager, purpose) is not None:
            self._fail(turn, partition)

    def _fail(self, turn: Turn, partition: Partition) -> None:
        record_segment(turn, partition, self._current, "copy-failed")
        self.at, self.publication, self.current, self.deletion, self.objects = "next", 0, None, None, []
        self.failed = True

    @property
    def _current(self) -> SegmentMetadata:
        assert self.current is not None, "a segment is being copied"
        return self.current


def candidates(
    log: ReplicaLog, from_offset: int, stable: int, now_ms: int, *, any_size: bool = False
) -> list[tuple[int, int]]:
    """Segments that are full, end below the last stable offset, and hold ``from_offset`` or later ones: base offset,
    and where each ends (exclusive). One that is to wait by the topic's lag holds up those behind it. ``any_size``:
    however little is behind it, it is enough (a defect)."""
    ends = [segment.base.offset for segment in log.segments[1:]]
    full = [(segment, end) for segment, end in zip(log.segments, ends, strict=False) if end > from_offset]
    total = sum(segment.size_bytes for segment, _ in full) + log.active.size_bytes
    found, size = list[tuple[int, int]](), 0
    for segment, end in full:
        size += segment.size_bytes
        if end > stable:
            continue
        behind = LONG_MAX if any_size else total - size
        if not log.config.is_due_for_copy(now_ms - segment.largest_timestamp_ms, behind):
            break
        found.append((segment.base.offset, end))
    return found


def epochs_in(log: ReplicaLog, base: int, end: int) -> list[EpochEntry]:
    """The leader epochs of the records in [base, end), each with where it begins there
    (``LeaderEpochFileCache.epochEntriesInRange``)."""
    found = [entry for entry in log.epochs.entries if base < entry.start_offset < end]
    epoch = log.epochs.epoch_at(base)
    return [EpochEntry(epoch, base), *found] if epoch >= 0 else found


def segment_objects(log: ReplicaLog, base: int, end: int) -> dict[str, bytes] | None:
    """The objects of a segment; None: the log has it no more."""
    place = next((place for place, each in enumerate(log.segments) if each.base.offset == base), None)
    if place is None or place + 1 == len(log.segments) or log.segments[place + 1].base.offset != end:
        return None
    following = log.segments[place + 1]
    return objects_of(
        [batch for batch in log.batches if base <= batch.base_offset < end],
        [txn for txn in log.aborted.txns if base <= txn.last_offset < end],
        SegmentHeader(following.base, following.producers),
        [entry for entry in log.epochs.entries if entry.start_offset < end],
    )


def metadata_of(turn: Turn, partition: Partition, where: RemoteLogSegmentId, base: int, end: int) -> SegmentMetadata:
    """What is told of a segment when its copy begins."""
    log = partition.log
    segment = next(each for each in log.segments if each.base.offset == base)
    newest_ms = segment.largest_timestamp_ms
    if "copy-is-as-old-as-first-record" in turn.step.defects:
        newest_ms = segment.rolling_ms
    return SegmentMetadata(
        where,
        base,
        end - 1,
        newest_ms,
        turn.settings.node_id,
        turn.step.wall_ms,
        segment.size_bytes,
        tuple(epochs_in(log, base, end)),
        SegmentState.COPY_SEGMENT_STARTED,
        not any(base <= txn.last_offset < end for txn in log.aborted.txns),
    )
