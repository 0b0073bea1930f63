"""L20: that applications whose transactions fail commit one in the end."""

from __future__ import annotations

from typing import Any

import pytest

from actors.features import ENDLESS_ABORTS
from actors.node.errors import KafkaError
from actors.trace.events import CtlFault, CtlPhase, EndReturn, InitReturn, PartRemove, SendOffsetsReturn, SendReturn
from orchestrator.invariants.folds.bounds import bound_us
from orchestrator.invariants.folds.fold import Profile
from tests.unit.invariants.trace_builder import TP
from tests.unit.invariants.transactions.stage import APP, PRODUCER, STATE, TransactionTrace, producers

SECOND = 1_000_000
BOUND_US = bound_us(Profile(), "L20")
CORE = ("broker-1", "broker-2", "broker-3", "producer-1")
REFUSED = KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER
TIMED_OUT = KafkaError.REQUEST_TIMED_OUT
FINDING = "finding-endless-aborts"


class Application(TransactionTrace):
    """With what an application does. Its transactions have a timeout of 60 s, and three brokers have replicas."""

    def __init__(self, version: int = 1, **profile: Any) -> None:
        super().__init__(**{**producers(**{"producer-1": 60_000}), **profile})
        self.version, self.number, self.epoch = version, 0, 3
        self.change(1, 0, cause="create")

    def opens(self, *sent: tuple[str, int]) -> None:
        """It begins its next transaction, and is told these errors of records to partitions, 0 none."""
        self.number += 1
        self.app_begins(self.number, self.epoch, self.version)
        self.told_of(*sent)

    def told_of(self, *sent: tuple[str, int]) -> None:
        """Sends return."""
        for tp, error in sent:
            self.emit("producer-1", SendReturn("s", "fail" if error else "ok", error, tp, "producer-1:1", -1))

    def ended(self, commit: bool, error: int = 0) -> None:
        """It is told of the end."""
        outcome: Any = "fail" if error else "ok"
        told = EndReturn("e", outcome, error, APP, self.number, PRODUCER, self.epoch, commit, asked=True)
        self.emit("producer-1", told)

    def commits(self) -> None:
        """A transaction that does what it should."""
        self.opens()
        self.app_asks(True, self.number, self.epoch)
        self.told_of((TP, 0))
        self.ended(True)

    def fails_at_commit(self, error: int = REFUSED, tp: str = TP) -> None:
        """A transaction whose batch is refused while it is committed, and that is aborted."""
        self.opens()
        self.app_asks(True, self.number, self.epoch)
        self.told_of((tp, error))
        self.ended(True, error)
        self.app_asks(False, self.number, self.epoch)
        self.ended(False)

    def fails(self, error: int = REFUSED, tp: str = TP) -> None:
        """A transaction whose batch is refused before, so that it is aborted."""
        self.opens((tp, error))
        self.app_asks(False, self.number, self.epoch)
        self.ended(False)

    def later(self, us: int) -> None:
        """Time passes."""
        self.wall += us
        self.emit("driver", CtlPhase("running"))

    def fails_on(self, how: Any, **given: Any) -> None:
        """So it goes through a whole bound."""
        for _ in range(6):
            how(**given)
            self.later(BOUND_US // 5)

    @property
    def verdict(self) -> tuple[str, int, str]:
        """The status of L20, how often it was tested, and what the first violation is known as."""
        found = self.result("L20")
        return found.status, found.tested, found.violations[0].rule if found.violations else ""


def calm(*core: str, **given: Any) -> Application:
    """A window is open; the application has committed a transaction before."""
    trace = Application(**given)
    trace.commits()
    trace.window("open", *(core or CORE))
    return trace


def test_a_failure_and_a_commit() -> None:
    """Shows what tests it: a commit in a window, after a transaction that failed, be it before the window."""
    trace = calm()
    trace.commits()
    assert trace.verdict == ("vacuous", 0, "")
    trace.fails(TIMED_OUT)
    trace.commits()
    assert trace.verdict == ("held", 1, "")
    trace.window("close")
    trace.fails(TIMED_OUT)
    trace.window("open", *CORE)
    trace.commits()
    assert trace.verdict == ("held", 2, "")


def test_failures_without_end() -> None:
    """Shows that the bound counts from the window, and that three failures are too many at its end."""
    trace = calm()
    trace.fails_on(trace.fails, error=TIMED_OUT)
    assert trace.verdict == ("violated", 0, "")
    trace = calm()
    trace.fails(TIMED_OUT)
    trace.later(BOUND_US - SECOND)
    trace.fails(TIMED_OUT)
    trace.later(2 * SECOND)
    trace.commits()
    assert trace.result("L20").violated == 0
    early = calm()
    for _ in range(5):
        early.fails(TIMED_OUT)
    early.later(2 * BOUND_US)
    assert early.result("L20").violated == 0


def test_a_producer_that_it_does_not_get() -> None:
    """Shows that it counts when a producer cannot be initialized."""
    trace = calm()
    for _ in range(6):
        trace.emit("producer-1", InitReturn("i", "unknown", TIMED_OUT, APP))
        trace.later(BOUND_US // 5)
    assert trace.verdict == ("violated", 0, "")


@pytest.mark.parametrize("features", [{}, {ENDLESS_ABORTS: "raise-epoch"}])
def test_what_kafka_does(features: dict[str, str]) -> None:
    """Shows that batches which are refused while a transaction is committed are the finding, without its mend."""
    trace = calm(features=features)
    trace.fails_on(trace.fails_at_commit)
    assert trace.verdict == ("violated", 0, "" if features else FINDING)


def test_what_kafka_does_not() -> None:
    """Shows that it is no finding if the epoch should have been raised, if nothing of the epoch was acknowledged, under
    transaction.version 2, and with another error."""
    trace = calm()
    trace.fails()
    trace.fails_on(trace.fails_at_commit)
    assert trace.verdict == ("violated", 0, "")
    trace = calm()
    trace.epoch += 1
    trace.fails_on(trace.fails_at_commit)
    assert trace.verdict == ("violated", 0, "")
    for given, error in (({"version": 2}, REFUSED), ({}, TIMED_OUT)):
        trace = calm(**given)
        trace.fails_on(trace.fails_at_commit, error=error)
        assert trace.verdict == ("violated", 0, "")


def test_a_producer_that_cannot_raise_its_epoch() -> None:
    """Shows that it is the finding wherever the refusal comes, if InitProducerId cannot raise an epoch."""
    given = producers(**{"producer-1": 60_000})
    given["nodes"]["producer-1"]["versions"] = {"InitProducerId": [0, 2]}
    trace = calm(**given, features={ENDLESS_ABORTS: "raise-epoch"})
    trace.fails_on(trace.fails)
    assert trace.verdict == ("violated", 0, FINDING)


@pytest.mark.parametrize("core", [CORE[:3], CORE[1:]])
def test_who_is_not_judged(core: tuple[str, ...]) -> None:
    """Shows that the application has to be in the window, and every broker."""
    trace = calm(*core)
    trace.fails_on(trace.fails, error=TIMED_OUT)
    assert trace.result("L20").violated == 0


def test_failures_of_its_own() -> None:
    """Shows what is no failure: an abort of its own will, a transaction beyond its timeout, one whose member lost its
    place, one of an application that shares its id, and one before the process ended."""
    trace = calm()
    for _ in range(6):
        trace.opens()
        trace.app_asks(False, trace.number)
        trace.told_of((TP, KafkaError.TRANSACTION_ABORTABLE))
        trace.ended(False)
        trace.later(BOUND_US // 5)
    for _ in range(6):
        trace.opens()
        trace.later(60 * SECOND)
        trace.told_of((TP, TIMED_OUT))
        trace.app_asks(False, trace.number)
        trace.ended(False)
    for _ in range(6):
        trace.opens()
        lost = SendOffsetsReturn("o", "unknown", KafkaError.ILLEGAL_GENERATION, APP, trace.number, "group", {})
        trace.emit("producer-1", lost)
        trace.app_asks(False, trace.number)
        trace.ended(False)
        trace.later(BOUND_US // 5)
    assert trace.result("L20").violated == 0
    shared = calm(**producers(**{"producer-1": 60_000, "producer-2": 60_000}))
    shared.fails_on(shared.fails, error=TIMED_OUT)
    assert shared.result("L20").violated == 0
    ended = calm()
    for _ in range(3):
        ended.fails(TIMED_OUT)
        ended.later(BOUND_US // 4)
    ended.down("producer-1")
    ended.later(BOUND_US)
    assert ended.result("L20").violated == 0


def test_a_partition_that_takes_nothing() -> None:
    """Shows that too few in-sync replicas excuse it, of a partition that it writes to, or of the transaction log."""
    for tp, isr, rule in ((TP, (1,), "isr-away"), (STATE, (1,), "isr-away"), ("bills-0", (1,), ""), (TP, (1, 2), "")):
        trace = calm()
        trace.change(1, 1, isr, tp=tp, min_isr=2)
        trace.fails_on(trace.fails, error=TIMED_OUT)
        found = trace.result("L20")
        assert (list(found.excused), found.violated) == ([rule] if rule else [], 0 if rule else 1)


def test_a_topic_that_is_gone() -> None:
    """Shows that a removed topic excuses it, and that it has its time again when the topic is back."""
    trace = calm()
    trace.emit("controller-1", PartRemove(TP, 50, 1, "id"))
    trace.fails_on(trace.fails, error=TIMED_OUT)
    assert (list(trace.result("L20").excused), trace.result("L20").violated) == (["removed-topic"], 0)
    again = calm()
    again.emit("controller-1", PartRemove(TP, 50, 1, "id"))
    for _ in range(3):
        again.fails(TIMED_OUT)
        again.later(BOUND_US // 4)
    again.change(1, 1, tp=f"{TP}@id", offset=60)
    again.later(BOUND_US // 2)
    assert (list(again.result("L20").excused), again.result("L20").violated) == ([], 0)


def test_metadata_that_was_pushed_late() -> None:
    """Shows that an older UpdateMetadata which came last excuses it."""
    trace = calm(config={"metadata.propagation": "push"})
    between = {"from": ["controller-1"], "to": ["broker-1"], "delay_max_us": 0, "both_ways": True}
    late = CtlFault("f1", "delay", "start", [], between)
    trace.emit("driver", late)
    trace.fails_on(trace.fails, error=TIMED_OUT)
    assert (list(trace.result("L20").excused), trace.result("L20").violated) == (["late-push"], 0)


@pytest.mark.parametrize("error", [KafkaError.CONCURRENT_TRANSACTIONS, TIMED_OUT])
def test_a_transaction_log_that_lost_records(error: KafkaError) -> None:
    """Shows that a lost decision excuses CONCURRENT_TRANSACTIONS, and no other error."""
    trace = calm()
    trace.change(2, 1, tp=STATE, cause="unclean")
    trace.fails_on(trace.fails, error=error)
    excused = error == KafkaError.CONCURRENT_TRANSACTIONS
    assert (list(trace.result("L20").excused), trace.result("L20").violated) == (
        ["lost-decisions"] if excused else [],
        0 if excused else 1,
    )
