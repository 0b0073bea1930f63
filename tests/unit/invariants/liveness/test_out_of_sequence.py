"""L5: batches whose time is up while their leader refuses them as out of sequence."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from actors.node.errors import KafkaError
from actors.trace.events import ErrorSeen, PartRemove, SendInvoke
from tests.unit.invariants.folds.test_windows import Run
from tests.unit.invariants.trace_builder import TP

CLIENT = "producer-1"


def refused(run: Run, number: int, error: int = KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, client: str = CLIENT) -> None:
    """A leader refused a batch, by its first record."""
    run.emit(client, ErrorSeen(TP, "Produce", 11, error, "broker-1", f"{client}:{number}"))


def expired(run: Run, *numbers: int, client: str = CLIENT) -> None:
    """The time of records is up, in one step."""
    run.apart, apart = 1, run.apart
    for number in numbers:
        run.failed(client, f"{client}:{number}", KafkaError.REQUEST_TIMED_OUT, "unknown", "")
    run.apart = apart


def gap() -> Run:
    """Batch 0, of two records, was out of sequence until its time was up. Batch 2 is sent after that, and refused, too;
    then a batch 3 is sent."""
    run = Run()
    run.lead(1, 0)
    for number in (0, 1):
        run.sends(CLIENT, f"{CLIENT}:{number}")
    refused(run, 0)
    refused(run, 0)
    expired(run, 0, 1)
    run.sends(CLIENT, f"{CLIENT}:2")
    refused(run, 2)
    run.sends(CLIENT, f"{CLIENT}:3")
    return run


def test_a_producer_that_goes_on_in_a_sequence_with_a_gap() -> None:
    """Shows that a batch which is out of sequence until its time is up violates L5, if it was sent after another one
    was, and each later one again; and that one which is acknowledged at last tests it."""
    run = gap()
    expired(run, 2)
    (finding,) = run.result("L5").violations
    assert finding.sentence == (
        "producer-1 gave up record producer-1:2, which the leader of orders-0 refused as out of sequence, though it "
        "was sent after producer-1:0 had been given up for that: it began no new epoch"
    )
    refused(run, 3)
    expired(run, 3)
    assert run.result("L5").violated == 1, "it was sent before 2 was given up"
    run.sends(CLIENT, f"{CLIENT}:4")
    refused(run, 4)
    expired(run, 4)
    assert run.result("L5").violated == 2
    healed = gap()
    healed.acked(CLIENT, f"{CLIENT}:2", 0)
    assert healed.status("L5") == ("held", 1)


def test_a_batch_that_was_sent_before_the_other_was_given_up() -> None:
    """Shows that a batch which was under way already may be refused until its time is up."""
    run = Run()
    run.lead(1, 0)
    for number in (0, 1):
        run.sends(CLIENT, f"{CLIENT}:{number}")
        refused(run, number)
    expired(run, 0)
    refused(run, 1)
    expired(run, 1)
    assert run.result("L5").violated == 0


OTHER_CAUSES: dict[str, Callable[[Run], object]] = {
    "nothing": lambda run: None,
    "an acknowledgement": lambda run: run.acked(CLIENT, f"{CLIENT}:3", 0),
    "an acknowledgement of another": lambda run: run.acked("producer-2", "producer-2:3", 0),
    "a refusal of another kind": lambda run: refused(run, 3, KafkaError.NOT_LEADER_OR_FOLLOWER),
    "one to another producer": lambda run: refused(run, 3, KafkaError.NOT_LEADER_OR_FOLLOWER, "producer-2"),
    "a definite failure": lambda run: run.failed(CLIENT, f"{CLIENT}:3"),
    "a batch that was lost": lambda run: expired(run, 3),
    "one of another producer": lambda run: expired(run, 3, client="producer-2"),
    "another leader": lambda run: run.assume(2, 1),
    "a truncation": lambda run: run.truncate("broker-1", 0),
    "a crash of a broker": lambda run: run.down("broker-1"),
    "an end of the producer": lambda run: run.down(CLIENT),
}
LEAVE_IT = ("nothing", "an acknowledgement of another", "one to another producer", "one of another producer")


@pytest.mark.parametrize("cause", OTHER_CAUSES)
def test_what_may_be_the_cause_of_another_gap(cause: str) -> None:
    """Shows that L5 takes a batch that is out of sequence for the fault of its producer only if nothing happened since
    the last one that may be the cause."""
    run = gap()
    OTHER_CAUSES[cause](run)
    expired(run, 2)
    assert run.result("L5").violated == (cause in LEAVE_IT)


def test_the_other_records_of_a_batch_are_no_cause_of_a_gap() -> None:
    """Shows that the records which end with the first one of a batch are of that batch, and others are not."""
    for apart in (True, False):
        run = Run()
        run.lead(1, 0)
        for number in (0, 1):
            run.sends(CLIENT, f"{CLIENT}:{number}")
        refused(run, 0)
        expired(run, 0)
        if apart:
            run.wall += 1000
        expired(run, 1)
        run.sends(CLIENT, f"{CLIENT}:2")
        refused(run, 2)
        expired(run, 2)
        assert run.result("L5").violated == (not apart)


def test_whose_gaps_are_not_judged() -> None:
    """Shows that L5 leaves out records of transactions, which end with an error at once, and topics that are gone."""
    transactional, removed = Run(), Run()
    for run, judged in ((transactional, False), (removed, False), (Run(), True)):
        run.lead(1, 0)
        run.sends(CLIENT, f"{CLIENT}:0")
        refused(run, 0)
        expired(run, 0)
        name = "ids" if run is transactional else ""
        run.emit(CLIENT, SendInvoke(f"send {CLIENT}:1", TP, f"{CLIENT}:1", -1, transactional_id=name))
        refused(run, 1)
        if run is removed:
            run.emit("controller-1", PartRemove(TP, 9, 1, "id"))
        expired(run, 1)
        assert run.result("L5").violated == judged
