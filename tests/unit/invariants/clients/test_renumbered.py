"""T1, C1, C3, C4, C6: records that a transactional producer numbers anew (KAFKA-14397)."""

from __future__ import annotations

from typing import Literal

import pytest

from actors.trace.events import SendReturn
from tests.unit.invariants.trace_builder import TP
from tests.unit.invariants.transactions.stage import TransactionTrace

NODE = "broker-1"


def fails(
    trace: TransactionTrace, uid: str, outcome: Literal["fail", "unknown"] = "unknown", broker: str = NODE
) -> None:
    """A send of an idempotent producer returns REQUEST_TIMED_OUT."""
    trace.emit("producer-1", SendReturn(f"send {uid}", outcome, 7, TP, uid, -1, idempotent=True, broker=broker))


def again(outcome: Literal["fail", "unknown", "ok"] = "unknown", broker: str = NODE) -> TransactionTrace:
    """p:0 fails; p:2 is appended under its number, then p:1 and p:2 as they were sent."""
    trace = TransactionTrace()
    trace.lead(1, 0)
    if outcome != "ok":
        fails(trace, "p:0", outcome, broker)
    for number, uid in enumerate(("p:2", "p:1", "p:2")):
        trace.write(uid, sequence=number)
    trace.high_watermark(NODE, 3, counted=(1,))
    return trace


def end(trace: TransactionTrace, marker: Literal["commit", "abort"], offset: int) -> TransactionTrace:
    """The marker of the transaction is committed."""
    trace.ends(marker)
    trace.high_watermark(NODE, offset + 1, counted=(1,))
    return trace


@pytest.mark.parametrize("promise", ["T1", "C3", "C4"])
def test_what_is_written_twice_is_excused_if_it_is_aborted(promise: str) -> None:
    """Shows that a record of a transaction that is appended again, or late, is judged once the transaction ends:
    excused if it is aborted, or never ends, and a violation if it is committed."""
    assert again().result(promise).excused == {"renumbered": 1}
    aborted, committed = end(again(), "abort", 3).result(promise), end(again(), "commit", 3).result(promise)
    assert (aborted.violated, aborted.excused) == (0, {"renumbered": 1})
    assert (committed.violated, committed.excused) == (1, {})


@pytest.mark.parametrize("promise", ["T1", "C3", "C4"])
@pytest.mark.parametrize(("outcome", "broker"), [("ok", NODE), ("fail", NODE), ("unknown", "")])
def test_it_takes_a_batch_of_an_unknown_fate(
    promise: str, outcome: Literal["fail", "unknown", "ok"], broker: str
) -> None:
    """Shows that nothing is excused where no batch failed, where one was certainly not written, and where one was given
    up in the middle of an attempt, after which Kafka numbers nothing anew."""
    result = end(again(outcome, broker), "abort", 3).result(promise)
    assert (result.violated, result.excused) == (1, {})


@pytest.mark.parametrize("promise", ["T1", "C3", "C4"])
def test_the_next_transaction_of_its_producer(promise: str) -> None:
    """Shows that a failure excuses nothing of the transaction after its own."""
    trace = TransactionTrace()
    trace.lead(1, 0)
    trace.write("p:1")
    fails(trace, "p:0")
    end(trace, "abort", 1)
    for number, uid in enumerate(("p:4", "p:3", "p:4")):
        trace.write(uid, sequence=number, epoch=4)
    trace.high_watermark(NODE, 5, counted=(1,))
    trace.ends("abort", 5)
    trace.high_watermark(NODE, 6, counted=(1,))
    assert (trace.result(promise).violated, trace.result(promise).excused) == (1, {})


@pytest.mark.parametrize("promise", ["T1", "C3", "C4"])
def test_the_end_of_the_transaction_before_comes_late(promise: str) -> None:
    """Shows that a failure counts also if the marker of the transaction before is committed only after it."""
    trace = TransactionTrace()
    trace.lead(1, 0)
    trace.write("p:0")
    trace.ends("commit", 4)
    fails(trace, "p:1")
    trace.high_watermark(NODE, 2, counted=(1,))
    for number, uid in enumerate(("p:3", "p:2", "p:3")):
        trace.write(uid, sequence=number, epoch=4)
    trace.high_watermark(NODE, 5, counted=(1,))
    trace.ends("abort", 5)
    trace.high_watermark(NODE, 6, counted=(1,))
    assert (trace.result(promise).violated, trace.result(promise).excused) == (0, {"renumbered": 1})


def test_what_an_unclean_election_gave_up_is_not_doubted() -> None:
    """Shows that another record of a failing producer at an offset that an unclean election gave up is excused by that,
    whatever becomes of the transaction."""
    trace = TransactionTrace()
    trace.lead(1, 0)
    trace.write("p:1")
    fails(trace, "p:0")
    trace.high_watermark(NODE, 1, counted=(1,))
    trace.lead(2, 1, cause="unclean", isr=(2,))
    trace.write("p:2", broker=2, led=1)
    trace.high_watermark("broker-2", 1, 1, counted=(2,))
    trace.ends("commit", broker=2, led=1)
    trace.high_watermark("broker-2", 2, 1, counted=(2,))
    assert (trace.result("C3").violated, trace.result("C3").excused) == (0, {"unclean-election": 1})


@pytest.mark.parametrize("promise", ["C1", "C3"])
@pytest.mark.parametrize(("failed", "marker"), [(True, "abort"), (True, "commit"), (False, "abort")])
def test_a_record_that_is_taken_for_another_one(promise: str, failed: bool, marker: Literal["commit", "abort"]) -> None:
    """Shows that an acknowledgement may name the offset of the record whose sequence number the acknowledged one was
    given, if that has failed and the transaction is aborted."""
    trace = TransactionTrace()
    trace.lead(1, 0)
    trace.write("p:0")
    if failed:
        fails(trace, "p:0")
    trace.high_watermark(NODE, 1, counted=(1,))
    told = SendReturn("send p:1", "ok", 0, TP, "p:1", -1, idempotent=True, offset=0, leader_epoch=0, broker=NODE)
    trace.emit("producer-1", told)
    result = end(trace, marker, 1).result(promise)
    excused = failed and marker == "abort"
    assert (result.violated, result.excused) == ((0, {"renumbered": 1}) if excused else (1, {}))


@pytest.mark.parametrize(("failed", "marker"), [(True, "abort"), (True, "commit"), (False, "abort")])
def test_a_reader_of_a_record_that_was_taken_for_another_one(failed: bool, marker: Literal["commit", "abort"]) -> None:
    """Shows that a consumer which gets, at an acknowledged offset, the record whose number the acknowledged one was
    given is judged by C6 in the same way."""
    trace = TransactionTrace()
    trace.lead(1, 0)
    trace.write("p:0")
    if failed:
        fails(trace, "p:0")
    trace.high_watermark(NODE, 1, counted=(1,))
    told = SendReturn("send p:1", "ok", 0, TP, "p:1", -1, idempotent=True, offset=0, leader_epoch=0, broker=NODE)
    trace.emit("producer-1", told)
    trace.reads((0, "p:0"), isolation=0)
    result = end(trace, marker, 1).result("C6")
    excused = failed and marker == "abort"
    assert (result.violated, result.excused) == ((0, {"renumbered": 1}) if excused else (1, {}))
