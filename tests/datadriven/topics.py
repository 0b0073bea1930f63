"""CreateTopics, DeleteTopics and CreatePartitions in transcripts: requests from words, and answers as lines."""

from __future__ import annotations

from actors.node.errors import error_name
from actors.node.messages import AnyRequest, AnyResponse
from krift.v1.topics import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from tests.datadriven.runner import Command, parse_command

ANSWERS = (CreateTopicsResponse, DeleteTopicsResponse, CreatePartitionsResponse)


def _commands(command: Command) -> list[Command]:
    return [command, *(parse_command([f"and {line}"], command.line) for line in command.input)]


def _assignment(command: Command) -> list[list[int]]:
    return [[int(broker) for broker in text.split("/") if broker] for text in command.many("assign", "()")]


def create_topics_request(command: Command) -> CreateTopicsRequest:
    """``... orders [partitions=-1] [replicas=-1] [assign=(1/2,2/3)] [indexes=(0,1)] [config=(key:value)] [null=(key)]
    [validate-only]``; lines of input name further topics in the same way."""
    request = CreateTopicsRequest(validate_only=command.has("validate-only"))
    for each in _commands(command):
        topic = CreateTopicsRequest.CreatableTopic(
            name=each.words[0].strip("'"),
            num_partitions=each.number("partitions", -1),
            replication_factor=each.number("replicas", -1),
        )
        request.topics.append(topic)
        assigned = _assignment(each)
        indexes = [int(text) for text in each.many("indexes", "()")] or list(range(len(assigned)))
        for index, brokers in zip(indexes, assigned, strict=True):
            topic.assignments.append(
                CreateTopicsRequest.CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
            )
        for item in each.many("config", "()"):
            key, _, value = item.partition(":")
            topic.configs.append(CreateTopicsRequest.CreatableTopicConfig(name=key, value=value))
        for key in each.many("null", "()"):
            topic.configs.append(CreateTopicsRequest.CreatableTopicConfig(name=key))
    return request


def delete_topics_request(command: Command, ids: dict[str, str]) -> DeleteTopicsRequest:
    """``... orders id:payments id:?Xyz both:orders none: [v=6]``: by name, or by the id that a topic of that name has;
    ``?``: by that id itself."""
    request = DeleteTopicsRequest()
    for word in command.words:
        kind, found, rest = word.partition(":")
        if not found and command.number("v", 6) < 6:
            request.topic_names.append(word)
            continue
        topic_id = rest[1:] if rest.startswith("?") else ids.get(rest, "")
        name = {"id": None, "none": None, "both": rest}.get(kind, word) if found else word
        request.topics.append(DeleteTopicsRequest.DeleteTopicState(name=name, topic_id=topic_id if found else ""))
    return request


def create_partitions_request(command: Command) -> CreatePartitionsRequest:
    """``... orders count=4 [assign=(1/2)] [validate-only]``; lines of input name further topics in the same way."""
    request = CreatePartitionsRequest(validate_only=command.has("validate-only"))
    for each in _commands(command):
        topic = CreatePartitionsRequest.CreatePartitionsTopic(name=each.words[0], count=each.number("count"))
        request.topics.append(topic)
        for brokers in _assignment(each):
            topic.assignments.append(CreatePartitionsRequest.CreatePartitionsAssignment(broker_ids=brokers))
    return request


def describe_topics_request(request: AnyRequest) -> str:
    """A line for a request that is passed on, or sent."""
    version = request.header.api_version
    match request:
        case CreateTopicsRequest():
            named = " ".join(f"{each.name}/{each.num_partitions}/{each.replication_factor}" for each in request.topics)
            return f"CreateTopics v{version} {named}"
        case DeleteTopicsRequest():
            named = " ".join([*request.topic_names, *(each.name or each.topic_id for each in request.topics)])
            return f"DeleteTopics v{version} {named}"
        case CreatePartitionsRequest():
            return f"CreatePartitions v{version} " + " ".join(f"{each.name}/{each.count}" for each in request.topics)
    raise AssertionError(f"{type(request).__name__} is no request about topics")


def describe_topics(response: AnyResponse) -> str:
    """A line per topic."""
    match response:
        case CreateTopicsResponse():
            return "; ".join(map(_created, response.topics)) or "none"
        case DeleteTopicsResponse():
            return "; ".join(
                _said(
                    f"{each.name or '-'}{'/' + each.topic_id if each.topic_id else ''}",
                    each.error_code,
                    each.error_message,
                )
                for each in response.responses
            )
        case CreatePartitionsResponse():
            return "; ".join(_said(each.name, each.error_code, each.error_message) for each in response.results)
    raise AssertionError(f"{type(response).__name__} is no answer about topics")


def _said(what: str, error: int, message: str) -> str:
    return f"{what} {error_name(error)}" + (f" ({message})" if message else "")


def _created(each: CreateTopicsResponse.CreatableTopicResult) -> str:
    if each.error_code:
        return _said(f"'{each.name}'" if not each.name else each.name, each.error_code, each.error_message)
    told = [f"id={each.topic_id}"] if each.topic_id else []
    told += [f"partitions={each.num_partitions} replicas={each.replication_factor}"] if each.num_partitions >= 0 else []
    told += [
        f"{config.name}={config.value}@{config.config_source}" for config in each.configs if config.config_source < 5
    ]
    return " ".join([each.name, *told]) + " NONE"
