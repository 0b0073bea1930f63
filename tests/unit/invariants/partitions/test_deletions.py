"""P28: what DeleteRecords deletes, what it answers, and when it refuses."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from actors.node.errors import KafkaError
from actors.node.spec import node_name
from actors.trace.events import (
    AdminInvoke,
    AdminReturn,
    BrokerReg,
    CtlFault,
    IsrPropose,
    LogHw,
    LogLocalStart,
    LogStart,
    LogTrunc,
    MetaImage,
    PartAssume,
    PartChange,
    PartRemove,
    RecordsDelete,
    RunMeta,
)
from orchestrator.invariants.folds.conclusion import InvariantResult
from tests.unit.invariants.trace_builder import TP, TraceBuilder

CONTROLLER = "controller-1"
SECOND = 1_000_000
LEADER, ALIVE, OTHER = "broker-1", "broker-2", "broker-3"


class Deleting(TraceBuilder):
    """Three brokers, of which broker-1 leads and knows that broker-2 is alive, and broker-3 is fenced."""

    def __init__(self, **config: int) -> None:
        super().__init__(config=config)
        self.role(CONTROLLER, 1, "leader", 101)
        for broker in (1, 2, 3):
            self.up(node_name(broker))
            self.emit(CONTROLLER, BrokerReg(broker, 10 + broker, "i", broker == 3, False, False, broker))
        self.changes()
        self.emit(LEADER, MetaImage(9))

    def changes(self, isr: tuple[int, ...] = (1, 2), leader: int = 1) -> None:
        change = PartChange(TP, 5, 1, leader, 0, 0, list(isr), [1, 2, 3], "create")
        self.emit(CONTROLLER, change)

    def later(self, us: int) -> None:
        """Time passes."""
        self.wall += us

    def starts(self, node: str, new: int, reason: Any = "leader") -> str:
        return self.emit(node, LogStart(TP, new, reason, -1))

    def asks(self, offset: int, op: str = "a/0/1") -> str:
        return self.emit("admin-1", AdminInvoke(op, "delete-records", {"offsets": {TP: offset, "bills-0": 900}}))

    def told(self, low_watermark: int, op: str = "a/0/1") -> str:
        results = {TP: "NONE"}
        return self.emit("admin-1", AdminReturn(op, "ok", 0, "delete-records", results, {TP: low_watermark}))

    def deletes(self, asked: int, offset: int, phase: Any = "begin", **told: Any) -> str:
        values = {"low_watermark": -1, "error": 0, **told}
        low_watermark, error = values["low_watermark"], values["error"]
        body = RecordsDelete(TP, phase, "c", 1, asked, offset, low_watermark, error, 0, [2])
        return self.emit(LEADER, body)

    def moved(self, offset: int = 5) -> None:
        """What was asked for is done at the leader."""
        self.asks(offset)
        self.starts(LEADER, offset, "delete-records")
        self.deletes(offset, offset)

    def back(self, node: str, start: int = 0) -> str:
        """A broker is there again, with its log as its disk has it."""
        self.up(node)
        if start:
            self.starts(node, start, "load")
        return self.emit(node, PartAssume(TP, "follower", 1, 0, 0, 20, -1, 20, 9))

    @property
    def p28(self) -> InvariantResult:
        return self.result("P28")

    @property
    def sentences(self) -> list[str]:
        return [finding.sentence for finding in self.p28.violations]


def test_a_deletion_from_the_request_to_the_answer() -> None:
    """Shows that the deletion, the answer of the broker and that to the operator each test it; a refusal by a broker
    without a role does not."""
    trace = Deleting()
    trace.moved()
    trace.starts(ALIVE, 5)
    trace.deletes(5, 5, "end", low_watermark=5)
    trace.told(5)
    trace.deletes(90, -1, "end", error=KafkaError.OFFSET_OUT_OF_RANGE)
    assert (trace.p28.status, trace.p28.tested) == ("held", 3)


def test_what_nobody_asked_for_is_not_deleted() -> None:
    """Shows that the offset must be one that an operator has named for this partition, or the high watermark if one
    has named that; which may be below where the log starts already."""
    trace = Deleting()
    trace.asks(5)
    trace.starts(LEADER, 7, "delete-records")
    trace.deletes(7, 7)
    assert trace.sentences == ["broker-1 deleted the records of orders-0 up to 7, but no operator had requested that"]
    trace = Deleting()
    trace.asks(-1)
    trace.starts(LEADER, 7, "delete-records")
    trace.deletes(-1, 7)
    trace.asks(3, "a/0/2")
    trace.deletes(3, 3)
    assert trace.p28.status == "held"


@pytest.mark.parametrize(
    ("offset", "start", "says"),
    [
        (6, 6, "deleted the records of orders-0 up to 6, but the request was up to 5"),
        (5, 6, "deleted the records of orders-0 up to 5, but its log starts at 6"),
        (5, 0, "deleted the records of orders-0 up to 5, but its log starts at 0"),
    ],
)
def test_no_more_and_no_less_is_deleted(offset: int, start: int, says: str) -> None:
    """Shows that the log must start where it was asked for, neither before nor behind."""
    trace = Deleting()
    asked = trace.asks(5)
    if start:
        trace.starts(LEADER, start, "delete-records")
    event = trace.deletes(5, offset)
    (finding,) = trace.p28.violations
    assert finding.sentence == f"broker-1 {says}"
    assert finding.events == [asked, event]


def test_an_answer_before_all_who_are_alive_have_followed() -> None:
    """Shows that the leader's knowledge decides who is alive: broker-2 must start there, broker-3 is fenced."""
    trace = Deleting()
    trace.moved()
    event = trace.deletes(5, 5, "end", low_watermark=5)
    (finding,) = trace.p28.violations
    why = "but the log of broker-2, which is alive, starts at 0"
    assert finding.sentence == f"broker-1 answered DeleteRecords of orders-0 up to 5 with low watermark 5, {why}"
    assert event in finding.events
    trace = Deleting()
    trace.emit(CONTROLLER, BrokerReg(3, 20, "i", False, False, False, 7))
    trace.moved()
    trace.starts(ALIVE, 5)
    trace.deletes(5, 5, "end", low_watermark=5)
    assert "broker-3, which is alive, starts at 0" in trace.sentences[0]


