"""Serving DescribeGroups and ListGroups (``GroupCoordinatorService``: describeGroups, listGroups)."""

from __future__ import annotations

from actors.broker.coordinator_common.writes import answer
from actors.broker.group_coordinator.group import ClassicGroup
from actors.broker.group_coordinator.group_state import DEAD, STABLE
from actors.broker.group_coordinator.shard import Shard
from actors.broker.turn import Turn
from actors.node.errors import KafkaError
from krift.v1.groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)

WITH_INSTANCE_ID = 4
NOT_FOUND_FROM = 6
WITH_STATE = 4
WITH_TYPE = 5
CLASSIC = "Classic"


def _seen(turn: Turn, shard: Shard, group: ClassicGroup | None) -> bool:
    """Whether it is committed that there is the group."""
    return group is not None and group.seen_at <= turn.replicas.partitions[shard.tp].log.high_watermark


def describe_groups(turn: Turn, connection: str, request: DescribeGroupsRequest) -> None:
    """Tell of each group that was asked for and that this broker coordinates."""
    response = DescribeGroupsResponse()
    version = request.header.api_version
    for group_id in request.groups:
        shard, error = turn.groups.find(turn, group_id)
        group = None if shard is None else shard.groups.get(group_id)
        if shard is None:
            described = DescribeGroupsResponse.DescribedGroup(group_id=group_id, error_code=error)
        elif group is None or not _seen(turn, shard, group):
            described = DescribeGroupsResponse.DescribedGroup(group_id=group_id, group_state=DEAD)
            if version >= NOT_FOUND_FROM:
                described.error_code = KafkaError.GROUP_ID_NOT_FOUND
                described.error_message = f"Group {group_id} not found."
        else:
            described = _described(group, version)
        response.groups.append(described)
    answer(turn, connection, request, response)


def _described(group: ClassicGroup, version: int) -> DescribeGroupsResponse.DescribedGroup:
    described = DescribeGroupsResponse.DescribedGroup(
        group_id=group.group_id, group_state=group.state, protocol_type=group.protocol_type or ""
    )
    if group.state == STABLE:
        described.protocol_data = group.protocol or ""
    for member in group.members.values():
        told = DescribeGroupsResponse.DescribedGroupMember(member_id=member.member_id, client_id=member.client_id)
        if version >= WITH_INSTANCE_ID:
            told.group_instance_id = member.group_instance_id
        if group.state == STABLE:
            told.member_metadata = member.metadata(group.protocol or "")
            told.member_assignment = member.assignment
        described.members.append(told)
    return described


def list_groups(turn: Turn, connection: str, request: ListGroupsRequest) -> None:
    """Tell of all groups that this broker coordinates, in some states or of some types only if so asked."""
    response = ListGroupsResponse()
    version = request.header.api_version
    if any(shard.loading for shard in turn.groups.shards.values()):
        answer(turn, connection, request, ListGroupsResponse(error_code=KafkaError.COORDINATOR_LOAD_IN_PROGRESS))
        return
    states = [state.lower() for state in request.states_filter]
    types = [kind.lower() for kind in request.types_filter]
    for shard in turn.groups.shards.values():
        for group in shard.groups.values():
            if states and group.state.lower() not in states:
                continue
            if (not types or CLASSIC.lower() in types) and _seen(turn, shard, group):
                response.groups.append(_listed(group, version))
    answer(turn, connection, request, response)


def _listed(group: ClassicGroup, version: int) -> ListGroupsResponse.ListedGroup:
    listed = ListGroupsResponse.ListedGroup(group_id=group.group_id, protocol_type=group.protocol_type or "")
    if version >= WITH_STATE:
        listed.group_state = group.state
    if version >= WITH_TYPE:
        listed.group_type = CLASSIC
    return listed
