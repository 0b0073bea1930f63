"""The APIs of the wire: keys, request and response classes, and what is read from them generically."""

from __future__ import annotations

from enum import IntEnum
from functools import cache

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from krift.v1 import (
    admin_pb2,
    api_versions_pb2,
    controller_pb2,
    fetch_pb2,
    list_offsets_pb2,
    metadata_pb2,
    offset_for_leader_epoch_pb2,
    produce_pb2,
    producer_ids_pb2,
    quorum_pb2,
    update_metadata_pb2,
)


class Api(IntEnum):
    """Kafka's API keys. The name is the gRPC method's name."""

    Produce = 0
    Fetch = 1
    ListOffsets = 2
    Metadata = 3
    UpdateMetadata = 6
    ApiVersions = 18
    InitProducerId = 22
    OffsetForLeaderEpoch = 23
    ElectLeaders = 43
    IncrementalAlterConfigs = 44
    Vote = 52
    BeginQuorumEpoch = 53
    EndQuorumEpoch = 54
    DescribeQuorum = 55
    AlterPartition = 56
    FetchSnapshot = 59
    BrokerRegistration = 62
    BrokerHeartbeat = 63
    AllocateProducerIds = 67
    AddRaftVoter = 80
    RemoveRaftVoter = 81
    UpdateRaftVoter = 82


REQUESTS: dict[Api, type[Message]] = {
    Api.Produce: produce_pb2.ProduceRequest,
    Api.Fetch: fetch_pb2.FetchRequest,
    Api.ListOffsets: list_offsets_pb2.ListOffsetsRequest,
    Api.Metadata: metadata_pb2.MetadataRequest,
    Api.UpdateMetadata: update_metadata_pb2.UpdateMetadataRequest,
    Api.ApiVersions: api_versions_pb2.ApiVersionsRequest,
    Api.InitProducerId: producer_ids_pb2.InitProducerIdRequest,
    Api.OffsetForLeaderEpoch: offset_for_leader_epoch_pb2.OffsetForLeaderEpochRequest,
    Api.ElectLeaders: admin_pb2.ElectLeadersRequest,
    Api.IncrementalAlterConfigs: admin_pb2.IncrementalAlterConfigsRequest,
    Api.Vote: quorum_pb2.VoteRequest,
    Api.BeginQuorumEpoch: quorum_pb2.BeginQuorumEpochRequest,
    Api.EndQuorumEpoch: quorum_pb2.EndQuorumEpochRequest,
    Api.DescribeQuorum: admin_pb2.DescribeQuorumRequest,
    Api.AlterPartition: controller_pb2.AlterPartitionRequest,
    Api.FetchSnapshot: quorum_pb2.FetchSnapshotRequest,
    Api.BrokerRegistration: controller_pb2.BrokerRegistrationRequest,
    Api.BrokerHeartbeat: controller_pb2.BrokerHeartbeatRequest,
    Api.AllocateProducerIds: producer_ids_pb2.AllocateProducerIdsRequest,
    Api.AddRaftVoter: quorum_pb2.AddRaftVoterRequest,
    Api.RemoveRaftVoter: quorum_pb2.RemoveRaftVoterRequest,
    Api.UpdateRaftVoter: quorum_pb2.UpdateRaftVoterRequest,
}

