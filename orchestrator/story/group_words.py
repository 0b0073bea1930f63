"""What happens to groups and to transactions, in words: for stories, and for their events."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from actors.node.errors import error_name
from actors.trace.events import (
    MEMBERS_LEFT,
    CommitInvoke,
    CommitReturn,
    CommittedReturn,
    ConsClose,
    ConsOwn,
    ConsPos,
    ConsStall,
    CoordRefuse,
    EndInvoke,
    EndReturn,
    Entry,
    GrpCommit,
    GrpFetch,
    GrpGen,
    GrpLoad,
    GrpOut,
    TraceEvent,
    TxnAdded,
    TxnGuard,
    TxnLoad,
    TxnMarkers,
    TxnState,
    TxnTakenBack,
    TxnVerify,
)
from chaos.words import some
from orchestrator.story.words import listed

PARTS_MAX = 3
"""Partitions that are named one by one."""

OPEN = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")
"""States of a transaction that its next coordinator has to bring to an end."""


def removal(reason: str) -> str:
    """Why members are in a group no longer, by Kafka's reason for its rebalance; "" if they have left."""
    if reason.startswith("removing member"):
        return "no heartbeat came from it in time"
    if reason.startswith(MEMBERS_LEFT):
        return ""
    return "it did not join again in time"


def shares(body: GrpGen) -> str:
    """``consumer-1 has orders-0, consumer-2 has nothing``."""
    has = {body.members.get(member, member): tps for member, tps in body.assignment.items()}
    return ", ".join(f"{client} has {_listed(tps)}" for client, tps in sorted(has.items())[:PARTS_MAX]) + (
        f" and {some(len(has) - PARTS_MAX, 'other member')}" if len(has) > PARTS_MAX else ""
    )


def takes_over_groups(body: GrpLoad) -> Mapping[str, str]:
    """Group -> in which state its next coordinator found it."""
    found = {}
    for group, (state, generation) in body.groups.items():
        members = sorted(body.members.get(group, {}).values())
        found[group] = f"{state} in generation {generation}, {f'members {listed(members)}' if members else 'no member'}"
    return found


def open_transactions(body: TxnLoad) -> str:
    """``producer-1 (PrepareCommit), producer-2 (Ongoing)``: those that the next coordinator has to end."""
    opened = [f"{name} ({each.state})" for name, each in sorted(body.transactions.items()) if each.state in OPEN]
    return listed(opened)


def _listed(tps: list[str]) -> str:
    return listed(tps) if tps else "nothing"


def _offsets(entries: Mapping[str, Entry]) -> str:
    told = [f"{tp} {entry[0]:,}" if entry[0] >= 0 else f"{tp} nothing" for tp, entry in entries.items()]
    return ", ".join(told[:PARTS_MAX]) + (f" and {len(told) - PARTS_MAX} more" if len(told) > PARTS_MAX else "")


def _producer(body: Any) -> str:
    return f"producer id {body.producer_id}, epoch {body.producer_epoch}"


def _generation(body: GrpGen) -> str:
    state = f"moves group {body.group} to {body.state}, generation {body.generation}"
    given = f": {shares(body)}" if body.assignment else ""
    return f"{state}{given} ({body.reason})" if body.reason else f"{state}{given}"


def _put_out(body: GrpOut) -> str:
    why = {
        "session": "no heartbeat came from it in time",
        "join": "it did not join again in time",
        "sync": "it did not ask in time what it is assigned",
        "leave": "it leaves",
    }[body.why]
    return f"puts {body.client} ({body.member}) out of group {body.group}: {why}"


def _commit(body: GrpCommit) -> str:
    if body.offset < 0:
        return f"removes the committed position of group {body.group} in {body.tp}"
    what = f"the commit of {body.offset:,} in {body.tp} for group {body.group}"
    if body.error:
        return f"refuses {what} with {error_name(body.error)}"
    open_until = f", in the transaction of {_producer(body)}" if body.producer_id >= 0 else ""
    return f"appends {what} (generation {body.generation}{open_until})"


def _refused(body: CoordRefuse) -> str:
    who = f" by {body.member}" if body.member else f" by {_producer(body)}" if body.producer_id >= 0 else ""
    return f"refuses a {body.api}{who} for {body.name} with {error_name(body.error)}"


def _groups_loaded(body: GrpLoad) -> str:
    if not body.loaded:
        return f"gives up {body.tp} and the groups in it (coordinator epoch {body.coordinator_epoch})"
    found = "; ".join(f"group {group}: {state}" for group, state in takes_over_groups(body).items())
    return (
        f"has loaded {body.tp} up to {body.end:,} (coordinator epoch {body.coordinator_epoch}): {found or 'no group'}"
    )


def _fetched(body: GrpFetch) -> str:
    if body.error:
        return f"refuses to say the committed positions of group {body.group}: {error_name(body.error)}"
    return f"answers with the committed positions of group {body.group}: {_offsets(body.offsets) or 'none'}"


