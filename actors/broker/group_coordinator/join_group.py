"""Serving JoinGroup (``GroupMetadataManager.classicGroupJoinToClassicGroup``)."""

from __future__ import annotations

from actors.broker.coordinator_common.refusals import record_refusal_of_member
from actors.broker.group_coordinator import records, writes
from actors.broker.group_coordinator.answers import answer_join, answer_sync, park, reply_join
from actors.broker.group_coordinator.group import ClassicGroup, GroupMember, protocols_of
from actors.broker.group_coordinator.group_state import (
    COMPLETING_REBALANCE,
    DEAD,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
)
from actors.broker.group_coordinator.rebalance import (
    NEW_MEMBER_JOIN_TIMEOUT_MS,
    cancel_heartbeat,
    join_response,
    maybe_complete_join_phase,
    maybe_prepare_rebalance_or_complete_join,
    prepare_rebalance,
    reschedule_heartbeat,
    session_timer,
)
from actors.broker.group_coordinator.shard import Shard
from actors.broker.group_coordinator.storing import DelayedStaticMember
from actors.broker.turn import Turn
from actors.node.errors import KafkaError
from actors.node.messages import Api
from krift.v1.groups import JoinGroupRequest, JoinGroupResponse, SyncGroupResponse

KNOWN_MEMBER_ID = 4
"""From this version on a dynamic member has to come with the member id that it was given (KIP-394)."""


class Join:
    """A JoinGroup that is being served, for the time of one step."""

    __slots__ = ("connection", "group", "request", "shard", "turn", "version")

    def __init__(self, turn: Turn, shard: Shard, group: ClassicGroup, connection: str, request: JoinGroupRequest):
        self.turn = turn
        self.shard = shard
        self.group = group
        self.connection = connection
        self.request = request
        self.version = request.header.api_version

    def refuse(self, error: KafkaError, member_id: str = "") -> None:
        """Answer with an error."""
        record_refusal_of_member(self.turn, Api.JoinGroup, self.request.group_id, self.request, error)
        response = JoinGroupResponse(error_code=error, member_id=member_id)
        reply_join(self.turn, self.connection, self.version, response)

    @property
    def rebalance_timeout_ms(self) -> int:
        """What the request asks for; version 0 has none of its own."""
        return self.request.session_timeout_ms if self.version == 0 else self.request.rebalance_timeout_ms

    @property
    def reason(self) -> str:
        """What the client gives as its reason."""
        return self.request.reason or "not provided"


def join_group(turn: Turn, connection: str, request: JoinGroupRequest) -> None:
    """Take somebody into a group, and answer when the next generation is formed."""
    version, limits = request.header.api_version, turn.settings.groups
    if not request.group_id:
        _refuse(turn, connection, request, KafkaError.INVALID_GROUP_ID)
        return
    if not limits.min_session_timeout_ms <= request.session_timeout_ms <= limits.max_session_timeout_ms:
        _refuse(turn, connection, request, KafkaError.INVALID_SESSION_TIMEOUT)
        return
    shard, error = turn.groups.find(turn, request.group_id)
    if shard is None:
        record_refusal_of_member(turn, Api.JoinGroup, request.group_id, request, error)
        reply_join(turn, connection, version, JoinGroupResponse(error_code=error))
        return
    is_new = request.group_id not in shard.groups
    if is_new and request.member_id:
        _refuse(turn, connection, request, KafkaError.UNKNOWN_MEMBER_ID)
        return
    if is_new:
        shard.groups[request.group_id] = ClassicGroup(request.group_id, state_timestamp_ms=turn.step.wall_ms)
    join = Join(turn, shard, shard.groups[request.group_id], connection, request)
    _join(join)
    if is_new:
        _store_new_group(join)


def _refuse(turn: Turn, connection: str, request: JoinGroupRequest, error: KafkaError) -> None:
    record_refusal_of_member(turn, Api.JoinGroup, request.group_id, request, error)
    response = JoinGroupResponse(error_code=error, member_id=request.member_id)
    reply_join(turn, connection, request.header.api_version, response)


