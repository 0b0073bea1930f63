"""Serving Heartbeat and LeaveGroup (``GroupMetadataManager``: classicGroupHeartbeat, classicGroupLeave)."""

from __future__ import annotations

from actors.broker.coordinator_common.refusals import record_refusal_of_member
from actors.broker.coordinator_common.writes import answer, answer_error
from actors.broker.group_coordinator.answers import answer_join
from actors.broker.group_coordinator.group import ClassicGroup
from actors.broker.group_coordinator.group_state import COMPLETING_REBALANCE, DEAD, PREPARING_REBALANCE, STABLE
from actors.broker.group_coordinator.rebalance import (
    cancel_heartbeat,
    maybe_complete_join_phase,
    maybe_prepare_rebalance_or_complete_join,
    reschedule_heartbeat,
)
from actors.broker.group_coordinator.shard import Shard
from actors.broker.group_coordinator.tracing import record_out
from actors.broker.group_coordinator.writes import answer_when_committed
from actors.broker.turn import Turn
from actors.node.errors import KafkaError
from actors.node.messages import Api
from actors.trace.events import MEMBERS_LEFT
from krift.v1.groups import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
)

BATCHED = 3
"""First version of LeaveGroup in which several members can leave."""

# ---- Heartbeat ---------------------------------------------------------------------------------------------


def heartbeat(turn: Turn, connection: str, request: HeartbeatRequest) -> None:
    """A member is alive. While the coordinator loads that is taken for granted."""
    shard, error = turn.groups.find(turn, request.group_id)
    if not request.group_id:
        answer(turn, connection, request, HeartbeatResponse(error_code=KafkaError.INVALID_GROUP_ID))
    elif error == KafkaError.COORDINATOR_LOAD_IN_PROGRESS:
        answer(turn, connection, request, HeartbeatResponse())
    elif shard is None:
        record_refusal_of_member(turn, Api.Heartbeat, request.group_id, request, error)
        answer_error(turn, connection, request, error)
    else:
        group = shard.groups.get(request.group_id)
        error = KafkaError.UNKNOWN_MEMBER_ID if group is None else _heard(turn, group, request)
        if error:
            record_refusal_of_member(turn, Api.Heartbeat, request.group_id, request, error)
        response = HeartbeatResponse(error_code=error)
        if error in (KafkaError.NONE, KafkaError.REBALANCE_IN_PROGRESS):
            answer_when_committed(turn, shard, connection, request, response)
        else:
            answer(turn, connection, request, response)


def _heard(turn: Turn, group: ClassicGroup, request: HeartbeatRequest) -> KafkaError:
    if group.state == DEAD:
        return KafkaError.COORDINATOR_NOT_AVAILABLE
    error = group.validate_member(request.member_id, request.group_instance_id, turn.step.defects)
    if error:
        return error
    if request.generation_id != group.generation:
        return KafkaError.ILLEGAL_GENERATION
    if "heartbeats-unheeded" not in turn.step.defects:
        reschedule_heartbeat(turn, group, group.members[request.member_id])
    if group.state == PREPARING_REBALANCE and "rebalance-told-as-over" in turn.step.defects:
        return KafkaError.ILLEGAL_GENERATION
    return KafkaError.REBALANCE_IN_PROGRESS if group.state == PREPARING_REBALANCE else KafkaError.NONE


# ---- LeaveGroup --------------------------------------------------------------------------------------------


def leave_group(turn: Turn, connection: str, request: LeaveGroupRequest) -> None:
    """Members leave, each by its id, or by the instance id that it has."""
    shard, error = turn.groups.find(turn, request.group_id)
    if not request.group_id:
        answer(turn, connection, request, LeaveGroupResponse(error_code=KafkaError.INVALID_GROUP_ID))
    elif shard is None:
        record_refusal_of_member(turn, Api.LeaveGroup, request.group_id, None, error)
        answer_error(turn, connection, request, error)
    else:
        response = _leave(turn, shard, request)
        if request.header.api_version < BATCHED:
            [only] = response.members
            response = LeaveGroupResponse(error_code=response.error_code or only.error_code)
        if request.group_id in shard.groups:
            answer_when_committed(turn, shard, connection, request, response)
        else:
            answer(turn, connection, request, response)


def _leaving(request: LeaveGroupRequest) -> list[LeaveGroupRequest.MemberIdentity]:
    if request.header.api_version < BATCHED:
        return [LeaveGroupRequest.MemberIdentity(member_id=request.member_id)]
    return request.members


def _leave(turn: Turn, shard: Shard, request: LeaveGroupRequest) -> LeaveGroupResponse:
    group = shard.groups.get(request.group_id)
    response = LeaveGroupResponse()
    gone: list[str] = []
    for member in _leaving(request):
        error = KafkaError.UNKNOWN_MEMBER_ID if group is None else _remove(turn, shard, group, member)
        if error:
            record_refusal_of_member(turn, Api.LeaveGroup, request.group_id, member, error)
        else:
            gone.append(member.member_id or member.group_instance_id or "")
        response.members.append(
            LeaveGroupResponse.MemberResponse(
                member_id=member.member_id, group_instance_id=member.group_instance_id, error_code=error
            )
        )
    if group is not None and gone and "leave-unheard" not in turn.step.defects:
        reason = f"{MEMBERS_LEFT} ({', '.join(gone)}) members"
        if group.state in (STABLE, COMPLETING_REBALANCE):
            maybe_prepare_rebalance_or_complete_join(turn, shard, group, reason)
        elif group.state == PREPARING_REBALANCE:
            maybe_complete_join_phase(turn, shard, group, reason)
    return response


def _remove(turn: Turn, shard: Shard, group: ClassicGroup, leaving: LeaveGroupRequest.MemberIdentity) -> KafkaError:
    assert group.state != DEAD, "a group that was given up is not found"
    member_id, instance_id = leaving.member_id, leaving.group_instance_id
    if not member_id:
        found = None if instance_id is None else group.static_members.get(instance_id)
        if found is None:
            return KafkaError.UNKNOWN_MEMBER_ID
        member_id = found
    elif member_id in group.pending_join:
        group.remove(member_id)
        cancel_heartbeat(turn, group, member_id)
        return KafkaError.NONE
    else:
        error = group.validate_member(member_id, instance_id, turn.step.defects)
        if error:
            return error
    record_out(turn, shard, group, group.members[member_id], "leave")
    cancel_heartbeat(turn, group, member_id)
    answer_join(turn, group.members[member_id], JoinGroupResponse(error_code=KafkaError.UNKNOWN_MEMBER_ID))
    group.remove(member_id)
    return KafkaError.NONE
