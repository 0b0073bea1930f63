"""The answer to a version that this broker does not speak."""

from __future__ import annotations

from typing import Any

from google.protobuf.message import Message

from actors.node.errors import KafkaError
from actors.node.messages import RESPONSES, Api, api_of


def unsupported(request: Message) -> Message:
    """UNSUPPORTED_VERSION, in every place that the response has for an error."""
    api = api_of(request)
    answer = RESPONSES[api]()
    response: Any = answer
    error = int(KafkaError.UNSUPPORTED_VERSION)
    asked: Any = request
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
    else:
        response.error_code = error
    return answer
