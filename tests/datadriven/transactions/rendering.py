"""One line for each thing that a transaction coordinator does, or the leader of a partition with transactions."""

from __future__ import annotations

from actors.node.errors import error_name
from actors.node.messages import AnyRequest, AnyResponse
from actors.trace.events import LogAppend, TraceEvent, TxnLoad, TxnMarkers, TxnState, TxnTakenBack, TxnVerify
from krift.v1.transactions import (
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    DescribeProducersResponse,
    DescribeTransactionsResponse,
    EndTxnResponse,
    ListTransactionsResponse,
    TxnOffsetCommitResponse,
    TxnTopicPartitions,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tests.datadriven.broker import rendering as broker
from tests.datadriven.groups import rendering as groups


def describe_event(event: TraceEvent) -> str | None:
    """A line for a trace event, as the transcripts of groups have it, or of transactions."""
    match event:
        case LogAppend() if event.marker:
            return (
                f"* {event.tp} marker {event.base}: {event.marker} {event.producer_id}/{event.producer_epoch}"
                f" by coordinator@{event.coordinator_epoch} as {event.role}"
            )
        case LogAppend() if event.transactional:
            return (
                f"* {event.tp} append {event.base}-{event.last} of {event.producer_id}/{event.producer_epoch}"
                f" seq={event.base_sequence} as {event.role}"
            )
        case TxnState():
            former = f"{event.former_id}/{event.former_epoch}"
            now = f"{event.producer_id}/{event.producer_epoch}"
            producer = now if former == now else f"{former} -> {now}"
            return (
                f"* {event.transactional_id} {event.from_state} -> {event.to_state} {producer} {event.partitions}"
                f" TV{event.client_version} coordinator@{event.coordinator_epoch} at {event.log_offset}"
            )
        case TxnTakenBack():
            return (
                f"* {event.transactional_id} {event.state} {event.producer_id}/{event.producer_epoch} taken back: "
                f"{error_name(event.error)} at {event.log_offset}"
            )
        case TxnLoad() if event.loaded:
            known = [
                f"{key}={each.state} {each.producer_id}/{each.producer_epoch} {each.partitions}"
                for key, each in event.transactions.items()
            ]
            return f"* {event.tp} loaded@{event.coordinator_epoch} to {event.end}: {', '.join(known) or 'nothing'}"
        case TxnLoad():
            return f"* {event.tp} given up@{event.coordinator_epoch}"
        case TxnMarkers():
            errors = {tp: error_name(error) for tp, error in event.errors.items()}
            return (
                f"* {event.transactional_id} markers for {event.partitions} {event.outcome} at {event.broker}"
                f"{f' {errors}' if errors else ''}"
            )
        case TxnVerify():
            asked = "added to" if event.adds else "verified in"
            return f"* {event.tp} {asked} {event.transactional_id}: {error_name(event.error)}"
    return groups.describe_event(event)


def describe_reply(connection: str, response: AnyResponse | None) -> str:
    """A line per answer, as the transcripts of groups have it, or of transactions."""
    text = _reply(response)
    return groups.describe_reply(connection, response) if text is None else f"{connection} <- {text}"


def _reply(response: AnyResponse | None) -> str | None:
    match response:
        case AddPartitionsToTxnResponse():
            return _added(response)
        case AddOffsetsToTxnResponse():
            return error_name(response.error_code)
        case EndTxnResponse():
            goes_on = f" {response.producer_id}/{response.producer_epoch}" if response.producer_id >= 0 else ""
            return f"{error_name(response.error_code)}{goes_on}"
        case WriteTxnMarkersResponse():
            return "; ".join(
                f"{marker.producer_id} {topic.name}-{each.partition_index}: {error_name(each.error_code)}"
                for marker in response.markers
                for topic in marker.topics
                for each in topic.partitions
            )
        case TxnOffsetCommitResponse():
            return "; ".join(
                f"{topic.name}-{each.partition_index}: {error_name(each.error_code)}"
                for topic in response.topics
                for each in topic.partitions
            )
        case DescribeTransactionsResponse():
            return "; ".join(
                f"{each.transactional_id}: {error_name(each.error_code)}"
                if each.error_code
                else f"{each.transactional_id}: {each.transaction_state} {each.producer_id}/{each.producer_epoch}"
                f" {_partitions(each.topics)} since {each.transaction_start_time_ms} for"
                f" {each.transaction_timeout_ms}"
                for each in response.transaction_states
            )
        case ListTransactionsResponse():
            parts = [f"{each.transactional_id} {each.transaction_state}" for each in response.transaction_states]
            unknown = [f"unknown states {response.unknown_state_filters}"] if response.unknown_state_filters else []
            return "; ".join([error_name(response.error_code), *parts, *unknown])
        case DescribeProducersResponse():
            return "; ".join(
                f"{topic.name}-{each.partition_index}: {_producers(each)}"
                for topic in response.topics
                for each in topic.partitions
            )
    return None


def _added(response: AddPartitionsToTxnResponse) -> str:
    parts = [error_name(response.error_code)] if response.error_code else []
    named = [("", response.results_by_topic_v3_and_below)]
    named += [(f"{each.transactional_id} ", each.topic_results) for each in response.results_by_transaction]
    for name, topics in named:
        parts += [
            f"{name}{topic.name}-{each.partition_index}: {error_name(each.partition_error_code)}"
            for topic in topics
            for each in topic.results_by_partition
        ]
    return "; ".join(parts)


def _producers(data: DescribeProducersResponse.PartitionResponse) -> str:
    if data.error_code:
        return error_name(data.error_code)
    known = [
        f"{each.producer_id}/{each.producer_epoch} last={each.last_sequence} coordinator@{each.coordinator_epoch}"
        f" open={each.current_txn_start_offset}"
        for each in data.active_producers
    ]
    return ", ".join(known) or "nobody"


def _partitions(topics: list[TxnTopicPartitions]) -> list[str]:
    return [f"{topic.name}-{index}" for topic in topics for index in topic.partitions]


def describe_request(peer: str, request: AnyRequest) -> str:
    """A line for a call that the broker makes."""
    match request:
        case WriteTxnMarkersRequest():
            told = [
                f"{'commit' if each.transaction_result else 'abort'} {each.producer_id}/{each.producer_epoch}"
                f" {_partitions(each.topics)} coordinator@{each.coordinator_epoch} TV{each.transaction_version}"
                for each in request.markers
            ]
            return f"-> {peer} WriteTxnMarkers {'; '.join(told)}"
        case AddPartitionsToTxnRequest():
            told = [
                f"{'verify' if each.verify_only else 'add'} {each.transactional_id}"
                f" {each.producer_id}/{each.producer_epoch} {_partitions(each.topics)}"
                for each in request.transactions
            ]
            return f"-> {peer} AddPartitionsToTxn {'; '.join(told)}"
    return broker.describe_request(peer, request)
