"""Verbs of the group coordinator's transcripts: the broker of ``tests/datadriven/broker``, with members of groups among
its clients. ``topic __consumer_offsets leader=1`` makes it the coordinator of every group.

Members go by the names of their connections, which are their client ids; the script knows the member id and the
generation that each was told last.
"""

from __future__ import annotations

from typing import Any

from actors.broker.group_coordinator import records
from actors.broker.group_coordinator.offset_metadata import OffsetAndMetadata
from actors.node.error_responses import error_response
from actors.node.errors import KafkaError
from actors.node.messages import AnyResponse, Api
from actors.node.spec import split_topic_partition
from actors.trace.events import TraceEvent
from krift.v1.fetch import FetchResponse
from krift.v1.groups import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    ConsumerTopicPartitions,
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    ListGroupsRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)
from krift.v1.records import MetadataRecord, RecordBatch, RemoveTopicRecord
from krift.v1.topics import CreateTopicsRequest
from krift.v1.wire import to_bytes
from tests.datadriven.broker import environment
from tests.datadriven.broker.scene import Scene
from tests.datadriven.groups.rendering import describe_event, describe_reply
from tests.datadriven.runner import Command


class GroupScene(Scene):
    """The stage. ``members``: name -> member id and generation, as last told."""

    def __init__(self) -> None:
        super().__init__()
        self.members: dict[str, tuple[str, int]] = {}

    def recorded(self, event: TraceEvent) -> None:
        text = describe_event(event)
        if text is not None:
            self.lines.append(text)

    def replied(self, connection: str, response: AnyResponse | None) -> None:
        if isinstance(response, JoinGroupResponse) and response.member_id:
            self.members[connection] = (response.member_id, response.generation_id)
        self.responses[connection] = response
        self.lines.append(describe_reply(connection, response))


