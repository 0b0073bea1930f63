"""P12 and P23: where the logs of a leader and its followers part, and what followers make of it."""

from __future__ import annotations

from typing import Any

import pytest

from actors.node.errors import KafkaError
from actors.trace.events import EpochTold, LogLocalStart, LogStart
from tests.unit.invariants.mirrors.test_log_mirror import led
from tests.unit.invariants.trace_builder import TP, TraceBuilder

# ---- P12 -------------------------------------------------------------------------------------------------------


def diverged() -> TraceBuilder:
    """All have a and b; broker-1 has an x of epoch 0 more; broker-2 leads epoch 1, with a y."""
    trace = led("a", "b")
    trace.append("broker-1", "x")
    trace.lead(2, 1)
    trace.append("broker-2", "y", epoch=1)
    trace.assume(1, 1, leader=2)
    return trace


def test_a_truncation_to_where_both_logs_meet() -> None:
    """Shows that P12 is tested by the first batch of a follower under each leader epoch, and by the truncation."""
    trace = diverged()
    trace.cut_back(1, 0, 2, to=2)
    trace.append("broker-1", "y", epoch=1, role="follower")
    trace.append("broker-1", "z", epoch=1, role="follower")
    result = trace.result("P12")
    assert (result.status, result.tested) == ("held", 2 + 1 + 1 + 1)


def test_a_truncation_that_goes_too_far() -> None:
    """Shows that a cut below what both logs share violates P12; one that stops short is the next one's to mend."""
    trace = diverged()
    cut = trace.truncate("broker-1", 1)
    (finding,) = trace.result("P12").violations
    assert finding.events[-1] == cut
    assert finding.sentence == (
        "broker-1 truncated orders-0 from 3 to 1 (diverge) under leader epoch 1, although its log agreed with that of "
        "broker-2 up to 2"
    )


@pytest.mark.parametrize(("to", "violated"), [(2, False), (1, True)])
def test_a_truncation_below_where_the_leader_has_records(to: int, violated: bool) -> None:
    """Shows that what was committed counts where the leader began behind a copy and has nothing of it itself."""
    trace = diverged()
    trace.append("broker-2", "z", epoch=1)
    trace.high_watermark("broker-2", 4, epoch=1, counted=(2,))
    trace.emit("broker-3", LogLocalStart(TP, 4, "remote", 0, 4, 1, None, {"0": 0, "1": 2}))
    trace.logs[TP, "broker-3"] = [(4, 0)]
    trace.lead(3, 2)
    trace.assume(1, 2, leader=3)
    trace.truncate("broker-1", to, epoch=2)
    found = [
        each
        for each in trace.result("P12").violations
        if "although its log agreed with that of broker-3" in each.sentence
    ]
    assert bool(found) == violated


def test_an_append_off_the_lineage() -> None:
    """Shows that a batch on top of an end where the leader's log differs violates P12."""
    trace = diverged()
    trace.append("broker-1", "z", epoch=1, role="follower")
    assert trace.result("P12").violations[0].sentence == (
        "broker-1 appended offset 3 of orders-0 under leader epoch 1 to a log that ends at 3 with epoch 0 and differs "
        "there from the log of broker-2"
    )


def test_an_append_to_an_empty_log() -> None:
    """Shows that an empty log differs from none, be the leader's one that has begun anew at 0."""
    trace = TraceBuilder()
    trace.lead(1, 0)
    trace.append("broker-2", "a", role="follower")
    trace.emit("broker-2", LogStart(TP, 0, "truncation", -1, 0))
    trace.logs[TP, "broker-2"] = [(0, 0)]
    trace.lead(2, 1)
    trace.append("broker-2", "x", epoch=1)
    trace.append("broker-3", "x", epoch=1, role="follower")
    result = trace.result("P12")
    assert (result.violated, result.tested) == (0, 2)


def test_the_answer_to_a_fetch_of_another_leader_epoch() -> None:
    """Shows that what a follower appends or cuts by an answer belongs to a fetch of the leader epoch in which it does;
    an answer to a fetch that the leader took no note of says nothing."""
    for asked, number, violated in ((1, 5, 0), (0, 5, 1), (0, 6, 0)):
        trace = led("a", "b")
        trace.req = f"broker-3>broker-2:fetcher#{number}"
        fetch = trace.fetched(2, 3, 2, epoch=asked)
        trace.req = ""
        trace.lead(2, 1)
        trace.append("broker-2", "c", epoch=1)
        trace.assume(3, 1, leader=2)
        trace.req = "broker-3>broker-2:fetcher#5"
        took = trace.append("broker-3", "c", epoch=1, role="follower")
        trace.truncate("broker-3", 3)
        result = trace.result("P12")
        assert result.violated == 2 * violated
        for finding in result.violations[:1]:
            assert finding.events == [fetch, took]
            assert finding.sentence == (
                "broker-3 acted under leader epoch 1 of orders-0 on the answer of broker-2 to its fetch of leader "
                "epoch 0"
            )


