"""An operator's client: elections, configuration, topics, the quorum and its voters (``KafkaAdminClient.java``).

It has no workload: it does what it is invoked for, any number of operations at a time.
"""

from __future__ import annotations

from typing import Any

import msgspec

from actors.client import delete_records
from actors.client.client_base import ClientNode, components
from actors.client.least_loaded_node import LeastLoadedNode
from actors.node.backoff import backoff_range
from actors.node.component import Component
from actors.node.errors import KafkaError, error_name, traits
from actors.node.events import Invoked
from actors.node.messages import AnyRequest, AnyResponse, Api, response_errors
from actors.node.network_client import Ended
from actors.node.spec import METADATA_TOPIC, node_id, split_topic_partition, topic_partition
from actors.node.step import Step
from actors.trace.events import AdminInvoke, AdminReturn, ErrorSeen, Outcome
from krift.v1.admin import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from krift.v1.common import NodeEndpoint
from krift.v1.delete_records import DeleteRecordsResponse
from krift.v1.quorum import (
    AddRaftVoterRequest,
    AddRaftVoterResponse,
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)
from krift.v1.topics import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)

CONNECTION = "admin"
PURPOSE = "admin/"
"""Prefix of purposes of calls and choices: ``admin/<task>``."""
RETRY = "admin-retry/"
DEADLINE = "admin-deadline/"

ELECT_LEADERS = "elect-leaders"
ALTER_CONFIG = "alter-config"
DESCRIBE_QUORUM = "describe-quorum"
ADD_VOTER = "add-voter"
REMOVE_VOTER = "remove-voter"
CREATE_TOPIC = "create-topic"
DELETE_TOPIC = "delete-topic"
CREATE_PARTITIONS = "create-partitions"
DELETE_RECORDS = "delete-records"
APIS = {
    ELECT_LEADERS: Api.ElectLeaders,
    ALTER_CONFIG: Api.IncrementalAlterConfigs,
    DESCRIBE_QUORUM: Api.DescribeQuorum,
    ADD_VOTER: Api.AddRaftVoter,
    REMOVE_VOTER: Api.RemoveRaftVoter,
    CREATE_TOPIC: Api.CreateTopics,
    DELETE_TOPIC: Api.DeleteTopics,
    CREATE_PARTITIONS: Api.CreatePartitions,
    DELETE_RECORDS: Api.DeleteRecords,
}

ELECTION_TYPES = {"preferred": 0, "unclean": 1}
RESOURCE_TYPES = {"topic": 2, "broker": 4}
SET = 0
DELETE = 1
DELETE_BY_ID = 6
"""Version of DeleteTopics that lists topics with name or id, not names alone."""


class AdminTask(msgspec.Struct):
    """One request of an operation. broker: id of the broker that must get it, -1: any. call: in flight, 0 none.
    sent: it went out at least once, so that nobody knows what became of it if no answer comes. awaits: the metadata
    updates that were known when it began to look for leaders, -1 it has not."""

    operation: str
    kind: str
    arguments: dict[str, Any]
    deadline_ms: int
    node: LeastLoadedNode
    broker: int = -1
    call: int = 0
    failures: int = 0
    waiting: bool = False
    sent: bool = False
    awaits: int = -1


class AdminOperation(msgspec.Struct):
    """An operation under way: its requests that have not ended, of as many as there have been, and what the others were
    told."""

    operation: str
    name: str
    kind: str
    tasks: list[str]
    results: dict[str, Any] = {}
    outcome: Outcome = "ok"
    error: int = 0
    count: int = 0
    low_watermarks: dict[str, int] = {}


