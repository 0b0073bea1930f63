"""Looking an offset up by timestamp in remote storage, then in the local log (``RemoteLogOffsetReader.java``,
``RemoteLogManager.findOffsetByTimestamp``)."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from actors.broker.list_offsets_answer import Found, PartitionStatus
from actors.broker.partition import Partition
from actors.broker.remote_log.lineage import is_within, with_records
from actors.broker.remote_log.reader_task import ReaderTask, TaskKind
from actors.broker.remote_log.segment_metadata import SegmentMetadata, SegmentState
from actors.broker.remote_log.store_calls import StoreCall
from actors.broker.turn import Turn
from actors.log.batch import Batch
from actors.log.segment_objects import TIMESTAMP, position_of_timestamp, read_batches, read_index
from actors.node.errors import KafkaError
from actors.node.network_client import Ended
from krift.v1.remote_storage import FetchIndexRequest, FetchLogSegmentRequest


class RemoteLogOffsetReader(ReaderTask):
    """One look-up, from ``start_offset`` on, the log start when it was asked for. segment: the one that is searched
    now, None before the first; ``passed``: those that were."""

    start_offset: int = 0
    segment: SegmentMetadata | None = None
    passed: list[str] = msgspec.field(default_factory=list)
    store: StoreCall = msgspec.field(default_factory=StoreCall)
    found: Found | None = None

    kind: ClassVar[TaskKind] = "list-offsets"

    def advance(self, turn: Turn, purpose: str) -> bool:
        while not self.error and self.found is None:
            if self.store.request is not None:
                if not self.store.advance(turn, purpose):
                    return False
                self._take(turn)
            elif self.segment is not None:
                self._ask(turn)
            elif self._begin_next(turn):
                return True
        return True

    def on_ended(self, turn: Turn, ended: Ended) -> None:
        self.store.on_ended(ended)

    def _begin_next(self, turn: Turn) -> bool:
        """Go on with the next segment; True: there is none that the store has alone, and the local log was searched."""
        partition = turn.replicas.partitions.get(self.tp)
        if partition is None:
            self.error = KafkaError.UNKNOWN_SERVER_ERROR
            return True
        if turn.remote_log.metadata.is_behind(turn, partition):
            self.error = KafkaError.REPLICA_NOT_AVAILABLE
            return True
        self.segment = _next_segment(turn, partition, self)
        if self.segment is not None and self.segment.start_offset < partition.log.local_start_offset:
            return False
        self.found = _find_locally(partition, self.timestamp)
        return True

    def _ask(self, turn: Turn) -> None:
        """Ask for what is needed next of the segment, or pass it, for what is in its index."""
        assert self.segment is not None, "a segment is searched"
        index = turn.readers.indexes.get(self.segment.key, TIMESTAMP)
        if index is None:
            self.store.ask(FetchIndexRequest(segment=self.segment.id, object=TIMESTAMP))
            return
        position = position_of_timestamp(index, self.timestamp)
        if position is None:
            self._pass()
        else:
            self.store.ask(FetchLogSegmentRequest(segment=self.segment.id, start_position=position))

    def _take(self, turn: Turn) -> None:
        """The store has answered, or has not: then that is a RemoteStorageException, for which Kafka has no code. So is
        an answer that is no index, and no batch where the index says that there is one."""
        assert self.segment is not None, "a segment is searched"
        asked, answer = self.store.request, self.store.take()
        try:
            data = b"" if answer is None or "answers-taken-for-damaged" in turn.step.defects else bytes(answer.data)
            if isinstance(asked, FetchIndexRequest):
                turn.readers.indexes.put(self.segment.key, TIMESTAMP, read_index(data))
                return
            batches = read_batches(data)
        except msgspec.MsgspecError:
            batches = []
        if batches:
            self._search(turn, batches)
        else:
            self.error = KafkaError.UNKNOWN_SERVER_ERROR

    def _search(self, turn: Turn, batches: list[Batch]) -> None:
        """Look for the first record that is as late, in a part of the segment's log."""
        for batch in batches:
            for offset, record in enumerate(() if batch.is_control else batch.records, batch.base_offset):
                late = record.timestamp_ms >= self.timestamp or "lookup-first-record" in turn.step.defects
                if late and offset >= self.start_offset:
                    self.found = Found(KafkaError.NONE, record.timestamp_ms, offset, batch.epoch)
                    return
        self._pass()

    def _pass(self) -> None:
        assert self.segment is not None, "a segment is searched"
        self.passed.append(self.segment.key)
        self.segment = None


def is_needed(turn: Turn, partition: Partition, timestamp: int) -> bool:
    """Whether remote storage has a part in a look-up: of a time, in a log that is tiered and not empty
    (``UnifiedLog.fetchOffsetByTimestamp``). The proposal's draft leaves out what is later than all that is there."""
    log = partition.log
    if timestamp < 0 or not partition.remote_storage or log.start_offset >= log.end_offset:
        return False
    defects = turn.step.defects
    if "remote-skipped" in defects:
        return False
    if turn.settings.kip_1075 != "draft":
        return True
    latest = turn.readers.max_timestamp(partition)
    if latest is None:
        return "unknown-maximum-is-local" not in defects
    return timestamp <= latest


def task_for(turn: Turn, connection: str, correlation_id: int, status: PartitionStatus) -> RemoteLogOffsetReader:
    """The read that a partition of a request needs."""
    partition = turn.replicas.partitions[status.tp]
    return RemoteLogOffsetReader(
        turn.readers.next_task(),
        connection,
        correlation_id,
        status.tp,
        partition.key,
        timestamp=status.timestamp,
        start_offset=partition.log.start_offset,
    )


def _next_segment(turn: Turn, partition: Partition, task: RemoteLogOffsetReader) -> SegmentMetadata | None:
    """The next copy to be searched: of the epochs from the starting offset's on the first one that may have a record
    as late as that, is finished, and belongs to this log."""
    log, cache = partition.log, turn.readers.segments_of(partition)
    lineage = with_records(log.epochs.entries)
    first = log.epochs.epoch_at(task.start_offset)
    for entry in log.epochs.entries:
        for segment in cache.of_epoch(entry.epoch) if entry.epoch >= first >= 0 else ():
            if segment.max_timestamp_ms < task.timestamp or segment.end_offset < task.start_offset:
                continue
            finished = segment.state == SegmentState.COPY_SEGMENT_FINISHED
            if finished and segment.key not in task.passed and is_within(segment, log.end_offset, lineage):
                return segment
    return None


def _find_locally(partition: Partition, timestamp: int) -> Found | None:
    result = partition.log.find_by_timestamp(timestamp)
    if result is None:
        return None
    offset, found, epoch = result
    return Found(KafkaError.NONE, found, offset, epoch)
