"""What the runtime adds to messages on their way, and the clocks behind it."""

from __future__ import annotations

import pytest

from actors.control import ClockSkew
from actors.live import clock
from actors.live.clock import LiveClock
from actors.live.wire import NO_STAMP, Stamp, check_headers, encode_request, encode_response, method_path, stamp_of
from actors.node.messages import Api
from krift.v1.metadata_pb2 import MetadataRequest, MetadataResponse

STAMP = Stamp(1_700_000_000_000_000, 3, "broker-1/0/17")


def test_a_request_arrives_with_its_header_and_unchanged_otherwise() -> None:
    """Shows that clock, cause, connection and number are merged with the header that the node wrote, and that the
    node's own message is not touched."""
    request = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="orders")])
    request.header.correlation_id = 7
    request.header.client_id = "c" * 300
    before = request.SerializeToString(deterministic=True)
    arrived = MetadataRequest.FromString(encode_request(request, "a>b:main:0.0", 5, STAMP))
    assert request.SerializeToString(deterministic=True) == before
    assert stamp_of(arrived) == STAMP
    assert (arrived.header.connection, arrived.header.number) == ("a>b:main:0.0", 5)
    for name in ("connection", "number", "clock", "cause"):
        arrived.header.ClearField(name)
    assert arrived == request


def test_a_response_carries_the_id_that_its_request_had() -> None:
    """Shows that an answer says which request it is for, with the answering node's clock, however long its cause."""
    for length in (1, 100, 200, 20_000):
        stamp = Stamp(5, 0, "x" * length)
        arrived = MetadataResponse.FromString(encode_response(MetadataResponse(controller_id=3), 9, stamp))
        assert (arrived.header.correlation_id, arrived.controller_id) == (9, 3)
        assert stamp_of(arrived) == stamp


def test_a_message_without_a_stamp_has_none() -> None:
    """Shows what callers that are no nodes send."""
    assert stamp_of(MetadataRequest()) == NO_STAMP


def test_every_message_has_its_header_as_field_1() -> None:
    """Shows what the two above rely on, for all messages."""
    check_headers()
    assert method_path(Api.Fetch) == "/krift.v1.NodeService/Fetch"


def test_a_node_sees_steady_skewed_time_and_the_trace_the_machine_s(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Shows that a jump of the machine's clock moves the trace's time and not the node's, and skew the other way
    round."""
    times = {"wall": 1_000_000_000_000, "steady": 500_000_000}
    monkeypatch.setattr(clock.time, "time_ns", lambda: times["wall"])
    monkeypatch.setattr(clock.time, "monotonic_ns", lambda: times["steady"])
    live = LiveClock()
    assert (live.physical_us(), live.shown_ms()) == (1_000_000_000, 1_000_000)
    times["wall"] += 3_600_000_000_000
    times["steady"] += 2_000_000
    assert (live.physical_us(), live.shown_ms()) == (4_600_000_000, 1_000_002)
    assert live.begin(ClockSkew("f1", -5_000)).step_us == -5_000
    assert (live.physical_us(), live.shown_ms()) == (4_600_000_000, 1_000_002)
    assert live.machine.offset_us == -5_000
