"""Messages on their way between live nodes: protobuf, with what the runtime adds in the header (clock, cause,
connection and number). Nodes have neither: ``krift.v1.wire`` converts here."""

from __future__ import annotations

from typing import Any

import msgspec

from actors.node.messages import RESPONSES, AnyRequest, AnyResponse, Api
from krift.v1.wire import PROTOBUF, from_protobuf, to_protobuf

SERVICE = "krift.v1.NodeService"

# Connections are the node's: no retries below it, no shared sockets, no back-off of gRPC's own (a broken
# connection is never tried again; the next one is a new channel).
CHANNEL_OPTIONS = (
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_retries", 0),
    ("grpc.enable_http_proxy", 0),
    ("grpc.max_receive_message_length", 64 << 20),
    ("grpc.max_send_message_length", 64 << 20),
)
SERVER_OPTIONS = (
    ("grpc.so_reuseport", 0),
    ("grpc.max_receive_message_length", 64 << 20),
    ("grpc.max_send_message_length", 64 << 20),
)


class Stamp(msgspec.Struct, frozen=True):
    """The sender's hybrid logical clock and the last trace event it had recorded ("" none)."""

    wall_us: int = 0
    logical: int = 0
    cause: str = ""


NO_STAMP = Stamp()


class Arrived(msgspec.Struct, frozen=True):
    """A request with what came in its header: connection and number ("" and 0 of a caller that is no node)."""

    request: AnyRequest
    connection: str
    number: int
    correlation_id: int
    stamp: Stamp


def method_path(api: Api) -> str:
    """Full name of an API's gRPC method."""
    return f"/{SERVICE}/{api.name}"


def encode_request(request: AnyRequest, connection: str, number: int, stamp: Stamp) -> bytes:
    """A request as it travels."""
    made = to_protobuf(request)
    made.header.connection = connection
    made.header.number = number
    return _stamped(made, stamp)


def encode_response(response: AnyResponse, correlation_id: int, stamp: Stamp) -> bytes:
    """A response as it travels."""
    made = to_protobuf(response)
    made.header.correlation_id = correlation_id
    return _stamped(made, stamp)


def _stamped(message: Any, stamp: Stamp) -> bytes:
    header = message.header
    header.clock.wall_us, header.clock.logical, header.cause = stamp.wall_us, stamp.logical, stamp.cause
    data: bytes = message.SerializeToString(deterministic=True)
    return data


def decode_request(kind: type[Any], data: bytes) -> Arrived:
    """What arrived. Raises google.protobuf.message.DecodeError for bytes that are no message."""
    message: Any = PROTOBUF[kind].FromString(data)
    header = message.header
    return Arrived(from_protobuf(message), header.connection, header.number, header.correlation_id, _stamp_of(message))


def decode_response(api: Api, data: bytes) -> tuple[AnyResponse, Stamp]:
    """What arrived, and who sent it when."""
    message: Any = PROTOBUF[RESPONSES[api]].FromString(data)
    return from_protobuf(message), _stamp_of(message)


def _stamp_of(message: Any) -> Stamp:
    header = message.header
    return Stamp(header.clock.wall_us, header.clock.logical, header.cause)