class AdminNode(ClientNode):
    """Operations, with their arguments: elect-leaders (type preferred or unclean, partitions: topic partitions, none
    for all), alter-config (resources: topic/NAME, broker/ID or broker/ for all brokers; set: key -> text; delete:
    keys), describe-quorum, add-voter and remove-voter (controller: its name, directory: id of its directory),
    create-topic (topic, partitions, replicas: -1 the controller's defaults, config), delete-topic (topic),
    create-partitions (topic, count), delete-records (offsets: topic partition -> offset, -1 the high watermark).

    Each lasts until it is answered or default.api.timeout.ms is over, and is completed with {"results": ...}, or
    {"error": name} if it failed as a whole. Requests about one broker go to that broker, those to delete records to the
    leaders, all others to any.
    """

    tasks: dict[str, AdminTask] = msgspec.field(default_factory=dict)
    operations_open: dict[str, AdminOperation] = msgspec.field(default_factory=dict)

    def _topics(self) -> list[str]:
        return []

    # ---- operations --------------------------------------------------------------------------------------

    def _on_invoked(self, step: Step, event: Invoked) -> None:
        if event.kind not in APIS:
            super()._on_invoked(step, event)
            return
        if not self.running:
            self.running = True
            self.metadata.request_update()
        name = self.next_operation()
        step.record(AdminInvoke(name, event.kind, event.arguments))
        operation = AdminOperation(event.operation, name, event.kind, [])
        self.operations_open[name] = operation
        timeout_ms = self.spec.config["default.api.timeout.ms"]
        for broker, arguments in _split(event.kind, event.arguments):
            self._add_task(step, operation, arguments, step.now_ms + timeout_ms, broker)

    def _add_task(
        self, step: Step, operation: AdminOperation, arguments: dict[str, Any], deadline_ms: int, broker: int
    ) -> AdminTask:
        name = f"{operation.name}/{operation.count}"
        operation.count += 1
        operation.tasks.append(name)
        node = LeastLoadedNode(f"{PURPOSE}{name}", CONNECTION)
        task = self.tasks[name] = AdminTask(operation.name, operation.kind, arguments, deadline_ms, node, broker)
        step.set_timer(f"{DEADLINE}{name}", max(0, deadline_ms - step.now_ms))
        return task

    def _work(self, step: Step) -> None:
        for name in list(self.tasks):
            if name in self.tasks:
                self._poll_task(step, name, self.tasks[name])

    def _poll_task(self, step: Step, name: str, task: AdminTask) -> None:
        if task.call or task.waiting:
            return
        if task.kind == DELETE_RECORDS and task.broker < 0:
            self._look_up(step, name, task)
            return
        brokers = [task.broker] if task.broker >= 0 else self.metadata.brokers or self.metadata.bootstrap
        peer = task.node.ready(step, self.net, brokers)
        if peer is None:
            return
        version = self.net.version(peer, CONNECTION, APIS[task.kind])
        task.node.release()
        unclean = task.kind == ELECT_LEADERS and task.arguments["type"] == "unclean"
        if version is None or (version == 0 and unclean):
            self._end_task(step, name, "fail", KafkaError.UNSUPPORTED_VERSION, {})
            return
        remaining_ms = max(1, task.deadline_ms - step.now_ms)
        request = _request(task, version, remaining_ms, self.spec.config["default.api.timeout.ms"])
        timeout_ms = min(self.net.request_timeout_ms, remaining_ms)
        task.call = self.net.send(step, peer, CONNECTION, request, version, f"{PURPOSE}{name}", timeout_ms)
        task.sent = True

    def on_ended(self, step: Step, ended: Ended, name: str) -> None:
        """The call of a task ended."""
        task = self.tasks.get(name)
        if task is None:
            return
        task.call = 0
        if ended.response is None:
            self._retry(step, name, task)
            return
        if isinstance(ended.response, DeleteRecordsResponse):
            deleted = delete_records.take(ended.response, "deletion-tried-once" in step.defects)
            self._deleted(step, name, task, ended, deleted)
            return
        error, results = _result(task, ended.response)
        if error and task.kind == DESCRIBE_QUORUM and traits(error).retriable:
            step.record(ErrorSeen("", APIS[task.kind].name, ended.version, error, ended.peer))
            self._retry(step, name, task)
        elif error:
            self._end_task(step, name, "fail" if traits(error).definite else "unknown", error, {})
        else:
            self._end_task(step, name, "ok", next(iter(response_errors(ended.response)), 0), results)

    def _look_up(self, step: Step, name: str, task: AdminTask) -> None:
        """Ask the leaders, each for its own partitions, as far as newer metadata tells them."""
        metadata, offsets = self.metadata, task.arguments["offsets"]
        if task.awaits < 0 or (task.awaits < metadata.updates and not delete_records.by_leader(metadata, offsets)):
            task.awaits = metadata.updates
            metadata.topics += [each for each in delete_records.topics_of(offsets) if each not in metadata.topics]
            metadata.request_update()
            return
        if task.awaits >= metadata.updates:
            return
        operation = self.operations_open[task.operation]
        for broker, asked in delete_records.by_leader(metadata, offsets).items():
            part = self._add_task(step, operation, {"offsets": asked}, task.deadline_ms, broker)
            part.failures, part.sent = task.failures, task.sent
            self._poll_task(step, operation.tasks[-1], part)
            offsets = {tp: offset for tp, offset in offsets.items() if tp not in asked}
        if offsets:
            task.arguments, task.awaits = {"offsets": offsets}, -1
        else:
            self._end_task(step, name, "ok", KafkaError.NONE, {})

    def _deleted(self, step: Step, name: str, task: AdminTask, ended: Ended, deleted: delete_records.Deleted) -> None:
        """A leader answered: what is not decided is asked again, of it or of whoever leads now."""
        offsets, operation = task.arguments["offsets"], self.operations_open[task.operation]
        operation.low_watermarks.update(deleted.low_watermarks)
        for again, broker in ((deleted.unmapped, -1), (deleted.retriable, task.broker)):
            for tp, error in again.items():
                step.record(ErrorSeen(tp, Api.DeleteRecords.name, ended.version, error, ended.peer))
            if again:
                rest = {tp: offsets[tp] for tp in again}
                part = self._add_task(step, operation, {"offsets": rest}, task.deadline_ms, broker)
                part.failures, part.sent = task.failures, True
                self._retry(step, operation.tasks[-1], part, answered=True)
        first = next((error for error in deleted.results.values() if error), KafkaError.NONE)
        results = {tp: error.name for tp, error in deleted.results.items()}
        self._end_task(step, name, "ok", first, results)

    def _retry(self, step: Step, name: str, task: AdminTask, *, answered: bool = False) -> None:
        config = self.spec.config
        low, high = backoff_range(config["retry.backoff.ms"], config["retry.backoff.max.ms"], task.failures)
        task.failures += 1
        task.waiting = True
        if task.kind == DELETE_RECORDS and task.broker >= 0 and not answered:
            task.broker, task.awaits = -1, -1  # another one may lead (``AdminApiDriver.onFailure``)
        step.set_timer(f"{RETRY}{name}", low, high)

    def on_retry(self, name: str) -> None:
        """The pause of a task is over."""
        task = self.tasks.get(name)
        if task is not None:
            task.waiting = False

    def on_deadline(self, step: Step, name: str) -> None:
        """The time of a task is over."""
        task = self.tasks.get(name)
        if task is not None:
            # What was never sent has certainly not happened.
            self._end_task(step, name, "unknown" if task.sent else "fail", KafkaError.REQUEST_TIMED_OUT, {})

    def on_chosen(self, value: int, name: str) -> None:
        """A broker was drawn for a task."""
        task = self.tasks.get(name)
        if task is not None:
            task.node.on_chosen(self.net, value)

    def _end_task(
        self,
        step: Step,
        name: str,
        outcome: Outcome,
        error: int,
        results: dict[str, Any],
    ) -> None:
        task = self.tasks.pop(name)
        step.cancel_timer(f"{DEADLINE}{name}")
        step.cancel_timer(f"{RETRY}{name}")
        operation = self.operations_open[task.operation]
        operation.tasks.remove(name)
        operation.results.update(results)
        if _RANK[outcome] > _RANK[operation.outcome] or not operation.error:
            operation.error = error
        operation.outcome = max(operation.outcome, outcome, key=_RANK.__getitem__)
        if not operation.tasks:
            self._return(step, operation)

    def _return(self, step: Step, operation: AdminOperation) -> None:
        del self.operations_open[operation.name]
        results, deleting = operation.results, [each for each in self.tasks.values() if each.kind == DELETE_RECORDS]
        self.metadata.topics = [
            topic for each in deleting for topic in delete_records.topics_of(each.arguments["offsets"])
        ]
        returned = (operation.name, operation.outcome, operation.error, operation.kind, results)
        step.record(AdminReturn(*returned, operation.low_watermarks))
        failed = operation.outcome != "ok"
        step.complete(operation.operation, {"error": error_name(operation.error)} if failed else {"results": results})

    def _stopped(self, step: Step) -> dict[str, Any] | None:
        return None if self.operations_open else {}


