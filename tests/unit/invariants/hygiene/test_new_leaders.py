"""X11: a batch that was refused goes to a new leader at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from actors.node.errors import KafkaError
from actors.trace.events import ClockSet, CtlFault, ErrorSeen, MetaView, NodeDown, NodeUp, Rpc, SendReturn
from orchestrator.invariants.folds.pauses import longest_us
from tests.unit.invariants.trace_builder import TP, TraceBuilder

CONFIG = {"retry.backoff.ms": 100, "retry.backoff.max.ms": 1000, "reconnect.backoff.ms": 50}
PRODUCER = "producer-1"
LATE_MS = 21


class Moves(TraceBuilder):
    """A producer that is connected to both leaders. Times are milliseconds after the event before."""

    def __init__(self, **profile: Any) -> None:
        super().__init__(apart=0, nodes={PRODUCER: {"config": CONFIG}}, **profile)
        self.calls = 0
        self.begins()

    def begins(self) -> None:
        """It connects, and learns that broker-1 leads."""
        for broker in ("broker-1", "broker-2"):
            self.connects(broker)
        self.leads(1, 3, brokers=[1, 2])
        self.wall += 1_000_000

    def connects(self, broker: str, took_ms: int = 0, outcome: Any = "answered", errors: Sequence[int] = ()) -> None:
        """A connection is made, or is not."""
        self.wall += 1000 * took_ms
        self.emit(PRODUCER, Rpc("ApiVersions", 4, broker, "client", 1, outcome, list(errors), took_ms=took_ms))

    def leads(self, broker: int, epoch: int, tp: str = TP, **more: Any) -> None:
        """It learns of a leader."""
        self.emit(PRODUCER, MetaView("broker-3", {tp: epoch}, [tp], {tp: broker}, **more))

    def called(self, broker: int, after_ms: int, took_ms: int = 1, outcome: Any = "answered") -> None:
        """A Produce ends."""
        self.wall += 1000 * after_ms
        self.calls += 1
        body = Rpc("Produce", 12, f"broker-{broker}", "client", self.calls, outcome, [], took_ms=took_ms)
        self.emit(PRODUCER, body)

    def refused(self, after_ms: int = 1, broker: int = 1, uid: str = "p:0", tp: str = TP, took_ms: int = 1) -> None:
        """A batch is refused, and will be sent again."""
        self.called(broker, after_ms, took_ms)
        error = KafkaError.NOT_LEADER_OR_FOLLOWER
        self.emit(PRODUCER, ErrorSeen(tp, "Produce", 12, error, f"broker-{broker}", uid))

    def ends(self, uid: str = "p:0", outcome: Any = "ok", tp: str = TP) -> None:
        """A send returns."""
        number = self.calls if outcome == "ok" else -1
        self.emit(PRODUCER, SendReturn("op", outcome, 0, tp, uid, -1, correlation_id=number))

    def acknowledged(self, after_ms: int, uid: str = "p:0", broker: int = 2) -> None:
        """A batch is acknowledged, which was sent so long after the event before."""
        self.called(broker, after_ms + 1)
        self.ends(uid)

    @property
    def judged(self) -> tuple[int, int]:
        """How often X11 is violated, and tested."""
        result = self.result("X11")
        return result.violated, result.tested


@pytest.mark.parametrize(("failures", "pause"), [(0, 120), (1, 240), (2, 300), (90, 300)])
def test_the_longest_pause(failures: int, pause: int) -> None:
    """Shows that it doubles, a fifth more, up to the longest one; where there is no room to grow it is the longest."""
    assert longest_us(100, 300, failures) == 1000 * pause
    assert longest_us(50, 50, failures) == 50_000


@pytest.mark.parametrize(("late_ms", "violated"), [(LATE_MS - 1, 0), (LATE_MS, 1)])
def test_a_batch_for_a_new_leader(late_ms: int, violated: int) -> None:
    """Shows that a batch which was refused goes to a new leader at once, with both causes as evidence; whether it is
    acknowledged or refused there; and in a live run within the slack."""
    trace = Moves()
    trace.refused()
    trace.leads(2, 4, source="hint")
    trace.acknowledged(late_ms)
    assert trace.judged == (violated, 1)
    if violated:
        assert trace.result("X11").violations[0].sentence == (
            "producer-1 sent the batch of p:0 to orders-0 again 21 ms after nothing but its pause stood in the way: it "
            "was refused in leader epoch 3, and producer-1 knew who leads in leader epoch 4"
        )
        assert len(trace.result("X11").violations[0].events) == 3
    trace.live()
    assert trace.judged == (0, 1)
    again = Moves()
    again.refused()
    again.leads(2, 4)
    again.refused(late_ms + 1, 2)
    assert again.judged == (violated, 1)


def test_a_leader_that_was_known_before() -> None:
    """Shows that a new leader which was learned of while the batch was under way counts from its refusal on."""
    trace = Moves()
    trace.wall += 50_000
    trace.leads(2, 4)
    trace.refused(50, took_ms=100)
    trace.acknowledged(LATE_MS - 1)
    trace.refused(50, 2)
    trace.leads(1, 5)
    trace.acknowledged(LATE_MS, broker=1)
    assert trace.judged == (1, 2)


def test_a_leader_that_is_learned_later() -> None:
    """Shows that the last news of the leader and of the brokers count."""
    trace = Moves()
    trace.refused()
    trace.leads(-1, 4)
    trace.wall += 90_000
    trace.leads(2, 4)
    trace.wall += 15_000
    trace.emit(PRODUCER, MetaView("broker-3", {}, [TP], brokers=[1, 2, 3]))
    trace.acknowledged(LATE_MS - 1)
    assert trace.judged == (0, 1)


def other_topic(trace: Moves) -> None:
    """The topic is another one."""
    trace.leads(2, 4, topic_ids={"orders": "b"})


def in_same_epoch(trace: Moves) -> None:
    """The leader has become available."""
    trace.leads(2, 3)


def lost(trace: Moves) -> None:
    """A Produce with other batches is not answered."""
    trace.leads(2, 4)
    trace.called(2, 1, outcome="timeout")


def stopped(trace: Moves) -> None:
    """The process is stopped for a while."""
    trace.leads(2, 4)
    trace.emit("driver", CtlFault("f", "pause", "start", [PRODUCER], {}))
    trace.wall += 10_000
    trace.emit("driver", CtlFault("f", "pause", "stop", [PRODUCER], {}))


def clock(trace: Moves) -> None:
    """Its clock is wrong."""
    trace.leads(2, 4)
    trace.emit(PRODUCER, ClockSet("f", "start", 0, 1))


def behind_another(trace: Moves) -> None:
    """A batch in front is refused by the new leader, and pauses."""
    trace.leads(2, 4)
    trace.refused(2, 2, uid="p:9")


def split_after(trace: Moves) -> None:
    """The batch is too large, and its parts are new ones."""
    trace.leads(2, 4)
    trace.emit(PRODUCER, ErrorSeen(TP, "Produce", 12, KafkaError.MESSAGE_TOO_LARGE, "broker-2", "p:0"))


def begins_anew(trace: Moves) -> None:
    """The process ends, and another one begins."""
    trace.emit(PRODUCER, NodeDown("crash"))
    trace.emit(PRODUCER, NodeUp("producer", -1, "", False, False))
    trace.begins()
    trace.leads(2, 4)


@pytest.mark.parametrize(
    "then",
    [other_topic, in_same_epoch, lost, stopped, clock, behind_another, split_after, begins_anew],
)
def test_batches_that_may_wait(then: Callable[[Moves], None]) -> None:
    """Shows that no batch has to go to a new leader at once which is none of the same topic, after a Produce that was
    not answered, of a process that was stopped or has a wrong clock, behind another batch, in parts, and in a new
    life."""
    trace = Moves()
    trace.refused()
    then(trace)
    judged = trace.judged
    trace.acknowledged(200)
    assert trace.judged[0] == 0
    assert trace.judged[1] - judged[1] <= 1
    trace = Moves()
    trace.refused()
    trace.leads(2, 4)
    trace.acknowledged(200)
    assert trace.judged[0] == 1


@pytest.mark.parametrize(("most", "tested"), [(1, 0), (2, 1)])
def test_a_full_pipeline(most: int, tested: int) -> None:
    """Shows that a batch waits for answers where as many Produces are under way as may be."""
    trace = Moves(config={"max.in.flight.requests.per.connection": most})
    trace.refused()
    trace.leads(2, 4)
    trace.called(2, 80, 100)
    before = trace.judged[1]
    trace.acknowledged(1)
    assert (trace.judged[0], trace.judged[1] - before >= 1) == (tested, bool(tested))


def test_what_a_batch_has_to_wait_for() -> None:
    """Shows that a batch waits for a connection, for a producer id and for what is in front of it, and no longer."""
    for late_ms, violated in ((LATE_MS - 1, 0), (LATE_MS, 1)):
        for what in ("connection", "producer id", "batch", "part"):
            trace = Moves()
            trace.refused()
            trace.leads(2, 4)
            trace.wall += 0 if what == "connection" else 300_000
            if what == "connection":
                trace.connects("broker-2", 300)
            elif what == "producer id":
                trace.emit(PRODUCER, Rpc("InitProducerId", 4, "broker-3", "metadata", 1, "answered", []))
            elif what == "batch":
                trace.ends("p:7", "unknown")
            else:
                trace.emit(PRODUCER, ErrorSeen(TP, "Produce", 12, KafkaError.MESSAGE_TOO_LARGE, "broker-2", "p:7"))
            trace.acknowledged(late_ms)
            assert trace.judged[0] == violated, what


@pytest.mark.parametrize(("late_ms", "violated"), [(LATE_MS - 1, 0), (LATE_MS, 1)])
def test_a_connection_to_a_new_leader(late_ms: int, violated: int) -> None:
    """Shows that the connection for a batch begins to be made at once, too: after the pause, if it has failed; and that
    it may take two turns."""
    trace = Moves()
    trace.refused()
    trace.leads(2, 4)
    trace.wall += 1000 * late_ms
    trace.connects("broker-2", 300)
    trace.acknowledged(0)
    assert trace.judged == (violated, 1)
    trace = Moves()
    trace.refused()
    trace.leads(2, 4)
    trace.connects("broker-2", 300, "timeout")
    trace.wall += 1000 * (60 + late_ms)
    trace.connects("broker-2", 200, errors=[KafkaError.UNSUPPORTED_VERSION])
    trace.connects("broker-2", 200)
    trace.acknowledged(0)
    assert trace.judged[0] == violated


def test_who_is_not_judged() -> None:
    """Shows that a batch of another partition is no hindrance, and that transactional producers are not judged."""
    trace = Moves()
    trace.refused()
    trace.leads(2, 4)
    trace.refused(2, 2, uid="p:9", tp="orders-1")
    trace.acknowledged(LATE_MS)
    assert trace.judged[0] == 1
    trace = Moves(transactional=[PRODUCER])
    trace.refused()
    trace.leads(2, 4)
    trace.acknowledged(LATE_MS)
    assert trace.judged == (0, 0)
