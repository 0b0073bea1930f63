"""Serving ListOffsets, and KIP-207: a new leader refuses clients until its high watermark has reached the log end
with which it took over (``Partition.fetchOffsetForTimestamp``, ``ReplicaManager.fetchOffset``)."""

from __future__ import annotations

import msgspec

from actors.broker import delayed_remote_list_offsets
from actors.broker.list_offsets_answer import NOTHING, Found, ListOffsetsCall, PartitionStatus, RemoteLookup
from actors.broker.partition import Partition, find_partition
from actors.broker.remote_log import offset_reader
from actors.broker.turn import Turn
from actors.log.replica_log import ReplicaLog
from actors.node.errors import KafkaError
from actors.node.list_timestamps import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
)
from actors.node.spec import topic_partition
from krift.v1.list_offsets import ListOffsetsRequest

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


def list_offsets(turn: Turn, connection: str, request: ListOffsetsRequest) -> None:
    """Answer a ListOffsets; each partition succeeds or fails by itself. What remote storage has a part in is answered
    later, and the whole request with it."""
    header = request.header
    call = ListOffsetsCall(
        connection,
        header.client_id,
        header.api_version,
        header.correlation_id,
        request.replica_id,
        request.isolation_level,
        _statuses(request),
    )
    duplicates = _duplicates(request)
    for status in call.statuses:
        query = Query(call.replica_id, call.isolation, call.version, status.current_leader_epoch, status.timestamp)
        found = Found(KafkaError.INVALID_REQUEST) if status.tp in duplicates else look_up(turn, status.tp, query)
        if isinstance(found, Found):
            status.settle(turn, found)
        else:
            status.lookup = found
    if all(status.completed for status in call.statuses):
        call.answer(turn)
    else:
        delayed_remote_list_offsets.begin(turn, call, request.timeout_ms)


def _statuses(request: ListOffsetsRequest) -> list[PartitionStatus]:
    """Each partition that is asked for, once."""
    found: dict[str, PartitionStatus] = {}
    for topic in request.topics:
        for asked in topic.partitions:
            status = PartitionStatus(topic.name, asked.partition_index, asked.timestamp, asked.current_leader_epoch)
            found.setdefault(status.tp, status)
    return list(found.values())


def _duplicates(request: ListOffsetsRequest) -> list[str]:
    seen: list[str] = []
    duplicates: list[str] = []
    for topic in request.topics:
        for asked in topic.partitions:
            tp = topic_partition(topic.name, asked.partition_index)
            (duplicates if tp in seen else seen).append(tp)
    return duplicates


def look_up(turn: Turn, tp: str, query: Query) -> Found | RemoteLookup:
    """The checks in Kafka's order, then the offset; or what the answer depends on, if remote storage is to be asked."""
    if query.timestamp < 0 and query.version < MIN_VERSION.get(query.timestamp, 2**15):
        return Found(KafkaError.UNSUPPORTED_VERSION)
    partition, error = find_partition(turn, tp)
    if partition is None:
        return Found(error)
    asked_epoch = -1 if "list-unfenced" in turn.step.defects else query.current_leader_epoch
    error = partition.check_epoch(asked_epoch, leader_only=query.replica_id != DEBUGGING)
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
        if query.timestamp == EARLIEST_LOCAL:
            start = partition.log.local_start_offset
        return Found(KafkaError.NONE, -1, start, partition.log.epochs.epoch_at(start))
    if query.from_client and "timestamp-past-open" in turn.step.defects:
        limit = partition.log.high_watermark
    lookup = RemoteLookup(limit, refusal)
    if query.timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        found = of_copies(partition.log, query.timestamp) if partition.remote_storage else NOTHING
        if found.offset > 0 and "copies-told-one-short" in turn.step.defects:
            found = msgspec.structs.replace(found, offset=found.offset - 1)
        return lookup.conclude(KafkaError.NONE, found)
    if offset_reader.is_needed(turn, partition, query.timestamp):
        unrefused = "late-answer-unrefused" in turn.step.defects
        return RemoteLookup(limit, KafkaError.NONE) if unrefused else lookup
    return lookup.conclude(KafkaError.NONE, _by_timestamp(turn, partition, query.timestamp))


def of_copies(log: ReplicaLog, timestamp: int) -> Found:
    """How far a tiered log is copied, or where what is not copied begins, as far as this leader knows
    (``UnifiedLog``: fetchLatestTieredTimestamp, fetchEarliestPendingUploadOffset)."""
    offset = log.highest_remote_offset
    if timestamp == EARLIEST_PENDING_UPLOAD:
        if offset < 0 and log.start_offset < log.local_start_offset:
            return NOTHING
        offset = max(offset + 1, log.start_offset)
    return NOTHING if offset < 0 else Found(KafkaError.NONE, -1, offset, log.epochs.epoch_at(offset))


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
