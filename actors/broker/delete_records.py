"""Serving DeleteRecords: a log begins at an offset from now on (KIP-107; ``ReplicaManager.deleteRecords``,
``Partition.deleteRecordsOnLeader``, ``DelayedDeleteRecords.scala``).

The leader moves its log start at once. Its followers learn of that with their next Fetch, and the answer waits until
the Fetches of all that are alive say so: what was deleted does not come back with another leader.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from actors.broker.coordinator_common.partitions import INTERNAL_TOPICS
from actors.broker.partition import Partition, find_partition
from actors.broker.purgatory import STARTED
from actors.broker.reply_trace import trace_key
from actors.broker.turn import Turn
from actors.node.errors import KafkaError
from actors.node.messages import check_fields
from actors.node.purgatory import PREFIX, DelayedOperation, Key
from actors.node.spec import topic_partition
from actors.trace.events import DELETE_UP_TO_HIGH_WATERMARK, DeletionPhase, RecordsDelete
from krift.v1.delete_records import DeleteRecordsRequest, DeleteRecordsResponse

INVALID_LOW_WATERMARK = -1


class PartitionDeletion(msgspec.Struct):
    """What is asked of a partition, and what is answered. ``asked``: as in the request; ``offset``: where its logs are
    to begin, which is the same, or where the high watermark was. ``waiting``: for replicas to begin there."""

    topic: str
    index: int
    asked: int
    offset: int = -1
    low_watermark: int = INVALID_LOW_WATERMARK
    error: KafkaError = KafkaError.NONE
    waiting: bool = False

    @property
    def tp(self) -> str:
        """The partition's name."""
        return topic_partition(self.topic, self.index)

    def end(self, error: KafkaError, low_watermark: int = INVALID_LOW_WATERMARK) -> None:
        """Decide what is answered."""
        self.error, self.low_watermark, self.waiting = error, low_watermark, False


class DelayedDeleteRecords(DelayedOperation, gc=False):
    """A DeleteRecords, which waits for followers."""

    version: int
    correlation_id: int
    deletions: list[PartitionDeletion]

    timer: ClassVar[str] = f"{PREFIX}DeleteRecords"
    outlives_connection: ClassVar[bool] = True

    @property
    def keys(self) -> list[Key]:
        """Each of its partitions."""
        return [(STARTED, each.tp) for each in self.deletions]

    def try_complete(self, context: Turn, key: Key) -> bool:
        """Decide what can be decided, of all partitions."""
        for each in self.deletions:
            if each.waiting:
                look_again(context, self, each)
        return not any(each.waiting for each in self.deletions)

    def on_complete(self, context: Turn) -> None:
        """Every partition is decided."""
        answer(context, self)

    def on_expiration(self, context: Turn) -> None:
        """REQUEST_TIMED_OUT for those that followers have not heard of; the leaders' logs begin later all the same. The
        low watermark is the one from the beginning."""
        for each in self.deletions:
            if each.waiting:
                each.end(KafkaError.REQUEST_TIMED_OUT, each.low_watermark)
                record(context, self, each, "end")
        answer(context, self)


def delete_records(turn: Turn, connection: str, request: DeleteRecordsRequest) -> None:
    """Move the log starts of the partitions that this broker leads, and answer, or wait for followers. What is said
    last of a partition counts."""
    deletions: dict[tuple[str, int], PartitionDeletion] = {}
    for topic in request.topics:
        for asked in topic.partitions:
            index = asked.partition_index
            deletions[topic.name, index] = PartitionDeletion(topic.name, index, asked.offset)
    header, deadline_ms = request.header, turn.step.now_ms + request.timeout_ms
    delayed = DelayedDeleteRecords(
        connection, deadline_ms, header.api_version, header.correlation_id, list(deletions.values())
    )
    for each in delayed.deletions:
        _delete(turn, delayed, each)
    if any(each.waiting for each in delayed.deletions):
        turn.purgatory.park(turn.step, delayed)
    else:
        answer(turn, delayed)


