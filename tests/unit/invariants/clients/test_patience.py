"""C12: clients go on after retriable errors."""

from __future__ import annotations

from typing import Any

import pytest

from actors.node.errors import KafkaError as E
from actors.trace.events import (
    AdminInvoke,
    AdminReturn,
    BeginInvoke,
    ClockSet,
    CommitInvoke,
    CommitReturn,
    CommittedReturn,
    EndReturn,
    ErrorSeen,
    InitReturn,
    MetaView,
    NodeDown,
    Rpc,
    SendInvoke,
    SendOffsetsReturn,
    SendReturn,
)
from tests.unit.invariants.trace_builder import TP, TraceBuilder

NEW = "orders-0@id-2"
CONFIG = {"delivery.timeout.ms": 3000, "default.api.timeout.ms": 5000}


class Client(TraceBuilder):
    """client-1 against broker-1. Times are milliseconds after the event before."""

    def __init__(self, retries: int = 100, api_ms: int = 5000, **profile: Any) -> None:
        config = {**CONFIG, "retries": retries, "default.api.timeout.ms": api_ms}
        super().__init__(apart=0, nodes={"client-1": {"config": config}}, **profile)

    def does(self, after_ms: int, body: Any) -> str:
        """An event of the client."""
        self.wall += 1000 * after_ms
        return self.emit("client-1", body)

    def send(self, after_ms: int, *uids: str, tp: str = TP) -> None:
        """Records are sent."""
        self.wall += 1000 * after_ms
        for uid in uids:
            self.does(0, SendInvoke(f"{uid} {tp}", tp, uid, -1))

    def fails(self, after_ms: int, uid: str, error: E, broker: str = "broker-1", tp: str = TP) -> None:
        """A send returns with an error."""
        self.does(after_ms, SendReturn(f"{uid} {tp}", "unknown", error, tp, uid, -1, broker=broker))

    def refused(self, after_ms: int, uid: str, error: E = E.NOT_ENOUGH_REPLICAS) -> None:
        """A batch is refused, and will be sent again."""
        self.does(after_ms, ErrorSeen(TP, "Produce", 12, error, "broker-1", uid))

    def unanswered(self, after_ms: int) -> None:
        """A Produce call is lost."""
        self.does(after_ms, Rpc("Produce", 12, "broker-1", "data", 1, "disconnect", []))

    @property
    def judged(self) -> tuple[int, int]:
        """How often C12 is violated, and tested."""
        result = self.result("C12")
        return result.violated, result.tested


@pytest.mark.parametrize("broker", ["broker-1", ""])
@pytest.mark.parametrize(("age_ms", "violated"), [(2994, 1), (2995, 0), (9000, 0)])
def test_a_send_has_its_time(broker: str, age_ms: int, violated: int) -> None:
    """Shows that a send must not end with a retriable error before delivery.timeout.ms, whoever ends it."""
    trace = Client()
    trace.send(0, "p:0")
    trace.fails(age_ms, "p:0", E.REQUEST_TIMED_OUT, broker)
    assert trace.judged == (violated, 1)
    assert not violated or trace.result("C12").violations[0].sentence == (
        "client-1 gave the send of p:0 to orders-0 up with REQUEST_TIMED_OUT after 2,994 ms and 0 failed tries at "
        "most, with delivery.timeout.ms = 3,000 and retries = 100"
    )


def test_an_error_that_is_not_retriable_ends_a_send() -> None:
    """Shows that such a send, one that succeeds, and one whose beginning is not known are not judged."""
    trace = Client()
    trace.send(0, "p:0", "p:1")
    trace.fails(0, "p:0", E.INVALID_RECORD)
    trace.does(0, SendReturn("p:1", "ok", 0, TP, "p:1", -1))
    trace.fails(0, "p:2", E.NOT_ENOUGH_REPLICAS)
    assert trace.judged == (0, 0)