_RANK = {"ok": 0, "fail": 1, "unknown": 2}


def _split(kind: str, arguments: dict[str, Any]) -> list[tuple[int, dict[str, Any]]]:
    """The requests of an operation: (broker that must get it or -1, arguments)."""
    if kind != ALTER_CONFIG:
        return [(-1, arguments)]
    parts: dict[int, list[str]] = {}
    for resource in arguments["resources"]:
        resource_type, _, name = resource.partition("/")
        parts.setdefault(int(name) if resource_type == "broker" and name else -1, []).append(resource)
    return [(broker, {**arguments, "resources": resources}) for broker, resources in parts.items()]


def _request(task: AdminTask, version: int, remaining_ms: int, api_timeout_ms: int) -> AnyRequest:
    if task.kind == DELETE_RECORDS:
        return delete_records.request_of(task.arguments["offsets"], api_timeout_ms)
    if task.kind == ELECT_LEADERS:
        return _elect_request(task.arguments, version, remaining_ms)
    if task.kind == ALTER_CONFIG:
        return _alter_request(task.arguments)
    if task.kind in (CREATE_TOPIC, DELETE_TOPIC, CREATE_PARTITIONS):
        return _topic_request(task, version, remaining_ms)
    if task.kind in (ADD_VOTER, REMOVE_VOTER):
        return _voter_request(task, remaining_ms)
    metadata = DescribeQuorumRequest.PartitionData(partition_index=0)
    topic = DescribeQuorumRequest.TopicData(topic_name=METADATA_TOPIC, partitions=[metadata])
    return DescribeQuorumRequest(topics=[topic])


