"""Serving Produce: appends, acks, and how one with acks=all waits (``ReplicaManager.appendRecords``,
``server/.../purgatory/DelayedProduce.java``)."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from actors.broker.current_leader import current_leader
from actors.broker.partition import Partition, find_partition
from actors.broker.purgatory import COMMITTED
from actors.broker.reply_trace import reply_partition, trace_key
from actors.broker.turn import Turn
from actors.log.batch import Batch, take_batch
from actors.log.replica_log import AppendResult
from actors.node.errors import KafkaError
from actors.node.messages import API_NAMES, Api, check_fields
from actors.node.purgatory import PREFIX, DelayedOperation, Key
from actors.node.spec import topic_partition
from actors.trace.events import ReplyPartition, RpcReply
from krift.v1.produce import ProduceRequest, ProduceResponse
from krift.v1.records import RecordBatch

ALL = -1
WITHOUT_LOG_START = (
    KafkaError.NOT_LEADER_OR_FOLLOWER,
    KafkaError.MESSAGE_TOO_LARGE,
    KafkaError.RECORD_LIST_TOO_LARGE,
)
"""Refusals that do not say where the log starts (``ReplicaManager.appendRecordsToLeader``)."""
NO_RECORDS = RecordBatch()
LOST_EVERY = 50
"""The defect lose-acked drops one batch in so many."""


class PartitionAppend(msgspec.Struct, gc=False):
    """One partition of a Produce. ``waiting``: acks=all and the high watermark is below ``last_offset`` + 1.
    ``log_start``: of the log, once it was asked to append. ``record_errors``: places in the batch of records that it
    refused. For the trace: ``refused``: producer id, epoch, first and last sequence of a batch out of sequence;
    ``appended``: acks=all: size of the ISR when it was appended, and the least that is enough;
    ``decided``: what the broker knew when this partition was decided, as others may hold up the answer beyond its
    leadership; ``key``: what the trace calls the partition that has it, which may be gone by then."""

    tp: str
    topic: str
    topic_id: str
    index: int
    error: KafkaError = KafkaError.NONE
    base_offset: int = -1
    last_offset: int = -1
    waiting: bool = False
    log_start: int = -1
    record_errors: tuple[int, ...] = ()
    refused: tuple[int, int, int, int] = (-1, -1, -1, -1)
    appended: tuple[int, int] = (0, 0)
    decided: ReplyPartition | None = None
    key: str = ""


class DelayedProduce(DelayedOperation, gc=False):
    """A Produce that is being served. With acks=all it waits until each of its partitions is decided."""

    client: str
    version: int
    correlation_id: int
    acks: int
    appends: list[PartitionAppend]

    timer: ClassVar[str] = f"{PREFIX}produce"

    @property
    def keys(self) -> list[Key]:
        """Each of its partitions."""
        return [(COMMITTED, append.tp) for append in self.appends]

    def try_complete(self, context: Turn, key: Key) -> bool:
        """Decide the appends to the partition that can be decided."""
        settle(context, self, key[1])
        return not any(append.waiting for append in self.appends)

    def on_complete(self, context: Turn) -> None:
        """Every append is decided."""
        answer(context, self)

    def on_expiration(self, context: Turn) -> None:
        """REQUEST_TIMED_OUT where an append still waits; the data stays in the log."""
        for append in self.appends:
            if append.waiting:
                append.waiting = False
                append.error = KafkaError.REQUEST_TIMED_OUT
        answer(context, self)


def parse_produce(turn: Turn, connection: str, request: ProduceRequest) -> tuple[DelayedProduce, list[RecordBatch]]:
    """The request with topic ids resolved, and its batches in the same order."""
    header = request.header
    version = header.api_version
    appends: list[PartitionAppend] = []
    batches: list[RecordBatch] = []
    for topic in request.topic_data:
        name, error = topic.name, KafkaError.NONE
        if version >= 13:
            found = turn.image.topics.get(topic.topic_id)
            name = "" if found is None else found.name
            error = KafkaError.UNKNOWN_TOPIC_ID if found is None else KafkaError.NONE
        for data in topic.partition_data:
            tp = topic_partition(name, data.index) if name else ""
            appends.append(PartitionAppend(tp, name, topic.topic_id, data.index, error))
            batches.append(data.records or NO_RECORDS)
    produce = DelayedProduce(
        connection,
        turn.step.now_ms + request.timeout_ms,
        header.client_id,
        version,
        header.correlation_id,
        request.acks,
        appends,
    )
    return produce, batches


def answer(turn: Turn, produce: DelayedProduce) -> None:
    """Send the response. acks=0 has none: if anything failed the connection is closed, so that the producer sees it."""
    if produce.acks == 0:
        if any(append.error for append in produce.appends) and "acks-0-left-open" not in turn.step.defects:
            turn.step.close(produce.connection)
        else:
            turn.step.reply(produce.connection, None)
        return
    response = ProduceResponse()
    topic: ProduceResponse.TopicProduceResponse | None = None
    last: tuple[str, str] | None = None
    for append in produce.appends:
        if topic is None or last != (append.topic, append.topic_id):
            topic = ProduceResponse.TopicProduceResponse()
            response.responses.append(topic)
            last = (append.topic, append.topic_id)
            if produce.version >= 13:
                topic.topic_id = append.topic_id
            else:
                topic.name = append.topic
        data = _answer_partition(produce.version, append)
        topic.partition_responses.append(data)
        if append.error == KafkaError.NOT_LEADER_OR_FOLLOWER and produce.version >= 10:
            partition = turn.replicas.partitions.get(append.tp)
            data.current_leader = current_leader(turn, append.tp, partition, response.node_endpoints)
    check_fields(response, produce.version)
    _record_reply(turn, produce)
    turn.step.reply(produce.connection, response)


def _answer_partition(version: int, append: PartitionAppend) -> ProduceResponse.PartitionProduceResponse:
    """What was appended keeps its offset though the waiting for the ISR failed (``DelayedProduce``)."""
    data = ProduceResponse.PartitionProduceResponse(
        index=append.index, error_code=int(append.error), base_offset=append.base_offset
    )
    if version >= 5:
        data.log_start_offset = append.log_start
    if version >= 8 and append.record_errors:
        data.error_message = "One or more records have been rejected due to invalid timestamp"
        text = "Its timestamp is out of range."
        data.record_errors = [
            ProduceResponse.BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=text)
            for index in append.record_errors
        ]
    return data


def _record_reply(turn: Turn, produce: DelayedProduce) -> None:
    partitions = turn.replicas.partitions
    turn.step.record(
        RpcReply(
            API_NAMES[Api.Produce],
            produce.version,
            produce.client,
            produce.connection,
            produce.correlation_id,
            -1,
            0,
            produce.acks,
            [append.decided or told(turn, partitions.get(append.tp), append) for append in produce.appends],
        )
    )


def told(turn: Turn, partition: Partition | None, append: PartitionAppend) -> ReplyPartition:
    """What the trace says of a partition of the answer."""
    return reply_partition(
        partition,
        append.key or trace_key(turn, append.tp),
        append.error,
        offset=-1 if append.error else append.base_offset,
        last_offset=-1 if append.error else append.last_offset,
        refused=append.refused,
        appended=append.appended,
    )


def settle(turn: Turn, produce: DelayedProduce, tp: str) -> None:
    """Decide the appends to ``tp`` that can be decided."""
    for append in produce.appends:
        if append.tp != tp or not append.waiting:
            continue
        partition, append.error = find_partition(turn, tp, append.topic_id)
        if partition is not None and append.topic_id not in ("", partition.topic_id):
            partition, append.error = None, KafkaError.UNKNOWN_TOPIC_ID
        done = partition is None
        if partition is not None:
            done, append.error = partition.has_reached(append.last_offset + 1)
        append.waiting = not done
        append.decided = told(turn, partition, append) if done else None


def pretend_to_append(partition: Partition, batch: RecordBatch) -> AppendResult:
    """The defect lose-acked: answer as if the batch were in the log, and let its successor pass the sequence check."""
    log = partition.log
    lost: Batch = take_batch(log.end_ph, log.end_offset, partition.leader_epoch, batch)
    log.producers.update(lost)
    return AppendResult(KafkaError.NONE, lost.base_offset, log.end_offset - 1)