@pytest.mark.parametrize(("lost", "refusals", "violated"), [(1, 1, 0), (0, 2, 0), (0, 1, 1), (1, 0, 1)])
def test_a_send_has_its_retries(lost: int, refusals: int, violated: int) -> None:
    """Shows that a send may end before its time if its batch was refused, or a call was lost, as often as retries
    allows since it began; and that only an answer uses them up."""
    trace = Client(retries=2)
    trace.unanswered(0)
    trace.send(0, "p:0")
    for _ in range(lost):
        trace.unanswered(10)
    for _ in range(refusals):
        trace.refused(10, "p:0")
    trace.fails(10, "p:0", E.NOT_ENOUGH_REPLICAS)
    assert trace.judged == (violated, 1 + refusals)
    trace.send(1, "p:1")
    trace.refused(0, "p:1")
    trace.refused(0, "p:1")
    trace.fails(0, "p:1", E.NOT_ENOUGH_REPLICAS, broker="")
    assert trace.judged[0] == violated + 1


def test_a_batch_is_as_old_as_its_first_record() -> None:
    """Shows that later records may be younger when they end in the same step as another one of their partition, not in
    another step, nor those of another partition."""
    trace = Client()
    trace.send(0, "p:0")
    trace.send(2000, "p:1", "p:2", "p:3")
    trace.send(0, "p:4", tp="orders-1")
    trace.req = "data#5"
    trace.fails(1000, "p:0", E.NETWORK_EXCEPTION)
    trace.fails(0, "p:1", E.NETWORK_EXCEPTION)
    assert trace.judged == (0, 1)
    trace.fails(0, "p:4", E.NETWORK_EXCEPTION, tp="orders-1")
    assert trace.judged == (1, 2)
    trace.req = "data#6"
    trace.fails(0, "p:2", E.NETWORK_EXCEPTION)
    assert trace.judged == (2, 3)
    trace.req = ""
    trace.send(1, "p:5")
    trace.fails(0, "p:3", E.NETWORK_EXCEPTION)
    assert trace.judged == (3, 4)


def test_parts_of_a_batch_are_as_old_as_it_is() -> None:
    """Shows that records of a batch that is divided count from its first one, also where that has returned, and that
    its tries are not those of its parts."""
    for divided in (False, True):
        trace = Client(retries=1)
        trace.send(0, "p:0")
        trace.send(2000, "p:1")
        trace.refused(0, "p:0", E.MESSAGE_TOO_LARGE if divided else E.NOT_ENOUGH_REPLICAS)
        trace.does(0, SendReturn("p:0", "ok", 0, TP, "p:0", -1))
        trace.send(0, "p:2")
        trace.fails(1000, "p:1", E.REQUEST_TIMED_OUT, broker="")
        assert trace.judged[0] == (not divided)
        trace.req = "data#7"
        trace.fails(0, "p:2", E.REQUEST_TIMED_OUT, broker="")
        assert trace.judged[0] == 1 + (not divided)
    trace = Client(retries=1)
    trace.send(0, "p:0")
    trace.refused(0, "p:0")
    trace.refused(0, "p:0", E.MESSAGE_TOO_LARGE)
    trace.fails(0, "p:0", E.NOT_ENOUGH_REPLICAS)
    assert trace.judged[0] == 1


def test_a_send_moves_to_the_topic_that_was_created_again() -> None:
    """Shows that it ends and begins in one step, keeps its age and its tries, and must begin again."""
    for age_ms, violated in ((1000, 1), (2999, 0)):
        trace = Client()
        trace.send(0, "p:0")
        trace.fails(age_ms, "p:0", E.UNKNOWN_TOPIC_ID, "")
        trace.send(0, "p:0", tp=NEW)
        trace.fails(0, "p:0", E.REQUEST_TIMED_OUT, "", NEW)
        assert trace.judged == (violated, 1)
    trace = Client(retries=1)
    trace.send(0, "p:0")
    trace.refused(0, "p:0")
    trace.fails(0, "p:0", E.UNKNOWN_TOPIC_ID, "")
    trace.send(0, "p:0", tp=NEW)
    trace.fails(0, "p:0", E.NOT_ENOUGH_REPLICAS, tp=NEW)
    assert trace.judged == (0, 2)
    trace.send(0, "p:1", "p:2")
    trace.fails(0, "p:1", E.UNKNOWN_TOPIC_ID, "")
    trace.does(0, NodeDown("crash"))
    assert trace.judged[0] == 0
    trace.send(0, "p:1", "p:2")
    trace.fails(0, "p:1", E.UNKNOWN_TOPIC_ID, "")
    trace.send(0, "p:3")
    assert "ended the send of p:1, as if its topic" in trace.result("C12").violations[0].sentence
    trace.fails(1, "p:2", E.UNKNOWN_TOPIC_ID)
    assert trace.judged[0] == 2


