"""ApiVersions, and the answer to a version that this broker does not speak."""

from __future__ import annotations

from typing import Any

from google.protobuf.message import Message

from actors.node.errors import KafkaError
from actors.node.messages import RESPONSES, Api, api_of
from actors.versions import BROKER_APIS, Ranges
from krift.v1.api_versions_pb2 import ApiVersionsRequest, ApiVersionsResponse


def speaks(ranges: Ranges, api: Api, version: int) -> bool:
    """Whether a broker with these ranges serves ``api`` at ``version``."""
    bounds = ranges.get(api.name)
    return api in BROKER_APIS and bounds is not None and bounds[0] <= version <= bounds[1]


def api_versions(ranges: Ranges, request: ApiVersionsRequest) -> ApiVersionsResponse:
    """What this broker speaks; to a version of ApiVersions that it does not, just its range of that."""
    response = ApiVersionsResponse()
    response.header.correlation_id = request.header.correlation_id
    apis: tuple[Api, ...] = BROKER_APIS
    if not speaks(ranges, Api.ApiVersions, request.header.api_version):
        response.error_code = int(KafkaError.UNSUPPORTED_VERSION)
        apis = (Api.ApiVersions,)
    for api in apis:
        if api.name in ranges:
            low, high = ranges[api.name]
            response.api_keys.add(api_key=int(api), min_version=low, max_version=high)
    return response


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
    else:
        response.error_code = error
    return answer
