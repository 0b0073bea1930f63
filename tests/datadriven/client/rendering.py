"""One line for each thing that a client does."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from msgspec import UNSET

from actors.node.effects import Call, SetTimer
from actors.node.errors import error_name
from actors.node.messages import AnyRequest, api_of
from actors.trace.events import (
    AdminInvoke,
    AdminReturn,
    ConsPos,
    ErrorSeen,
    ListInvoke,
    ListReturn,
    MetaView,
    MetaWait,
    OpInvoke,
    OpReturn,
    PollInvoke,
    PollReturn,
    SendInvoke,
    SendReturn,
    TraceEvent,
)
from krift.v1.admin import DescribeQuorumRequest, ElectLeadersRequest, IncrementalAlterConfigsRequest
from krift.v1.delete_records import DeleteRecordsRequest
from krift.v1.fetch import FetchRequest
from krift.v1.list_offsets import ListOffsetsRequest
from krift.v1.metadata import MetadataRequest
from krift.v1.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from krift.v1.produce import ProduceRequest
from krift.v1.quorum import AddRaftVoterRequest, RemoveRaftVoterRequest
from krift.v1.records import RecordBatch
from tests.datadriven.admin import describe_admin_request
from tests.datadriven.client import groups, transactions
from tests.datadriven.client.groups import describe_group_event, group_details
from tests.datadriven.client.transactions import describe_transaction_event, transaction_details

COPIES = "copies"
"""Where a mirror copies to: one partition, that broker 1 leads; its id, too."""

PAUSES = (
    "reconnect/",
    "retry/",
    "metadata/backoff",
    "list-offsets/retry/",
    "init-producer-id/retry",
    "fetch/",
    "offset-for",
    "admin-retry/",
    *groups.PAUSES,
    *transactions.PAUSES,
)
"""Timers that are shown: pauses after a failure. The rest (linger, rates, deadlines) is shown by what comes of it."""


def number(uid: str) -> str:
    """``7`` for ``producer-1:7``."""
    return uid.rpartition(":")[2]


def describe_timer(timer: SetTimer) -> str | None:
    """``~ reconnect/broker-1/client 40-60ms``: the range that a pause is drawn from."""
    if not timer.name.startswith(PAUSES):
        return None
    span = f"{timer.min_ms}" if timer.min_ms == timer.max_ms else f"{timer.min_ms}-{timer.max_ms}"
    return f"~ {timer.name} {span}ms"


# ---- events ------------------------------------------------------------------------------------------------


def describe_events(events: list[TraceEvent]) -> list[str]:
    """Lines for the events of one step; sends that begin, or end alike, one after another share a line."""
    lines: list[str] = []
    for _, alike in groupby(events, _kind):
        group: list[Any] = list(alike)
        if isinstance(group[0], SendInvoke):
            lines += _spread("* send", group)
        elif isinstance(group[0], SendReturn):
            lines += _spread("* sent", group)
        else:
            lines += [line for event in group if (line := _describe(event)) is not None]
    return lines


def join_sends(lines: list[str]) -> list[str]:
    """``lines`` with the sends to one partition that follow one another put into one line."""
    joined: list[str] = []
    for line in lines:
        verb = " ".join(line.split()[:3])
        if line.startswith("* send ") and joined and joined[-1].startswith(f"{verb} "):
            first = joined[-1].split()[3].partition("-")[0]
            joined[-1] = f"{verb} {first}-{line.rpartition(' ')[2].rpartition('-')[2]}"
        else:
            joined.append(line)
    return joined


def _kind(event: TraceEvent) -> tuple[Any, ...]:
    if isinstance(event, OpInvoke):
        return "invoke", event.kind, getattr(event, "tp", "")
    if isinstance(event, OpReturn):
        where = (getattr(event, name, "") for name in ("tp", "broker"))
        return "return", event.kind, *where, event.outcome, event.error
    return (type(event).__name__,)


def _spread(verb: str, group: list[Any]) -> list[str]:
    first, last = group[0], group[-1]
    numbers = number(first.uid) if len(group) == 1 else f"{number(first.uid)}-{number(last.uid)}"
    line = f"{verb} {first.tp} {numbers}"
    if isinstance(first, SendReturn):
        line += f" {first.outcome}"
        if first.outcome != "ok":
            line += f" {error_name(first.error)}"
        elif first.offset < 0:
            line += " without an offset"
        else:
            line += f" at {first.offset}" if len(group) == 1 else f" at {first.offset}-{last.offset}"
        line += f" by {first.broker} v{first.version}" if first.broker else ""
    return [line]


def _describe(event: TraceEvent) -> str | None:
    match event:
        case ErrorSeen():
            return f"* sees {error_name(event.error)} {event.api} {event.tp or 'as a whole'} from {event.broker}"
        case MetaView() if event.source == "heard":
            return f"* hears of {' '.join(f'{tp}@{epoch}' for tp, epoch in event.epochs.items())} from {event.server}"
        case MetaView():
            news = [f"{tp}@{epoch}" for tp, epoch in event.epochs.items()]
            kept = [tp for tp in event.epochs if tp not in event.accepted]
            refused = f" refuses {','.join(kept)}" if kept else ""
            if event.metadata_accepted is UNSET:
                return f"* view of {event.server}: {' '.join(news) or 'nothing new'}{refused}"
            if not event.metadata_accepted:
                return f"* refuses what {event.server} says: metadata epoch {event.metadata_epoch}"
            leads = " ".join(f"{tp} led by {leader}" for tp, leader in event.leaders.items())
            return f"* view of {event.server}: {leads or 'nothing new'}, metadata epoch {event.metadata_epoch}"
        case MetaWait():
            ended = "reached" if event.reached else "is over without"
            return f"* wait {ended} metadata epoch {event.epoch}, having {event.metadata_epoch}"
        case ConsPos():
            return f"* position {event.tp} {event.old} -> {event.new} epoch {event.epoch} ({event.reason})"
        case AdminInvoke():
            return f"* {_administered(event.call, event.arguments)}"
        case AdminReturn():
            error = f" {error_name(event.error)}" if event.error else ""
            begins = "".join(f" {tp} begins at {offset}" for tp, offset in event.low_watermarks.items())
            return f"* told {event.outcome}{error}: {_administered(event.call, event.results)}{begins}"
        case ListInvoke():
            return f"* list {event.tp} v{event.version} timestamp {event.timestamp}"
        case PollInvoke():
            return f"* poll {event.tp} at {event.offset}"
        case ListReturn() | PollReturn():
            return _describe_return(event)
    return describe_transaction_event(event) or describe_group_event(event)


def _administered(call: str, told: dict[str, Any]) -> str:
    return " ".join([call, *(f"{key}={value}" for key, value in told.items())])


def _describe_return(event: ListReturn | PollReturn) -> str:
    line = f"* {event.kind} {event.tp} {event.outcome}"
    if event.outcome != "ok":
        parted = isinstance(event, PollReturn) and event.divergent_offset >= 0
        line += f" {error_name(event.error)}"
        return f"{line} parts at {event.divergent_offset} epoch {event.divergent_epoch}" if parted else line
    if isinstance(event, ListReturn):
        where = f"offset {event.offset} leader epoch {event.leader_epoch}"
    else:
        where = " ".join(f"{p.offset}e{p.leader_epoch}={number(p.uid)}" for p in event.records)
    return f"{line} {where} by {event.broker} v{event.version}"


# ---- requests ----------------------------------------------------------------------------------------------


def describe_call(name: str, call: Call) -> str:
    """``-> c1 broker-1/client Produce v13 acks=-1 orders-0 7/0 seq 0-2 [0-2]``."""
    request: Any = call.request
    text = f"-> {name} {call.peer}/{call.connection} {api_of(call.request).name} v{request.header.api_version}"
    return " ".join([text, *_details(call.request)])


def _details(request: AnyRequest) -> list[str]:
    match request:
        case (
            ElectLeadersRequest()
            | IncrementalAlterConfigsRequest()
            | DescribeQuorumRequest()
            | AddRaftVoterRequest()
            | RemoveRaftVoterRequest()
        ):
            return [describe_admin_request(request).partition(" ")[2].removeprefix(f"v{request.header.api_version} ")]
        case DeleteRecordsRequest():
            asked = [f"{t.name}-{p.partition_index}@{p.offset}" for t in request.topics for p in t.partitions]
            return [*asked, f"in {request.timeout_ms}ms"]
        case ProduceRequest():
            parts = [
                _batch(t.name or (COPIES if t.topic_id == COPIES else "orders"), p.index, p.records)
                for t in request.topic_data
                for p in t.partition_data
            ]
            within = [f"in {request.transactional_id}"] if request.transactional_id else []
            return [f"acks={request.acks}", *within, *parts]
        case FetchRequest():
            session = [f"session={request.session_id}/{request.session_epoch}"] if request.session_id else []
            asked = [
                f"{t.topic or '(id)'}-{p.partition}@{p.fetch_offset} epoch={p.current_leader_epoch}"
                for t in request.topics
                for p in t.partitions
            ]
            gone = [
                f"forgets {t.topic or t.topic_id}-{index}"
                for t in request.forgotten_topics_data
                for index in t.partitions
            ]
            return [*session, *(asked or ["nothing else"]), *gone]
        case ListOffsetsRequest():
            asked = [
                f"{t.name}-{p.partition_index} timestamp={p.timestamp} epoch={p.current_leader_epoch}"
                for t in request.topics
                for p in t.partitions
            ]
            of_times = any(p.timestamp >= 0 for t in request.topics for p in t.partitions)
            return [*asked, f"within {request.timeout_ms} ms"] if of_times and request.timeout_ms else asked
        case OffsetForLeaderEpochRequest():
            return [
                f"{t.topic}-{p.partition} of={p.leader_epoch} epoch={p.current_leader_epoch}"
                for t in request.topics
                for p in t.partitions
            ]
        case MetadataRequest():
            return [topic.name for topic in request.topics]
    details = transaction_details(request)
    return group_details(request) if details is None else details


def _batch(topic: str, index: int, batch: RecordBatch) -> str:
    topic = topic or "(id)"
    uids = [number(record.uid) for record in batch.records]
    records = f"[{uids[0]}]" if len(uids) == 1 else f"[{uids[0]}-{uids[-1]}]"
    if batch.producer_id < 0:
        return f"{topic}-{index} {records}"
    line = f"{topic}-{index} {records} id {batch.producer_id}/{batch.producer_epoch} seq {batch.base_sequence}"
    return f"{line} txn" if batch.is_transactional else line