def _voter_request(task: AdminTask, remaining_ms: int) -> AnyRequest:
    voter, directory = node_id(task.arguments["controller"]), task.arguments["directory"]
    if task.kind == REMOVE_VOTER:
        return RemoveRaftVoterRequest(voter_id=voter, voter_directory_id=directory)
    listener = NodeEndpoint(node_id=voter, host=task.arguments["controller"])
    return AddRaftVoterRequest(
        timeout_ms=remaining_ms, voter_id=voter, voter_directory_id=directory, listeners=[listener]
    )


def _topic_request(task: AdminTask, version: int, remaining_ms: int) -> AnyRequest:
    said, topic = task.arguments, task.arguments["topic"]
    if task.kind == CREATE_PARTITIONS:
        grown = CreatePartitionsRequest.CreatePartitionsTopic(name=topic, count=said["count"])
        return CreatePartitionsRequest(topics=[grown], timeout_ms=remaining_ms)
    if task.kind == DELETE_TOPIC:
        request = DeleteTopicsRequest(timeout_ms=remaining_ms)
        if version >= DELETE_BY_ID:
            request.topics.append(DeleteTopicsRequest.DeleteTopicState(name=topic))
        else:
            request.topic_names.append(topic)
        return request
    created = CreateTopicsRequest.CreatableTopic(
        name=topic, num_partitions=said["partitions"], replication_factor=said["replicas"]
    )
    for key, value in said["config"].items():
        created.configs.append(CreateTopicsRequest.CreatableTopicConfig(name=key, value=value))
    return CreateTopicsRequest(topics=[created], timeout_ms=remaining_ms)


