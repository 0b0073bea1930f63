"""What an operator asks and is told, in transcripts: requests from a script's words, and answers as lines."""

from __future__ import annotations

from actors.node.errors import error_name
from actors.node.messages import AnyRequest, AnyResponse
from actors.node.spec import METADATA_TOPIC, split_topic_partition
from krift.v1.admin import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from krift.v1.quorum import AddRaftVoterRequest, RemoveRaftVoterRequest
from tests.datadriven.runner import Command


def elect_request(command: Command) -> ElectLeadersRequest:
    """``elect preferred|unclean all|orders-0 payments-0 [v=2]``."""
    kind, *partitions = command.words
    request = ElectLeadersRequest(all_partitions=partitions == ["all"])
    if command.number("v", 2) >= 1:
        request.election_type = {"preferred": 0, "unclean": 1}.get(kind, 7)
    for tp in [] if request.all_partitions else partitions:
        topic, index = split_topic_partition(tp)
        request.topic_partitions.append(ElectLeadersRequest.TopicPartitions(topic=topic, partitions=[index]))
    return request


def alter_configs_request(command: Command) -> IncrementalAlterConfigsRequest:
    """``... topic/orders [broker/1 broker/] [set=(key:value)] [delete=(key)] [append=(key:value)]
    [subtract=(key:value)] [operation=(9:key)] [null=(key)] [validate-only]``."""
    request = IncrementalAlterConfigsRequest(validate_only=command.has("validate-only"))
    for word in command.words:
        if "/" not in word:
            continue
        kind, _, name = word.partition("/")
        number = int(kind) if kind.isdigit() else {"topic": 2, "broker": 4}.get(kind, 32)
        resource = IncrementalAlterConfigsRequest.AlterConfigsResource(resource_type=number, resource_name=name)
        request.resources.append(resource)
        for number, verb in enumerate(("set", "delete", "append", "subtract")):
            for item in command.many(verb, "()"):
                key, _, value = item.partition(":")
                config = IncrementalAlterConfigsRequest.AlterableConfig(name=key, config_operation=number)
                resource.configs.append(config)
                if verb != "delete":
                    config.value = value
        for item in command.many("operation", "()"):
            operation, _, key = item.partition(":")
            resource.configs.append(
                IncrementalAlterConfigsRequest.AlterableConfig(name=key, config_operation=int(operation), value="1")
            )
        for key in command.many("null", "()"):
            resource.configs.append(IncrementalAlterConfigsRequest.AlterableConfig(name=key))
    return request


def describe_quorum_request(command: Command) -> DescribeQuorumRequest:
    """``describe-quorum [topic=__cluster_metadata] [partition=0]``."""
    request = DescribeQuorumRequest()
    topic = DescribeQuorumRequest.TopicData(topic_name=command.text("topic", METADATA_TOPIC))
    request.topics.append(topic)
    topic.partitions.append(DescribeQuorumRequest.PartitionData(partition_index=command.number("partition", 0)))
    return request


def plain(ids: list[int]) -> str:
    """``[1,2]``."""
    return f"[{','.join(str(number) for number in ids)}]"


def describe_admin_request(request: AnyRequest) -> str:
    """A line for a request that is passed on, or sent."""
    match request:
        case ElectLeadersRequest():
            kind = "unclean" if request.election_type else "preferred"
            named = [f"{each.topic}-{index}" for each in request.topic_partitions for index in each.partitions]
            return f"ElectLeaders v{request.header.api_version} {kind} {' '.join(named) or 'all'}"
        case AddRaftVoterRequest():
            hosts = ",".join(listener.host for listener in request.listeners)
            voter = f"{request.voter_id}/{request.voter_directory_id}"
            return f"AddRaftVoter v{request.header.api_version} {voter} at {hosts} in {request.timeout_ms}ms"
        case RemoveRaftVoterRequest():
            voter = f"{request.voter_id}/{request.voter_directory_id}"
            return f"RemoveRaftVoter v{request.header.api_version} {voter}"
        case IncrementalAlterConfigsRequest():
            return "IncrementalAlterConfigs " + "; ".join(
                f"{_KINDS.get(each.resource_type, each.resource_type)}/{each.resource_name} "
                + " ".join(_change(config) for config in each.configs)
                for each in request.resources
            )
    return type(request).__name__.removesuffix("Request")


def _change(config: IncrementalAlterConfigsRequest.AlterableConfig) -> str:
    return f"{config.name}={config.value}" if config.value is not None else f"no {config.name}"


_KINDS = {2: "topic", 4: "broker"}


def describe_admin(response: AnyResponse) -> str:
    """A line per answer, with every part; several for a quorum."""
    error = getattr(response, "error_code", 0)
    if isinstance(response, ElectLeadersResponse):
        elected = [(each.topic, data) for each in response.replica_election_results for data in each.partition_result]
        whole = [error_name(error)] if error else []
        return "; ".join([*whole, *(_elected(topic, data) for topic, data in elected)]) or "none"
    if error:
        return error_name(error)
    match response:
        case IncrementalAlterConfigsResponse():
            return "; ".join(map(_altered_resource, response.responses)) or "none"
        case DescribeQuorumResponse():
            return _quorum(response)
    raise AssertionError(f"{type(response).__name__} is no answer to an operator")


def _altered_resource(each: IncrementalAlterConfigsResponse.AlterConfigsResourceResponse) -> str:
    kind = {2: "topic", 4: "broker"}.get(each.resource_type, str(each.resource_type))
    return f"{kind}/{each.resource_name} {error_name(each.error_code)}"


def _elected(topic: str, data: ElectLeadersResponse.PartitionResult) -> str:
    message = f" ({data.error_message})" if data.error_message else ""
    return f"{topic}-{data.partition_id} {error_name(data.error_code)}{message}"


def _quorum(response: DescribeQuorumResponse) -> str:
    data = response.topics[0].partitions[0]
    if data.error_code:
        return f"{response.topics[0].topic_name}-{data.partition_index} {error_name(data.error_code)}"

    def replica(state: DescribeQuorumResponse.ReplicaState) -> str:
        directory = f" {state.replica_directory_id}" if state.replica_directory_id else ""
        times = (
            f" fetched={state.last_fetch_timestamp} caught-up={state.last_caught_up_timestamp}"
            if state.last_fetch_timestamp != -1
            else ""
        )
        return f"\n    {state.replica_id}{directory} end={state.log_end_offset}{times}"

    voters = "".join(map(replica, data.current_voters))
    observers = "".join(map(replica, data.observers))
    nodes = f"\n  nodes {plain([node.node_id for node in response.nodes])}" if response.nodes else ""
    return (
        f"leader={data.leader_id} epoch={data.leader_epoch} high-watermark={data.high_watermark}"
        f"\n  voters{voters}\n  observers{observers}{nodes}"
    )
