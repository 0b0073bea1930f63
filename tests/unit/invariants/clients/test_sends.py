"""C2 and C4: what producers were promised of failures and of order."""

from __future__ import annotations

import pytest

from orchestrator.invariants.clients import sends
from tests.unit.invariants.partitions.test_replication import committed
from tests.unit.invariants.trace_builder import TraceBuilder

# ---- C2 --------------------------------------------------------------------------------------------------------


def test_a_failure_that_stays_one() -> None:
    """Shows that each definite failure tests C2; a send of unknown outcome is none."""
    trace = committed("a")
    trace.failed("producer-1", "b")
    trace.failed("producer-1", "c", 7, "unknown")
    trace.polled("consumer-1", (0, "a"), (1, "c"))
    assert (trace.result("C2").status, trace.result("C2").tested) == ("held", 1)


def test_a_failed_record_that_is_read() -> None:
    """Shows that a record that a consumer gets after its send failed for good violates C2."""
    trace = TraceBuilder()
    fail = trace.failed("producer-1", "a")
    poll = trace.polled("consumer-1", (4, "a"))
    result = trace.result("C2")
    assert result.violations[0].events == [fail, poll]
    assert result.violations[0].sentence == (
        "the send of a failed for good at producer-1; consumer-1 got it at offset 4 of orders-0"
    )


def test_a_failed_record_that_is_committed() -> None:
    """Shows that it is enough to be committed, before the failure is told or after."""
    before = committed("a", "b")
    before.failed("producer-1", "b")
    assert before.result("C2").violations[0].sentence.endswith("broker-1 committed it at offset 1 of orders-0")
    after = TraceBuilder()
    after.lead(1, 0)
    fail = after.failed("producer-1", "b")
    after.append("broker-1", "a", "b")
    commit = after.high_watermark("broker-1", 2, counted=(1,))
    assert after.result("C2").violations[0].events == [fail, commit]


def test_a_failed_record_that_an_unclean_election_gave_up() -> None:
    """Shows that what is committed no longer when its send fails is not seen: nobody gets it."""
    trace = committed("a", "b", followers=(3,))
    trace.lead(2, 1, cause="unclean", isr=(2,))
    trace.failed("producer-1", "b")
    assert (trace.result("C2").status, trace.result("C2").tested) == ("held", 1)


def test_a_record_that_is_sent_again_may_be_seen() -> None:
    """Shows that a failure counts until its producer begins to send the record again, as it does where a name stood for
    another topic meanwhile; and that of two records the other one counts on."""
    for uid, violated in (("a", 0), ("b", 1)):
        trace = TraceBuilder()
        trace.failed("producer-1", "a", 100)
        trace.sends("producer-1", uid)
        trace.polled("consumer-1", (0, "a"))
        assert trace.result("C2").violated == violated


# ---- C4 --------------------------------------------------------------------------------------------------------


def log_of(
    *batches: tuple[str, ...], producer: int = 7, sequences: tuple[int, ...] = (), **profile: object
) -> TraceBuilder:
    """Broker-1 alone in the ISR appends and commits batches, one at a time."""
    trace = TraceBuilder(**profile)
    trace.lead(1, 0)
    number = 0
    for index, uids in enumerate(batches):
        sequence = sequences[index] if sequences else number
        trace.append("broker-1", *uids, producer=producer, sequence=sequence if producer >= 0 else -1)
        trace.high_watermark("broker-1", trace.log_end(1), counted=(1,))
        number += len(uids)
    return trace


def test_an_order_that_is_kept() -> None:
    """Shows that each record committed after another one of its session tests C4, whatever is missing in between."""
    trace = log_of(("p:0", "p:2"), ("q:9", "p:5"), ("q:10", "unnumbered"))
    assert (trace.result("C4").status, trace.result("C4").tested) == ("held", 3)


