"""What a server says about the versions it speaks (``ApiVersionManager``, ``KafkaApis.handleApiVersionsRequest``)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from actors.node.errors import KafkaError
from actors.node.messages import API_NAMES, AnyRequest, Api, api_of, request_version
from actors.node.spec import NodeSpec
from actors.versions import Ranges
from krift.v1.api_versions import ApiVersionsRequest, ApiVersionsResponse

PRODUCE_TOLD_FROM = 0
"""Lowest version of Produce that servers name, though they do not speak it: librdkafka will not compress for one that
leaves it out (KAFKA-18659, ``ApiKeys.PRODUCE_API_VERSIONS_RESPONSE_MIN_VERSION``)."""

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def speaks(ranges: Ranges, request: AnyRequest) -> bool:
    """Whether a node with these ranges speaks the API and version of ``request``."""
    bounds = ranges.get(API_NAMES[api_of(request)])
    return bounds is not None and bounds[0] <= request_version(request) <= bounds[1]


def api_versions_response(
    spec: NodeSpec,
    apis: Iterable[Api],
    request: ApiVersionsRequest,
    features: Mapping[str, int] | None = None,
    features_epoch: int = -1,
) -> ApiVersionsResponse:
    """The answer to ApiVersions: the ranges of the server, as far as it serves ``apis``, and the finalized ``features``
    by their levels, as metadata has them that is known up to the offset ``features_epoch``. A version it does not speak
    is answered with its range of ApiVersions alone, in the layout of version 0, so that the client can try again."""
    ranges = spec.versions
    if not speaks(ranges, request):
        response = ApiVersionsResponse(error_code=KafkaError.UNSUPPORTED_VERSION)
        _add(response, ranges, [Api.ApiVersions])
        return response
    if request_version(request) >= 3 and not (
        _SOFTWARE.fullmatch(request.client_software_name) and _SOFTWARE.fullmatch(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=KafkaError.INVALID_REQUEST)
    response = ApiVersionsResponse()
    _add(response, ranges, apis)
    if features is not None and request_version(request) >= 3:
        response.finalized_features_epoch = features_epoch
        for name, level in sorted(features.items()):
            finalized = ApiVersionsResponse.FinalizedFeatureKey(name=name, max_version_level=level)
            finalized.min_version_level = level
            response.finalized_features.append(finalized)
    return response


def _add(response: ApiVersionsResponse, ranges: Ranges, apis: Iterable[Api]) -> None:
    for api in apis:
        bounds: Any = ranges.get(api.name)
        if bounds is not None:
            low = PRODUCE_TOLD_FROM if api == Api.Produce else bounds[0]
            response.api_keys.append(
                ApiVersionsResponse.ApiVersion(api_key=int(api), min_version=low, max_version=bounds[1])
            )
