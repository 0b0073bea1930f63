"""X11: the pauses before something is tried again."""

from __future__ import annotations

from typing import Any

import pytest

from actors.node.errors import KafkaError
from actors.trace.events import ClockSet, ErrorSeen, MetaView, Rpc, SendReturn
from orchestrator.invariants.folds.pauses import shortest_us
from tests.unit.invariants.trace_builder import TP, TraceBuilder

CONFIG = {"reconnect.backoff.ms": 50, "reconnect.backoff.max.ms": 300, "retry.backoff.ms": 100, "retries": 2}


class Tries(TraceBuilder):
    """A producer against broker-1. Times are milliseconds after the event before."""

    def __init__(self, **profile: Any) -> None:
        super().__init__(apart=0, nodes={"producer-1": {"config": CONFIG}}, **profile)

    def call(self, after_ms: int, outcome: Any = "disconnect", api: str = "ApiVersions", **fields: Any) -> str:
        """A call ends so much later, which took no time."""
        self.wall += 1000 * after_ms
        connection = fields.get("connection", "client")
        return self.emit("producer-1", Rpc(api, 4, "broker-1", connection, 1, outcome, fields.get("errors", [])))

    def refused(self, after_ms: int, error: KafkaError = KafkaError.NOT_ENOUGH_REPLICAS, uid: str = "p:0") -> str:
        """A batch is refused, and will be sent again."""
        self.wall += 1000 * after_ms
        return self.emit("producer-1", ErrorSeen(TP, "Produce", 12, error, "broker-1", uid))

    def acknowledged(self, after_ms: int, uid: str = "p:0") -> str:
        """It is acknowledged."""
        self.wall += 1000 * after_ms
        return self.emit("producer-1", SendReturn("op", "ok", 0, TP, uid, -1, correlation_id=3))

    @property
    def wrong(self) -> int:
        """How often X11 is violated."""
        return self.result("X11").violated


@pytest.mark.parametrize(("failures", "pause"), [(0, 40), (1, 80), (2, 160), (3, 240), (9, 240), (90, 240)])
def test_the_shortest_pause(failures: int, pause: int) -> None:
    """Shows that it doubles up to the longest one, less a fifth; where there is no room to grow it is the longest."""
    assert shortest_us(50, 300, failures) == 1000 * pause
    assert shortest_us(50, 50, failures) == 50_000


@pytest.mark.parametrize(("last_ms", "violated"), [(155, 0), (154, 1)])
def test_a_connection_that_cannot_be_made(last_ms: int, violated: int) -> None:
    """Shows that each failure in a row doubles the pause before the next attempt, which the next attempt tests."""
    trace = Tries()
    trace.call(0)
    trace.call(40)
    trace.call(80)
    trace.call(last_ms, "answered")
    result = trace.result("X11")
    assert (result.violated, result.tested) == (violated, 3)
    assert not violated or result.violations[0].sentence == (
        "producer-1 connected to broker-1 again 154 ms after failure 3 in a row, before the back-off of 160 ms was over"
    )


def test_a_connection_that_is_lost() -> None:
    """Shows that the first failure on a connection begins the pause, not later ones on it; that one which was made
    begins the count anew; and that others, new ones of a member and those of a wrong clock have pauses of their own."""
    trace = Tries()
    trace.call(0)
    trace.call(40, "answered")
    trace.call(5, api="Produce")
    trace.call(30, api="Produce")
    trace.call(8, connection="metadata")
    trace.call(0, "answered")
    assert trace.wrong == 0
    trace.call(0, api="Produce")
    trace.call(30)
    assert trace.wrong == 1
    for connection, clock in (("coordinator", False), ("client", True)):
        trace = Tries()
        if clock:
            trace.emit("producer-1", ClockSet("f", "start", 0, 1))
        trace.call(0, connection=connection)
        trace.call(0, connection=connection)
        assert trace.wrong == 0


def test_a_client_that_is_created_again() -> None:
    """Shows that of a client with transactions, which begins anew, no pause but the first is required."""
    trace = Tries(transactional=["producer-1"])
    trace.call(0)
    trace.call(40)
    trace.call(40)
    assert trace.wrong == 0
    trace.call(30)
    assert trace.wrong == 1


@pytest.mark.parametrize(("last_ms", "violated"), [(155, 0), (154, 1)])
def test_a_batch_that_is_refused(last_ms: int, violated: int) -> None:
    """Shows that each refusal of a batch doubles the pause before it is sent again, until it is acknowledged."""
    trace = Tries()
    trace.refused(0)
    trace.refused(80)
    trace.acknowledged(last_ms)
    trace.refused(0)
    trace.acknowledged(75)
    result = trace.result("X11")
    assert (result.violated, result.tested) == (violated, 3)
    assert not violated or "154 ms after refusal 2 of it" in result.violations[0].sentence


def test_a_batch_that_goes_elsewhere() -> None:
    """Shows that no pause is required where another leader is known since the batch was sent, after a batch was split,
    and of other batches."""
    trace = Tries()
    trace.wall = 10_000
    trace.emit("producer-1", MetaView("broker-2", {TP: 1}, accepted=[TP]))
    trace.wall += 900
    trace.emit("producer-1", Rpc("Produce", 12, "broker-1", "client", 1, "answered", [19], took_ms=0))
    trace.refused(0)
    trace.refused(0)
    assert trace.wrong == 0
    trace.call(5, "answered", "Produce", errors=[19])
    trace.refused(0, uid="p:9")
    trace.refused(0, uid="p:9")
    assert trace.wrong == 1
    trace = Tries()
    trace.refused(0)
    trace.emit("producer-1", MetaView("broker-2", {TP: 2}, accepted=[TP]))
    trace.refused(0)
    trace.refused(0, KafkaError.MESSAGE_TOO_LARGE)
    trace.acknowledged(0)
    trace.refused(0, uid="p:1")
    trace.refused(0, uid="p:2")
    assert trace.wrong == 0


@pytest.mark.parametrize(("refusals", "violated"), [(2, 0), (3, 1)])
def test_a_batch_that_is_refused_too_often(refusals: int, violated: int) -> None:
    """Shows that a batch is sent again no more often than retries."""
    trace = Tries()
    for _ in range(refusals):
        trace.refused(1000)
    assert trace.wrong == violated