def test_a_record_that_overtakes_an_older_one() -> None:
    """Shows that a record committed behind one that was sent later violates C4, with both commits."""
    trace = log_of(("p:1",), ("p:0",))
    commits = [event.id for event in trace.events if event.type == "log.hw"]
    result = trace.result("C4")
    assert result.violations[0].events == commits
    assert result.violations[0].sentence == (
        "p:0 is committed at offset 1 of orders-0, but p:1, which was sent later, is already at offset 0"
    )


def test_a_second_copy_is_no_matter_of_order() -> None:
    """Shows that what was committed before may come again, and a new session may begin at any number."""
    assert log_of(("p:0", "p:1"), ("p:0",), ("p#1:0",)).result("C4").status == "held"


def test_what_a_replaced_process_sent_is_forgotten_but_for_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows that of a process that another one has replaced the last numbers are remembered, and all of another
    producer's: an older record that overtakes is judged no more."""
    monkeypatch.setattr(sends, "REPLACED_REMEMBERED", 4)
    numbers = ("p:0", "p:2", "p:4", "p:6", "p:8", "q:0", "q:2")
    assert log_of(numbers, ("p#1:0",), ("p:7",)).result("C4").status == "violated"
    assert log_of(numbers, ("p#1:0",), ("p:1",)).result("C4").status == "held"
    assert log_of(numbers, ("p#1:0",), ("q:1",)).result("C4").status == "violated"
    assert log_of(numbers, ("p:1",), ("p#1:0",)).result("C4").status == "violated"


def test_without_idempotence_order_is_promised_for_one_request_in_flight() -> None:
    """Shows that a producer that may have several requests under way is excused, and one that may not, or that does
    not try again, is not."""
    loose = log_of(("p:1",), ("p:0",), producer=-1)
    assert loose.result("C4").excused == {"no-idempotence": 1}
    for config in ({"max.in.flight.requests.per.connection": 1}, {"retries": 0}):
        strict = log_of(("p:1",), ("p:0",), producer=-1, nodes={"p": {"config": config}})
        assert strict.result("C4").status == "violated"


def test_a_copy_of_a_send_that_was_given_up_may_come_late() -> None:
    """Shows that without idempotence a record whose send had ended without success is excused, and with it is not."""
    for producer, violated in ((-1, 0), (7, 1)):
        trace = TraceBuilder(nodes={"p": {"config": {"max.in.flight.requests.per.connection": 1}}})
        trace.lead(1, 0)
        trace.failed("p", "p:0", 7, "unknown")
        trace.append("broker-1", "p:1", producer=producer, sequence=min(producer, 0))
        trace.append("broker-1", "p:0", producer=producer, sequence=min(producer, 1))
        trace.high_watermark("broker-1", 2, counted=(1,))
        assert (trace.result("C4").violated, trace.result("C4").excused.get("given-up", 0)) == (violated, 1 - violated)


def test_a_leader_without_producer_state_takes_any_sequence() -> None:
    """Shows that what overtook by a batch whose sequence nobody could check is excused."""
    trace = log_of(("p:3",), ("p:1",), sequences=(3, 0))
    assert trace.result("C4").excused == {"no-producer-state": 1}


def test_an_unclean_election_excuses_a_new_order() -> None:
    """Shows that a record which comes behind one that an unclean election gave up is excused, and that order counts
    again among what the unclean leader commits."""
    trace = log_of(("p:0",), ("p:3",))
    trace.lead(2, 1, cause="unclean", isr=(2,))
    trace.append("broker-2", "p:1", epoch=1, producer=7, sequence=1)
    trace.high_watermark("broker-2", 1, 1, counted=(2,))
    assert (trace.result("C4").violated, trace.result("C4").excused) == (0, {"unclean-election": 1})
    trace.append("broker-2", "p:5", "p:4", epoch=1, producer=7, sequence=2)
    trace.high_watermark("broker-2", 3, 1, counted=(2,))
    assert (trace.result("C4").violated, trace.result("C4").excused) == (1, {"unclean-election": 1})
