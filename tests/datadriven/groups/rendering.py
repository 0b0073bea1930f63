"""One line for each thing that a group coordinator does."""

from __future__ import annotations

from actors.node.errors import error_name
from actors.node.messages import AnyResponse
from actors.trace.events import GrpCommit, GrpFetch, GrpGen, GrpLoad, TraceEvent
from krift.v1.groups import (
    ConsumerProtocolAssignment,
    DescribeGroupsResponse,
    FindCoordinatorResponse,
    HeartbeatResponse,
    JoinGroupResponse,
    LeaveGroupResponse,
    ListGroupsResponse,
    OffsetCommitResponse,
    OffsetFetchResponse,
    SyncGroupResponse,
)
from krift.v1.wire import from_bytes
from tests.datadriven.broker import rendering


def describe_event(event: TraceEvent) -> str | None:
    """A line for a trace event, as the broker's transcripts have it, or of groups."""
    match event:
        case GrpGen():
            members = f" members={','.join(event.members)}" if event.members else ""
            leader = f" leader={event.leader}" if event.leader else ""
            protocol = f" {event.protocol}" if event.protocol else ""
            assigned = "".join(f" {member}={tps}" for member, tps in event.assignment.items())
            return (
                f"* {event.group} {event.state} generation={event.generation}@{event.coordinator_epoch}"
                f"{protocol}{leader}{members}{assigned} ({event.reason})"
            )
        case GrpCommit():
            by = f" by {event.member}/{event.generation}" if event.member else ""
            told = error_name(event.error) if event.error else f"at {event.log_offset}"
            entry = [event.offset, event.leader_epoch, event.metadata_epoch]
            return f"* {event.group} commits {event.tp} {entry}{by}: {told}"
        case GrpLoad() if event.loaded:
            told = {group: given for group, given in event.assignment.items() if event.members[group]}
            given = f" {told}" if told else ""
            return (
                f"* {event.tp} loaded@{event.coordinator_epoch} to {event.end}: {event.groups} {event.offsets}{given}"
            )
        case GrpLoad():
            return f"* {event.tp} given up@{event.coordinator_epoch}"
        case GrpFetch():
            return f"* {event.group} told@{event.coordinator_epoch} {error_name(event.error)} {event.offsets}"
    return rendering.describe_event(event)


def describe_reply(connection: str, response: AnyResponse | None) -> str:
    """A line per answer, as the broker's transcripts have it, or of groups."""
    text = _reply(response)
    return rendering.describe_reply(connection, response) if text is None else f"{connection} <- {text}"


def _reply(response: AnyResponse | None) -> str | None:
    match response:
        case JoinGroupResponse():
            return _joined(response)
        case SyncGroupResponse():
            return error_name(response.error_code) if response.error_code else _assigned(response)
        case HeartbeatResponse():
            return error_name(response.error_code)
        case LeaveGroupResponse():
            left = [
                f"{each.member_id or each.group_instance_id}: {error_name(each.error_code)}"
                for each in response.members
            ]
            return "; ".join([error_name(response.error_code), *left])
        case OffsetCommitResponse():
            return "; ".join(
                f"{topic.name or topic.topic_id}-{each.partition_index}: {error_name(each.error_code)}"
                for topic in response.topics
                for each in topic.partitions
            )
        case OffsetFetchResponse():
            return _fetched(response)
        case FindCoordinatorResponse():
            found = [
                f"{each.key}: {error_name(each.error_code)} node={each.node_id} {each.host}:{each.port}"
                for each in response.coordinators
            ]
            one = f"{error_name(response.error_code)} node={response.node_id} {response.host}:{response.port}"
            return "; ".join(found) or one
        case DescribeGroupsResponse():
            return "; ".join(_described(group) for group in response.groups)
        case ListGroupsResponse():
            listed = [
                " ".join(filter(None, (each.group_id, each.protocol_type, each.group_state, each.group_type)))
                for each in response.groups
            ]
            return "; ".join([error_name(response.error_code), *listed])
    return None


def _joined(response: JoinGroupResponse) -> str:
    if response.error_code:
        return f"{error_name(response.error_code)} member={response.member_id or 'none'}"
    members = f" members={[each.member_id for each in response.members]}" if response.members else ""
    skip = " skip-assignment" if response.skip_assignment else ""
    return (
        f"member={response.member_id} generation={response.generation_id} {response.protocol_name}"
        f" leader={response.leader}{members}{skip}"
    )


def _assigned(response: SyncGroupResponse) -> str:
    decoded = from_bytes(ConsumerProtocolAssignment, response.assignment)
    tps = [f"{topic.topic}-{index}" for topic in decoded.assigned_partitions for index in topic.partitions]
    return f"assigned {tps}"


def _fetched(response: OffsetFetchResponse) -> str:
    parts = [error_name(response.error_code)] if response.error_code else []
    for topic in response.topics:
        parts += [f"{topic.name}-{_offset(each)}" for each in topic.partitions]
    for group in response.groups:
        found = [
            f"{topic.name or topic.topic_id}-{_offset(each)}" for topic in group.topics for each in topic.partitions
        ]
        parts.append(f"{group.group_id}: {error_name(group.error_code)} {', '.join(found)}".rstrip())
    return "; ".join(parts) or "nothing"


def _offset(
    data: OffsetFetchResponse.OffsetFetchResponsePartition | OffsetFetchResponse.OffsetFetchResponsePartitions,
) -> str:
    if data.error_code:
        return f"{data.partition_index}={error_name(data.error_code)}"
    entry = [data.committed_offset, data.committed_leader_epoch, data.metadata_epoch]
    return f"{data.partition_index}={entry}" + (f" {data.metadata!r}" if data.metadata else "")


def _described(group: DescribeGroupsResponse.DescribedGroup) -> str:
    error = f" {error_name(group.error_code)} {group.error_message or ''}".rstrip() if group.error_code else ""
    members = [
        f"{each.member_id}{'/' + each.group_instance_id if each.group_instance_id else ''}" for each in group.members
    ]
    kind = f" {group.protocol_type}/{group.protocol_data}" if group.protocol_type else ""
    return f"{group.group_id}: {group.group_state or '-'}{kind}{error} {members}"