def test_who_is_alive_unknown_to_the_leader() -> None:
    """Shows that a broker counts once the leader has applied what the controller wrote of it."""
    trace = Deleting()
    trace.emit(CONTROLLER, BrokerReg(3, 20, "i", False, False, False, 12))
    trace.moved()
    trace.starts(ALIVE, 5)
    trace.deletes(5, 5, "end", low_watermark=5)
    assert trace.p28.status == "held"


def test_a_low_watermark_below_what_was_asked_for() -> None:
    """Shows it of the broker's answer, and of what the operator was told."""
    trace = Deleting()
    trace.moved()
    trace.starts(ALIVE, 4)
    trace.deletes(5, 5, "end", low_watermark=4)
    assert trace.sentences == ["broker-1 answered DeleteRecords of orders-0 up to 5 with low watermark 4"]
    trace = Deleting()
    trace.asks(5)
    trace.told(4)
    assert trace.sentences == ["admin-1 got low watermark 4 of orders-0, but its request was to delete up to 5"]


def test_a_replica_that_was_restarted_since() -> None:
    """Shows that a replica which started there in a life before is excused, and one that only says so is not."""
    trace = Deleting()
    trace.moved()
    trace.starts(ALIVE, 5)
    trace.down(ALIVE)
    trace.back(ALIVE, 2)
    trace.deletes(5, 5, "end", low_watermark=5)
    assert (trace.p28.status, trace.p28.excused) == ("excused", {"restarted": 1})
    trace = Deleting()
    trace.moved()
    trace.starts(ALIVE, 4)
    trace.down(ALIVE)
    trace.back(ALIVE, 2)
    trace.deletes(5, 5, "end", low_watermark=5)
    assert trace.p28.status == "violated"


def test_a_replica_that_was_cut() -> None:
    """Shows that a log which was cut below its start starts there, and that no earlier start excuses that."""
    trace = Deleting()
    trace.moved()
    trace.starts(ALIVE, 5)
    trace.emit(ALIVE, LogTrunc(TP, 9, 3, "diverge", 0))
    trace.deletes(5, 5, "end", low_watermark=5)
    assert "broker-2, which is alive, starts at 3" in trace.sentences[0]


