"""Each event of a trace as a sentence without a subject: who recorded it stands before it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from actors.node.errors import error_name
from actors.node.spec import node_name
from actors.trace.events import (
    AdminInvoke,
    AdminReturn,
    BrokerReg,
    ConfigChange,
    CtlFault,
    CtlPhase,
    ErrorSeen,
    IsrLate,
    IsrPropose,
    ListInvoke,
    ListReturn,
    LogAppend,
    LogHw,
    LogTrunc,
    NodeDown,
    NodeUp,
    PartAssume,
    PartChange,
    PollReturn,
    QRole,
    QVote,
    RepFetch,
    Rpc,
    RpcReply,
    SendInvoke,
    SendReturn,
    Stamped,
    TraceEvent,
)
from orchestrator.story.evidence_words import OF_EVIDENCE
from orchestrator.story.group_words import WORDS as OF_GROUPS
from orchestrator.story.requests import answer, asked_for
from orchestrator.story.tier_words import OF_TIERS
from orchestrator.story.words import CAUSES, brokers, fault_words, lag, truncation

PARTS_MAX = 3
FIELDS_MAX = 8


def in_words(event: Stamped) -> str:
    """``broker-2 answers list-offsets-2's ListOffsets: orders-0 offset 292 (...)``."""
    if isinstance(event.body, CtlFault):
        return _fault(event.body)
    if isinstance(event.body, LogTrunc):
        return truncation(event.node, event.body)
    tell = WORDS.get(type(event.body)) or OF_EVIDENCE.get(type(event.body))
    return f"{event.node} {_fields(event) if tell is None else tell(event.body)}"


def has_words(event: Stamped) -> bool:
    """Whether an event belongs into a story by itself: it has words that are not only for evidence."""
    return isinstance(event.body, CtlFault | LogTrunc) or type(event.body) in WORDS.keys() - {Rpc}


def _fields(event: Stamped) -> str:
    """An event that has no words of its own: its type, and what its fields say."""
    values = msgspec.to_builtins(event.body)
    shown = [f"{name} {value}" for name, value in values.items() if name != "type" and isinstance(value, str | int)]
    return f"records {event.type}" + (f" ({', '.join(shown[:FIELDS_MAX])})" if shown else "")


def _fault(body: CtlFault) -> str:
    return f"{fault_words(body)} {'begins' if body.phase == 'start' else 'ends'}"


def _part(body: PartChange) -> str:
    leader = f"broker-{body.leader} leads" if body.leader >= 0 else "nobody leads"
    why = CAUSES.get(body.cause, body.cause)
    state = f"{leader} {body.tp} in leader epoch {body.leader_epoch}, ISR {brokers(body.isr)} ({why})"
    return f"writes to the metadata log: {state}"


def _assume(body: PartAssume) -> str:
    ends = f"log end {body.log_end:,}, high watermark {body.high_watermark:,}"
    if body.role == "leader":
        return f"becomes leader of {body.tp} in leader epoch {body.leader_epoch} ({ends})"
    return f"follows broker-{body.leader} for {body.tp} in leader epoch {body.leader_epoch} ({ends})"


def _append(body: LogAppend) -> str:
    offsets = f"offset {body.base:,}" if body.base == body.last else f"offsets {body.base:,} to {body.last:,}"
    whose = f"producer id {body.producer_id}, epoch {body.producer_epoch}"
    what = f"the {body.marker.upper()} marker of {whose} at " if body.marker else ""
    of = f" of a transaction of {whose}" if body.transactional and not body.marker else ""
    return f"appends {what}{offsets}{of} to its log of {body.tp}, as {body.role} in leader epoch {body.leader_epoch}"


def _watermark(body: LogHw) -> str:
    return f"moves its high watermark of {body.tp} to {body.new:,} as {body.role} (log end {body.log_end:,})"


def _reply(body: RpcReply) -> str:
    parts = []
    for part in body.partitions[:PARTS_MAX]:
        told = error_name(part.error) if part.error else f"offset {part.offset:,}"
        knew = f"leader epoch {part.leader_epoch}, high watermark {part.high_watermark:,}, log end {part.log_end:,}"
        parts.append(f"{part.tp} {told} ({knew})" if part.leader_epoch >= 0 else f"{part.tp} {told}")
    more = f" and {len(body.partitions) - PARTS_MAX} more" if len(body.partitions) > PARTS_MAX else ""
    return f"answers the {body.api} of {body.src}: {', '.join(parts)}{more}"


