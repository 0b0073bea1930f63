"""Words for events that a story leaves out, for a reader who meets them as the evidence of a violation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from actors.node.errors import error_name
from actors.node.spec import node_name
from actors.trace.events import (
    BeginInvoke,
    BeginReturn,
    ClockSet,
    CommittedInvoke,
    CtlWindow,
    EpochTold,
    FetchMisfit,
    FetchRefused,
    FetchTold,
    InitInvoke,
    InitReturn,
    LogDrop,
    LogFlush,
    LogRoll,
    MetaImage,
    MetaMint,
    MetaState,
    MetaView,
    MetaWait,
    PartRemove,
    PartStop,
    PollInvoke,
    QApply,
    QClean,
    QEnd,
    QFreeze,
    QHeard,
    QPersist,
    QRefuse,
    QSnap,
    QSnapFetch,
    QVoters,
    QWaited,
    RecordsDelete,
    RepTruncate,
    RunRepeat,
    SendOffsetsInvoke,
    SendOffsetsReturn,
    Stall,
    TraceEvent,
)
from chaos.words import some
from orchestrator.story.words import listed

PARTS_MAX = 3
SNAPSHOTS = {"create": "makes", "fetch": "has fetched", "load": "loads", "delete": "deletes"}
STATES = {
    "snapshot": "for a snapshot",
    "load": "from a snapshot",
    "active": "as it becomes the active controller",
    "standby": "as it is the active controller no more",
}


def _diverged(body: RepTruncate) -> str:
    said = f"epoch {body.told_epoch} up to {body.told_end:,}" if body.told_epoch >= 0 else "no epoch"
    if body.reason == "out-of-range":
        said = f"a log end of {body.told_end:,}"
    ends = f"log end {body.was:,} before, {body.to:,} after"
    return f"compared its log of {body.tp} with its leader's ({body.reason}): the leader named {said}; {ends}"


def _fetched(body: FetchTold) -> str:
    who = "a consumer" if body.replica_id < 0 else node_name(body.replica_id)
    what = error_name(body.error) if body.error else "no error"
    late = " at its timeout" if body.late else ""
    log = f"log {body.log_start:,} to {body.log_end:,}, high watermark {body.high_watermark:,}"
    return f"answers the Fetch of {who} at {body.offset:,} of {body.tp}{late} with {what} ({log})"


def _epoch_end(body: EpochTold) -> str:
    who = "a client" if body.replica_id < 0 else node_name(body.replica_id)
    said = f"epoch {body.epoch} ends at {body.end:,}" if body.epoch >= 0 else "it does not know that epoch"
    return f"answers {who}, which asked for the end of leader epoch {body.asked_epoch} of {body.tp}: {said}"


def _viewed(body: MetaView) -> str:
    parts = []
    for tp, epoch in list(body.epochs.items())[:PARTS_MAX]:
        leader = body.leaders.get(tp, -1)
        leads = f"broker-{leader} leads {tp}" if leader >= 0 else tp
        parts.append(f"{leads} in leader epoch {epoch}{'' if tp in body.accepted else ' (ignored)'}")
    more = f" and {len(body.epochs) - PARTS_MAX} more" if len(body.epochs) > PARTS_MAX else ""
    return f"learns from {body.server}: {', '.join(parts) or 'nothing new'}{more}"


def _persisted(body: QPersist) -> str:
    leader = f"leader {node_name(body.leader_id)}" if body.leader_id >= 0 else "no leader"
    vote = f"a vote for {node_name(body.voted_for)}" if body.voted_for >= 0 else "no vote"
    return f"stores quorum epoch {body.epoch} with {leader} and {vote}"


def _voters(body: QVoters) -> str:
    where = f"by the record at {body.offset:,}" if body.offset >= 0 else "without a record"
    return f"has the voters {listed(sorted(map(str, body.members)))} {where} ({body.cause})"


def _deleted(body: RecordsDelete) -> str:
    if body.phase == "begin":
        return f"moves its log start of {body.tp} to {body.offset:,} for a DeleteRecords"
    said = error_name(body.error) if body.error else f"low watermark {body.low_watermark:,}"
    return f"answers a DeleteRecords of {body.tp}: {said}"


def _clock(body: ClockSet) -> str:
    return f"has a clock with an offset of {body.offset_us / 1_000_000:+g} s and a rate of {body.rate_ppm:+,} ppm"


def _returned(text: str) -> Callable[[Any], str]:
    """A call that succeeded, or failed with an error."""

    def tell(body: Any) -> str:
        done = text.format(**{name: getattr(body, name) for name in body.__struct_fields__})
        return done if body.outcome == "ok" else f"fails: {done} ({error_name(body.error)}, {body.outcome})"

    return tell


def _cleaned(body: QClean) -> str:
    oldest = body.oldest[0].end
    return f"looks which of its snapshots of the metadata log are to go; the oldest ends at {oldest:,}"


def _misfit(body: FetchMisfit) -> str:
    about = [f"is about {listed(body.unasked)}"] if body.unasked else []
    about += [f"is not about {listed(body.missing)}"] if body.missing else []
    return f"cannot use an answer of {body.peer} in its fetch session, as it {' and '.join(about) or 'repeats itself'}"


def _waited(body: QWaited) -> str:
    whose = ["a client" if each.follower < 0 else node_name(each.follower) for each in body.fetches]
    why = {"append": "with what it appends", "commit": "with its high watermark", "expired": "as its time is over"}
    what = "the Fetch" if len(whose) == 1 else "the Fetches"
    return f"answers {what} of the metadata log that waited, of {listed(whose)}, {why[body.by]}"


OF_EVIDENCE: dict[type[TraceEvent], Callable[[Any], str]] = {
    RepTruncate: _diverged,
    FetchTold: _fetched,
    FetchRefused: lambda body: f"refuses a Fetch as a whole with {error_name(body.error)}, by its session",
    FetchMisfit: _misfit,
    EpochTold: _epoch_end,
    MetaImage: lambda body: f"has applied the metadata log up to {body.offset:,}",
    MetaState: lambda body: f"has applied the metadata log up to {body.offset:,} ({STATES[body.of]})",
    MetaView: _viewed,
    MetaMint: lambda body: f"raises the metadata epoch to {body.epoch} in controller epoch {body.controller_epoch}",
    MetaWait: lambda body: f"waited for metadata epoch {body.epoch}, and has {body.metadata_epoch}",
    PartStop: lambda body: f"stops its replica of {body.tp}, whose topic is gone",
    PartRemove: lambda body: f"writes to the metadata log: {body.tp} is removed with its topic",
    QPersist: _persisted,
    QVoters: _voters,
    QApply: lambda body: f"hands entries {body.start:,} to {body.end - 1:,} of the metadata log to its state machine",
    QSnap: lambda body: f"{SNAPSHOTS[body.op]} a snapshot of the metadata log up to {body.end:,}",
    QFreeze: lambda body: f"begins to write a snapshot of the metadata log up to {body.end:,}",
    QClean: _cleaned,
    QWaited: _waited,
    QRefuse: lambda body: f"refuses a {body.api} in quorum epoch {body.asked} with {error_name(body.error)}",
    QEnd: lambda body: f"hears that {node_name(body.leader)} does not lead epoch {body.leader_epoch} any more",
    QHeard: lambda body: f"gets an answer that {node_name(body.leader)} had sent before it resigned",
    QSnapFetch: lambda body: f"serves {node_name(body.follower)} the snapshot up to {body.end:,}",
    LogFlush: lambda body: f"has its log of {body.tp} on disk up to {body.end:,}",
    LogDrop: lambda body: f"removes its segments of {body.tp} up to {body.base:,}",
    LogRoll: lambda body: f"begins a segment of {body.tp} at offset {body.base:,}",
    RecordsDelete: _deleted,
    PollInvoke: lambda body: f"polls {body.tp} at {body.offset:,}",
    CommittedInvoke: lambda body: f"asks for the committed positions of group {body.group}",
    InitInvoke: lambda body: f"asks for a producer id for {body.transactional_id}",
    BeginInvoke: lambda body: f"begins transaction {body.transaction} of {body.transactional_id}",
    SendOffsetsInvoke: lambda body: (
        f"sends {some(len(body.offsets), 'position')} of group {body.group} in transaction {body.transaction} of "
        f"{body.transactional_id}"
    ),
    InitReturn: _returned("producer id {producer_id}, epoch {producer_epoch}, for {transactional_id}"),
    BeginReturn: _returned("transaction {transaction} of {transactional_id} begins"),
    SendOffsetsReturn: _returned("positions of group {group} are in transaction {transaction} of {transactional_id}"),
    CtlWindow: lambda body: f"{'opens' if body.phase == 'open' else 'closes'} stability window {body.window}",
    ClockSet: _clock,
    Stall: lambda body: f"waited {body.ms:,} of the last {body.of_ms:,} ms for processor time",
    RunRepeat: lambda body: f"repeats the run: digest {body.second}, in place of {body.first}",
}