@pytest.mark.parametrize("reason", ["diverge", "high-watermark", "out-of-range"])
def test_no_reason_allows_a_cut_below_what_both_share(reason: str) -> None:
    """Shows that a cut is compared with the leader's log whatever its reason; in a leader epoch that nobody has taken
    up there is nothing to compare with."""
    trace = diverged()
    trace.truncate("broker-1", 0, reason=reason)
    assert "although its log agreed with that of broker-2 up to 2" in trace.result("P12").violations[0].sentence
    unknown = diverged()
    unknown.truncate("broker-1", 0, reason=reason, epoch=9)
    assert unknown.result("P12").status == "vacuous" or unknown.result("P12").violated == 0


def test_a_cut_that_nobody_asked_for() -> None:
    """Shows that a follower says of each cut what it was told; one that goes on without has cut by itself."""
    trace = diverged()
    cut = trace.truncate("broker-1", 2)
    took = trace.append("broker-1", "y", epoch=1, role="follower")
    (finding,) = trace.result("P12").violations
    assert (finding.sentence, finding.events) == (
        "broker-1 truncated its log of orders-0, although no answer of its leader required it",
        [cut, took],
    )


@pytest.mark.parametrize(
    ("epoch", "end", "to", "keeps", "says"),
    [
        (0, 2, 2, 0, ""),
        (0, 2, 3, 0, "and kept leader epoch 0, although its leader has epoch 0 up to 2"),
        (-1, 2, 2, 0, "and kept leader epoch 0, although its leader has epoch -1 up to 2"),
        (0, 2, 2, 1, "and continues with leader epoch 1, but its last record has epoch 0"),
    ],
)
def test_what_a_follower_makes_of_what_it_was_told(epoch: int, end: int, to: int, keeps: int, says: str) -> None:
    """Shows that nothing stays behind the end that the leader named, nor of a newer epoch, nor in memory alone."""
    trace = diverged()
    trace.cut_back(1, epoch, end, to, keeps=keeps)
    found = trace.result("P12").violations
    assert [finding.sentence.partition("), ")[2] for finding in found] == ([says] if says else [])


def test_a_follower_is_told_what_it_acts_on() -> None:
    """Shows that the answer which a follower acts on is compared with what its leader said, where the trace has it."""
    for said, violated in (((0, 2), 0), ((0, 1), 1)):
        trace = diverged()
        trace.req = "broker-1>broker-2:fetcher#5"
        trace.fetched(2, 1, 3, epoch=1, diverging_epoch=said[0], diverging_end=said[1])
        trace.cut_back(1, 0, 2, to=2)
        assert trace.result("P12").violated == violated


def test_cuts_to_the_high_watermark_and_to_the_leaders_end() -> None:
    """Shows that a follower cuts to its high watermark if its leader knows none of its epochs, and to its leader's end
    if that called its position out of range, and not else."""
    for unknown in (True, False):
        trace = diverged()
        trace.req = "broker-1>broker-2:fetcher#5"
        trace.emit("broker-2", EpochTold(TP, 1, 1, 1, 0, -1 if unknown else 0, -1 if unknown else 2))
        trace.cut_back(1, -1, -1, to=2, reason="high-watermark")
        assert (trace.result("P12").violated == 0) == unknown
    for error in (KafkaError.NONE, KafkaError.OFFSET_OUT_OF_RANGE):
        trace = diverged()
        trace.fetched(2, 1, 3, epoch=1, error=int(error))
        trace.cut_back(1, -1, 2, to=2, reason="out-of-range")
        assert (trace.result("P12").violated == 0) == bool(error)


# ---- P23 -------------------------------------------------------------------------------------------------------


def lineage(**profile: Any) -> TraceBuilder:
    """Broker-2 leads epoch 4: epoch 0 up to 2, epoch 2 up to 4, epoch 4 up to 5. Broker-1 led 3 without writing."""
    trace = led("a", "b", **profile)
    trace.lead(2, 2)
    trace.replicate("c", leader=2, followers=(1, 3), epoch=2)
    trace.replicate("d", leader=2, followers=(1, 3), epoch=2)
    trace.lead(1, 3)
    trace.lead(2, 4)
    trace.append("broker-2", "e", epoch=4)
    return trace


