"""What the runtime adds to messages on their way, and the clocks behind it."""

from __future__ import annotations

import pytest

from actors.control import ClockSkew
from actors.live import clock
from actors.live.clock import LiveClock
from actors.live.wire import (
    NO_STAMP,
    Arrived,
    Stamp,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    method_path,
)
from actors.node.messages import Api
from krift.v1 import metadata_pb2
from krift.v1.metadata import MetadataRequest, MetadataResponse

STAMP = Stamp(1_700_000_000_000_000, 3, "broker-1/0/17")


def test_a_request_arrives_with_its_header_and_unchanged_otherwise() -> None:
    """Shows that clock, cause, connection and number travel with what the node wrote, and that the node's own message
    is not touched."""
    request = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="orders")])
    request.header.correlation_id = 7
    request.header.client_id = "c" * 300
    before = str(request)
    arrived = decode_request(MetadataRequest, encode_request(request, "a>b:main:0.0", 5, STAMP))
    assert str(request) == before
    assert arrived == Arrived(request, "a>b:main:0.0", 5, 7, STAMP)


def test_a_response_carries_the_id_that_its_request_had() -> None:
    """Shows that an answer says which request it is for, with the answering node's clock, however long its cause."""
    for length in (1, 100, 200, 20_000):
        stamp = Stamp(5, 0, "x" * length)
        data = encode_response(MetadataResponse(controller_id=3), 9, stamp)
        assert metadata_pb2.MetadataResponse.FromString(data).header.correlation_id == 9
        assert decode_response(Api.Metadata, data) == (MetadataResponse(controller_id=3), stamp)


def test_a_message_without_a_stamp_has_none() -> None:
    """Shows what callers that are no nodes send."""
    assert decode_request(MetadataRequest, b"") == Arrived(MetadataRequest(), "", 0, 0, NO_STAMP)


def test_the_service_is_krift_s() -> None:
    """Shows where an API is found by callers that are no nodes."""
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


def test_both_clocks_are_read_at_one_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows that a process which is stopped between its reads of the two clocks reads both again, and takes the best
    of some reads if that happens again and again."""
    now = {"ns": 1_000_000_000_000}
    stops_ns = [0]

    def wall() -> int:
        now["ns"] += stops_ns.pop(0) if len(stops_ns) > 1 else stops_ns[0]
        return now["ns"]

    monkeypatch.setattr(clock.time, "time_ns", wall)
    monkeypatch.setattr(clock.time, "monotonic_ns", lambda: now["ns"])
    live = LiveClock()
    stops_ns[:] = [7_000_000, 0]
    assert live.moment() == (1_000_007_000, 1_000_007)
    stops_ns[:] = [9_000_000, 3_000_000, 9_000_000]
    physical_us, shown_ms = live.moment()
    assert physical_us // 1000 - shown_ms == 3
