"""The end of a transaction with committed offsets (``GroupCoordinatorService.completeTransaction``)."""

from __future__ import annotations

from actors.broker.coordinator_common.writes import coordinator_error
from actors.broker.group_coordinator.writes import LEADER_ONLY, published
from actors.broker.turn import Turn
from actors.log.control_records import ControlRecordType, EndTxnMarker
from actors.log.producer_state import TransactionVersion
from actors.node.errors import KafkaError


def complete_transaction(
    turn: Turn, tp: str, producer: tuple[int, int], marker: EndTxnMarker, version: TransactionVersion
) -> tuple[KafkaError, int]:
    """Append a marker to an offsets partition: what its transaction has committed takes effect, or is forgotten. A
    coordinator's error, or the end of the log that has to be committed."""
    shard = turn.groups.shards.get(tp)
    if shard is None:
        return KafkaError.NOT_COORDINATOR, -1
    if shard.loading:
        return KafkaError.COORDINATOR_LOAD_IN_PROGRESS, -1
    partition = turn.replicas.partitions[tp]
    result = partition.append_marker(turn, producer, marker, version, LEADER_ONLY)
    if result.error:
        return coordinator_error(result.error), -1
    commits = marker.type == ControlRecordType.COMMIT or "offsets-taken-at-abort" in turn.step.defects
    if "offsets-stay-pending" not in turn.step.defects:
        shard.offsets.end_transaction(producer[0], commits, result.base_offset)
    shard.written = result.last_offset + 1
    published(turn, shard)
    return KafkaError.NONE, shard.written