ANSWERS = [
    (3, 2, (-1, -1), 0, ""),
    (4, 2, (-1, -1), 0, ""),
    (5, 4, (-1, -1), 0, ""),
    (0, -1, (-1, -1), 0, ""),
    (6, 4, (4, 5), 0, ""),
    (4, 3, (2, 4), 0, ""),
    (3, 1, (0, 2), 0, ""),
    (3, 0, (0, 2), 0, ""),
    (5, 2, (2, 4), 0, ""),
    (9, -1, (-1, -1), 1, ""),
    (5, 5, (-1, -1), 1, ""),
    (5, 2, (-1, -1), 0, "no divergence; the right answer is epoch 2 up to 4"),
    (5, 2, (2, 2), 0, "epoch 2 up to 2; the right answer is epoch 2 up to 4"),
    (4, 3, (-1, -1), 1, "out of range; the right answer is epoch 2 up to 4"),
    (3, 2, (2, 2), 0, "epoch 2 up to 2; the right answer is no divergence"),
    (5, 4, (-1, -1), 1, "out of range; the right answer is no divergence"),
    (9, -1, (-1, -1), 0, "no divergence; the right answer is out of range"),
]


@pytest.mark.parametrize(("offset", "last", "told", "error", "says"), ANSWERS)
def test_what_a_leader_says_of_a_fetch(offset: int, last: int, told: tuple[int, int], error: int, says: str) -> None:
    """Shows what a leader is to answer, position by position, as Kafka's PartitionTest.testLastFetchedOffsetValidation
    has it, and that each other answer violates P23."""
    trace = lineage()
    fields: dict[str, Any] = {"diverging_epoch": told[0], "diverging_end": told[1], "error": error}
    trace.fetched(2, 3, offset, epoch=4, last=last, **fields)
    found = trace.result("P23")
    assert [each.sentence.partition(f"last epoch {last}: ")[2] for each in found.violations] == ([says] if says else [])
    quiet = told == (-1, -1) and not error and not says
    assert (found.status == "vacuous") == quiet


MOVED = int(KafkaError.OFFSET_MOVED_TO_TIERED_STORAGE)


@pytest.mark.parametrize(
    ("offset", "last", "told", "error", "says"),
    [
        (1, 0, (-1, -1), MOVED, ""),
        (3, 2, (-1, -1), MOVED, ""),
        (3, 0, (0, 2), 0, ""),
        (0, 0, (-1, -1), 1, ""),
        (3, 2, (-1, -1), 1, "out of range; the right answer is moved to remote storage"),
        (3, 2, (-1, -1), 0, "no divergence; the right answer is moved to remote storage"),
        (4, 2, (-1, -1), MOVED, "moved to remote storage; the right answer is no divergence"),
        (3, 0, (-1, -1), MOVED, "moved to remote storage; the right answer is epoch 0 up to 2"),
    ],
)
def test_what_is_in_remote_storage_alone(offset: int, last: int, told: tuple[int, int], error: int, says: str) -> None:
    """Shows that a leader tells so of positions from its log start to its local start, if they do not part from its
    log."""
    trace = lineage()
    trace.emit("broker-2", LogStart(TP, 1, "delete-records", 0))
    trace.emit("broker-2", LogLocalStart(TP, 4, "retention-ms", 1, 5))
    fields: dict[str, Any] = {"diverging_epoch": told[0], "diverging_end": told[1], "error": error}
    trace.fetched(2, 3, offset, epoch=4, last=last, **fields)
    found = trace.result("P23")
    assert [each.sentence.partition(f"last epoch {last}: ")[2] for each in found.violations] == ([says] if says else [])
    assert found.tested == 1


@pytest.mark.parametrize(
    ("asked", "told", "right"),
    [
        (0, (0, 2), ""),
        (1, (0, 2), ""),
        (3, (2, 4), ""),
        (4, (4, 5), ""),
        (5, (-1, -1), ""),
        (0, (0, 5), "epoch 0 up to 2"),
        (3, (3, 4), "epoch 2 up to 4"),
        (4, (-1, -1), "epoch 4 up to 5"),
    ],
)
def test_where_an_epoch_ends(asked: int, told: tuple[int, int], right: str) -> None:
    """Shows that followers and clients who ask where an epoch ends are told what the leader's log says."""
    for replica in (-1, 3):
        trace = lineage()
        trace.emit("broker-2", EpochTold(TP, replica, 4, 4, asked, *told))
        found = trace.result("P23")
        assert (found.tested, [each.sentence.partition("; the right answer is ")[2] for each in found.violations]) == (
            1,
            [right] if right else [],
        )
    foreign = lineage()
    foreign.emit("broker-2", EpochTold(TP, -1, 4, 3, 0, 0, 2))
    assert foreign.result("P23").violated == 1


def test_what_is_forgotten_is_not_judged() -> None:
    """Shows that of epochs which all high watermarks have passed nothing is known any more."""
    trace = TraceBuilder()
    trace.lead(1, 0)
    for number in range(1500):
        trace.replicate(f"p:{number}")
        for broker in (1, 2, 3):
            trace.high_watermark(f"broker-{broker}", number + 1, role="leader" if broker == 1 else "follower")
    trace.lead(2, 1)
    trace.fetched(2, 3, 1600, epoch=1, last=0, diverging_epoch=0, diverging_end=7)
    assert trace.result("P23").violated == 1
    assert trace.result("P23").violations[0].sentence.endswith("answer is epoch 0 up to 1,500")