def _delete(turn: Turn, delayed: DelayedDeleteRecords, deletion: PartitionDeletion) -> None:
    partition, error = find_partition(turn, deletion.tp)
    if deletion.tp not in turn.image.partitions:
        error = KafkaError.UNKNOWN_TOPIC_OR_PARTITION
    elif deletion.topic in INTERNAL_TOPICS:
        error = KafkaError.INVALID_TOPIC_EXCEPTION
    elif partition is not None:
        error = _begin_at(turn, partition, deletion)
    if partition is None or error:
        deletion.end(error)
        record(turn, delayed, deletion, "end")
        return
    deletion.waiting = True
    deletion.low_watermark = partition.low_watermark(turn)
    record(turn, delayed, deletion, "begin")
    look_again(turn, delayed, deletion)


def _begin_at(turn: Turn, partition: Partition, deletion: PartitionDeletion) -> KafkaError:
    """Move the log start of a partition that this broker leads."""
    if not partition.serves:
        return KafkaError.NOT_LEADER_OR_FOLLOWER
    log, offset = partition.log, deletion.asked
    if offset == DELETE_UP_TO_HIGH_WATERMARK:
        offset = log.end_offset if "deletes-to-log-end" in turn.step.defects else log.high_watermark
    elif not 0 <= offset <= log.high_watermark:
        return KafkaError.OFFSET_OUT_OF_RANGE
    elif "deletes-whole-batches" in turn.step.defects:
        offset = log.boundary_at_or_above(offset)
    if offset == log.high_watermark and "deletes-below-watermark-only" in turn.step.defects:
        return KafkaError.OFFSET_OUT_OF_RANGE
    deletion.offset = offset
    log.increment_start_offset(turn.step, offset, "delete-records")
    return KafkaError.NONE


def look_again(turn: Turn, delayed: DelayedDeleteRecords, deletion: PartitionDeletion) -> None:
    """Decide a deletion if this broker leads no more, or all replicas that are alive begin late enough."""
    partition = turn.replicas.partitions.get(deletion.tp)
    if partition is None:
        deletion.end(KafkaError.UNKNOWN_TOPIC_OR_PARTITION)
    elif not partition.serves:
        deletion.end(KafkaError.NOT_LEADER_OR_FOLLOWER)
    elif (low_watermark := _low_watermark(turn, partition)) >= _awaited(turn, deletion):
        deletion.end(KafkaError.NONE, low_watermark)
    if not deletion.waiting:
        record(turn, delayed, deletion, "end")


def _awaited(turn: Turn, deletion: PartitionDeletion) -> int:
    return deletion.offset + ("deletion-awaits-one-more" in turn.step.defects)


def _low_watermark(turn: Turn, partition: Partition) -> int:
    if "deletion-awaits-nobody" in turn.step.defects:
        return partition.log.start_offset
    return partition.low_watermark(turn)


def record(turn: Turn, delayed: DelayedDeleteRecords, deletion: PartitionDeletion, phase: DeletionPhase) -> None:
    """Put into the trace how far a deletion is."""
    partition = turn.replicas.partitions.get(deletion.tp)
    turn.step.record(
        RecordsDelete(
            trace_key(turn, deletion.tp) if partition is None else partition.key,
            phase,
            delayed.connection,
            delayed.correlation_id,
            deletion.asked,
            deletion.offset,
            deletion.low_watermark,
            int(deletion.error),
            -1 if partition is None else partition.leader_epoch,
            [] if partition is None else partition.alive_replicas(turn),
        )
    )


def answer(turn: Turn, delayed: DelayedDeleteRecords) -> None:
    """Send the response."""
    response, topics = DeleteRecordsResponse(), dict[str, DeleteRecordsResponse.DeleteRecordsTopicResult]()
    for each in delayed.deletions:
        if each.topic not in topics:
            topics[each.topic] = DeleteRecordsResponse.DeleteRecordsTopicResult(name=each.topic)
            response.topics.append(topics[each.topic])
        topics[each.topic].partitions.append(
            DeleteRecordsResponse.DeleteRecordsPartitionResult(
                partition_index=each.index, low_watermark=each.low_watermark, error_code=int(each.error)
            )
        )
    check_fields(response, delayed.version)
    turn.step.reply(delayed.connection, response)
