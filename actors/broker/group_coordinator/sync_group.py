"""Serving SyncGroup (``GroupMetadataManager.classicGroupSyncToClassicGroup``)."""

from __future__ import annotations

from actors.broker.coordinator_common.refusals import record_refusal_of_member
from actors.broker.group_coordinator import records, writes
from actors.broker.group_coordinator.answers import SYNC_WITH_PROTOCOL, park, reply_sync
from actors.broker.group_coordinator.group import ClassicGroup
from actors.broker.group_coordinator.group_state import COMPLETING_REBALANCE, DEAD, PREPARING_REBALANCE, STABLE
from actors.broker.group_coordinator.rebalance import remove_sync_expiration, sync_response
from actors.broker.group_coordinator.records import CoordinatorRecord
from actors.broker.group_coordinator.shard import Shard
from actors.broker.group_coordinator.storing import DelayedAssignment
from actors.broker.turn import Turn
from actors.node.errors import KafkaError
from actors.node.messages import Api
from krift.v1.groups import GroupMetadataValue, SyncGroupRequest, SyncGroupResponse


def sync_group(turn: Turn, connection: str, request: SyncGroupRequest) -> None:
    """Tell a member what it is assigned, when the leader's assignment is committed; take that of the leader."""
    version = request.header.api_version
    shard, error = turn.groups.find(turn, request.group_id)
    group = None if shard is None else shard.groups.get(request.group_id)
    if not request.group_id:
        error = KafkaError.INVALID_GROUP_ID
    elif version >= SYNC_WITH_PROTOCOL and (request.protocol_type is None or request.protocol_name is None):
        error = KafkaError.INCONSISTENT_GROUP_PROTOCOL
    elif not error:
        error = KafkaError.UNKNOWN_MEMBER_ID if group is None else _validate(turn, group, request)
    if error or shard is None or group is None:
        record_refusal_of_member(turn, Api.SyncGroup, request.group_id, request, error)
        reply_sync(turn, connection, version, SyncGroupResponse(error_code=error))
        return
    member = group.members[request.member_id]
    if group.state == COMPLETING_REBALANCE:
        member.awaiting_sync = connection
        park(turn, connection, version)
        _synced(turn, group, member.member_id)
        if group.is_leader(member.member_id):
            _store(turn, shard, group, request)
        return
    assert group.state == STABLE
    _synced(turn, group, member.member_id)
    reply_sync(turn, connection, version, sync_response(group, member))


def _validate(turn: Turn, group: ClassicGroup, request: SyncGroupRequest) -> KafkaError:
    if group.state == DEAD:
        return KafkaError.COORDINATOR_NOT_AVAILABLE
    error = group.validate_member(request.member_id, request.group_instance_id, turn.step.defects)
    if error:
        return error
    if request.generation_id != group.generation:
        return KafkaError.ILLEGAL_GENERATION
    for said, has in ((request.protocol_type, group.protocol_type), (request.protocol_name, group.protocol)):
        if said is not None and has is not None and said != has:
            return KafkaError.INCONSISTENT_GROUP_PROTOCOL
    return KafkaError.REBALANCE_IN_PROGRESS if group.state == PREPARING_REBALANCE else KafkaError.NONE


def _synced(turn: Turn, group: ClassicGroup, member_id: str) -> None:
    if member_id in group.pending_sync:
        group.pending_sync.remove(member_id)
    if not group.pending_sync:
        remove_sync_expiration(turn, group)


def _store(turn: Turn, shard: Shard, group: ClassicGroup, request: SyncGroupRequest) -> None:
    """Write the assignment; who has none is assigned nothing. Should the leader ask again meanwhile, it is written
    again, and the first one that is committed counts."""
    given = {each.member_id: each.assignment for each in request.assignments}
    assignment = {member_id: given.get(member_id, b"") for member_id in group.members}
    result = writes.append(turn, shard, [_record(turn, group, assignment)])
    stored = DelayedAssignment(
        f"{shard.tp}@{shard.written}",
        writes.deadline_ms(turn),
        shard.tp,
        shard.written,
        result.error,
        group.group_id,
        group.generation,
        request.member_id,
        assignment,
    )
    writes.stored(turn, shard, stored)


def _record(turn: Turn, group: ClassicGroup, assignment: dict[str, bytes]) -> CoordinatorRecord:
    unwritten = "assignments-unwritten" in turn.step.defects
    record = records.group_metadata(group, {} if unwritten else assignment)
    if "subscriptions-unwritten" in turn.step.defects and isinstance(record.value, GroupMetadataValue):
        for member in record.value.members:
            member.subscription = b""
    return record