@pytest.mark.parametrize(
    ("api_ms", "age_ms", "violated"), [(5000, 4990, 1), (5000, 5000, 0), (60000, 29990, 1), (60000, 30000, 0)]
)
def test_a_commit_has_its_time(api_ms: int, age_ms: int, violated: int) -> None:
    """Shows that a commit that is waited for must not end with a retriable error before its time, which is the limit of
    a closing consumer at most."""
    trace = Client(api_ms=api_ms)
    trace.does(0, CommitInvoke("c", "g", "m", 1, {TP: [5, 0, -1]}, "sync"))
    trace.does(0, ErrorSeen("", "OffsetCommit", 9, E.NOT_COORDINATOR, "broker-1"))
    trace.does(age_ms, CommitReturn("c", "unknown", E.NOT_COORDINATOR, "g", "m", 1, {TP: [5, 0, -1]}, "sync"))
    assert trace.judged == (violated, 2)


@pytest.mark.parametrize(
    ("how", "error"), [("auto", E.NOT_COORDINATOR), ("async", E.NOT_COORDINATOR), ("sync", E.REBALANCE_IN_PROGRESS)]
)
def test_a_commit_that_is_not_tried_again(how: Any, error: E) -> None:
    """Shows that nobody tries a commit again for which nobody waits, or whose generation is over."""
    trace = Client()
    trace.does(0, CommitInvoke("c", "g", "m", 1, {TP: [5, 0, -1]}, how))
    trace.does(0, CommitReturn("c", "fail", error, "g", "m", 1, {TP: [5, 0, -1]}, how))
    assert trace.judged == (0, 0)


@pytest.mark.parametrize(
    ("mend", "anew", "violated"), [("topic-id", True, 0), ("topic-id", False, 1), ("off", True, 1)]
)
def test_a_commit_for_a_former_topic(mend: str, anew: bool, violated: int) -> None:
    """Shows that it ends at once where the client goes by ids, and was told of another id of that name."""
    trace = Client(features={"mend.former-epoch": mend})
    trace.does(0, MetaView("broker-1", {TP: 0}, [TP], topic_ids={"orders": "id-1"}))
    trace.does(0, CommitInvoke("c", "g", "m", 1, {TP: [5, 0, -1]}, "sync"))
    trace.does(0, MetaView("broker-1", {TP: 0}, [TP], topic_ids={"orders" if anew else "others": "id-2"}))
    trace.does(9, CommitReturn("c", "fail", E.UNKNOWN_TOPIC_ID, "g", "m", 1, {TP: [5, 0, -1]}, "sync"))
    assert trace.judged[0] == violated


@pytest.mark.parametrize(
    ("outcome", "error", "violated"),
    [
        ("fail", E.COORDINATOR_LOAD_IN_PROGRESS, 1),
        ("fail", E.UNKNOWN_TOPIC_OR_PARTITION, 0),
        ("fail", E.INVALID_GROUP_ID, 0),
        ("unknown", E.NONE, 0),
        ("ok", E.NONE, 0),
    ],
)
def test_a_look_up_of_committed_positions(outcome: Any, error: E, violated: int) -> None:
    """Shows that it never ends with an error that is asked again."""
    trace = Client()
    trace.does(0, ErrorSeen("", "OffsetFetch", 9, E.NOT_COORDINATOR, "broker-1"))
    trace.does(90_000, CommittedReturn("q", outcome, error, "g", [TP]))
    assert trace.judged == (violated, 1 + violated)