def _elect_request(arguments: dict[str, Any], version: int, remaining_ms: int) -> ElectLeadersRequest:
    request = ElectLeadersRequest(timeout_ms=remaining_ms)
    if version >= 1:
        request.election_type = ELECTION_TYPES[arguments["type"]]
    topics: dict[str, list[int]] = {}
    for tp in arguments["partitions"]:
        topic, partition = split_topic_partition(tp)
        topics.setdefault(topic, []).append(partition)
    for topic, partitions in topics.items():
        request.topic_partitions.append(ElectLeadersRequest.TopicPartitions(topic=topic, partitions=partitions))
    request.all_partitions = not topics
    return request


def _alter_request(arguments: dict[str, Any]) -> IncrementalAlterConfigsRequest:
    request = IncrementalAlterConfigsRequest(validate_only=arguments.get("validate_only", False))
    for each in arguments["resources"]:
        resource_type, _, name = each.partition("/")
        resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
            resource_type=RESOURCE_TYPES[resource_type], resource_name=name
        )
        request.resources.append(resource)
        for key, value in arguments["set"].items():
            resource.configs.append(
                IncrementalAlterConfigsRequest.AlterableConfig(name=key, config_operation=SET, value=value)
            )
        for key in arguments["delete"]:
            resource.configs.append(IncrementalAlterConfigsRequest.AlterableConfig(name=key, config_operation=DELETE))
    return request


def _result(task: AdminTask, response: AnyResponse) -> tuple[int, dict[str, Any]]:
    """(error of the whole request, what became of each part)."""
    if isinstance(response, ElectLeadersResponse):
        return response.error_code, {
            topic_partition(topic.topic, result.partition_id): error_name(result.error_code)
            for topic in response.replica_election_results
            for result in topic.partition_result
        }
    if isinstance(response, IncrementalAlterConfigsResponse):
        names = {number: name for name, number in RESOURCE_TYPES.items()}
        return 0, {
            f"{names.get(each.resource_type, each.resource_type)}/{each.resource_name}": error_name(each.error_code)
            for each in response.responses
        }
    if isinstance(response, CreateTopicsResponse):
        return 0, {each.name: error_name(each.error_code) for each in response.topics}
    if isinstance(response, DeleteTopicsResponse):
        return 0, {each.name or each.topic_id: error_name(each.error_code) for each in response.responses}
    if isinstance(response, CreatePartitionsResponse):
        return 0, {each.name: error_name(each.error_code) for each in response.results}
    if isinstance(response, AddRaftVoterResponse | RemoveRaftVoterResponse):
        return 0, {task.arguments["controller"]: error_name(response.error_code)}
    assert isinstance(response, DescribeQuorumResponse)
    if response.error_code:
        return response.error_code, {}
    partition = response.topics[0].partitions[0]
    return partition.error_code, {
        "leader": partition.leader_id,
        "leader_epoch": partition.leader_epoch,
        "high_watermark": partition.high_watermark,
        "voters": {str(each.replica_id): each.log_end_offset for each in partition.current_voters},
        "observers": {str(each.replica_id): each.log_end_offset for each in partition.observers},
    }


AdminNode.components = components(
    Component[AdminNode, Step](
        timers={
            RETRY: lambda node, step, task: node.on_retry(task),
            DEADLINE: lambda node, step, task: node.on_deadline(step, task),
        },
        answers={PURPOSE: lambda node, step, ended, task: node.on_ended(step, ended, task)},
        choices={PURPOSE: lambda node, step, value, task: node.on_chosen(value, task)},
    )
)