def test_a_replica_that_starts_behind_a_copy() -> None:
    """Shows that the log start counts, not where a broker's own part of a tiered log starts."""
    trace = Deleting()
    trace.moved()
    trace.emit(ALIVE, LogLocalStart(TP, 8, "remote", 2))
    trace.deletes(5, 5, "end", low_watermark=5)
    assert "broker-2, which is alive, starts at 2" in trace.sentences[0]


INTERVALS = {"log.flush.start.offset.checkpoint.interval.ms": 1000, "log.initial.task.delay.ms": 0}


def restarted(after_us: int, start: int = 0, mode: Any = "crash", **down: Any) -> Deleting:
    """broker-2 ends so long after its log has started at 5, and comes back with another start."""
    trace = Deleting(**INTERVALS)
    trace.moved()
    trace.later(SECOND)
    trace.starts(ALIVE, 5)
    trace.later(after_us)
    trace.down(ALIVE, mode, **down)
    trace.back(ALIVE, start)
    return trace


def test_a_log_start_that_was_due_in_the_checkpoint() -> None:
    """Shows that one interval after it moved, and with two seconds to spare, it must be on the disk; and when the
    process has ended in good order."""
    trace = restarted(4 * SECOND)
    assert trace.sentences == ["after a restart broker-2 has log start 0 of orders-0, but its checkpoint had 5"]
    assert restarted(4 * SECOND, 5).p28.tested == restarted(2 * SECOND).p28.tested + 1
    assert [restarted(us, start).p28.status for us, start in ((4 * SECOND, 5), (2 * SECOND, 0))] == ["held", "held"]
    assert restarted(1000, mode="clean").p28.status == "violated"


@pytest.mark.parametrize(("again", "status"), [(0, "held"), (5, "violated")])
def test_a_log_that_is_read_before_its_topic_is_known_to_be_tiered(again: int, status: str) -> None:
    """Shows that it is where the log starts in the end that counts: above that it never started."""
    trace = Deleting(**INTERVALS)
    trace.moved()
    trace.down(ALIVE)
    trace.up(ALIVE)
    trace.starts(ALIVE, 5, "load")
    trace.starts(ALIVE, again, "load")
    trace.later(4 * SECOND)
    trace.down(ALIVE)
    trace.back(ALIVE, 0)
    assert trace.p28.status == status


def test_a_disk_that_lost_the_log() -> None:
    """Shows that nobody knows where a log starts that has lost records, or whose disk was wiped."""
    assert restarted(4 * SECOND, mode="lossy", lost={TP: 3}).p28.status == "held"
    assert restarted(4 * SECOND, mode="lossy").p28.status == "held"
    assert restarted(4 * SECOND, mode="lossy", lost={"bills-0": 3}).p28.status == "violated"


@pytest.mark.parametrize(("kind", "status"), [("pause", "held"), ("slow-disk", "held"), ("delay", "violated")])
def test_a_broker_that_was_kept_from_its_timers(kind: str, status: str) -> None:
    """Shows that a fault which may have kept it from writing its checkpoint leaves the question open."""
    trace = Deleting(**INTERVALS)
    trace.moved()
    trace.starts(ALIVE, 5)
    trace.emit("driver", CtlFault("f1", kind, "start", [ALIVE], {}))
    trace.later(SECOND)
    trace.emit("driver", CtlFault("f1", kind, "stop", [ALIVE], {}))
    trace.later(5 * SECOND)
    trace.down(ALIVE)
    trace.back(ALIVE)
    assert trace.p28.status == status


class Awaiting(Deleting):
    """Broker-1 has moved its log start to 5, as it was asked, and waits for others."""

    def __init__(self, *alive: int) -> None:
        super().__init__()
        if 3 in alive:
            self.emit(CONTROLLER, BrokerReg(3, 13, "i", False, False, False, 7))
        self.asks(5)
        self.starts(LEADER, 5, "delete-records")
        self.emit(LEADER, RecordsDelete(TP, "begin", "c", 1, 5, 5, 0, 0, 0, list(alive)))

    def hears(self, follower: int, since: str, **more: Any) -> str:
        """Broker-1 takes note of a fetch that a follower sent after an event."""
        self.cause, self.req = since, f"f#{len(self.events)}"
        event = self.fetched(1, follower, len(self.events), **more)
        self.cause = ""
        return event

    def goes_on(self) -> str:
        """Broker-1 takes another step."""
        self.req = "other#1"
        return self.emit(LEADER, LogHw(TP, "leader", 0, 10, 20, 5))


