"""Answers that say nothing but an error, in every place that the response has for it
(``AbstractRequest.getErrorResponse``)."""

from __future__ import annotations

from typing import Any

from google.protobuf.message import Message

from actors.node.errors import KafkaError
from actors.node.messages import RESPONSES, Api, api_of


def error_response(request: Message, error: KafkaError, message: str = "") -> Any:
    """The answer to a request that fails as a whole. Where the response, or its version, has no place for that, each
    part that was asked for fails; of an ElectLeaders each part fails as well, with the same ``message``."""
    api = api_of(request)
    response: Any = RESPONSES[api]()
    asked: Any = request
    if asked.header.correlation_id:
        response.header.correlation_id = asked.header.correlation_id
    if api == Api.Produce:
        for data in asked.topic_data:
            topic = response.responses.add(name=data.name)
            for partition in data.partition_data:
                topic.partition_responses.add(index=partition.index, error_code=error)
    elif api == Api.ListOffsets:
        for data in asked.topics:
            topic = response.topics.add(name=data.name)
            for partition in data.partitions:
                topic.partitions.add(partition_index=partition.partition_index, error_code=error)
    elif api == Api.OffsetForLeaderEpoch:
        for data in asked.topics:
            topic = response.topics.add(topic=data.topic)
            for partition in data.partitions:
                topic.partitions.add(partition=partition.partition, error_code=error)
    elif api == Api.IncrementalAlterConfigs:
        for resource in asked.resources:
            response.responses.add(
                error_code=error, resource_type=resource.resource_type, resource_name=resource.resource_name
            )
    elif api == Api.ElectLeaders:
        _elect_leaders(asked, response, error, message)
    else:
        response.error_code = error
    return response


def _elect_leaders(asked: Any, response: Any, error: KafkaError, message: str) -> None:
    if asked.header.api_version >= 1:
        response.error_code = error
    for each in asked.topic_partitions:
        answer = response.replica_election_results.add(topic=each.topic)
        for index in each.partitions:
            answer.partition_result.add(partition_id=index, error_code=error, error_message=message)
