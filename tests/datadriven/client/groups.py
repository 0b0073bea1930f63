"""Requests, answers and events of groups in the clients' transcripts."""

from __future__ import annotations

from typing import Any

from actors.client.assignors.subscription import (
    Subscription,
    TopicPartition,
    assignment_bytes,
    assignment_of,
    subscription_bytes,
    subscription_of,
)
from actors.node.errors import error_name
from actors.node.messages import AnyRequest
from actors.trace.events import CommitInvoke, CommitReturn, CommittedInvoke, CommittedReturn, ConsOwn, TraceEvent
from actors.trace.group_events import Entry
from krift.v1.groups import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from tests.datadriven.runner import Command

GROUP_APIS = (
    *("FindCoordinator", "JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup"),
    *("OffsetCommit", "OffsetFetch"),
)
PAUSES = ("find-coordinator/retry", "group/rejoin", "group/commit-retry", "group/fetch-retry")
"""Timers that are shown."""


# ---- events and requests ------------------------------------------------------------------------------------


def describe_group_event(event: TraceEvent) -> str | None:
    """None of other events."""
    match event:
        case ConsOwn():
            changes = [("+", event.added), ("-", event.revoked), ("lost", event.lost)]
            told = [f"{sign} {','.join(tps)}" for sign, tps in changes if tps]
            who = f"{event.member or 'nobody'} in generation {event.generation}"
            return " ".join([f"* owns {','.join(event.owned) or 'nothing'} as {who} ({event.reason})", *told])
        case CommitInvoke():
            return f"* commit {event.how} {_entries(event.offsets)} as {event.member}/{event.generation}"
        case CommitReturn():
            error = f" {error_name(event.error)}" if event.error else ""
            return f"* committed {event.how} {event.outcome}{error}"
        case CommittedInvoke():
            return f"* look up what is committed of {','.join(event.tps)}"
        case CommittedReturn():
            error = f" {error_name(event.error)}" if event.error else ""
            return f"* looked up {event.outcome}{error} {_entries(event.offsets)}".rstrip()
    return None


def _entries(offsets: dict[str, Entry]) -> str:
    """``orders-0=5@2``, and ``/3`` for the metadata epoch if it has one."""
    return " ".join(
        f"{tp}={offset}@{leader_epoch}" + (f"/{metadata_epoch}" if metadata_epoch >= 0 else "")
        for tp, (offset, leader_epoch, metadata_epoch) in offsets.items()
    )


def group_details(request: AnyRequest) -> list[str]:
    """What a request of a group says; [] of others."""
    match request:
        case FindCoordinatorRequest():
            kind = ["transaction"] if request.key_type else []
            return [*kind, request.key or ",".join(request.coordinator_keys)]
        case JoinGroupRequest():
            told = [f"{each.name}({_subscription(each.metadata)})" for each in request.protocols]
            member = _member(request.member_id, request.group_instance_id)
            times = f"session={request.session_timeout_ms} rebalance={request.rebalance_timeout_ms}"
            return [member, times, *told, *([f"reason={request.reason!r}"] if request.reason else [])]
        case SyncGroupRequest():
            parts = [f"{each.member_id}:{_tps(assignment_of(each.assignment))}" for each in request.assignments]
            return [f"{_member(request.member_id, request.group_instance_id)}/{request.generation_id}", *parts]
        case HeartbeatRequest():
            return [f"{_member(request.member_id, request.group_instance_id)}/{request.generation_id}"]
        case LeaveGroupRequest():
            told = [f"{each.member_id} reason={each.reason!r}" for each in request.members]
            return told or [request.member_id]
        case OffsetCommitRequest():
            who = f"{_member(request.member_id, request.group_instance_id)}/{request.generation_id_or_member_epoch}"
            offsets = {
                f"{topic.name or _id(topic.topic_id)}-{each.partition_index}": [
                    each.committed_offset,
                    each.committed_leader_epoch,
                    each.metadata_epoch,
                ]
                for topic in request.topics
                for each in topic.partitions
            }
            return [who, _entries(offsets)]
        case OffsetFetchRequest():
            topics = [topic for group in request.groups for topic in group.topics]
            names = [f"{t.name or '(id)'}-{index}" for t in topics for index in t.partition_indexes]
            return [*names, *(f"{t.name}-{index}" for t in request.topics for index in t.partition_indexes)]
    return []


def _member(member: str, instance: str | None) -> str:
    return (member or "nobody") + (f"({instance})" if instance else "")