def _owned(body: ConsOwn) -> str:
    why = {
        "assign": "by the assignment of the group",
        "revoke": "before it joins again",
        "lost": "it is not in the group any longer",
        "leave": "its application closes it",
        "join": "its application makes a new consumer",
    }[body.reason]
    return f"owns {_listed(body.owned)} in group {body.group}, generation {body.generation} ({why})"


def _state(body: TxnState) -> str:
    tps = f" with {listed(body.partitions)}" if body.partitions else ""
    if body.from_state == body.to_state:
        return f"keeps {body.transactional_id} ({_producer(body)}) in {body.to_state}{', now' if tps else ''}{tps}"
    return f"moves {body.transactional_id} ({_producer(body)}) from {body.from_state} to {body.to_state}{tps}"


def _transactions_loaded(body: TxnLoad) -> str:
    if not body.loaded:
        return f"gives up {body.tp} and the transactions in it (coordinator epoch {body.coordinator_epoch})"
    opened = open_transactions(body) or "none"
    return (
        f"has loaded {body.tp} up to {body.end:,} (coordinator epoch {body.coordinator_epoch}); to be ended: {opened}"
    )


def _taken_back(body: TxnTakenBack) -> str:
    return (
        f"takes {body.state} of {body.transactional_id} ({_producer(body)}) back: its record at offset "
        f"{body.log_offset:,} of {body.tp} was not committed ({error_name(body.error)})"
    )


def _markers(body: TxnMarkers) -> str:
    kind = f"{'COMMIT' if body.commit else 'ABORT'} marker of {body.transactional_id} ({_producer(body)})"
    tps = listed(body.partitions)
    came = {
        "sent": f"sends the {kind} for {tps} to broker-{body.broker}",
        "done": f"hears from broker-{body.broker} that {tps} have the {kind}",
        "gone": f"has nobody to send the {kind} to: {tps} do not exist",
        "dropped": f"gives up the {kind} for {tps}",
        "again": f"will send the {kind} for {tps} again",
        "cancelled": f"does not send the {kind} for {tps}: another coordinator does",
    }[body.outcome]
    errors = ", ".join(f"{tp} {error_name(error)}" for tp, error in body.errors.items())
    return f"{came} ({errors})" if errors else came


def _guarded(body: TxnGuard) -> str:
    batch = "offsets" if body.base_sequence < 0 else f"sequence {body.base_sequence}"
    return f"makes {batch} of {_producer(body)} for {body.tp} wait for the coordinator of its transaction"


def _added(body: TxnAdded) -> str:
    return f"answers that {', '.join(body.partitions)} are in the transaction of {body.transactional_id}"


def _verified(body: TxnVerify) -> str:
    asked = f"asks the coordinator {'to add' if body.adds else 'for'} {body.tp} in the transaction of"
    told = error_name(body.error) if body.error else "it is in the transaction"
    return f"{asked} {body.transactional_id} ({_producer(body)}): {told}"


def _commit_returned(body: CommitReturn) -> str:
    if body.outcome != "ok":
        return f"learns that its commit for group {body.group} ended with {error_name(body.error)} ({body.outcome})"
    return f"gets the confirmation of its commit for group {body.group}: {_offsets(body.offsets)}"


def _ended(body: EndReturn) -> str:
    what = f"its {'commit' if body.commit else 'abort'} of {body.transactional_id}'s transaction ({_producer(body)})"
    return f"gets {'the confirmation of' if body.outcome == 'ok' else f'{error_name(body.error)} for'} {what}"


def _moved(body: ConsPos) -> str:
    why = {"committed": "the committed position of its group", "reset": "by auto.offset.reset"}.get(
        body.reason, body.reason
    )
    return f"goes from {body.old:,} to {body.new:,} in {body.tp} ({why})"


WORDS: dict[type[TraceEvent], Callable[[Any], str]] = {
    GrpGen: _generation,
    GrpOut: _put_out,
    GrpCommit: _commit,
    CoordRefuse: _refused,
    GrpLoad: _groups_loaded,
    GrpFetch: _fetched,
    ConsOwn: _owned,
    ConsClose: lambda body: f"begins to close its consumer of group {body.group}",
    ConsStall: lambda body: f"{'stops polling' if body.phase == 'begin' else 'polls again'} for group {body.group}",
    ConsPos: _moved,
    CommitInvoke: lambda body: f"commits {_offsets(body.offsets)} for group {body.group}",
    CommitReturn: _commit_returned,
    CommittedReturn: lambda body: f"gets the positions of group {body.group}: {_offsets(body.offsets) or 'none'}",
    TxnState: _state,
    TxnTakenBack: _taken_back,
    TxnLoad: _transactions_loaded,
    TxnMarkers: _markers,
    TxnGuard: _guarded,
    TxnVerify: _verified,
    TxnAdded: _added,
    EndInvoke: lambda body: (
        f"asks to {'commit' if body.commit else 'abort'} the transaction of {body.transactional_id} ({_producer(body)})"
    ),
    EndReturn: _ended,
}
"""Events of groups and transactions -> a sentence without its subject."""
