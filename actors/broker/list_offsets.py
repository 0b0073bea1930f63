"""Serving ListOffsets, and KIP-207: a new leader refuses clients until its high watermark has reached the log end
with which it took over (``Partition.fetchOffsetForTimestamp``, ``ReplicaManager.fetchOffset``)."""

from __future__ import annotations

import msgspec

from actors.broker.partition import Partition, find_partition
from actors.broker.reply_trace import reply_partition, trace_key
from actors.broker.turn import Turn
from actors.node.errors import KafkaError
from actors.node.messages import API_NAMES, Api, check_fields
from actors.node.spec import topic_partition
from actors.trace.events import ReplyPartition, RpcReply
from krift.v1.list_offsets import ListOffsetsRequest, ListOffsetsResponse

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6

MIN_VERSION = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
"""Special timestamp -> version from which on it may be asked for."""

CONSUMER = -1
DEBUGGING = -2
OFFSET_NOT_AVAILABLE_SINCE = 5
"""Version that brought error 78; older clients are told LEADER_NOT_AVAILABLE."""


class Query(msgspec.Struct, frozen=True):
    """What is asked about one partition."""

    replica_id: int
    isolation: int
    version: int
    current_leader_epoch: int
    timestamp: int

    @property
    def from_client(self) -> bool:
        """Whether a client asks, and no broker, nor somebody who passes for one."""
        return self.replica_id == CONSUMER


class Found(msgspec.Struct, frozen=True):
    """An answer about one partition; -1 everywhere where there is none."""

    error: KafkaError = KafkaError.NONE
    timestamp: int = -1
    offset: int = -1
    leader_epoch: int = -1


NOTHING = Found()


def list_offsets(turn: Turn, connection: str, request: ListOffsetsRequest) -> None:
    """Answer a ListOffsets; each partition succeeds or fails by itself."""
    header = request.header
    version = header.api_version
    response = ListOffsetsResponse()
    told: list[ReplyPartition] = []
    duplicates, answered = _duplicates(request), list[str]()
    for topic in request.topics:
        answers = ListOffsetsResponse.ListOffsetsTopicResponse(name=topic.name)
        response.topics.append(answers)
        for asked in topic.partitions:
            tp = topic_partition(topic.name, asked.partition_index)
            if tp in duplicates and tp in answered:
                continue
            answered.append(tp)
            query = Query(
                request.replica_id, request.isolation_level, version, asked.current_leader_epoch, asked.timestamp
            )
            found = Found(KafkaError.INVALID_REQUEST) if tp in duplicates else look_up(turn, tp, query)
            data = ListOffsetsResponse.ListOffsetsPartitionResponse(
                partition_index=asked.partition_index, error_code=int(found.error)
            )
            answers.partitions.append(data)
            if not found.error:
                data.timestamp, data.offset = found.timestamp, found.offset
                if version >= 4:
                    data.leader_epoch = found.leader_epoch
            hosted = turn.replicas.partitions.get(tp)
            told.append(
                reply_partition(
                    hosted,
                    tp if hosted is not None else trace_key(turn, tp),
                    found.error,
                    offset=found.offset,
                    timestamp=asked.timestamp,
                    asked_epoch=asked.current_leader_epoch,
                    found=(found.timestamp, found.leader_epoch),
                )
            )
    check_fields(response, version)
    turn.step.record(
        RpcReply(
            API_NAMES[Api.ListOffsets],
            version,
            header.client_id,
            connection,
            header.correlation_id,
            request.replica_id,
            request.isolation_level,
            0,
            told,
        )
    )
    turn.step.reply(connection, response)


def _duplicates(request: ListOffsetsRequest) -> list[str]:
    seen: list[str] = []
    duplicates: list[str] = []
    for topic in request.topics:
        for asked in topic.partitions:
            tp = topic_partition(topic.name, asked.partition_index)
            (duplicates if tp in seen else seen).append(tp)
    return duplicates


def look_up(turn: Turn, tp: str, query: Query) -> Found:
    """The checks in Kafka's order, then the offset."""
    if query.timestamp < 0 and query.version < MIN_VERSION.get(query.timestamp, 2**15):
        return Found(KafkaError.UNSUPPORTED_VERSION)
    partition, error = find_partition(turn, tp)
    if partition is None:
        return Found(error)
    error = partition.check_epoch(query.current_leader_epoch, leader_only=query.replica_id != DEBUGGING)
    if error:
        return Found(error)
    limit = partition.last_fetchable_offset(query.isolation if query.from_client else None)
    if "list-log-end" in turn.step.defects:
        limit = partition.log.end_offset
    if query.from_client and "list-past-open" in turn.step.defects:
        limit = partition.log.high_watermark
    if query.from_client and "list-behind" in turn.step.defects:
        limit = max(limit - 1, partition.log.start_offset)
    refusal = _refusal(turn, partition, query)
    if refusal and turn.settings.kip_207 == "seed":
        return Found(refusal)
    if query.timestamp == LATEST:
        return Found(refusal) if refusal else Found(KafkaError.NONE, -1, limit, partition.leader_epoch)
    if query.timestamp in (EARLIEST, EARLIEST_LOCAL):
        start = partition.log.start_offset
        return Found(KafkaError.NONE, -1, start, partition.log.epochs.epoch_at(start))
    if query.timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return NOTHING
    if query.from_client and "timestamp-past-open" in turn.step.defects:
        limit = partition.log.high_watermark
    found = _by_timestamp(turn, partition, query.timestamp)
    if found is not None and found.offset < limit:
        return found
    return Found(refusal) if refusal else NOTHING


def _by_timestamp(turn: Turn, partition: Partition, timestamp: int) -> Found | None:
    log = partition.log
    result = log.find_max_timestamp() if timestamp == MAX_TIMESTAMP else log.find_by_timestamp(timestamp)
    if result is None:
        return None
    offset, found, epoch = result
    if "lookup-by-batch" in turn.step.defects:
        offset = log.boundary_at_or_below(offset)
    return Found(KafkaError.NONE, found, offset, epoch)


def _refusal(turn: Turn, partition: Partition, query: Query) -> KafkaError:
    """The error that KIP-207 has for this query now, NONE if it has none.

    It concerns clients only, while the high watermark is below the end of what this leader took over. The seed text
    leaves brokers alone where unclean election is enabled; Kafka never reads that key here.
    """
    if not query.from_client and "refuse-replicas" not in turn.step.defects:
        return KafkaError.NONE
    settings = turn.settings
    if settings.kip_207 == "off" or (settings.kip_207 == "seed" and _unclean_election_enabled(turn, partition)):
        return KafkaError.NONE
    to_reach = partition.leader_epoch_start
    if "refuse-too-long" in turn.step.defects and partition.is_leader:
        to_reach = partition.log.end_offset
    if partition.log.high_watermark >= to_reach:
        return KafkaError.NONE
    if query.version >= OFFSET_NOT_AVAILABLE_SINCE or "version-too-new" in turn.step.defects:
        return KafkaError.OFFSET_NOT_AVAILABLE
    return KafkaError.LEADER_NOT_AVAILABLE


def _unclean_election_enabled(turn: Turn, partition: Partition) -> bool:
    settings = turn.settings
    key = "unclean.leader.election.enable"
    return bool(turn.image.config(settings.node_id, partition.topic, key, settings.unclean_leader_election))
