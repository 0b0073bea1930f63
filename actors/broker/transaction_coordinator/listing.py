"""Serving DescribeTransactions and ListTransactions (``TransactionCoordinator``: handleDescribeTransactions,
handleListTransactions)."""

from __future__ import annotations

from actors.broker.coordinator_common.writes import answer
from actors.broker.transaction_coordinator.transaction_log import topics_of
from actors.broker.transaction_coordinator.transaction_metadata import TransactionMetadata
from actors.broker.transaction_coordinator.transaction_state import DEAD, IDS
from actors.broker.turn import Turn
from actors.node.errors import KafkaError
from krift.v1.transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
)

WITH_DURATION = 1

Described = DescribeTransactionsResponse.TransactionState


def describe_transactions(turn: Turn, connection: str, request: DescribeTransactionsRequest) -> None:
    """Tell of each transactional id that was asked for and that this broker coordinates."""
    told = [_describe(turn, transactional_id) for transactional_id in request.transactional_ids]
    answer(turn, connection, request, DescribeTransactionsResponse(transaction_states=told))


def _describe(turn: Turn, transactional_id: str) -> Described:
    told = Described(transactional_id=transactional_id)
    if not transactional_id:
        told.error_code = KafkaError.INVALID_REQUEST
        return told
    shard, error = turn.transactions.find(turn, transactional_id)
    metadata = None if shard is None else shard.transactions.get(transactional_id)
    if metadata is None or metadata.state == DEAD:
        told.error_code = error or KafkaError.TRANSACTIONAL_ID_NOT_FOUND
        return told
    told.transaction_state, told.transaction_timeout_ms = metadata.state, metadata.txn_timeout_ms
    told.transaction_start_time_ms = metadata.start_ms
    told.producer_id, told.producer_epoch = metadata.producer_id, metadata.producer_epoch
    told.topics = topics_of(metadata.partitions)
    return told


def list_transactions(turn: Turn, connection: str, request: ListTransactionsRequest) -> None:
    """Tell of all transactional ids that this broker coordinates, as far as they pass the filters."""
    shards = turn.transactions.shards.values()
    response = ListTransactionsResponse()
    if any(shard.loading for shard in shards):
        response.error_code = KafkaError.COORDINATOR_LOAD_IN_PROGRESS
        answer(turn, connection, request, response)
        return
    response.unknown_state_filters = [state for state in request.state_filters if state not in IDS]
    response.transaction_states = [
        ListTransactionsResponse.TransactionState(
            transactional_id=each.transactional_id, producer_id=each.producer_id, transaction_state=each.state
        )
        for shard in shards
        for each in shard.transactions.values()
        if _passes(turn, request, each)
    ]
    answer(turn, connection, request, response)


def _passes(turn: Turn, request: ListTransactionsRequest, metadata: TransactionMetadata) -> bool:
    if request.producer_id_filters and metadata.producer_id not in request.producer_id_filters:
        return False
    if request.state_filters and metadata.state not in request.state_filters:
        return False
    duration_ms = request.duration_filter if request.header.api_version >= WITH_DURATION else -1
    return duration_ms < 0 or turn.step.wall_ms - metadata.start_ms > duration_ms
