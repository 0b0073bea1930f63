"""API versions: what a node speaks, and which fields a version has.

The ranges are those of Kafka 4.3.1 (``clients/src/main/resources/common/message``); the fields' ranges are
the ``versions`` option in the .proto files.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Protocol, cast

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from actors.node.messages import API_NAMES, Api, api_of
from krift.v1 import common_pb2
from krift.v1.common_pb2 import RequestHeader

API_VERSIONS: dict[Api, tuple[int, int]] = {
    Api.Produce: (3, 13),
    Api.Fetch: (4, 18),
    Api.ListOffsets: (1, 11),
    Api.Metadata: (0, 13),
    Api.UpdateMetadata: (0, 8),
    Api.ApiVersions: (0, 4),
    Api.InitProducerId: (0, 5),
    Api.OffsetForLeaderEpoch: (2, 4),
    Api.ElectLeaders: (0, 2),
    Api.IncrementalAlterConfigs: (0, 1),
    Api.Vote: (0, 2),
    Api.BeginQuorumEpoch: (0, 1),
    Api.EndQuorumEpoch: (0, 1),
    Api.DescribeQuorum: (0, 2),
    Api.AlterPartition: (2, 3),
    Api.FetchSnapshot: (0, 1),
    Api.BrokerRegistration: (0, 4),
    Api.BrokerHeartbeat: (0, 2),
    Api.AllocateProducerIds: (0, 0),
    Api.AddRaftVoter: (0, 1),
    Api.RemoveRaftVoter: (0, 0),
    Api.UpdateRaftVoter: (0, 0),
}
"""What Krift emulates of each API: lowest and highest version."""

BROKER_APIS = (
    Api.Produce,
    Api.Fetch,
    Api.ListOffsets,
    Api.Metadata,
    Api.ApiVersions,
    Api.InitProducerId,
    Api.ElectLeaders,
    Api.IncrementalAlterConfigs,
    Api.DescribeQuorum,
    Api.AddRaftVoter,
    Api.RemoveRaftVoter,
    Api.OffsetForLeaderEpoch,
)
PUSHED_BROKER_APIS = (*BROKER_APIS, Api.UpdateMetadata)
"""Of a broker that is told of the cluster as before KRaft (``metadata.propagation=push``)."""
CONTROLLER_APIS = (
    Api.Fetch,
    Api.ApiVersions,
    Api.ElectLeaders,
    Api.IncrementalAlterConfigs,
    Api.Vote,
    Api.BeginQuorumEpoch,
    Api.EndQuorumEpoch,
    Api.DescribeQuorum,
    Api.FetchSnapshot,
    Api.AlterPartition,
    Api.BrokerRegistration,
    Api.BrokerHeartbeat,
    Api.AllocateProducerIds,
    Api.AddRaftVoter,
    Api.RemoveRaftVoter,
    Api.UpdateRaftVoter,
)

Ranges = dict[str, list[int]]
"""API name -> [lowest, highest]."""


def default_ranges() -> Ranges:
    """Everything, at Kafka's present versions."""
    return {api.name: list(bounds) for api, bounds in API_VERSIONS.items()}


def negotiate(mine: Ranges, theirs: Ranges, api: Api) -> int | None:
    """The highest version of ``api`` that both ranges hold, or None."""
    name = API_NAMES[api]
    a, b = mine.get(name), theirs.get(name)
    if a is None or b is None:
        return None
    low, high = max(a[0], b[0]), min(a[1], b[1])
    return high if low <= high else None


class VersionError(AssertionError):
    """A node wrote a field that the version of the message does not have: a bug of the node."""


@cache
def field_versions(field: FieldDescriptor) -> tuple[int, int]:
    """Lowest and highest version in which a field is legal."""
    text = field.GetOptions().Extensions[common_pb2.versions]
    if not text:
        return (0, 32767)
    low, plus, high = text.partition("+")
    if plus:
        return (int(low), 32767)
    low, dash, high = text.partition("-")
    return (int(low), int(high) if dash else int(low))


_Check = Callable[[Message], None]


@cache
def _checker(descriptor: Descriptor, version: int) -> _Check | None:
    """A function that raises VersionError for a message with an illegal field, or None if nothing can be illegal."""
    scalars: list[str] = []
    repeated: list[str] = []
    nested: list[tuple[str, bool, _Check]] = []
    for field in descriptor.fields:
        low, high = field_versions(field)
        if not low <= version <= high:
            (repeated if field.is_repeated else scalars).append(field.name)
        elif field.message_type is not None:
            inner = _checker(field.message_type, version)
            if inner is not None:
                nested.append((field.name, field.is_repeated, inner))
    if not scalars and not repeated and not nested:
        return None

    def check(message: Message) -> None:
        for name in scalars:
            if message.HasField(name):
                raise VersionError(f"{descriptor.name}.{name} does not exist in version {version}")
        for name in repeated:
            if getattr(message, name):
                raise VersionError(f"{descriptor.name}.{name} does not exist in version {version}")
        for name, many, inner in nested:
            if many:
                for item in getattr(message, name):
                    inner(item)
            elif message.HasField(name):
                inner(getattr(message, name))

    return check


def check_fields(message: Message, version: int) -> None:
    """Raise VersionError if ``message`` sets a field that ``version`` of its API does not have."""
    check = _checker(message.DESCRIPTOR, version)
    if check is not None:
        check(message)


class _Request(Protocol):
    """What requests have beyond other messages."""

    @property
    def header(self) -> RequestHeader: ...


def request_header(request: Message) -> RequestHeader:
    """Field 1 of every request."""
    return cast(_Request, request).header


def request_version(request: Message) -> int:
    """The version a request says it has."""
    return request_header(request).api_version


__all__ = [
    "API_VERSIONS",
    "BROKER_APIS",
    "CONTROLLER_APIS",
    "PUSHED_BROKER_APIS",
    "Ranges",
    "VersionError",
    "api_of",
    "check_fields",
    "default_ranges",
    "field_versions",
    "negotiate",
    "request_header",
    "request_version",
]