RESPONSES: dict[Api, type[Message]] = {
    Api.Produce: produce_pb2.ProduceResponse,
    Api.Fetch: fetch_pb2.FetchResponse,
    Api.ListOffsets: list_offsets_pb2.ListOffsetsResponse,
    Api.Metadata: metadata_pb2.MetadataResponse,
    Api.UpdateMetadata: update_metadata_pb2.UpdateMetadataResponse,
    Api.ApiVersions: api_versions_pb2.ApiVersionsResponse,
    Api.InitProducerId: producer_ids_pb2.InitProducerIdResponse,
    Api.OffsetForLeaderEpoch: offset_for_leader_epoch_pb2.OffsetForLeaderEpochResponse,
    Api.ElectLeaders: admin_pb2.ElectLeadersResponse,
    Api.IncrementalAlterConfigs: admin_pb2.IncrementalAlterConfigsResponse,
    Api.Vote: quorum_pb2.VoteResponse,
    Api.BeginQuorumEpoch: quorum_pb2.BeginQuorumEpochResponse,
    Api.EndQuorumEpoch: quorum_pb2.EndQuorumEpochResponse,
    Api.DescribeQuorum: admin_pb2.DescribeQuorumResponse,
    Api.AlterPartition: controller_pb2.AlterPartitionResponse,
    Api.FetchSnapshot: quorum_pb2.FetchSnapshotResponse,
    Api.BrokerRegistration: controller_pb2.BrokerRegistrationResponse,
    Api.BrokerHeartbeat: controller_pb2.BrokerHeartbeatResponse,
    Api.AllocateProducerIds: producer_ids_pb2.AllocateProducerIdsResponse,
    Api.AddRaftVoter: quorum_pb2.AddRaftVoterResponse,
    Api.RemoveRaftVoter: quorum_pb2.RemoveRaftVoterResponse,
    Api.UpdateRaftVoter: quorum_pb2.UpdateRaftVoterResponse,
}

API_OF_REQUEST: dict[type[Message], Api] = {kind: api for api, kind in REQUESTS.items()}
"""Class of a request -> its API."""

API_OF_RESPONSE: dict[type[Message], Api] = {kind: api for api, kind in RESPONSES.items()}
"""Class of a response -> its API."""

API_NAMES: dict[int, str] = {int(api): api.name for api in Api}
"""API key -> name (``Api.name`` takes several times as long, and every message asks)."""

MESSAGE_CODES: dict[type[Message], int] = {}
"""Class of a message -> number under which ``actors.node.codec`` embeds the message: the API key for
requests, -2 - key for responses (-1 is msgpack's own, for timestamps)."""
MESSAGES_BY_CODE: dict[int, type[Message]] = {}
for _api in Api:
    for _code, _kind in ((int(_api), REQUESTS[_api]), (-2 - int(_api), RESPONSES[_api])):
        MESSAGE_CODES[_kind] = _code
        MESSAGES_BY_CODE[_code] = _kind


def api_of(request: Message) -> Api:
    """The API a request belongs to."""
    return API_OF_REQUEST[type(request)]


def response_errors(response: Message) -> list[int]:
    """All error codes other than NONE in a response, outermost first, in wire order."""
    errors: list[int] = []
    _collect_errors(response, _error_fields(response.DESCRIPTOR), errors)
    return errors


_ErrorFields = tuple[tuple[str, "_ErrorFields | None", str, bool], ...]
"""Where a message has error codes, in wire order: (field, None, "", False) a code, (field, what is in it, "", whether
it is a list) messages. Where the items of a list have one code and nothing else, its name comes third."""


def is_error_code(field: FieldDescriptor) -> bool:
    """Whether a field is an error code. Kafka calls it ErrorCode, with a word in front of that if need be."""
    return field.message_type is None and (field.name == "error_code" or field.name.endswith("_error_code"))


@cache
def _error_fields(descriptor: Descriptor) -> _ErrorFields:
    """Found by what messages are made of, whatever their fields are called. None of ours contains itself."""
    found: list[tuple[str, _ErrorFields | None, str, bool]] = []
    for field in sorted(descriptor.fields, key=lambda field: field.number):
        if is_error_code(field):
            found.append((field.name, None, "", False))
        elif field.message_type is not None:
            inner = _error_fields(field.message_type)
            if inner:
                many = field.is_repeated
                code = inner[0][0] if many and len(inner) == 1 and inner[0][1] is None else ""
                found.append((field.name, inner, code, many))
    return tuple(found)


def _collect_errors(message: Message, fields: _ErrorFields, errors: list[int]) -> None:
    for name, inner, code, many in fields:
        value = getattr(message, name)
        if code:
            for item in value:
                error = getattr(item, code)
                if error:
                    errors.append(error)
        elif inner is not None:
            for item in value if many else (value,):
                _collect_errors(item, inner, errors)
        elif value:
            errors.append(value)
