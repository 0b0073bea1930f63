"""How a group rebalances: it waits for its members, forms a generation, and hands out what the leader assigns
(``GroupMetadataManager.java``: prepareRebalance, completeClassicGroupJoin, propagateAssignment)."""

from __future__ import annotations

from actors.broker.group_coordinator import records, writes
from actors.broker.group_coordinator.answers import answer_join, answer_sync
from actors.broker.group_coordinator.group import ClassicGroup, GroupMember, InitialRebalance
from actors.broker.group_coordinator.group_state import (
    COMPLETING_REBALANCE,
    DEAD,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
)
from actors.broker.group_coordinator.shard import Shard
from actors.broker.group_coordinator.tracing import record_out, transition
from actors.broker.turn import Turn
from actors.node.errors import KafkaError
from actors.trace.events import REBALANCE_TIMEOUT
from krift.v1.groups import JoinGroupResponse, SyncGroupResponse

JOIN = "groups/join/"
SYNC = "groups/sync/"
SESSION = "groups/session/"
NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000
"""How long a member that has never been in a generation may wait for one (``GroupCoordinatorConfig``)."""


# ---- timers ------------------------------------------------------------------------------------------------


def session_timer(group: ClassicGroup, member_id: str) -> str:
    """The timer of a member's session; a member id has no slash."""
    return f"{SESSION}{group.group_id}/{member_id}"


def reschedule_heartbeat(turn: Turn, group: ClassicGroup, member: GroupMember, timeout_ms: int | None = None) -> None:
    """The member was heard of: its session begins anew."""
    delay_ms = member.session_timeout_ms if timeout_ms is None else timeout_ms
    if "session-at-half" in turn.step.defects:
        delay_ms //= 2
    turn.step.set_timer(session_timer(group, member.member_id), delay_ms)


def cancel_heartbeat(turn: Turn, group: ClassicGroup, member_id: str) -> None:
    """Nobody waits for the member's heartbeats any more."""
    turn.step.cancel_timer(session_timer(group, member_id))


def cancel_timers(turn: Turn, group: ClassicGroup) -> None:
    """Nothing more happens to a group by itself."""
    turn.step.cancel_timer(f"{JOIN}{group.group_id}")
    turn.step.cancel_timer(f"{SYNC}{group.group_id}")
    for member_id in (*group.members, *group.pending_join):
        cancel_heartbeat(turn, group, member_id)


def remove_sync_expiration(turn: Turn, group: ClassicGroup) -> None:
    """Nobody's SyncGroup is waited for any more."""
    group.pending_sync = []
    turn.step.cancel_timer(f"{SYNC}{group.group_id}")


# ---- beginning ---------------------------------------------------------------------------------------------


def maybe_prepare_rebalance_or_complete_join(turn: Turn, shard: Shard, group: ClassicGroup, reason: str) -> None:
    """Something has changed: a rebalance begins, or the one that is under way may be over."""
    if group.can_rebalance:
        prepare_rebalance(turn, shard, group, reason)
    else:
        maybe_complete_join_phase(turn, shard, group, reason)


def prepare_rebalance(turn: Turn, shard: Shard, group: ClassicGroup, reason: str) -> None:
    """Begin a rebalance: a group that was empty waits for more members first, another one for those that it has."""
    if group.state == COMPLETING_REBALANCE:
        unsaid = "syncs-answered-at-rebalance" in turn.step.defects
        reset_assignment(turn, group, KafkaError.NONE if unsaid else KafkaError.REBALANCE_IN_PROGRESS)
    remove_sync_expiration(turn, group)
    is_initial = group.state == EMPTY
    if is_initial:
        delay_ms = turn.settings.groups.initial_rebalance_delay_ms
        group.initial = InitialRebalance(delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))
        turn.step.set_timer(f"{JOIN}{group.group_id}", delay_ms)
    transition(turn, shard, group, PREPARING_REBALANCE, reason)
    if is_initial:
        return
    if group.has_all_members_joined:
        complete_join(turn, shard, group, reason)
    else:
        hasty = "rebalance-timeout-short" in turn.step.defects
        wait_ms = turn.settings.groups.initial_rebalance_delay_ms if hasty else group.rebalance_timeout_ms
        turn.step.set_timer(f"{JOIN}{group.group_id}", wait_ms)


