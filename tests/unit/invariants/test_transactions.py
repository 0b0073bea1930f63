"""T2: the sequence numbers of idempotent producers."""

from __future__ import annotations

from actors.trace.events import LogAppend
from tests.unit.invariants.trace_builder import TP, TraceBuilder

NODE = "broker-1"


def batch(trace: TraceBuilder, sequence: int, *uids: str, node: str = NODE, epoch: int = 0) -> str:
    """A batch of producer id 7."""
    role = "leader" if node == NODE else "follower"
    return trace.append(node, *(uids or ("r",)), producer=7, sequence=sequence, epoch=epoch, role=role)


def test_contiguous_sequences() -> None:
    """Shows that batches that follow one another hold T2; the first one of a producer begins at 0."""
    trace = TraceBuilder()
    batch(trace, 0, "a", "b")
    batch(trace, 2)
    result = trace.result("T2")
    assert (result.status, result.tested) == ("held", 2)


def test_a_gap_and_a_repetition() -> None:
    """Shows that a sequence number too high, or one again, violates T2, with the batch before as evidence."""
    for wrong in (5, 1):
        trace = TraceBuilder()
        first = batch(trace, 0, "a", "b")
        second = batch(trace, wrong)
        result = trace.result("T2")
        assert result.violations[0].events == [first, second]
        assert result.violations[0].sentence == (
            f"broker-1 appended sequence {wrong} of producer id 7, epoch 0, to orders-0 at offset 2, where 2 was next"
        )


def test_sequences_wrap() -> None:
    """Shows that after 2^31 - 1 comes 0."""
    trace = TraceBuilder()
    last = 2**31 - 1
    body = LogAppend(TP, "leader", 0, last, 0, 0, 7, 0, 0, False, 1, [])
    trace.emit(NODE, body)
    trace.logs[TP, NODE] = [(0, 0), (2**31, 1)]
    batch(trace, 0)
    assert trace.result("T2").status == "held"


def test_a_new_producer_epoch_begins_at_0() -> None:
    """Shows that a raised producer epoch that goes on counting violates T2."""
    trace = TraceBuilder()
    batch(trace, 0)
    trace.emit(NODE, LogAppend(TP, "leader", 1, 1, 0, 0, 7, 1, 1, False, 1, ["b"]))
    assert trace.result("T2").violations[0].sentence.endswith("epoch 1, to orders-0 at offset 1, where 0 was next")


def test_a_new_leader_goes_on_from_its_log() -> None:
    """Shows that what a replica took as a follower counts when it leads, and what it truncated does not."""
    trace = TraceBuilder()
    batch(trace, 0, node="broker-2")
    batch(trace, 1, node="broker-2")
    trace.truncate("broker-2", 1)
    trace.append("broker-2", "c", producer=7, sequence=1, epoch=1)
    result = trace.result("T2")
    assert (result.status, result.tested) == ("held", 1)
    trace.append("broker-2", "d", producer=7, sequence=3, epoch=1)
    assert trace.result("T2").status == "violated"


def test_a_producer_that_the_log_does_not_know() -> None:
    """Shows that a leader without state of a producer may accept any first sequence number: excused, and counted."""
    trace = TraceBuilder()
    batch(trace, 9)
    batch(trace, 10)
    result = trace.result("T2")
    assert (result.status, result.excused) == ("held", {"no-producer-state": 1})


def test_other_records_test_nothing() -> None:
    """Shows that T2 is vacuous for producers that are not idempotent, and on followers."""
    trace = TraceBuilder()
    trace.append(NODE, "a")
    batch(trace, 4, node="broker-2")
    assert trace.result("T2").status == "vacuous"
