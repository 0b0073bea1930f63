"""X11: the pauses before something is tried again."""

from __future__ import annotations

from typing import Any

import pytest

from actors.node.errors import KafkaError
from actors.trace.events import ClockSet, ErrorSeen, ListReturn, MetaView, NodeDown, NodeUp, Rpc, SendReturn
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


class LookUps(TraceBuilder):
    """list-offsets-1 against broker-1. Times are milliseconds after the event before."""

    def __init__(self, role: Any = "list-offsets", **profile: Any) -> None:
        super().__init__(apart=0, nodes={"list-offsets-1": {"config": CONFIG}}, **profile)
        self.emit("list-offsets-1", NodeUp(role, -1, "", False, False))

    def refused(self, after_ms: int, error: KafkaError = KafkaError.OFFSET_NOT_AVAILABLE, tp: str = TP) -> str:
        """A leader tells no offset."""
        self.wall += 1000 * after_ms
        return self.emit("list-offsets-1", ErrorSeen(tp, "ListOffsets", 7, error, "broker-1"))

    def ends(self, after_ms: int, outcome: Any = "ok", version: int = 7) -> str:
        """The look-up returns."""
        self.wall += 1000 * after_ms
        return self.emit("list-offsets-1", ListReturn("op", outcome, 0, TP, -1, 0, 5, 0, "broker-1", version))

    @property
    def judged(self) -> tuple[int, int]:
        """How often X11 is violated, and tested."""
        result = self.result("X11")
        return result.violated, result.tested


@pytest.mark.parametrize(("last_ms", "violated"), [(155, 0), (154, 1)])
def test_a_look_up_that_is_refused(last_ms: int, violated: int) -> None:
    """Shows that each refusal of a look-up doubles the pause before the next answer, until it returns."""
    trace = LookUps()
    trace.refused(0)
    trace.refused(80)
    trace.ends(last_ms)
    trace.ends(0)
    trace.refused(0)
    trace.refused(0, tp="orders-1")
    trace.ends(80)
    assert trace.judged == (violated, 3)
    assert not violated or trace.result("X11").violations[0].sentence == (
        "list-offsets-1 was answered again (NONE) when it asked for an offset of orders-0, 154 ms after refusal 2 in a "
        "row, before the back-off of 160 ms was over"
    )
    trace.refused(0)
    trace.refused(40)
    assert trace.judged[0] == violated + 1


def test_look_ups_that_need_not_pause() -> None:
    """Shows that no pause is required of who may ask another leader, after a look-up that nobody answered, of consumers
    and their calls, of a wrong clock, and in a new life."""
    trace = LookUps()
    for error in (KafkaError.NOT_LEADER_OR_FOLLOWER, KafkaError.UNKNOWN_LEADER_EPOCH):
        trace.refused(0, error)
        trace.ends(0)
    trace.refused(0)
    trace.refused(80, KafkaError.FENCED_LEADER_EPOCH)
    trace.refused(0)
    trace.ends(75)
    assert trace.judged == (0, 2)
    trace.refused(0)
    trace.ends(0, "unknown", version=-1)
    trace.refused(0)
    trace.emit("list-offsets-1", NodeDown("crash"))
    trace.ends(0)
    assert trace.judged == (0, 2)
    trace.refused(0)
    trace.emit("list-offsets-1", ClockSet("f", "start", 0, 1))
    trace.ends(0)
    assert trace.judged == (0, 2)
    for other in (LookUps("consumer"), LookUps(consumer_calls=["list-offsets-1"])):
        other.refused(0)
        other.ends(0)
        assert other.judged == (0, 0)


def sends(trace: Tries, *calls: tuple[int, int], dst: str = "broker-1") -> None:
    """Produce calls end, each in so many milliseconds after the one before, which have taken so long."""
    for after_ms, took_ms in calls:
        trace.wall += 1000 * after_ms
        number = trace.operations = trace.operations + 1
        trace.emit("producer-1", Rpc("Produce", 12, dst, "data", number, "answered", [], took_ms=took_ms))


@pytest.mark.parametrize(("most", "violated"), [(3, 0), (2, 1), (1, 1)])
def test_calls_that_are_under_way_together(most: int, violated: int) -> None:
    """Shows that no Produce is sent while as many others are under way on its connection as may be there."""
    trace = Tries(config={"max.in.flight.requests.per.connection": most})
    sends(trace, (100, 90), (0, 80), (0, 70), (70, 60))
    result = trace.result("X11")
    assert (result.violated > 0, result.tested) == (bool(violated), 2)
    assert most != 2 or result.violations[0].sentence == (
        "producer-1 sent Produce 3 to broker-1 while 2 others were under way on its connection, with "
        "max.in.flight.requests.per.connection = 2"
    )


def test_calls_that_are_not_under_way_together() -> None:
    """Shows that calls count for their own connection, until they end, in their own life, by a right clock, and where
    they are answered."""
    one = {"max.in.flight.requests.per.connection": 1}
    trace = Tries(config=one)
    sends(trace, (100, 50), (52, 50), (48, 50))
    sends(trace, (0, 50), dst="broker-2")
    trace.emit("producer-1", NodeDown("crash"))
    sends(trace, (0, 50))
    assert (trace.wrong, trace.result("X11").tested) == (0, 0)
    trace.emit("producer-1", ClockSet("f", "start", 0, 1))
    sends(trace, (0, 40))
    assert trace.wrong == 0
    unanswered = Tries(config={**one, "acks": "0"})
    sends(unanswered, (100, 50), (0, 40))
    assert unanswered.wrong == 0
    sends(again := Tries(config=one), (100, 50), (0, 40))
    assert again.wrong == 1