def _store_new_group(join: Join) -> None:
    """A group is in the log from the first time that it is asked for; nobody waits for that."""
    join.group.seen_at = join.shard.written + 1
    writes.append(join.turn, join.shard, [records.empty_group_metadata(join.group)])
    writes.published(join.turn, join.shard)


def _join(join: Join) -> None:
    group, request, max_size = join.group, join.request, join.turn.settings.groups.max_size
    if "takes-one-too-many" in join.turn.step.defects:
        max_size += 1
    elif "takes-one-too-few" in join.turn.step.defects:
        max_size -= 1
    if not group.accepts(request.member_id, max_size):
        group.remove(request.member_id)
        join.refuse(KafkaError.GROUP_MAX_SIZE_REACHED)
    elif not group.supports_protocols(request.protocol_type, protocols_of(request)):
        join.refuse(KafkaError.INCONSISTENT_GROUP_PROTOCOL, request.member_id)
    elif request.member_id:
        _join_existing(join)
    elif request.group_instance_id is not None:
        _join_new_static(join, request.group_instance_id)
    else:
        _join_new_dynamic(join)


# ---- somebody new ------------------------------------------------------------------------------------------


def _join_new_static(join: Join, group_instance_id: str) -> None:
    new_id = join.turn.groups.next_member_id(group_instance_id)
    old_id = join.group.static_members.get(group_instance_id)
    if old_id is None:
        _add_member(join, new_id)
    else:
        _update_static_member(join, group_instance_id, old_id, new_id)


def _join_new_dynamic(join: Join) -> None:
    new_id = join.turn.groups.next_member_id(join.request.header.client_id)
    if join.version < KNOWN_MEMBER_ID:
        _add_member(join, new_id)
        return
    join.group.pending_join.append(new_id)
    join.turn.step.set_timer(session_timer(join.group, new_id), join.request.session_timeout_ms)
    join.refuse(KafkaError.MEMBER_ID_REQUIRED, new_id)


def _add_member(join: Join, member_id: str) -> None:
    group, request = join.group, join.request
    member = GroupMember(
        member_id,
        request.group_instance_id,
        request.header.client_id,
        join.rebalance_timeout_ms,
        request.session_timeout_ms,
        request.protocol_type,
        protocols_of(request),
        is_new=True,
    )
    if group.state == PREPARING_REBALANCE and group.previous_state == EMPTY:
        group.new_member_added = True
    if "one-member-a-client" in join.turn.step.defects:
        _remove_former(join)
    group.add(member)
    _wait(join, member)
    reschedule_heartbeat(join.turn, group, member, NEW_MEMBER_JOIN_TIMEOUT_MS)
    reason = f"adding new member {member_id} with group instance id {request.group_instance_id}"
    maybe_prepare_rebalance_or_complete_join(join.turn, join.shard, group, f"{reason}; client reason: {join.reason}")


def _remove_former(join: Join) -> None:
    """The defect "one-member-a-client"."""
    for former in list(join.group.members.values()):
        if former.client_id == join.request.header.client_id and former.group_instance_id is None:
            answer_join(join.turn, former, JoinGroupResponse(error_code=KafkaError.UNKNOWN_MEMBER_ID))
            cancel_heartbeat(join.turn, join.group, former.member_id)
            join.group.remove(former.member_id)


def _wait(join: Join, member: GroupMember) -> None:
    member.awaiting_join = join.connection
    park(join.turn, join.connection, join.version)


# ---- somebody who was given a member id --------------------------------------------------------------------


