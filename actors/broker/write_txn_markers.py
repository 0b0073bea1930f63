"""Serving WriteTxnMarkers: a coordinator tells the leaders of partitions how a transaction ended
(``KafkaApis.handleWriteTxnMarkersRequest``)."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from actors.broker.coordinator_common.partitions import GROUP_METADATA_TOPIC
from actors.broker.coordinator_common.writes import answer
from actors.broker.group_coordinator import complete_transaction, writes as group_writes
from actors.broker.partition import Partition, find_partition
from actors.broker.purgatory import COMMITTED
from actors.broker.turn import Turn
from actors.log.control_records import ControlRecordType, EndTxnMarker
from actors.log.producer_state import TransactionVersion
from actors.node.errors import KafkaError
from actors.node.purgatory import PREFIX, DelayedOperation, Key
from actors.node.spec import topic_partition
from krift.v1.transactions import WriteTxnMarkersRequest, WriteTxnMarkersResponse

AS_NOT_LEADER = (
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.NOT_COORDINATOR,
)
"""What a group coordinator says where it is not ready, as a transaction coordinator understands it."""

Marker = WriteTxnMarkersRequest.WritableTxnMarker


class MarkerAppend(msgspec.Struct):
    """A marker for one partition. ``waiting``: it is appended, and the high watermark is below ``end``; ``by_group``:
    the group coordinator has written it."""

    producer_id: int
    topic: str
    index: int
    by_group: bool
    error: KafkaError = KafkaError.NONE
    end: int = -1
    waiting: bool = False

    @property
    def tp(self) -> str:
        """The partition."""
        return topic_partition(self.topic, self.index)


class DelayedMarkers(DelayedOperation):
    """A WriteTxnMarkers that waits until each of its markers is committed, or will not be."""

    request: WriteTxnMarkersRequest
    appends: list[MarkerAppend]

    timer: ClassVar[str] = f"{PREFIX}markers"

    @property
    def keys(self) -> list[Key]:
        """Each of its partitions."""
        return [(COMMITTED, append.tp) for append in self.appends]

    def try_complete(self, context: Turn, key: Key) -> bool:
        """Decide the markers that can be."""
        _settle(context, self.appends)
        return not any(append.waiting for append in self.appends)

    def on_complete(self, context: Turn) -> None:
        """Every marker is decided."""
        _answer(context, self.connection, self.request, self.appends)

    def on_expiration(self, context: Turn) -> None:
        """REQUEST_TIMED_OUT where one still waits; it stays in the log."""
        for append in self.appends:
            if append.waiting:
                append.waiting, append.error = False, KafkaError.REQUEST_TIMED_OUT
        _answer(context, self.connection, self.request, self.appends)


def write_txn_markers(turn: Turn, connection: str, request: WriteTxnMarkersRequest) -> None:
    """Append the markers, and answer when they are committed."""
    appends: list[MarkerAppend] = []
    for marker in request.markers:
        for topic in marker.topics:
            for index in topic.partitions:
                by_group = topic.name == GROUP_METADATA_TOPIC
                append = MarkerAppend(marker.producer_id, topic.name, index, by_group)
                _append(turn, marker, append)
                appends.append(append)
    _settle(turn, appends)
    if any(append.waiting for append in appends):
        deadline_ms = turn.step.now_ms + turn.net.request_timeout_ms
        turn.purgatory.park(turn.step, DelayedMarkers(connection, deadline_ms, request, appends))
    else:
        _answer(turn, connection, request, appends)


def _append(turn: Turn, marker: Marker, append: MarkerAppend) -> None:
    partition, append.error = find_partition(turn, append.tp)
    if partition is None:
        append.error = KafkaError.UNKNOWN_TOPIC_OR_PARTITION
        return
    end_txn = EndTxnMarker(
        ControlRecordType.COMMIT if marker.transaction_result else ControlRecordType.ABORT, marker.coordinator_epoch
    )
    producer, version = (marker.producer_id, marker.producer_epoch), _version(marker)
    if append.by_group:
        append.error, append.end = complete_transaction.complete_transaction(
            turn, append.tp, producer, end_txn, version
        )
        if append.error in AS_NOT_LEADER:
            append.error = KafkaError.NOT_LEADER_OR_FOLLOWER
    else:
        _append_to(turn, partition, append, producer, end_txn, version)
    append.waiting = not append.error


def _append_to(
    turn: Turn,
    partition: Partition,
    append: MarkerAppend,
    producer: tuple[int, int],
    marker: EndTxnMarker,
    version: TransactionVersion,
) -> None:
    result = partition.append_marker(turn, producer, marker, version)
    append.error, append.end = result.error, result.last_offset + 1
    if not result.error:
        turn.replicas.appended(turn, partition)


def _version(marker: Marker) -> TransactionVersion:
    """By which the transaction was made (KIP-1228); a coordinator that does not say so goes by none."""
    level = marker.transaction_version
    return 2 if level >= 2 else 1 if level == 1 else 0


def _settle(turn: Turn, appends: list[MarkerAppend]) -> None:
    for append in appends:
        if not append.waiting:
            continue
        if append.by_group:
            decided = group_writes.decide(turn, append.tp, append.end)
        else:
            partition, error = find_partition(turn, append.tp)
            done = True
            if partition is not None:
                done, error = partition.has_reached(append.end)
            decided = error if done else None
        if decided is not None:
            append.waiting, append.error = False, decided


def _answer(turn: Turn, connection: str, request: WriteTxnMarkersRequest, appends: list[MarkerAppend]) -> None:
    response = WriteTxnMarkersResponse()
    results: dict[int, WriteTxnMarkersResponse.WritableTxnMarkerResult] = {}
    topics: dict[tuple[int, str], WriteTxnMarkersResponse.WritableTxnMarkerTopicResult] = {}
    for append in appends:
        key = (append.producer_id, append.topic)
        if append.producer_id not in results:
            result = WriteTxnMarkersResponse.WritableTxnMarkerResult(producer_id=append.producer_id)
            results[append.producer_id] = result
            response.markers.append(result)
        if key not in topics:
            topics[key] = WriteTxnMarkersResponse.WritableTxnMarkerTopicResult(name=append.topic)
            results[append.producer_id].topics.append(topics[key])
        topics[key].partitions.append(
            WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult(
                partition_index=append.index, error_code=append.error
            )
        )
    answer(turn, connection, request, response)
