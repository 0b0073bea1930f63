"""Requests, answers and events of transactions in the clients' transcripts."""

from __future__ import annotations

from typing import Any

from actors.node.errors import error_name
from actors.node.messages import AnyRequest
from actors.trace.events import (
    BeginInvoke,
    BeginReturn,
    EndInvoke,
    EndReturn,
    InitInvoke,
    InitReturn,
    OpReturn,
    SendOffsetsInvoke,
    SendOffsetsReturn,
    TraceEvent,
)
from krift.v1.producer_ids import InitProducerIdRequest
from krift.v1.transactions import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from tests.datadriven.runner import Command

TRANSACTION_APIS = ("AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn", "TxnOffsetCommit")
PAUSES = ("transactions/retry", "transactions/restart")
"""Timers that are shown."""


def describe_transaction_event(event: TraceEvent) -> str | None:
    """None of other events."""
    match event:
        case InitInvoke():
            return f"* init {event.transactional_id}"
        case InitReturn():
            got = f" {event.producer_id}/{event.producer_epoch}" if not event.error else ""
            return f"* init {_outcome(event)}{got}"
        case BeginInvoke():
            return f"* begin {event.transaction} as {event.producer_id}/{event.producer_epoch} v{event.version}"
        case BeginReturn():
            return None
        case SendOffsetsInvoke():
            offsets = " ".join(f"{tp}={entry[0]}@{entry[1]}" for tp, entry in event.offsets.items())
            return f"* send offsets {event.transaction} {offsets} as {event.member}/{event.generation}"
        case SendOffsetsReturn():
            return f"* send offsets {event.transaction} {_outcome(event)}"
        case EndInvoke():
            return f"* {_end(event.commit)} {event.transaction}"
        case EndReturn():
            asked = "" if event.asked else " without a question"
            onward = "" if event.error else f", goes on as {event.next_id}/{event.next_epoch}"
            return f"* {_end(event.commit)} {event.transaction} {_outcome(event)}{asked}{onward}"
    return None


def _end(commit: bool) -> str:
    return "commit" if commit else "abort"


def _outcome(event: OpReturn) -> str:
    return f"{event.outcome} {error_name(event.error)}" if event.error else event.outcome


def transaction_details(request: AnyRequest) -> list[str] | None:
    """What a request of a transaction says; None of others."""
    match request:
        case InitProducerIdRequest() if request.transactional_id:
            before = f"{request.producer_id}/{request.producer_epoch}" if request.producer_id >= 0 else "new"
            return [request.transactional_id, before, f"timeout={request.transaction_timeout_ms}"]
        case AddPartitionsToTxnRequest():
            who = f"{request.v3_and_below_producer_id}/{request.v3_and_below_producer_epoch}"
            tps = [f"{t.name}-{index}" for t in request.v3_and_below_topics for index in t.partitions]
            return [request.v3_and_below_transactional_id, who, *tps]
        case AddOffsetsToTxnRequest():
            return [request.transactional_id, f"{request.producer_id}/{request.producer_epoch}", request.group_id]
        case EndTxnRequest():
            who = f"{request.producer_id}/{request.producer_epoch}"
            return [request.transactional_id, who, _end(request.committed)]
        case TxnOffsetCommitRequest():
            offsets = [
                f"{t.name}-{p.partition_index}={p.committed_offset}@{p.committed_leader_epoch}"
                for t in request.topics
                for p in t.partitions
            ]
            who = f"{request.producer_id}/{request.producer_epoch}"
            member = f"{request.member_id or 'nobody'}/{request.generation_id}"
            return [request.transactional_id, who, request.group_id, member, *offsets]
    return None


def transaction_answer(command: Command, request: AnyRequest, error: int) -> Any:
    """answer c1 [error=NAME]; of AddPartitionsToTxn and TxnOffsetCommit [partition=0]: it alone has the error, the
    others OPERATION_NOT_ATTEMPTED, or none; of EndTxn [id=7] [epoch=1], from version 5 on. None: another request."""
    only = command.number("partition", -1)
    match request:
        case AddPartitionsToTxnRequest():
            response = AddPartitionsToTxnResponse()
            for asked in request.v3_and_below_topics:
                topic = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult(name=asked.name)
                response.results_by_topic_v3_and_below.append(topic)
                for index in asked.partitions:
                    code = error if only in (-1, index) else 55
                    result = AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult(
                        partition_index=index, partition_error_code=code
                    )
                    topic.results_by_partition.append(result)
            return response
        case AddOffsetsToTxnRequest():
            return AddOffsetsToTxnResponse(error_code=error)
        case EndTxnRequest():
            ended = EndTxnResponse(error_code=error)
            if request.header.api_version >= 5 and not error:
                ended.producer_id = command.number("id", request.producer_id)
                ended.producer_epoch = command.number("epoch", request.producer_epoch + 1)
            return ended
        case TxnOffsetCommitRequest():
            committed = TxnOffsetCommitResponse()
            for each in request.topics:
                part = TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic(name=each.name)
                committed.topics.append(part)
                for p in each.partitions:
                    code = error if only in (-1, p.partition_index) else 0
                    part.partitions.append(
                        TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition(
                            partition_index=p.partition_index, error_code=code
                        )
                    )
            return committed
    return None
