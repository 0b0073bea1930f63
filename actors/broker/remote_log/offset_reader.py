"""Looking an offset up by timestamp in remote storage, then in the local log (``RemoteLogOffsetReader.java``,
``RemoteLogManager.findOffsetByTimestamp``)."""

from __future__ import annotations

from typing import Any, ClassVar

from actors.broker.list_offsets_answer import Found, PartitionStatus
from actors.broker.partition import Partition
from actors.broker.remote_log.reader_task import ReaderTask, TaskKind
from actors.broker.turn import Turn
from actors.node.errors import KafkaError
from actors.node.network_client import Ended


class RemoteLogOffsetReader(ReaderTask):
    """One look-up, from ``start_offset`` on, the log start when it was asked for."""

    start_offset: int = 0
    found: Found | None = None

    kind: ClassVar[TaskKind] = "list-offsets"

    def advance(self, turn: Turn, thread: str, purpose: str) -> bool:
        partition = turn.replicas.partitions.get(self.tp)
        if partition is None:
            self.error = KafkaError.UNKNOWN_SERVER_ERROR
            return True
        result = partition.log.find_by_timestamp(self.timestamp)
        if result is not None:
            offset, timestamp, epoch = result
            self.found = Found(KafkaError.NONE, timestamp, offset, epoch)
        return True

    def on_ended(self, turn: Turn, ended: Ended) -> None:
        raise AssertionError("it asks nobody")

    def on_done(self, turn: Turn) -> None:
        waiting: Any = turn.purgatory.parked[self.connection]
        waiting.take(turn, self.tp, self.error, self.found)


def is_needed(partition: Partition, timestamp: int) -> bool:
    """Whether remote storage has a part in a look-up: of a time, in a log that is tiered and not empty
    (``UnifiedLog.fetchOffsetByTimestamp``)."""
    log = partition.log
    return timestamp >= 0 and partition.remote_storage and log.start_offset < log.end_offset


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