def test_an_answer_when_all_who_are_alive_have_told() -> None:
    """Shows that the leader answers in the step in which it hears of the last log start, and that the request and the
    next step are the evidence where it does not."""
    trace = Awaiting(2)
    begun, before = trace.events[-1].id, trace.p28.tested
    trace.hears(2, trace.starts(ALIVE, 5))
    stands = len(trace.events)
    then = trace.goes_on()
    (finding,) = trace.p28.violations
    assert finding.events == [begun, then]
    assert finding.sentence == (
        "broker-1 waits with the answer to DeleteRecords of orders-0 up to 5, although all who are alive have told it "
        "that their logs begin there"
    )
    assert trace.p28.tested == before + 1
    del trace.events[stands:]
    trace.req = trace.events[-1].req
    trace.deletes(5, 5, "end", low_watermark=5)
    trace.goes_on()
    assert (trace.p28.status, trace.p28.tested) == ("held", before + 2)


@pytest.mark.parametrize(
    ("case", "violated"),
    [
        ("", 1),
        ("sent-before", 0),
        ("starts-earlier", 0),
        ("other-cause", 0),
        ("refused", 0),
        ("diverges", 0),
        ("unfenced", 0),
        ("unfenced-unheard", 1),
        ("restarted", 0),
        ("leads-anew", 0),
        ("controller-ends", 0),
        ("leader-ends", 0),
    ],
)
def test_what_a_leader_may_wait_for(case: str, violated: int) -> None:
    """Shows that the fetch must be a valid one, from after the log start moved, and that nothing is due that a fenced
    or unfenced broker, another process, another role, or a controller that ended may have changed."""
    trace = Awaiting(2)
    started = trace.starts(ALIVE, 4 if case == "starts-earlier" else 5)
    if case.startswith("unfenced"):
        trace.emit(CONTROLLER, BrokerReg(3, 13, "i", False, False, False, 7 if case == "unfenced" else 12))
    elif case == "restarted":
        trace.up(ALIVE)
    elif case == "leads-anew":
        trace.emit(LEADER, PartAssume(TP, "leader", 1, 1, 1, 30, 30, 20, 9))
    elif case == "controller-ends":
        trace.down(CONTROLLER)
    if case == "sent-before":
        trace.hears(2, f"{ALIVE}/0/0")
    elif case == "refused":
        trace.hears(2, started, error=74)
    elif case == "diverges":
        trace.hears(2, started, diverging_epoch=0, diverging_end=3)
    else:
        trace.hears(3 if case == "other-cause" else 2, started)
    if case == "leader-ends":
        trace.down(LEADER)
        trace.up(LEADER)
    trace.goes_on()
    assert trace.p28.violated == violated


@pytest.mark.parametrize(("alive", "cut", "violated"), [((2, 3), False, 1), ((2, 3), True, 0), ((2,), False, 0)])
def test_all_must_have_told_and_still_begin_there(alive: tuple[int, ...], cut: bool, violated: int) -> None:
    """Shows that a follower which was cut below that since, and has told so, is waited for again; and that a leader
    which knows others to be alive than the trace is not judged."""
    trace = Awaiting(*alive) if 3 in alive else Awaiting(2, 3)
    if 3 not in alive:
        body = msgspec.structs.replace(trace.events[-1].body, alive=[2])
        trace.events[-1] = msgspec.structs.replace(trace.events[-1], body=body)
    trace.hears(2, trace.starts(ALIVE, 5))
    if cut:
        trace.hears(2, trace.emit(ALIVE, LogTrunc(TP, 20, 3, "diverge", 0)))
    trace.hears(3, trace.starts(OTHER, 5))
    trace.goes_on()
    assert trace.p28.violated == violated


def test_followers_that_cannot_tell() -> None:
    """Shows that nothing is due by a fetch in whose version there is no log start."""
    trace = Awaiting(2)
    older = RunMeta("s", "v", "sim", 1, [], {"versions": {"Fetch": [4, 4]}})
    trace.events[0] = msgspec.structs.replace(trace.events[0], body=older)
    trace.hears(2, trace.starts(ALIVE, 5))
    trace.goes_on()
    assert trace.p28.violated == 0


