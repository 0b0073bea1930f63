"""M2: a client that looks for newer metadata asks for it as soon as its back-off is over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from actors.node.errors import KafkaError
from actors.trace.events import CtlFault, CtlPhase, ErrorSeen, MetaView, NodeDown, NodeUp, Rpc
from tests.unit.invariants.trace_builder import TP, TraceBuilder

CLIENT = "consumer-1"
CONFIG = {"retry.backoff.ms": 100, "retry.backoff.max.ms": 1000}
PAUSE_MS = 120
LATE_MS = 21


class Refreshes(TraceBuilder):
    """A client that is connected to broker-1. Times are milliseconds after the event before."""

    def __init__(self, max_age_ms: int = 300_000, **profile: Any) -> None:
        config = {**CONFIG, "metadata.max.age.ms": max_age_ms}
        super().__init__(apart=0, nodes={CLIENT: {"config": config}}, **profile)
        self.begins()

    def begins(self) -> None:
        """It is told who leads."""
        self.emit(CLIENT, NodeUp("consumer", -1, "", False, False))
        self.connects()
        self.asks(0)
        self.takes(5, brokers=[1, 2])
        self.wall += 5_000_000

    def connects(self, after_ms: int = 0, broker: int = 1, outcome: Any = "answered") -> None:
        """A connection is made, or is not."""
        self.call(after_ms, "ApiVersions", broker, outcome)

    def call(
        self, after_ms: int, api: str, broker: int = 1, outcome: Any = "answered", connection: str = "metadata"
    ) -> None:
        """A call ends, which took a millisecond."""
        self.wall += 1000 * (after_ms + 1)
        self.emit(CLIENT, Rpc(api, 4, f"broker-{broker}", connection, 1, outcome, [], took_ms=1))

    def asks(self, after_ms: int, broker: int = 1, outcome: Any = "answered") -> None:
        """A refresh ends that began so much later."""
        self.call(after_ms, "Metadata", broker, outcome)

    def takes(self, epoch: int = -2, **more: Any) -> None:
        """The client takes an answer over, with or without news."""
        news = {TP: epoch} if epoch > -2 else {}
        self.emit(CLIENT, MetaView("broker-1", news, [TP], {TP: 2} if news else {}, **more))

    def lost(self, after_ms: int = 0, connection: str = "client", outcome: Any = "disconnect") -> None:
        """A Fetch is not answered."""
        self.call(after_ms, "Fetch", 2, outcome, connection)

    @property
    def wrong(self) -> list[str]:
        """How M2 is violated."""
        return [each.sentence for each in self.result("M2").violations]


def seen(trace: Refreshes, api: str = "Fetch", error: KafkaError = KafkaError.NOT_LEADER_OR_FOLLOWER) -> None:
    """A broker refuses the client."""
    trace.emit(CLIENT, ErrorSeen(TP, api, 12, error, "broker-2"))


@pytest.mark.parametrize(("late_ms", "violated"), [(LATE_MS - 1, 0), (LATE_MS, 1)])
def test_a_refresh_that_is_due(late_ms: int, violated: int) -> None:
    """Shows that failures are forgotten with an answer: what the client looks for after that it asks for after the
    first pause, whatever makes it look, and in a live run within the slack."""
    for why in ("lost", "refused", "heard", "timeout"):
        trace = Refreshes()
        trace.lost()
        for pause_ms in (0, PAUSE_MS, 2 * PAUSE_MS):
            trace.asks(pause_ms, outcome="disconnect")
            trace.connects()
        trace.asks(470)
        trace.takes(6)
        if why == "lost":
            trace.lost(-1)
        elif why == "timeout":
            trace.lost(-1, "coordinator", "timeout")
        elif why == "refused":
            seen(trace)
        else:
            trace.emit(CLIENT, MetaView("broker-2", {TP: 7}, [], source="heard"))
        tested = trace.result("M2").tested
        trace.asks(PAUSE_MS + late_ms)
        assert trace.result("M2").tested > tested
        assert trace.wrong == violated * [
            "consumer-1 looked for newer metadata, and asked for it 21 ms too late for a back-off of at most 120 ms"
        ], why
        trace.live()
        assert not trace.wrong


def test_pauses_that_grow() -> None:
    """Shows that the pause may be longer after refreshes in a row that failed, and after answers without news."""
    trace = Refreshes()
    trace.lost()
    trace.asks(0, outcome="disconnect")
    trace.connects()
    trace.asks(PAUSE_MS, outcome="disconnect")
    trace.connects()
    trace.asks(2 * PAUSE_MS + LATE_MS - 2)
    assert not trace.wrong
    trace = Refreshes()
    for pause_ms in (0, PAUSE_MS, 2 * PAUSE_MS + LATE_MS - 1, 4 * PAUSE_MS + LATE_MS):
        seen(trace)
        trace.asks(pause_ms)
        trace.takes()
    assert len(trace.wrong) == 1
    assert trace.wrong[0].endswith("too late for a back-off of at most 480 ms")


@pytest.mark.parametrize(("early_ms", "wrong"), [(4, 0), (-4, 0), (-6, 1)])
def test_answers_without_news_once_the_metadata_is_too_old(early_ms: int, wrong: int) -> None:
    """Shows that an answer without news surely counts as the first in a row only if it was asked for when the one
    before was too old, by more than what times may be off: else the next pause may be longer."""
    trace = Refreshes(max_age_ms=1000)
    seen(trace)
    trace.asks(0)
    trace.takes()
    trace.lost(1000 - 1 - early_ms)
    trace.asks(0)
    trace.takes()
    seen(trace)
    trace.asks(2 * PAUSE_MS)
    assert len(trace.wrong) == wrong
    assert not wrong or trace.wrong[0].endswith("too late for a back-off of at most 120 ms")


@pytest.mark.parametrize(("pause_ms", "wrong"), [(79, 0), (PAUSE_MS + LATE_MS - 2, 0), (PAUSE_MS + LATE_MS, 1)])
def test_a_failure_after_answers_without_news(pause_ms: int, wrong: int) -> None:
    """Shows that after a failure the answers without news before it no longer count, neither for the shortest pause nor
    for the longest one."""
    trace = Refreshes()
    for growing_ms in (0, PAUSE_MS, 2 * PAUSE_MS, 4 * PAUSE_MS):
        seen(trace)
        trace.asks(growing_ms)
        trace.takes()
    seen(trace)
    trace.asks(8 * PAUSE_MS, outcome="disconnect")
    trace.connects()
    trace.asks(pause_ms)
    assert len(trace.wrong) == wrong
    assert not wrong or trace.wrong[0].endswith("too late for a back-off of at most 120 ms")


def test_what_is_wanted_while_a_refresh_is_under_way() -> None:
    """Shows that a refresh serves what was wanted when it began, and not what came later."""
    for after_ms, violated in ((0, 0), (3, 1)):
        trace = Refreshes()
        seen(trace)
        trace.wall += 1000 * after_ms
        seen(trace)
        trace.wall += 1000 * (50 - after_ms)
        trace.emit(CLIENT, Rpc("Metadata", 4, "broker-1", "metadata", 1, "answered", [], took_ms=50))
        trace.takes(6)
        trace.asks(400)
        assert len(trace.wrong) == violated


def nobody_asks(trace: Refreshes) -> None:
    """Nothing makes the client look for newer metadata."""


def another_broker(trace: Refreshes) -> None:
    """The broker that is asked was unknown."""
    trace.connects(broker=3)
    seen(trace)
    trace.asks(400, 3)


def connection(trace: Refreshes) -> None:
    """A connection has to be made."""
    seen(trace)
    trace.connects(390)
    trace.asks(LATE_MS - 1)


def given_up(trace: Refreshes) -> None:
    """A consumer gives up its connection to a coordinator."""
    trace.lost(0, "coordinator.1")


def refused_for_another_reason(trace: Refreshes) -> None:
    """The metadata is not outdated."""
    seen(trace, error=KafkaError.OFFSET_OUT_OF_RANGE)


def asked_later(trace: Refreshes) -> None:
    """An API whose refusal leads to a refresh later."""
    seen(trace, "DeleteRecords")


def stopped(trace: Refreshes) -> None:
    """The process is stopped."""
    seen(trace)
    trace.emit("driver", CtlFault("f", "pause", "start", [CLIENT], {}))
    trace.wall += 100_000
    trace.emit("driver", CtlFault("f", "pause", "stop", [CLIENT], {}))


def clock(trace: Refreshes) -> None:
    """Its clock is wrong."""
    seen(trace)
    trace.emit("driver", CtlFault("f", "clock-skew", "start", [CLIENT], {}))


def ends(trace: Refreshes) -> None:
    """The workload ends."""
    seen(trace)
    trace.emit("driver", CtlPhase("stopping"))


def begins_anew(trace: Refreshes) -> None:
    """The process ends, and another one begins."""
    seen(trace)
    trace.emit(CLIENT, NodeDown("crash"))
    trace.begins()


def other_topic(trace: Refreshes) -> None:
    """Another topic of the name: its news may be no news to the client."""
    trace.emit(CLIENT, MetaView("broker-1", {f"{TP}@b": 0}, [f"{TP}@b"], {f"{TP}@b": 1}, source="hint"))
    seen(trace)


@pytest.mark.parametrize(
    "then",
    [
        *(nobody_asks, another_broker, connection, given_up, refused_for_another_reason, asked_later, stopped, clock),
        *(ends, begins_anew, other_topic),
    ],
)
def test_refreshes_that_may_be_late(then: Callable[[Refreshes], None]) -> None:
    """Shows that no refresh is late which nobody is known to want, of a broker that is neither known nor connected, of
    a process that was stopped, has a wrong clock, ends or begins, and of a topic that came after another one."""
    trace = Refreshes()
    seen(trace)
    trace.asks(0)
    trace.takes(6)
    then(trace)
    trace.asks(400)
    assert not trace.wrong
    trace = Refreshes()
    seen(trace)
    trace.asks(0)
    trace.takes(6)
    seen(trace)
    trace.asks(400)
    assert len(trace.wrong) == 1


def test_connections_that_transactional_producers_give_up() -> None:
    """Shows that these are no reason to look for newer metadata."""
    trace = Refreshes(transactional=[CLIENT])
    seen(trace)
    trace.asks(0)
    trace.takes(6)
    trace.lost(0)
    trace.asks(400)
    assert not trace.wrong
