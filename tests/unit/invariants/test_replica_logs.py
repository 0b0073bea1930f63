"""P3, Q6, P12, P14 and P15: what a replica's log is by itself and against its leader's."""

from __future__ import annotations

from tests.unit.invariants.test_log_mirror import led
from tests.unit.invariants.trace_builder import METADATA_PARTITION, TP, TraceBuilder

# ---- Q6 and P3 -------------------------------------------------------------------------------------------------


def test_metadata_logs_that_differ_below_the_same_batch() -> None:
    """Shows that Q6 judges the metadata log as P3 does the others, and neither the other's."""
    trace = TraceBuilder()
    first = trace.append("controller-1", "m", epoch=1, tp=METADATA_PARTITION)
    second = trace.append("controller-2", "m", epoch=1, tp=METADATA_PARTITION, role="follower", salt=1)
    results = trace.check(["Q6", "P3"])
    (finding,) = results["Q6"].violations
    assert finding.events == [first, second]
    assert (results["Q6"].tested, results["P3"].status) == (1, "vacuous")


def test_what_all_have_passed_is_forgotten() -> None:
    """Shows that a long log is compared to its end, and that its beginning is not kept."""
    trace = TraceBuilder()
    trace.lead(1, 0)
    for number in range(3000):
        trace.replicate(f"producer-1:{number}")
        for broker in (1, 2, 3):
            trace.high_watermark(f"broker-{broker}", number + 1, role="leader" if broker == 1 else "follower")
    result = trace.result("P3")
    assert (result.status, result.tested) == ("held", 6000)
    trace.append("broker-2", "x", role="follower")
    trace.append("broker-1", "x", salt=1)
    assert trace.result("P3").status == "violated"


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
    trace.truncate("broker-1", 2)
    trace.append("broker-1", "y", epoch=1, role="follower")
    trace.append("broker-1", "z", epoch=1, role="follower")
    result = trace.result("P12")
    assert (result.status, result.tested) == ("held", 2 + 1 + 1)


def test_a_truncation_that_goes_too_far() -> None:
    """Shows that a cut below what both logs share violates P12; one that stops short is the next one's to mend."""
    trace = diverged()
    cut = trace.truncate("broker-1", 1)
    (finding,) = trace.result("P12").violations
    assert finding.events[-1] == cut
    assert finding.sentence == (
        "broker-1 truncated orders-0 from 3 to 1 under leader epoch 1, although it shared everything up to 2 with "
        "broker-2"
    )


def test_an_append_off_the_lineage() -> None:
    """Shows that a batch on top of an end where the leader's log differs violates P12."""
    trace = diverged()
    trace.append("broker-1", "z", epoch=1, role="follower")
    assert trace.result("P12").violations[0].sentence == (
        "broker-1 appended offset 3 of orders-0 under leader epoch 1 to a log that ends at 3 with epoch 0, where that "
        "of broker-2 differs"
    )


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
                "broker-3 acted under leader epoch 1 of orders-0 on what broker-2 answered to its fetch of leader "
                "epoch 0"
            )


def test_other_truncations_are_not_about_the_lineage() -> None:
    """Shows that a log which ends below its leader's start may be cut whole; an unknown epoch is no test."""
    trace = diverged()
    trace.truncate("broker-1", 0, reason="out-of-range")
    trace.truncate("broker-3", 0, epoch=9)
    trace.append("broker-3", "q", role="follower", epoch=9)
    assert trace.result("P12").status == "held"


# ---- P14 -------------------------------------------------------------------------------------------------------


def test_dense_logs() -> None:
    """Shows that each append tests P14, and each role that is taken up with a log."""
    trace = led("a")
    trace.lead(2, 1)
    trace.append("broker-2", "b", epoch=1)
    trace.append("broker-3", "b", epoch=1, role="follower")
    result = trace.result("P14")
    assert (result.status, result.tested) == ("held", 3 + 1 + 2)


def test_holes_and_epochs_out_of_order() -> None:
    """Shows a hole, an epoch that goes back, and one that begins elsewhere than with its leader."""
    hole = led("a")
    hole.append("broker-1", "b", hole=1)
    assert hole.result("P14").violations[0].sentence == (
        "broker-1 appended a batch to orders-0 at 2, while its log ended at 1"
    )
    back = led("a")
    back.lead(2, 1)
    back.append("broker-2", "b", epoch=1)
    back.append("broker-2", "c", epoch=0)
    assert back.result("P14").violations[0].sentence.endswith("of leader epoch 0 after one of epoch 1")
    early = led("a")
    early.append("broker-2", "x", role="follower")
    early.lead(2, 1)
    early.append("broker-3", "y", epoch=1, role="follower")
    assert (
        early.result("P14")
        .violations[0]
        .sentence.endswith("of leader epoch 1 from 1 on, while broker-2 took that epoch up at 2")
    )


def test_a_log_that_is_shorter_than_before() -> None:
    """Shows that a process may have recorded one batch more than it wrote, and no other loss without a word."""
    trace = led("a", "b", "c")
    trace.up("broker-2")
    trace.logs[TP, "broker-2"].pop()
    trace.assume(2, 1, leader=1)
    assert (trace.result("P14").violated, trace.result("P14").excused) == (0, {"crash": 1})
    two = led("a", "b", "c")
    two.up("broker-2")
    del two.logs[TP, "broker-2"][-2:]
    two.assume(2, 1, leader=1)
    assert two.result("P14").status == "violated"
    alive = led("a", "b", "c")
    alive.logs[TP, "broker-2"].pop()
    alive.assume(2, 1, leader=1)
    assert alive.result("P14").violations[0].sentence == (
        "broker-2 took up orders-0 in leader epoch 1 with log end 2, while its log ended at 3"
    )


# ---- P15 -------------------------------------------------------------------------------------------------------


def test_only_the_leader_writes() -> None:
    """Shows that a leader's appends test P15, those of one that does not know that it was replaced, too."""
    trace = led("a")
    trace.lead(2, 1)
    trace.append("broker-1", "b")
    trace.append("broker-2", "c", epoch=1)
    result = trace.result("P15")
    assert (result.status, result.tested) == ("held", 3)


def test_others_do_not() -> None:
    """Shows a follower that appends, one in its leader's epoch, and a new process that has not taken up anything."""
    follower = led("a")
    follower.lead(2, 1)
    follower.assume(1, 1, leader=2)
    follower.append("broker-1", "b")
    assert follower.result("P15").violations[0].sentence == (
        "broker-1 appended offset 1 to orders-0 as leader of epoch 0, which broker-1 took up and it no longer led"
    )
    theirs = led("a")
    theirs.lead(2, 1)
    theirs.append("broker-1", "b", epoch=1)
    assert theirs.result("P15").violations[0].sentence.endswith("as leader of epoch 1, which broker-2 took up")
    nobodys = led("a")
    nobodys.append("broker-1", "b", epoch=5)
    assert nobodys.result("P15").violations[0].sentence.endswith("as leader of epoch 5, which nobody took up")
    restarted = led("a")
    restarted.up("broker-1")
    restarted.append("broker-1", "b")
    assert restarted.result("P15").status == "violated"