def test_a_deletion_of_records() -> None:
    """Shows that no partition ends with a retriable error, and the whole not before its time; that other errors are
    told, and other operations not judged."""
    trace = Client()
    trace.does(0, AdminInvoke("a", "delete-records", {}))
    trace.does(0, ErrorSeen(TP, "DeleteRecords", 2, E.NOT_LEADER_OR_FOLLOWER, "broker-1"))
    trace.does(0, AdminReturn("a", "ok", 0, "delete-records", {TP: "NONE", "orders-1": "OFFSET_OUT_OF_RANGE"}))
    trace.does(0, AdminInvoke("b", "delete-records", {}))
    trace.does(4995, AdminReturn("b", "unknown", E.REQUEST_TIMED_OUT, "delete-records", {}))
    trace.does(0, AdminInvoke("c", "elect-leaders", {}))
    trace.does(0, AdminReturn("c", "fail", E.NOT_CONTROLLER, "elect-leaders", {TP: "NOT_CONTROLLER"}))
    assert trace.judged == (0, 2)
    trace.does(0, AdminInvoke("d", "delete-records", {}))
    trace.does(0, AdminReturn("d", "ok", 6, "delete-records", {TP: "NOT_LEADER_OR_FOLLOWER"}))
    assert trace.result("C12").violations[0].sentence == (
        "client-1 did not delete records of orders-0, and gave up with NOT_LEADER_OR_FOLLOWER"
    )
    trace.does(0, AdminInvoke("e", "delete-records", {}))
    trace.does(4990, AdminReturn("e", "unknown", E.REQUEST_TIMED_OUT, "delete-records", {}))
    assert trace.judged == (2, 3)


@pytest.mark.parametrize(("begins_ms", "ends_ms", "violated"), [(0, 10, 0), (0, 0, 1), (10, 10, 0)])
def test_a_wrong_clock(begins_ms: int, ends_ms: int, violated: int) -> None:
    """Shows that nothing is judged that was under way while the clock was fast or slow, and what began since is."""
    trace = Client()
    trace.does(0, ClockSet("f", "start", 0, 0))
    if begins_ms == 0:
        trace.does(0, ClockSet("f", "start", 0, 500_000))
    if ends_ms == 0:
        trace.does(0, ClockSet("f", "stop", 70_000, 0))
    trace.send(0, "p:0")
    if begins_ms:
        trace.does(begins_ms, ClockSet("f", "start", 0, 500_000))
    if ends_ms:
        trace.does(ends_ms, ClockSet("f", "stop", 0, 0))
    trace.fails(500, "p:0", E.REQUEST_TIMED_OUT, "")
    assert trace.judged[0] == violated


def test_a_node_that_starts_again() -> None:
    """Shows that operations of its former life are not taken for its own."""
    trace = Client()
    trace.send(0, "p:0")
    trace.up("client-1", "client")
    trace.fails(500, "p:0", E.REQUEST_TIMED_OUT, "")
    assert trace.judged == (0, 0)


def init_ends(outcome: Any, error: int) -> InitReturn:
    """``initTransactions`` returns."""
    return InitReturn("i", outcome, error, "t")


def offsets_end(outcome: Any, error: int) -> SendOffsetsReturn:
    """``sendOffsetsToTransaction`` returns."""
    return SendOffsetsReturn("o", outcome, error, "t", 1, "g", {})


def transaction_ends(outcome: Any, error: int) -> EndReturn:
    """``commitTransaction`` returns."""
    return EndReturn("e", outcome, error, "t", 1, 7, 0, True, True, 7, 0)


@pytest.mark.parametrize(
    ("returns", "what"),
    [
        (init_ends, "initTransactions"),
        (offsets_end, "sendOffsetsToTransaction"),
        (transaction_ends, "the end of its transaction"),
    ],
)
def test_calls_of_a_transactional_producer(returns: Any, what: str) -> None:
    """Shows that they end with an error which does not pass, or with that of a send of this transaction; that a
    producer which has just begun has none; and what tests C12."""
    run = Client()
    run.does(0, ErrorSeen("", "AddPartitionsToTxn", 3, E.CONCURRENT_TRANSACTIONS, "broker-1"))
    run.does(9000, returns("ok", 0))
    run.does(0, returns("fail", E.PRODUCER_FENCED))
    assert (run.result("C12").status, run.result("C12").tested) == ("held", 1)
    run.does(0, returns("fail", E.COORDINATOR_LOAD_IN_PROGRESS))
    (finding,) = run.result("C12").violations
    assert finding.sentence == f"client-1 gave {what} up with COORDINATOR_LOAD_IN_PROGRESS"
    for again in (False, True):
        run = Client()
        run.send(0, "a")
        run.fails(3000, "a", E.REQUEST_TIMED_OUT, broker="")
        if again:
            run.does(0, BeginInvoke("b", "t", 2, 7, 0, 2))
        run.does(0, returns("fail", E.REQUEST_TIMED_OUT))
        assert run.result("C12").violated == (again or returns is init_ends)