def leading(role: Any = "leader", **profile: Any) -> Deleting:
    """broker-1 has taken a role up, with high watermark 20."""
    trace = Deleting()
    trace.events[0] = msgspec.structs.replace(trace.events[0], body=RunMeta("s", "v", "sim", 1, [], profile))
    trace.emit(LEADER, PartAssume(TP, role, 1, 0, 0, 30, 20 if role == "leader" else -1, 20, 9))
    return trace


@pytest.mark.parametrize(
    ("asked", "high_watermark", "violated"),
    [(-1, 20, 1), (0, 20, 1), (20, 20, 1), (21, 20, 0), (-2, 20, 0), (25, 25, 1), (15, 12, 0), (12, 12, 1)],
)
def test_an_offset_that_is_out_of_range(asked: int, high_watermark: int, violated: int) -> None:
    """Shows that a leader may refuse what is above its high watermark, as it has moved or was cut, and what is negative
    and does not stand for it; with the role and the refusal as evidence."""
    trace = leading()
    assumed = trace.events[-1].id
    if high_watermark > 20:
        trace.emit(LEADER, LogHw(TP, "leader", 0, high_watermark, 30, 0))
    elif high_watermark < 20:
        trace.emit(LEADER, LogTrunc(TP, 30, high_watermark, "last-stable-offset", 0))
    event = trace.deletes(asked, -1, "end", error=KafkaError.OFFSET_OUT_OF_RANGE)
    assert (trace.p28.violated, trace.p28.tested) == (violated, 1)
    if violated:
        (finding,) = trace.p28.violations
        assert finding.events == [assumed, event]
        assert finding.sentence == (
            f"broker-1 refused DeleteRecords of orders-0 up to {asked:,} with OFFSET_OUT_OF_RANGE, but it leads with "
            f"high watermark {high_watermark}"
        )


@pytest.mark.parametrize(
    ("role", "error", "says"),
    [
        ("leader", KafkaError.NOT_LEADER_OR_FOLLOWER, "it leads in leader epoch 0"),
        ("follower", KafkaError.NOT_LEADER_OR_FOLLOWER, ""),
        ("follower", KafkaError.OFFSET_OUT_OF_RANGE, ""),
        ("leader", KafkaError.UNKNOWN_TOPIC_OR_PARTITION, "it has a replica of it in leader epoch 0"),
        ("follower", KafkaError.UNKNOWN_TOPIC_OR_PARTITION, "it has a replica of it in leader epoch 0"),
        ("leader", KafkaError.INVALID_TOPIC_EXCEPTION, "the topic is not internal"),
        ("leader", KafkaError.UNKNOWN_SERVER_ERROR, "that is no reason"),
        ("leader", KafkaError.REQUEST_TIMED_OUT, ""),
    ],
)
def test_what_keeps_a_broker_from_deleting(role: str, error: KafkaError, says: str) -> None:
    """Shows which errors a leader, or a follower, has a reason for."""
    trace = leading(role)
    trace.deletes(5, -1, "end", error=error)
    sentence = f"broker-1 refused DeleteRecords of orders-0 up to 5 with {error.name}, but {says}"
    assert (trace.sentences, trace.p28.tested) == ([sentence] if says else [], 1)


def test_a_leader_that_was_started_anew_or_elected_again() -> None:
    """Shows that a broker has no role before it takes one up in its new life, and is judged by the newest."""
    trace = leading()
    trace.down(LEADER)
    trace.up(LEADER)
    trace.deletes(5, -1, "end", error=KafkaError.NOT_LEADER_OR_FOLLOWER)
    assert (trace.p28.violated, trace.p28.tested) == (0, 0)
    trace = leading()
    trace.emit(LEADER, PartAssume(TP, "leader", 1, 1, 1, 30, 30, 20, 9))
    trace.deletes(5, -1, "end", error=KafkaError.NOT_LEADER_OR_FOLLOWER)
    assert trace.p28.violated == 0, "it answered before it had led in that epoch"


def test_a_topic_that_was_removed() -> None:
    """Shows that a broker which may have heard of the removal of a topic need not know it."""
    trace = leading()
    trace.emit(CONTROLLER, PartRemove(TP, 12, 1, "topic"))
    trace.deletes(5, -1, "end", error=KafkaError.UNKNOWN_TOPIC_OR_PARTITION)
    assert trace.p28.status == "held"


