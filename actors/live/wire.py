"""What the runtime adds to a message on its way: clock, cause, connection and number.

A node never sees its own message change. The runtime appends an encoded header to the encoded message, and whoever
parses the two sees them merged, as protobuf defines it for an embedded message that occurs twice.
"""

from __future__ import annotations

import msgspec
from google.protobuf.message import Message

from actors.node.messages import REQUESTS, RESPONSES, Api
from krift.v1.common_pb2 import Clock, RequestHeader, ResponseHeader

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


def method_path(api: Api) -> str:
    """Full name of an API's gRPC method."""
    return f"/{SERVICE}/{api.name}"


def encode_request(request: Message, connection: str, number: int, stamp: Stamp) -> bytes:
    """A request as it travels."""
    header = RequestHeader(
        connection=connection,
        number=number,
        clock=Clock(wall_us=stamp.wall_us, logical=stamp.logical),
        cause=stamp.cause,
    )
    return request.SerializeToString(deterministic=True) + _as_field_1(header)


def encode_response(response: Message, correlation_id: int, stamp: Stamp) -> bytes:
    """A response as it travels."""
    header = ResponseHeader(
        correlation_id=correlation_id,
        clock=Clock(wall_us=stamp.wall_us, logical=stamp.logical),
        cause=stamp.cause,
    )
    return response.SerializeToString(deterministic=True) + _as_field_1(header)


def stamp_of(message: Message) -> Stamp:
    """Clock and cause that came with a request or a response."""
    header = message.header  # type: ignore[attr-defined]  # field 1 of every request and response
    return Stamp(header.clock.wall_us, header.clock.logical, header.cause)


def _as_field_1(header: Message) -> bytes:
    """``header`` encoded as field 1 of another message: key, length (a varint), content."""
    content = header.SerializeToString(deterministic=True)
    length = len(content)
    prefix = bytearray(b"\x0a")
    while length > 0x7F:
        prefix.append(length & 0x7F | 0x80)
        length >>= 7
    prefix.append(length)
    return bytes(prefix) + content


def check_headers() -> None:
    """Raise AssertionError unless the header is field 1 of every message, as ``_as_field_1`` relies on."""
    for kind in (*REQUESTS.values(), *RESPONSES.values()):
        assert kind.DESCRIPTOR.fields_by_name["header"].number == 1, kind.DESCRIPTOR.full_name
