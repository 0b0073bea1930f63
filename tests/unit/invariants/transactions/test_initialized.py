"""T16: what producers are told when their transactions are initialized."""

from __future__ import annotations

import pytest

from actors.trace.events import NodeDown
from orchestrator.invariants.transactions.initialized import REMEMBERED
from tests.unit.invariants.transactions.stage import STATE, TransactionTrace, producers


def test_a_producer_that_is_told_of_its_epoch() -> None:
    """Shows that T16 is held, tested by each answer, if its epoch was committed before, whatever became of others."""
    trace = TransactionTrace(**producers(one=1000, two=2500))
    trace.initializes(3)
    trace.app_initialized(3, "one")
    trace.initializes(4)
    trace.initializes(5, timeout_ms=2500)
    trace.app_initialized(5, "two")
    trace.app_initialized(4, "one")
    trace.app_initialized(-1, "one", outcome="unknown")
    result = trace.result("T16")
    assert (result.status, result.tested) == ("held", 3)


def test_an_epoch_that_is_not_committed() -> None:
    """Shows that a producer which is told of an epoch before its coordinator has committed that violates T16."""
    trace = TransactionTrace()
    trace.initializes(3)
    told = trace.app_initialized(4)
    trace.initializes(4)
    (finding,) = trace.result("T16").violations
    assert finding.events == [told]
    assert finding.sentence == (
        "producer-1 is told that app-1 has producer id 7, epoch 4, but no coordinator has committed that"
    )


def test_an_epoch_of_a_transaction() -> None:
    """Shows that the epoch of a decision is none that a producer is initialized in."""
    trace = TransactionTrace()
    trace.initializes(3)
    trace.begins(3)
    trace.decides(True, 4)
    trace.app_initialized(4)
    assert trace.result("T16").violated == 1


@pytest.mark.parametrize("again", [False, True])
def test_an_epoch_that_two_producers_are_told_of(again: bool) -> None:
    """Shows that it violates T16, also if the coordinator has committed it twice."""
    trace = TransactionTrace()
    trace.initializes(3)
    first = trace.app_initialized(3)
    if again:
        trace.initializes(3)
    second = trace.app_initialized(3, "producer-2")
    (finding,) = trace.result("T16").violations
    assert finding.events == [first, second]
    assert finding.sentence == (
        "producer-2 is told that app-1 has producer id 7, epoch 3, as producer-1 was told before"
    )


@pytest.mark.parametrize(
    ("lost", "after", "status"),
    [(2, True, "excused"), (1, True, "violated"), (0, True, "violated"), (2, False, "violated")],
)
def test_an_epoch_that_the_transaction_log_lost(lost: int, after: bool, status: str) -> None:
    """Shows that T16 excuses an epoch that is given again if disks lost the first record since, as many of them as have
    to have it."""
    trace = TransactionTrace()
    if after:
        trace.initializes(3)
    for broker in ("broker-1", "broker-2")[:lost]:
        trace.emit(broker, NodeDown("lossy", lost={STATE: 0}))
    if not after:
        trace.initializes(3)
    trace.app_initialized(3)
    trace.initializes(3, coordinator_epoch=1)
    trace.app_initialized(3, "producer-2")
    result = trace.result("T16")
    assert (bool(result.violated), bool(result.excused)) == (status == "violated", status == "excused")


@pytest.mark.parametrize(("tp", "excused"), [(STATE, 1), ("__transaction_state-7", 0)])
def test_an_epoch_that_an_unclean_election_gave_up(tp: str, excused: int) -> None:
    """Shows that T16 excuses an epoch that is given again after an unclean election of its own coordinator."""
    trace = TransactionTrace()
    trace.initializes(3)
    trace.app_initialized(3)
    trace.change(2, 1, isr=(2,), cause="unclean", tp=tp)
    trace.initializes(3, coordinator_epoch=1)
    trace.app_initialized(3, "producer-2")
    result = trace.result("T16")
    assert (result.violated, sum(result.excused.values())) == (1 - excused, excused)


def test_the_timeout_of_a_former_process() -> None:
    """Shows that a producer which is initialized with the timeout of another one violates T16. A client that the run
    does not tell of is not judged."""
    trace = TransactionTrace(**producers(one=1000, two=2500))
    for epoch, node in enumerate(("one", "other", "two")):
        trace.initializes(epoch)
        trace.app_initialized(epoch, node)
    (finding,) = trace.result("T16").violations
    assert finding.sentence == (
        "two is told that app-1 has producer id 7, epoch 2, with a timeout of 1,000 ms, but it asked for 2,500 ms"
    )


@pytest.mark.parametrize(("epoch", "violated"), [(0, 0), (1, 0), (REMEMBERED + 2, 1)])
def test_an_answer_that_comes_late(epoch: int, violated: int) -> None:
    """Shows that T16 does not judge an epoch that it may have forgotten."""
    trace = TransactionTrace()
    for each in range(REMEMBERED + 1):
        trace.initializes(each)
    trace.app_initialized(epoch)
    assert trace.result("T16").violated == violated
