"""R1, R2 and R8: one answer, in time, and none of a former leader."""

from __future__ import annotations

import pytest

from actors.node.errors import KafkaError
from actors.trace.events import ConfigChange, MetaImage, PartRemove, ReplyPartition
from tests.unit.invariants.tiers.waiting import (
    BROKER,
    CLIENT,
    NOT_LEADER,
    REJECTED,
    TIMED_OUT,
    Waiting,
    failed,
    found,
)
from tests.unit.invariants.trace_builder import TP

TIMEOUT = "remote.list.offsets.request.timeout.ms"


def test_one_answer_with_each_partition() -> None:
    """Shows a request for two partitions that is answered once, with a result for each."""
    trace = Waiting()
    trace.park(tps=(TP, "orders-1"))
    trace.answered(1, found(TP, 3), failed("orders-1", TIMED_OUT))
    assert trace.of("R1") == ("held", 1)


def test_a_partition_that_is_missing_and_one_that_is_there_twice() -> None:
    """Shows that an answer without a partition that was waited for violates R1, and one that names it twice."""
    trace = Waiting()
    trace.park(tps=(TP, "orders-1"))
    trace.answered(1, found(TP, 3))
    assert trace.says("R1") == "broker-1 answered the ListOffsets of list-offsets-1 with 0 results for orders-1"
    twice = Waiting()
    twice.park()
    twice.answered(1, found(TP, 3), found(TP, 4))
    assert twice.says("R1").endswith("with 2 results for orders-0")


@pytest.mark.parametrize(("removed", "status"), [(True, "held"), (False, "violated")])
def test_a_topic_that_is_removed_meanwhile(removed: bool, status: str) -> None:
    """Shows that a result for an unknown topic stands for a partition whose topic was removed, and for no other."""
    trace = Waiting()
    trace.park()
    if removed:
        trace.emit("controller-1", PartRemove(TP, 9, 1, "id"))
    trace.answered(1, failed("", int(KafkaError.UNKNOWN_TOPIC_OR_PARTITION)))
    assert trace.of("R1")[0] == status


def test_two_answers_and_none() -> None:
    """Shows that a second answer to one request violates R1, and so does a second request that waits on the connection
    of one that nobody answered. A new process knows nothing of the former one's requests."""
    trace = Waiting()
    trace.park()
    trace.answered()
    trace.answered()
    assert trace.says("R1") == "broker-1 answered the ListOffsets of list-offsets-1 twice"
    silent = Waiting()
    silent.park()
    silent.park()
    assert "before it had answered the previous one" in silent.says("R1")
    restarted = Waiting()
    restarted.up(BROKER)
    restarted.park()
    restarted.down(BROKER)
    restarted.up(BROKER)
    restarted.park()
    restarted.answered()
    assert restarted.of("R1") == ("held", 1)


@pytest.mark.parametrize(
    ("callers", "own"), [((), "default.api.timeout.ms"), ((CLIENT,), "request.timeout.ms")], ids=["admin", "consumer"]
)
def test_a_client_tells_for_how_long_it_waits(callers: tuple[str, ...], own: str) -> None:
    """Shows that another TimeoutMs than the client's own time limit, that of its manner, violates R2, from the version
    on that has it; that of a client whose settings the run does not tell is not judged."""
    config = {"default.api.timeout.ms": 3000, "request.timeout.ms": 1000}

    def asks(timeout_ms: int, version: int = 11, known: bool = True) -> Waiting:
        nodes = {CLIENT: {"config": config}} if known else {}
        trace = Waiting(nodes=nodes, consumer_calls=list(callers))
        trace.park(timeout_ms=timeout_ms, version=version)
        trace.answered()
        return trace

    for timeout_ms in (0, -1, 1000, 3000):
        status = "held" if timeout_ms == config[own] else "violated"
        assert asks(timeout_ms).of("R2")[0] == status, timeout_ms
        assert asks(timeout_ms, known=False).of("R2")[0] == "held"
    assert asks(0, version=9).of("R2")[0] == "held"
    assert asks(0).says("R2") == (
        f"list-offsets-1 asked broker-1 for offsets with TimeoutMs 0, but it has {own}={config[own]:,}"
    )


def test_what_did_not_wait_is_no_test() -> None:
    """Shows that an answer at once leaves R1, R2 and R8 vacuous, and that without the proposal only R1 is promised."""
    trace = Waiting()
    trace.answered()
    assert [trace.of(name)[0] for name in ("R1", "R2", "R8")] == ["vacuous"] * 3
    off = Waiting("off")
    off.park()
    off.answered()
    assert [off.of(name)[0] for name in ("R1", "R2", "R8")] == ["held", "vacuous", "vacuous"]


