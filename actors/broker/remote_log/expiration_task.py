"""Deleting copied segments of a partition that this broker leads (``RemoteLogManager.RLMExpirationTask``): those that
need not be retained, those below the log start, those of leader epochs before the log, and what an earlier deletion has
left."""

from __future__ import annotations

import msgspec

from actors.broker.partition import Partition
from actors.broker.remote_log.lineage import is_within, with_records
from actors.broker.remote_log.remote_log_metadata import RemoteLogMetadataManager
from actors.broker.remote_log.segment_deletion import SegmentDeletion
from actors.broker.remote_log.segment_metadata import SegmentMetadata, SegmentState
from actors.broker.remote_log.segment_metadata_cache import SegmentMetadataCache
from actors.broker.remote_log.store_calls import StoreCall
from actors.broker.turn import Turn
from actors.log.leader_epoch_cache import EpochEntry
from actors.log.replica_log import ReplicaLog
from actors.log.retention import Why


class Expired(msgspec.Struct):
    """segments: to be deleted, in order. start: where the log begins without them, -1 where it did; why."""

    segments: list[SegmentMetadata] = []
    start: int = -1
    why: Why = "retention-ms"


class ExpirationTask(msgspec.Struct):
    """due_ms: when the next run begins. running: whether one is under way; left: what it deletes."""

    due_ms: int = 0
    running: bool = False
    left: list[SegmentMetadata] = []
    deletion: SegmentDeletion | None = None
    store: StoreCall = msgspec.field(default_factory=StoreCall)

    def advance(
        self, turn: Turn, partition: Partition, manager: RemoteLogMetadataManager, purpose: str, copying: str
    ) -> bool:
        """Go on as far as possible; True: the run is over. ``copying``: id of the segment that is being copied."""
        if not self.running:
            self._begin(turn, partition, turn.readers.segments_of(partition), copying)
        while self.left:
            if self.deletion is None:
                self.deletion = SegmentDeletion(self.left[0])
            done = self.deletion.advance(turn, partition, self.store, manager, purpose)
            if done is None:
                return False
            self.deletion = None
            # One that cannot be deleted ends the run; the next one tries again.
            self.left = self.left[1:] if done else []
        self.running = False
        return True

    def _begin(self, turn: Turn, partition: Partition, cache: SegmentMetadataCache, copying: str) -> None:
        self.running = True
        log = partition.log
        by_local_limit = "copies-go-by-local-limit" in turn.step.defects
        rounds_up = "expired-copies-rounded-up" in turn.step.defects
        found = find_expired(cache, log, turn.step.wall_ms, copying, by_local_limit=by_local_limit, rounds_up=rounds_up)
        if found.start >= 0 and "expired-copies-kept" in turn.step.defects:
            found = Expired()
        if found.start > log.high_watermark:
            return  # a later run deletes them (``UnifiedLog.maybeIncrementLogStartOffset`` throws)
        if found.start >= 0 and "expired-start-untold" not in turn.step.defects:
            log.increment_start_offset(turn.step, found.start, found.why)
        self.left = found.segments if "copies-below-start-stay" not in turn.step.defects else []
        if "begun-deletions-stay" in turn.step.defects:
            self.left = [each for each in self.left if each.state != SegmentState.DELETE_SEGMENT_STARTED]
        if "unfinished-copies-stay" in turn.step.defects:
            self.left = [each for each in self.left if each.state != SegmentState.COPY_SEGMENT_STARTED]


def find_expired(
    cache: SegmentMetadataCache,
    log: ReplicaLog,
    now_ms: int,
    copying: str,
    *,
    by_local_limit: bool = False,
    rounds_up: bool = False,
) -> Expired:
    """What is to be deleted: along the log's leader epochs from the oldest segment on, up to the first that stays.
    ``by_local_limit``: by the age up to which replicas keep their own segments; ``rounds_up``: also the one that the
    limit lies in (defects)."""
    found = Expired()
    lineage = with_records(log.epochs.entries)
    if not cache.segments or not lineage:
        return found
    excess = _excess(cache, log, lineage)
    limit_ms = log.config.own_retention_ms if by_local_limit else log.config.retention_ms
    for segment in _along(cache, lineage):
        if segment.key == copying:
            break
        if segment.state == SegmentState.DELETE_SEGMENT_STARTED:
            found.segments.append(segment)
            continue
        below = segment.end_offset < log.start_offset and all(e.epoch <= lineage[0].epoch for e in segment.epochs)
        goes = below
        why: Why | None = None
        if not below:
            if not is_within(segment, log.end_offset, lineage):
                continue
            if limit_ms >= 0 and segment.max_timestamp_ms < now_ms - limit_ms:
                goes, why = True, "retention-ms"
                excess = max(0, excess - segment.size_bytes)
            elif 0 < excess >= (1 if rounds_up else segment.size_bytes):
                goes, why = True, "retention-bytes"
                excess -= segment.size_bytes
        if not goes:
            break
        found.segments.append(segment)
        if why is not None and found.start < segment.end_offset + 1:
            found.start, found.why = segment.end_offset + 1, why
    told = {segment.key for segment in found.segments}
    found.segments += [each for each in _before(cache, lineage[0]) if each.key not in (*told, copying)]
    return found


def _along(cache: SegmentMetadataCache, lineage: list[EpochEntry]) -> list[SegmentMetadata]:
    """Segments with an epoch of the log, epoch by epoch, each once."""
    found: dict[str, SegmentMetadata] = {}
    for entry in lineage:
        for segment in cache.of_epoch(entry.epoch):
            found.setdefault(segment.key, segment)
    return list(found.values())


def _before(cache: SegmentMetadataCache, earliest: EpochEntry) -> list[SegmentMetadata]:
    """Segments all of whose leader epochs are older than the log."""
    return [
        each for _, each in sorted(cache.segments.items()) if all(entry.epoch < earliest.epoch for entry in each.epochs)
    ]


def _excess(cache: SegmentMetadataCache, log: ReplicaLog, lineage: list[EpochEntry]) -> int:
    """Bytes beyond retention.bytes, of finished copies and of what is in the local log alone."""
    limit = log.config.retention_bytes
    if limit < 0:
        return 0
    local = sum(each.size_bytes for each in log.segments if each.base.offset > log.highest_remote_offset)
    remote = sum(each.size_bytes for each in cache.finished_within(log.end_offset, lineage))
    return max(0, local + remote - limit)
