"""What the trace is told of groups."""

from __future__ import annotations

from actors.broker.group_coordinator.group import ClassicGroup, GroupMember
from actors.broker.group_coordinator.group_state import COMPLETING_REBALANCE, STABLE
from actors.broker.group_coordinator.shard import Shard
from actors.broker.turn import Turn
from actors.node.spec import topic_partition
from actors.trace.events import GrpGen, GrpLoad, GrpOut
from actors.trace.group_events import GroupState, OutReason
from krift.v1.groups import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from krift.v1.wire import DecodeError, from_bytes


def transition(
    turn: Turn, shard: Shard, group: ClassicGroup, state: GroupState, reason: str, rewritten: bool = False
) -> None:
    """Move a group into another state, and record that: every change of a group's state comes through here."""
    group.transition_to(state, turn.step.wall_ms)
    record_state(turn, shard, group, reason, rewritten)


def record_state(turn: Turn, shard: Shard, group: ClassicGroup, reason: str, rewritten: bool = False) -> None:
    """Record the state that a group is in, and who is in it."""
    state = group.state
    turn.step.record(
        GrpGen(
            shard.tp,
            group.group_id,
            state,
            group.generation,
            shard.epoch,
            group.leader or "",
            group.protocol or "",
            _clients(group),
            assigned_partitions(group) if state == STABLE else {},
            reason,
            [member.member_id for member in group.not_yet_rejoined] if state == COMPLETING_REBALANCE else [],
            subscribed_topics(group) if state == STABLE else {},
            rewritten,
        )
    )


def record_out(turn: Turn, shard: Shard, group: ClassicGroup, member: GroupMember, why: OutReason) -> None:
    """Record that a member is put out, before it is."""
    waits = bool(member.awaiting_join or member.awaiting_sync)
    turn.step.record(
        GrpOut(shard.tp, group.group_id, shard.epoch, member.member_id, member.client_id, why, waits, member.is_new)
    )


def _clients(group: ClassicGroup) -> dict[str, str]:
    return {member.member_id: member.client_id for member in group.members.values()}


def assigned_partitions(group: ClassicGroup) -> dict[str, list[str]]:
    """Member id -> topic partitions, as far as the coordinator can read the assignment."""
    if not group.uses_consumer_protocol:
        return {}
    return {member.member_id: _partitions(member.assignment) for member in group.members.values()}


def _partitions(assignment: bytes) -> list[str]:
    try:
        decoded = from_bytes(ConsumerProtocolAssignment, assignment)
    except DecodeError:
        return []
    return [topic_partition(topic.topic, index) for topic in decoded.assigned_partitions for index in topic.partitions]


def subscribed_topics(group: ClassicGroup) -> dict[str, list[str]]:
    """Member id -> topics that it reads, as far as the coordinator can read what it says for the assignor in use."""
    if not group.uses_consumer_protocol or group.protocol is None:
        return {}
    return {member.member_id: _topics(member.metadata(group.protocol)) for member in group.members.values()}


def _topics(metadata: bytes) -> list[str]:
    try:
        return list(from_bytes(ConsumerProtocolSubscription, metadata).topics)
    except DecodeError:
        return []


def record_loaded(turn: Turn, shard: Shard) -> None:
    """An offsets partition was read."""
    offsets = {
        group: {tp: value.entry for tp, value in of_group.items()} for group, of_group in shard.offsets.written.items()
    }
    groups = {group.group_id: (group.state, group.generation) for group in shard.groups.values()}
    stable = [group for group in shard.groups.values() if group.state == STABLE]
    members = {group.group_id: _clients(group) for group in stable}
    assignment = {group.group_id: assigned_partitions(group) for group in stable}
    subscribed = {group.group_id: subscribed_topics(group) for group in stable}
    end = shard.written
    loaded = GrpLoad(shard.tp, shard.epoch, True, end, offsets, groups, members, assignment, subscribed=subscribed)
    turn.step.record(loaded)