def test_partitions_that_were_decided_at_once() -> None:
    """Shows that they are in the answer with those that were looked up, and nothing else is."""
    trace = Waiting()
    trace.park(decided=["orders-1", ""])
    trace.answered(1, found(TP, 3), found("orders-1", 4), failed("", NOT_LEADER))
    assert trace.of("R1") == ("held", 1)
    for told in ((TP,), (TP, "orders-1", "orders-2")):
        wrong = Waiting()
        wrong.park(decided=["orders-1"])
        wrong.answered(1, *(found(tp, 3) for tp in told))
        assert wrong.of("R1")[0] == "violated"


@pytest.mark.parametrize(
    ("kip_1075", "version", "timeout_ms", "allowed_ms"),
    [
        ("kafka", 11, 7000, 7000),
        ("kafka", 11, 0, 30000),
        ("kafka", 9, 7000, 30000),
        ("draft", 11, 0, 0),
        ("draft", 11, -1, 30000),
    ],
)
def test_the_time_of_a_request(kip_1075: str, version: int, timeout_ms: int, allowed_ms: int) -> None:
    """Shows whose time-out goes: the request's from version 10 on, if it has one, which 0 is in the proposal's text
    alone; else the broker's. At that time the answer is right; 2 s later it is not, nor before it."""
    for took_ms, status in ((allowed_ms, "held"), (allowed_ms + 2100, "violated"), (allowed_ms - 100, "violated")):
        if took_ms < 0:
            continue
        trace = Waiting(kip_1075)
        trace.park(timeout_ms=timeout_ms, version=version)
        trace.after(took_ms)
        trace.answered(1, failed(TP, TIMED_OUT))
        assert trace.of("R2")[0] == status, took_ms


def test_the_setting_is_that_of_when_it_arrives() -> None:
    """Shows that a new value of the setting goes for the requests that arrive when the broker has it, not for those
    that wait already, and its own value before that of all brokers."""
    trace = Waiting()
    trace.emit("controller-1", ConfigChange(10, 1, "broker/", TIMEOUT, "5000"))
    trace.park(1)
    trace.emit(BROKER, MetaImage(11))
    trace.park(2)
    trace.emit("controller-1", ConfigChange(11, 1, "broker/1", TIMEOUT, "9000"))
    trace.emit("controller-1", ConfigChange(12, 1, "broker/2", TIMEOUT, "1000"))
    trace.emit(BROKER, MetaImage(13))
    trace.park(3)
    began = trace.wall
    for number, took_ms in ((2, 5000), (3, 9000), (1, 30000)):
        trace.wall = began + took_ms * 1000
        trace.answered(number, failed(TP, TIMED_OUT))
    assert trace.of("R2") == ("held", 3)
    trace.park(4)
    trace.after(5000)
    trace.answered(4, failed(TP, TIMED_OUT))
    assert "with REQUEST_TIMED_OUT after 5,000 ms, but its timeout was 9,000 ms" in trace.says("R2")


def test_what_was_found_is_told() -> None:
    """Shows that the expiry of a request must not time out a partition that had been looked up, found or not."""
    trace = Waiting()
    trace.park(tps=(TP, "orders-1"), timeout_ms=1000)
    trace.read(1)
    trace.after(995)
    trace.answered(1, failed(TP, TIMED_OUT), failed("orders-1", TIMED_OUT))
    assert trace.says("R2").endswith("with REQUEST_TIMED_OUT for orders-0, although the look-up there had ended")


def test_what_is_found_when_the_time_is_over() -> None:
    """Shows that a thread which is freed by the expiry of one look-up may end the next one of the same request: that
    was not in time."""
    trace = Waiting()
    trace.park(tps=(TP, "orders-1"), timeout_ms=1000)
    trace.task(1, "enqueue")
    trace.task(1, "start")
    trace.task(2, "enqueue", tp="orders-1")
    trace.after(995)
    trace.task(1, "expire")
    trace.task(1, "free")
    trace.task(2, "start", tp="orders-1")
    trace.task(2, "finish", tp="orders-1")
    trace.answered(1, failed(TP, TIMED_OUT), failed("orders-1", TIMED_OUT))
    assert trace.of("R2") == ("held", 1)


def test_no_answer_at_all() -> None:
    """Shows that a request that is never answered violates R2 two seconds after its time."""
    trace = Waiting()
    trace.park(timeout_ms=1000)
    trace.after(4000)
    trace.emit(BROKER, MetaImage(1))
    assert "had not answered the ListOffsets of list-offsets-1" in trace.says("R2")


def test_a_broker_that_was_stopped_is_late() -> None:
    """Shows that a broker whose process was stopped may answer late, and that one which was stopped before may not."""
    trace = Waiting()
    trace.park(timeout_ms=1000)
    trace.paused("start")
    trace.after(9000)
    trace.paused("stop")
    trace.answered(1, failed(TP, TIMED_OUT))
    assert trace.result("R2").excused == {"clock": 1}
    before = Waiting()
    before.paused("start")
    before.paused("stop")
    before.park(timeout_ms=1000)
    before.after(9000)
    before.answered(1, failed(TP, TIMED_OUT))
    assert before.of("R2")[0] == "violated"