def maybe_complete_join_phase(turn: Turn, shard: Shard, group: ClassicGroup, reason: str) -> None:
    """The rebalance is over if everybody has joined, unless the group was empty: then only its delay ends it."""
    if group.state != PREPARING_REBALANCE or group.previous_state == EMPTY:
        return
    hasty = "last-member-not-awaited" in turn.step.defects and group.awaiting_join + 1 == len(group.members)
    if not (group.has_all_members_joined or hasty):
        return
    complete_join(turn, shard, group, reason)


# ---- a generation ------------------------------------------------------------------------------------------


def complete_join(turn: Turn, shard: Shard, group: ClassicGroup, reason: str) -> None:
    """End the waiting: dynamic members that did not come are out, and whoever is left forms the next generation."""
    turn.step.cancel_timer(f"{JOIN}{group.group_id}")
    group.initial = None
    for failed in group.not_yet_rejoined:
        goes = failed.group_instance_id is None or "absent-statics-go" in turn.step.defects
        if goes and "absent-members-stay" not in turn.step.defects:
            record_out(turn, shard, group, failed, "join")
            group.remove(failed.member_id)
            cancel_heartbeat(turn, group, failed.member_id)
    if group.state == DEAD:
        return
    if group.members and not group.maybe_elect_new_joined_leader():
        # Only static members, none of which came: their sessions decide.
        turn.step.set_timer(f"{JOIN}{group.group_id}", group.rebalance_timeout_ms)
        return
    _next_generation(turn, shard, group, reason)
    if group.state == EMPTY:
        if "empty-generation-unwritten" in turn.step.defects:
            return
        writes.append(turn, shard, [records.group_metadata(group, {})])
        writes.published(turn, shard)
    else:
        _tell_members(turn, group)


def _next_generation(turn: Turn, shard: Shard, group: ClassicGroup, reason: str) -> None:
    group.generation += 0 if "generation-reused" in turn.step.defects and group.generation > 1 else 1
    group.protocol = group.select_protocol() if group.members else None
    group.subscribed_topics = group.compute_subscribed_topics()
    transition(turn, shard, group, COMPLETING_REBALANCE if group.members else EMPTY, reason)
    group.pending_sync = []


def _tell_members(turn: Turn, group: ClassicGroup) -> None:
    for member in group.members.values():
        response = join_response(group, member.member_id)
        if group.is_leader(member.member_id):
            response.members = group.current_members()
        answer_join(turn, member, response)
        reschedule_heartbeat(turn, group, member)
        member.is_new = False
        group.pending_sync.append(member.member_id)
    group.pending_sync_generation = group.generation
    hasty = "sync-timeout-short" in turn.step.defects
    wait_ms = turn.settings.groups.initial_rebalance_delay_ms if hasty else group.rebalance_timeout_ms
    turn.step.set_timer(f"{SYNC}{group.group_id}", wait_ms)


def join_response(group: ClassicGroup, member_id: str) -> JoinGroupResponse:
    """What a member is told of the present generation; of the others only the leader is told."""
    return JoinGroupResponse(
        member_id=member_id,
        generation_id=group.generation,
        protocol_name=group.protocol,
        protocol_type=group.protocol_type,
        leader=group.leader or "",
    )


# ---- assignments -------------------------------------------------------------------------------------------


def reset_assignment(turn: Turn, group: ClassicGroup, error: KafkaError) -> None:
    """There is no assignment: whoever waits for one is told why."""
    assert group.state == COMPLETING_REBALANCE
    for member in group.members.values():
        member.assignment = b""
    _propagate(turn, group, error)