def _rpc(body: Rpc) -> str:
    how = {"answered": "is answered", "disconnect": "ends with its connection", "timeout": "times out"}[body.outcome]
    errors = f" with {', '.join(map(error_name, body.errors))}" if body.errors else ""
    return f"sent {body.api} to {body.dst}, which {how}{errors} after {body.took_ms:,} ms"


def _sent(body: SendReturn) -> str:
    if body.outcome != "ok":
        return f"learns that its send of {body.uid} to {body.tp} ended with {error_name(body.error)} ({body.outcome})"
    at = f" at offset {body.offset:,}" if body.offset >= 0 else ""
    return f"gets the acknowledgement of {body.uid}{at} of {body.tp} from {body.broker}"


def _polled(body: PollReturn) -> str:
    if not body.records:
        return f"gets nothing from {body.tp} at {body.offset:,} ({error_name(body.error)})"
    first, last = body.records[0].offset, body.records[-1].offset
    return f"reads offsets {first:,} to {last:,} of {body.tp} from {body.broker}"


def _listed(body: ListReturn) -> str:
    told = f"offset {body.offset:,}" if body.outcome == "ok" else error_name(body.error)
    return f"gets {told} for {body.tp} from {body.broker} (leader epoch {body.leader_epoch})"


def _registered(body: BrokerReg) -> str:
    leaving = ", shutting down" if body.shutting_down else ""
    return f"writes to the metadata log: broker-{body.broker} is {'fenced' if body.fenced else 'unfenced'}{leaving}"


def _vote(body: QVote) -> str:
    kind = "PreVote" if body.pre else "vote"
    return f"{'grants' if body.granted else 'refuses'} {node_name(body.candidate)} its {kind} in epoch {body.epoch}"


def _fetched(body: RepFetch) -> str:
    said = f"broker-{body.follower} has {body.tp} up to {body.offset:,}"
    if body.diverging_end >= 0:
        said += f", and answers that their logs diverge: epoch {body.diverging_epoch} ends at {body.diverging_end:,}"
    return f"notes that {said}" + (f" ({error_name(body.error)})" if body.error else "")


WORDS: dict[type[TraceEvent], Callable[[Any], str]] = {
    CtlPhase: lambda body: f"begins the phase {body.phase}",
    NodeDown: lambda body: f"goes down ({body.mode}{f': {body.detail}' if body.detail else ''})",
    NodeUp: lambda body: f"starts as {body.role}{' with an empty disk' if body.wiped else ''}",
    PartChange: _part,
    PartAssume: _assume,
    LogAppend: _append,
    LogHw: _watermark,
    RpcReply: _reply,
    Rpc: _rpc,
    SendInvoke: lambda body: f"sends {body.uid} to {body.tp} (acks {'all' if body.acks < 0 else body.acks})",
    SendReturn: _sent,
    PollReturn: _polled,
    ListInvoke: lambda body: f"asks for the offset of timestamp {body.timestamp} in {body.tp}",
    ListReturn: _listed,
    AdminInvoke: lambda body: f"asks for {asked_for(body)}",
    AdminReturn: lambda body: f"is answered: {answer(body)}",
    ErrorSeen: lambda body: f"gets {error_name(body.error)} for its {body.api} to {body.broker or 'nobody'}",
    BrokerReg: _registered,
    ConfigChange: lambda body: f"writes {body.key}={body.value} of {body.resource} to the metadata log",
    IsrLate: lambda body: f"gets the answer to proposal {body.proposal} for {body.tp}, which it had given up",
    IsrPropose: lambda body: f"proposes ISR {brokers(body.isr)} of {body.tp}{lag(body)}: {body.outcome}",
    RepFetch: _fetched,
    **OF_GROUPS,
    **OF_TIERS,
    QRole: lambda body: f"becomes {body.role} of the quorum in epoch {body.epoch}",
    QVote: _vote,
}