@pytest.mark.parametrize(
    ("kind", "status"), [("clock-jump", "excused"), ("slow-disk", "violated"), ("drop", "violated")]
)
def test_what_keeps_a_broker_from_its_timers(kind: str, status: str) -> None:
    """Shows that a wrong clock excuses a late answer, and that a slow disk or a bad link does not."""
    trace = Waiting()
    trace.park(timeout_ms=1000)
    trace.paused("start", kind)
    trace.after(4000)
    trace.answered(1, failed(TP, TIMED_OUT))
    assert trace.of("R2")[0] == status


def test_a_former_leader_says_so() -> None:
    """Shows the answer of a broker that stopped leading one of two partitions, whose look-up was under way."""
    trace = Waiting()
    trace.lead(1)
    trace.park(tps=(TP, "orders-1"))
    trace.assume(1, 1, leader=2)
    trace.answered(1, failed(TP, NOT_LEADER), found("orders-1", 3))
    assert trace.of("R8") == ("held", 1)


@pytest.mark.parametrize("answer", [found(TP, 3), failed(TP, TIMED_OUT)])
def test_a_former_leader_that_answers_all_the_same(answer: ReplyPartition) -> None:
    """Shows that an offset of a former leader violates R8, and so does a time-out; not an offset that it had found
    before, nor one of a leader that was elected again."""
    trace = Waiting()
    trace.lead(1)
    trace.park()
    trace.assume(1, 1, leader=2)
    trace.answered(1, answer)
    assert trace.says("R8").endswith("for orders-0, which it no longer led")
    earlier = Waiting()
    earlier.lead(1)
    earlier.park(tps=(TP, "orders-1"))
    earlier.read(1)
    earlier.assume(1, 1, leader=2)
    earlier.answered(1, found(TP, 3), failed("orders-1", REJECTED))
    assert earlier.of("R8")[0] == "vacuous"
    again = Waiting()
    again.lead(1)
    again.park()
    again.lead(1, 1)
    again.answered(1, answer)
    assert again.of("R8")[0] == "vacuous"


def test_a_rejected_look_up_is_not_lost() -> None:
    """Shows that what nobody looks up any more says nothing of a former leader."""
    trace = Waiting()
    trace.lead(1)
    trace.park(tps=(TP, "orders-1"))
    trace.task(1, "reject")
    trace.assume(1, 1, leader=2)
    trace.answered(1, failed(TP, REJECTED), found("orders-1", 3))
    assert trace.of("R8")[0] == "vacuous"


@pytest.mark.parametrize(("first", "status"), [("finish", "held"), ("decided", "held"), ("loss", "violated")])
def test_what_a_leader_found_before_it_lost_the_partition(first: str, status: str) -> None:
    """Shows that P16 goes by what the broker was when it knew its answer about a partition, which waits for others."""
    trace = Waiting()
    trace.lead(1)
    trace.park(
        tps=("orders-1",) if first == "decided" else (TP, "orders-1"), decided=(TP,) if first == "decided" else ()
    )
    if first == "finish":
        trace.read(1)
    trace.assume(1, 1, leader=2)
    if first == "loss":
        trace.read(1)
    trace.answered(1, found(TP, 3), failed("orders-1", TIMED_OUT))
    assert trace.of("P16")[0] == status


def test_a_former_leader_that_keeps_its_client_waiting() -> None:
    """Shows that a request whose last partition is led elsewhere must be answered then, unless the broker was
    stopped."""
    trace = Waiting()
    trace.lead(1)
    trace.park()
    trace.assume(1, 1, leader=2)
    trace.after(2500)
    trace.emit(BROKER, MetaImage(1))
    assert "still makes list-offsets-1 wait for a look-up in orders-0, which it no longer leads" in trace.says("R8")
    stopped = Waiting()
    stopped.lead(1)
    stopped.park()
    stopped.assume(1, 1, leader=2)
    stopped.paused("start")
    stopped.after(2500)
    stopped.paused("stop")
    assert stopped.result("R8").excused == {"clock": 1}


@pytest.mark.parametrize(("asked", "status"), [(0, "held"), (-1, "held"), (1, "violated")])
def test_a_leader_that_is_elected_again_while_it_looks_up(asked: int, status: str) -> None:
    """Shows that the client's leader epoch is compared with the broker's when the request comes, for P16."""
    trace = Waiting()
    trace.lead(1)
    trace.park()
    trace.lead(1, 2)
    trace.read(1)
    trace.answered(1, found(TP, 3, 2, asked_epoch=asked))
    assert trace.of("P16")[0] == status