class Environment(environment.Environment):
    """One transcript's broker, and what its members know."""

    def __init__(self) -> None:
        super().__init__()
        self.group_scene = GroupScene()
        self.scene = self.group_scene

    def _member(self, command: Command) -> tuple[str, int]:
        """Who asks, and in which generation: as last told, or as the script says."""
        member_id, generation = self.group_scene.members.get(command.words[0], ("", -1))
        whose = command.text("as", "")
        if whose:
            member_id = "" if whose == "nobody" else self.group_scene.members.get(whose, (whose, 0))[0]
        return member_id, command.number("generation", generation)

    def _instance(self, command: Command) -> str | None:
        return command.text("instance", "") or None

    def verb_remove_topic(self, command: Command) -> str:
        """remove-topic orders: the controller has removed a topic."""
        record = RemoveTopicRecord(topic_id=self.topic_id(command.words[0]))
        self.scene.commit([MetadataRecord(remove_topic=record)])
        return self.scene.told()

    def verb_created(self, command: Command) -> str:
        """created [error=NAME]: the controller answers the CreateTopics of the broker."""
        call = next(call for call in self.scene.held if isinstance(call.request, CreateTopicsRequest))
        assert isinstance(call.request, CreateTopicsRequest)
        error = KafkaError[command.text("error", "NONE")]
        self.scene.answer(call, error_response(call.request, error))
        return self.scene.told()

    def verb_join(self, command: Command) -> str:
        """join m1 [group=g] [v=9] [session=10000] [rebalance=60000] [protocols=(range)] [type=consumer]
        [topics=(orders)] [instance=] [as=MEMBER|nobody] [on=m1]: a JoinGroup."""
        version = command.number("v", 9)
        subscription = to_bytes(ConsumerProtocolSubscription(topics=command.many("topics", "(orders)")))
        request = JoinGroupRequest(
            group_id=command.text("group", "g"),
            session_timeout_ms=command.number("session", 10000),
            member_id=self._member(command)[0],
            group_instance_id=self._instance(command),
            protocol_type=command.text("type", "consumer"),
            protocols=[
                JoinGroupRequest.JoinGroupRequestProtocol(name=name, metadata=subscription)
                for name in command.many("protocols", "(range)")
            ],
        )
        if version >= 1:
            request.rebalance_timeout_ms = command.number("rebalance", 60000)
        return self.scene.receive(command.text("on", command.words[0]), request, version)

    def verb_sync(self, command: Command) -> str:
        """sync m1 [assign=(m1:orders-0+orders-1,m2:orders-2)] [group=g] [v=5] [protocol=range] [type=consumer]
        [instance=] [generation=] [as=] [on=m1]: a SyncGroup; of the leader with what it assigns."""
        version = command.number("v", 5)
        member_id, generation = self._member(command)
        request = SyncGroupRequest(
            group_id=command.text("group", "g"),
            generation_id=generation,
            member_id=member_id,
            group_instance_id=self._instance(command),
        )
        if version >= 5:
            request.protocol_name = command.text("protocol", "range")
            request.protocol_type = command.text("type", "consumer")
        for item in command.many("assign", "()"):
            name, _, tps = item.partition(":")
            topics: dict[str, list[int]] = {}
            for tp in filter(None, tps.split("+")):
                topic, index = split_topic_partition(tp)
                topics.setdefault(topic, []).append(index)
            assigned = [ConsumerTopicPartitions(topic=topic, partitions=each) for topic, each in topics.items()]
            request.assignments.append(
                SyncGroupRequest.SyncGroupRequestAssignment(
                    member_id=self.group_scene.members.get(name, (name, 0))[0],
                    assignment=to_bytes(ConsumerProtocolAssignment(assigned_partitions=assigned)),
                )
            )
        return self.scene.receive(command.text("on", command.words[0]), request, version)

    def verb_heartbeat(self, command: Command) -> str:
        """heartbeat m1 [group=g] [v=4] [instance=] [generation=] [as=] [on=m1]: a Heartbeat."""
        member_id, generation = self._member(command)
        request = HeartbeatRequest(
            group_id=command.text("group", "g"),
            generation_id=generation,
            member_id=member_id,
            group_instance_id=self._instance(command),
        )
        return self.scene.receive(command.text("on", command.words[0]), request, command.number("v", 4))

    def verb_leave(self, command: Command) -> str:
        """leave m1 [m2 ...] [group=g] [v=5] [instances=(i1)] [on=m1]: a LeaveGroup of these members; an instance
        without its member id."""
        version = command.number("v", 5)
        ids = [self.group_scene.members.get(name, (name, 0))[0] for name in command.words]
        request = LeaveGroupRequest(group_id=command.text("group", "g"))
        if version < 3:
            [request.member_id] = ids
        else:
            request.members = [LeaveGroupRequest.MemberIdentity(member_id=each) for each in ids]
            request.members += [
                LeaveGroupRequest.MemberIdentity(group_instance_id=each) for each in command.many("instances", "()")
            ]
        return self.scene.receive(command.text("on", (command.words or ["admin"])[0]), request, version)

    def verb_commit(self, command: Command) -> str:
        """commit m1 orders-0@5[:LEADER-EPOCH[:METADATA-EPOCH]] ... [group=g] [v=10] [generation=] [as=] [instance=]
        [retention=-1] [text=] [on=m1]: an OffsetCommit; of whoever never joined as a simple consumer."""
        version = command.number("v", 10)
        member_id, generation = self._member(command)
        request = OffsetCommitRequest(
            group_id=command.text("group", "g"),
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=self._instance(command),
        )
        if 2 <= version <= 4:
            request.retention_time_ms = command.number("retention", -1)
        for word in command.words[1:]:
            tp, _, entry = word.partition("@")
            name, index = split_topic_partition(tp)
            numbers = [int(each) for each in entry.split(":")]
            topic = OffsetCommitRequest.OffsetCommitRequestTopic()
            request.topics.append(topic)
            if version >= 10:
                topic.topic_id = self.topic_id(name)
            else:
                topic.name = name
            data = OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=index, committed_offset=numbers[0])
            topic.partitions.append(data)
            data.committed_metadata = command.text("text", "")
            if len(numbers) > 1:
                data.committed_leader_epoch = numbers[1]
            if len(numbers) > 2:
                data.metadata_epoch = numbers[2]
        return self.scene.receive(command.text("on", command.words[0]), request, version)

    def verb_replicated(self, command: Command) -> str:
        """replicated orders-0@7 [group=g] [id=ID]: the broker follows another coordinator, which answers its newest
        Fetch with a commit of a topic with that id, committed."""
        tp, _, offset = command.words[0].partition("@")
        call = self._held(Api.Fetch, command)
        request: Any = call.request
        asked = request.topics[0].partitions[0]
        value = OffsetAndMetadata(int(offset), topic_id=command.text("id", ""))
        record = records.offset_commit(command.text("group", "g"), tp, value).encode(0, f"r{asked.fetch_offset}")
        batch = RecordBatch(base_offset=asked.fetch_offset, partition_leader_epoch=asked.current_leader_epoch)
        batch.records.append(record)
        data = FetchResponse.PartitionData(high_watermark=asked.fetch_offset + 1, records=[batch])
        topic = FetchResponse.FetchableTopicResponse(topic_id=request.topics[0].topic_id, partitions=[data])
        self.scene.answer(call, FetchResponse(responses=[topic]))
        return self.scene.told()

    def verb_fetch_offsets(self, command: Command) -> str:
        """fetch-offsets orders-0 ... [groups=(g)] [v=10] [all] [stable] [on=o1]: an OffsetFetch of one group, from
        version 8 on of several."""
        version = command.number("v", 10)
        words = [word for word in command.words if word not in ("all", "stable")]
        request = OffsetFetchRequest()
        if version >= 7:
            request.require_stable = command.has("stable")
        groups = command.many("groups", "(g)")
        if version < 8:
            [request.group_id] = groups
            request.all_topics = command.has("all")
            for word in words:
                name, index = split_topic_partition(word)
                request.topics.append(OffsetFetchRequest.OffsetFetchRequestTopic(name=name, partition_indexes=[index]))
        for group_id in groups if version >= 8 else []:
            group = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group_id, all_topics=command.has("all"))
            request.groups.append(group)
            for word in words:
                name, index = split_topic_partition(word)
                topic = OffsetFetchRequest.OffsetFetchRequestTopics(partition_indexes=[index])
                group.topics.append(topic)
                if version >= 10:
                    topic.topic_id = self.topic_id(name)
                else:
                    topic.name = name
        return self.scene.receive(command.text("on", "o1"), request, version)

    def verb_find_coordinator(self, command: Command) -> str:
        """find-coordinator g ... [v=6] [type=0] [on=a1]: a FindCoordinator."""
        version = command.number("v", 6)
        request = FindCoordinatorRequest()
        if version >= 1:
            request.key_type = command.number("type", 0)
        if version >= 4:
            request.coordinator_keys = command.words
        else:
            [request.key] = command.words
        return self.scene.receive(command.text("on", "a1"), request, version)

    def verb_describe_groups(self, command: Command) -> str:
        """describe-groups g ... [v=6] [on=a1]: a DescribeGroups."""
        request = DescribeGroupsRequest(groups=command.words)
        return self.scene.receive(command.text("on", "a1"), request, command.number("v", 6))

    def verb_list_groups(self, command: Command) -> str:
        """list-groups [states=(Stable)] [types=(classic)] [v=5] [on=a1]: a ListGroups."""
        request = ListGroupsRequest(
            states_filter=command.many("states", "()"), types_filter=command.many("types", "()")
        )
        return self.scene.receive(command.text("on", "a1"), request, command.number("v", 5))