def _join_existing(join: Join) -> None:
    group, request = join.group, join.request
    if request.member_id in group.pending_join:
        if request.group_instance_id is not None:
            # Kafka: IllegalStateException, as a static member is never given an id to join with.
            join.refuse(KafkaError.UNKNOWN_SERVER_ERROR)
        else:
            _add_member(join, request.member_id)
        return
    error = group.validate_member(request.member_id, request.group_instance_id, join.turn.step.defects)
    if error:
        join.refuse(error, request.member_id)
        return
    member = group.members[request.member_id]
    matches = member.protocols == protocols_of(request)
    if group.state == PREPARING_REBALANCE:
        _update_member(join, member, f"member {member.member_id} is joining group during {group.state}")
    elif group.state == STABLE and group.is_leader(member.member_id):
        _update_member(join, member, f"leader {member.member_id} re-joining group during {group.state}")
    elif group.state in (COMPLETING_REBALANCE, STABLE) and not matches:
        _update_member(join, member, f"updating metadata for member {member.member_id} during {group.state}")
    elif group.state in (COMPLETING_REBALANCE, STABLE):
        # It did not get the answer of this generation, or asks again: nothing changes for the others.
        response = join_response(group, member.member_id)
        if group.state == COMPLETING_REBALANCE and group.is_leader(member.member_id):
            response.members = group.current_members()
        reply_join(join.turn, join.connection, join.version, response)
    else:
        join.refuse(KafkaError.UNKNOWN_MEMBER_ID, request.member_id)


def _update_member(join: Join, member: GroupMember, reason: str) -> None:
    _take_request(join, member)
    _wait(join, member)
    reason = f"{reason}; client reason: {join.reason}"
    maybe_prepare_rebalance_or_complete_join(join.turn, join.shard, join.group, reason)


def _take_request(join: Join, member: GroupMember) -> None:
    member.protocols = protocols_of(join.request)
    member.rebalance_timeout_ms = join.rebalance_timeout_ms
    member.session_timeout_ms = join.request.session_timeout_ms


# ---- a static member that comes back -----------------------------------------------------------------------


def _update_static_member(join: Join, group_instance_id: str, old_id: str, new_id: str) -> None:
    group, turn = join.group, join.turn
    leader = group.leader or ""
    member = _replace(join, group_instance_id, old_id, new_id)
    before = (member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms)
    _take_request(join, member)
    _wait(join, member)
    reason = f"static member {new_id} with instance id {group_instance_id} joined"
    if group.state == STABLE and group.select_protocol() == group.protocol:
        assignment = {each.member_id: each.assignment for each in group.members.values()}
        error = KafkaError.NONE
        if "static-return-unwritten" not in turn.step.defects:
            error = writes.append(turn, join.shard, [records.group_metadata(group, assignment)]).error
        end, tp = join.shard.written, join.shard.tp
        stored = DelayedStaticMember(
            f"{tp}@{end}",
            writes.deadline_ms(turn),
            tp,
            end,
            error,
            group.group_id,
            join.version,
            group_instance_id,
            old_id,
            new_id,
            leader,
            *before,
        )
        writes.stored(turn, join.shard, stored)
    elif group.state == STABLE:
        reason = f"{reason} with change of protocol; client reason: {join.reason}"
        maybe_prepare_rebalance_or_complete_join(turn, join.shard, group, reason)
    elif group.state == COMPLETING_REBALANCE:
        prepare_rebalance(turn, join.shard, group, f"{reason}; client reason: {join.reason}")
    else:
        assert group.state not in (EMPTY, DEAD), "a group with members"
        maybe_complete_join_phase(turn, join.shard, group, reason)


def _replace(join: Join, group_instance_id: str, old_id: str, new_id: str) -> GroupMember:
    """Whoever has the instance id is out, and is told so if it waits."""
    group, turn = join.group, join.turn
    old = group.members[old_id]
    answer_join(turn, old, JoinGroupResponse(error_code=KafkaError.FENCED_INSTANCE_ID, member_id=old_id))
    answer_sync(turn, old, SyncGroupResponse(error_code=KafkaError.FENCED_INSTANCE_ID))
    turn.step.cancel_timer(session_timer(group, old_id))
    member = group.replace_static_member(group_instance_id, old_id, new_id)
    reschedule_heartbeat(turn, group, member)
    return member