def _subscription(data: bytes) -> str:
    told = subscription_of(data)
    owned = f" owns {_tps(told.owned)} since {told.generation}" if told.owned else ""
    return ",".join(told.topics) + owned


def _id(topic_id: str) -> str:
    """``(id)``, or which other topic's."""
    return f"({topic_id.removesuffix('-of-orders')})"


def _tps(partitions: list[TopicPartition]) -> str:
    return ",".join(f"{topic}-{number}" for topic, number in partitions) or "nothing"


# ---- answers -----------------------------------------------------------------------------------------------


def group_answer(command: Command, request: AnyRequest, error: int) -> Any:
    """answer c1 [error=NAME], and of FindCoordinator [node=1]; of JoinGroup [member=m1] [generation=1] [leader=m1]
    [protocol=range] [members=(m1,m2)]; of SyncGroup [assign=(0,1)]; of OffsetCommit [partition=0] (only that one has
    the error); of OffsetFetch [at=(0:5@2/3)] (offset, leader epoch, metadata epoch; the others have none)
    [partition=0]. None for a request that is of no group."""
    match request:
        case FindCoordinatorRequest():
            node = command.number("node", -1 if error else 1)
            if request.header.api_version < 4:
                return FindCoordinatorResponse(error_code=error, node_id=node)
            found = FindCoordinatorResponse.Coordinator(key=request.coordinator_keys[0], node_id=node, error_code=error)
            return FindCoordinatorResponse(coordinators=[found])
        case JoinGroupRequest():
            return _joined(command, request, error)
        case SyncGroupRequest():
            tps = [("orders", int(number)) for number in command.many("assign", "()")]
            return SyncGroupResponse(error_code=error, assignment=b"" if error else assignment_bytes(tps))
        case HeartbeatRequest():
            return HeartbeatResponse(error_code=error)
        case LeaveGroupRequest():
            return LeaveGroupResponse(error_code=error)
        case OffsetCommitRequest():
            return _committed(command, request, error)
        case OffsetFetchRequest():
            return _looked_up(command, request, error)
    return None


def _joined(command: Command, request: JoinGroupRequest, error: int) -> JoinGroupResponse:
    response = JoinGroupResponse(error_code=error, generation_id=command.number("generation", -1 if error else 1))
    response.member_id = command.text("member", request.member_id or "m1")
    response.leader = command.text("leader", "m1")
    response.protocol_name = command.text("protocol", request.protocols[0].name)
    subscription = subscription_bytes(Subscription(["orders"]))
    for member in command.many("members", "()"):
        told = request.protocols[0].metadata if member == response.member_id else subscription
        response.members.append(JoinGroupResponse.JoinGroupResponseMember(member_id=member, metadata=told))
    return response


def _committed(command: Command, request: OffsetCommitRequest, error: int) -> OffsetCommitResponse:
    only = command.number("partition", -1)
    response = OffsetCommitResponse()
    for asked in request.topics:
        topic = OffsetCommitResponse.OffsetCommitResponseTopic(name=asked.name, topic_id=asked.topic_id)
        response.topics.append(topic)
        for each in asked.partitions:
            code = error if only in (-1, each.partition_index) else 0
            part = OffsetCommitResponse.OffsetCommitResponsePartition(
                partition_index=each.partition_index, error_code=code
            )
            topic.partitions.append(part)
    return response


def _looked_up(command: Command, request: OffsetFetchRequest, error: int) -> OffsetFetchResponse:
    only = command.number("partition", -1)
    stored = dict(text.split(":") for text in command.many("at", "()"))
    group = OffsetFetchResponse.OffsetFetchResponseGroup(
        group_id=request.groups[0].group_id, error_code=error if only < 0 else 0
    )
    for asked in request.groups[0].topics:
        topic = OffsetFetchResponse.OffsetFetchResponseTopics(name=asked.name, topic_id=asked.topic_id)
        group.topics.append(topic)
        for index in asked.partition_indexes:
            part = OffsetFetchResponse.OffsetFetchResponsePartitions(partition_index=index, committed_offset=-1)
            part.error_code = error if only == index else 0
            if str(index) in stored:
                offset, _, epochs = stored[str(index)].partition("@")
                leader_epoch, _, metadata_epoch = epochs.partition("/")
                part.committed_offset, part.committed_leader_epoch = int(offset), int(leader_epoch or -1)
                part.metadata_epoch = int(metadata_epoch or -1)
            topic.partitions.append(part)
    return OffsetFetchResponse(groups=[group])
