"""The APIs of the wire, as ``proto/krift/v1/node_service.proto`` has them: requests, responses, and what is read from
them generically."""

from __future__ import annotations

from typing import Any

from krift.v1.apis import APIS, AnyMessage, AnyRequest, AnyResponse, Api
from krift.v1.checks import VersionError, check_fields, response_errors

REQUESTS: dict[Api, type[Any]] = {api: spec.request for api, spec in APIS.items()}
RESPONSES: dict[Api, type[Any]] = {api: spec.response for api, spec in APIS.items()}

API_OF_REQUEST: dict[type[Any], Api] = {kind: api for api, kind in REQUESTS.items()}
"""Class of a request -> its API."""

API_OF_RESPONSE: dict[type[Any], Api] = {kind: api for api, kind in RESPONSES.items()}
"""Class of a response -> its API."""

API_NAMES: dict[int, str] = {int(api): api.name for api in Api}
"""API key -> name (``Api.name`` takes several times as long, and every message asks)."""


def api_of(request: AnyRequest) -> Api:
    """The API a request belongs to."""
    return API_OF_REQUEST[type(request)]


def request_version(request: AnyRequest) -> int:
    """The version a request says it has."""
    return request.header.api_version


__all__ = [
    "APIS",
    "API_NAMES",
    "API_OF_REQUEST",
    "API_OF_RESPONSE",
    "REQUESTS",
    "RESPONSES",
    "AnyMessage",
    "AnyRequest",
    "AnyResponse",
    "Api",
    "VersionError",
    "api_of",
    "check_fields",
    "request_version",
    "response_errors",
]