def set_assignment(
    turn: Turn, shard: Shard, group: ClassicGroup, assignment: dict[str, bytes], reason: str, rewritten: bool
) -> None:
    """The assignment is committed: the group is stable, and whoever waits is told. ``rewritten``: it is in the log once
    more."""
    assert group.state == COMPLETING_REBALANCE
    for member in group.members.values():
        member.assignment = assignment.get(member.member_id, b"")
    transition(turn, shard, group, STABLE, reason, rewritten)
    _propagate(turn, group, KafkaError.NONE)


def _propagate(turn: Turn, group: ClassicGroup, error: KafkaError) -> None:
    for member in group.members.values():
        if answer_sync(turn, member, sync_response(group, member, error)):
            reschedule_heartbeat(turn, group, member)


def sync_response(group: ClassicGroup, member: GroupMember, error: KafkaError = KafkaError.NONE) -> SyncGroupResponse:
    """What a member is told that it is assigned, or why it is assigned nothing."""
    if error:
        return SyncGroupResponse(error_code=error)
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol, assignment=member.assignment
    )


# ---- the ends of waits -------------------------------------------------------------------------------------


def on_join_timer(turn: Turn, shard: Shard, group: ClassicGroup) -> None:
    """The rebalance time-out is over, or the delay of a group that was empty: that goes on while members come, for as
    long as the rebalance time-out allows."""
    initial = group.initial
    goes_on = group.new_member_added or "first-rebalance-goes-on" in turn.step.defects
    if initial is None or not (goes_on and initial.remaining_ms):
        complete_join(turn, shard, group, REBALANCE_TIMEOUT if initial is None else "initial rebalance delay")
        return
    group.new_member_added = False
    delay_ms = min(turn.settings.groups.initial_rebalance_delay_ms, initial.remaining_ms)
    group.initial = InitialRebalance(delay_ms, max(initial.remaining_ms - initial.delay_ms, 0))
    turn.step.set_timer(f"{JOIN}{group.group_id}", delay_ms)


def on_sync_timer(turn: Turn, shard: Shard, group: ClassicGroup) -> None:
    """Members that have not synced in this generation by now are out."""
    if group.pending_sync_generation != group.generation or not group.pending_sync:
        return
    if group.state not in (COMPLETING_REBALANCE, STABLE):
        return
    gone = list(group.pending_sync)
    for member_id in gone:
        if (late := group.members.get(member_id)) is not None:
            record_out(turn, shard, group, late, "sync")
        group.remove(member_id)
        cancel_heartbeat(turn, group, member_id)
    prepare_rebalance(turn, shard, group, f"removing {', '.join(gone)} on pending sync request expiration")


def on_session_timer(turn: Turn, shard: Shard, group: ClassicGroup, member_id: str) -> None:
    """Nothing was heard of a member for its session time-out, or somebody did not come under the id it was given."""
    if member_id in group.pending_join:
        group.remove(member_id)
        if group.state == PREPARING_REBALANCE and group.has_all_members_joined:
            complete_join(turn, shard, group, f"pending member {member_id} expired")
        return
    member = group.members.get(member_id)
    if "silent-member-stays" in turn.step.defects:
        return
    is_alive = member is not None and member.has_satisfied_heartbeat
    if member is not None and member.group_instance_id is not None and "silent-statics-stay" in turn.step.defects:
        return
    if member is not None and (not is_alive or "waiting-members-expire" in turn.step.defects):
        _expire_member(turn, shard, group, member)


def _expire_member(turn: Turn, shard: Shard, group: ClassicGroup, member: GroupMember) -> None:
    record_out(turn, shard, group, member, "session")
    answer_join(turn, member, JoinGroupResponse(error_code=KafkaError.UNKNOWN_MEMBER_ID))
    group.remove(member.member_id)
    reason = f"removing member {member.member_id} on heartbeat expiration"
    if group.state in (STABLE, COMPLETING_REBALANCE):
        maybe_prepare_rebalance_or_complete_join(turn, shard, group, reason)
    elif group.state == PREPARING_REBALANCE and group.has_all_members_joined:
        complete_join(turn, shard, group, reason)