@pytest.mark.parametrize(
    ("feature", "told", "violated"), [("off", -1, 1), ("seed", -1, 0), ("seed", 0, 0), ("seed", 1, 1)]
)
def test_a_leader_that_puts_its_log_in_order_first(feature: str, told: int, violated: int) -> None:
    """Shows that with kafka-7408 a leader that was elected uncleanly serves nobody until a proposal of that leader
    epoch is accepted."""
    trace = leading(features={"kafka-7408": feature})
    trace.emit(CONTROLLER, PartChange(TP, 15, 1, 1, 1, 1, [1], [1, 2, 3], "unclean"))
    if told == 0:
        trace.emit(LEADER, IsrPropose(TP, 1, 0, 0, [1, 2], {}, 20, 20, "accepted"))
    trace.emit(LEADER, PartAssume(TP, "leader", 1, 1, 1, 30, 30, 20, 16))
    if told == 1:
        trace.emit(LEADER, IsrPropose(TP, 2, 1, 1, [1], {}, 20, 30, "accepted"))
    body = RecordsDelete(TP, "end", "c", 1, 5, -1, -1, KafkaError.NOT_LEADER_OR_FOLLOWER, 1, [2])
    trace.emit(LEADER, body)
    assert trace.p28.violated == violated


def follows(trace: Deleting, new: int, leader_epoch: int = 0) -> str:
    """broker-2 takes over a high watermark of its leader."""
    return trace.emit(ALIVE, LogHw(TP, "follower", leader_epoch, new, 20, 0))


def test_a_follower_adopts_its_leaders_log_start() -> None:
    """Shows that a follower which knows a high watermark from after the deletion knows of that, too: it is judged when
    its high watermark moves again."""
    trace = Deleting()
    trace.moved()
    before = trace.p28.tested
    trace.emit(LEADER, LogHw(TP, "leader", 0, 8, 20, 5))
    trace.emit(LEADER, LogHw(TP, "leader", 0, 9, 20, 5))
    follows(trace, 8)
    assert trace.p28.tested == before
    event = follows(trace, 9)
    (finding,) = trace.p28.violations
    assert finding.sentence == ("broker-2 has log start 0 of orders-0, but its leader had answered with log start 5")
    assert event in finding.events


@pytest.mark.parametrize(("high_watermark", "leader_epoch"), [(7, 0), (8, 1)])
def test_a_follower_that_need_not_have_heard_of_it(high_watermark: int, leader_epoch: int) -> None:
    """Shows that an older high watermark says nothing, nor does that of another leader epoch."""
    trace = Deleting()
    trace.moved()
    trace.emit(LEADER, LogHw(TP, "leader", 0, 8, 20, 5))
    follows(trace, high_watermark, leader_epoch)
    follows(trace, 12, leader_epoch)
    assert trace.p28.status == "held"


def test_a_follower_that_has_adopted_it_and_one_that_was_cut_or_restarted() -> None:
    """Shows that it is held by one that starts there, and that nothing is due of another log than that which heard."""
    for number in range(3):
        trace = Deleting()
        trace.moved()
        trace.emit(LEADER, LogHw(TP, "leader", 0, 8, 20, 5))
        follows(trace, 8)
        if number == 0:
            trace.starts(ALIVE, 5)
        elif number == 1:
            trace.emit(ALIVE, LogTrunc(TP, 20, 12, "diverge", 0))
        else:
            trace.down(ALIVE)
            trace.up(ALIVE)
        follows(trace, 9)
        assert trace.p28.status == "held"


def test_leaders_that_tell_nobody_where_logs_start() -> None:
    """Shows that nothing is due where brokers speak versions of Fetch without log starts."""
    trace = Deleting()
    trace.events[0] = msgspec.structs.replace(
        trace.events[0], body=RunMeta("s", "v", "sim", 1, [], {"versions": {"Fetch": [4, 4]}})
    )
    trace.moved()
    trace.emit(LEADER, LogHw(TP, "leader", 0, 8, 20, 5))
    follows(trace, 8)
    follows(trace, 9)
    assert trace.p28.status == "held"
