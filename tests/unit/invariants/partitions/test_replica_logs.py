"""P3, Q6, P14 and P15: what a replica's log is by itself and against its leader's."""

from __future__ import annotations

from typing import Literal

import pytest

from actors.trace.events import LogAppend, LogStart, PartAssume
from tests.unit.invariants.mirrors.test_log_mirror import led
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
        .sentence.endswith("of leader epoch 1 at 1, but broker-2 began that epoch at log end 2")
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
    cut = led("a", "b", "c")
    cut.truncate("broker-2", 2)
    cut.up("broker-2")
    cut.logs[TP, "broker-2"] = cut.logs[TP, "broker-1"][:]
    cut.assume(2, 1, leader=1)
    assert (cut.result("P14").violated, cut.result("P14").excused) == (0, {"crash": 1}), "nor was the cut written"
    alive = led("a", "b", "c")
    alive.logs[TP, "broker-2"].pop()
    alive.assume(2, 1, leader=1)
    assert alive.result("P14").violations[0].sentence == (
        "broker-2 took up orders-0 in leader epoch 1 with log end 2, while its log ended at 3"
    )


@pytest.mark.parametrize(
    ("modes", "violated"),
    [(["clean"], 1), (["crash"], 0), (["clean", "crash"], 0), (["crash", "clean"], 0), (["clean", "clean"], 1)],
)
def test_a_log_that_is_shorter_than_at_a_clean_shutdown(modes: list[Literal["clean", "crash"]], violated: int) -> None:
    """Shows that a process that ended in good order wrote all that it recorded, and that processes which took nothing
    up do not change what the last one left."""
    trace = led("a", "b", "c")
    trace.assume(2, 0, leader=1)
    for mode in modes:
        trace.down("broker-2", mode)
        trace.up("broker-2")
    trace.logs[TP, "broker-2"].pop()
    trace.assume(2, 1, leader=1)
    result = trace.result("P14")
    assert (result.violated, result.excused) == (violated, {} if violated else {"crash": 1})
    if violated:
        assert result.violations[0].sentence.endswith("with log end 2, while its log ended at 3 at its clean shutdown")
    trace.down("broker-2", "clean")
    trace.up("broker-2")
    trace.assume(2, 2, leader=1)
    assert trace.result("P14").violated == violated, "what is there now is where the next process begins"


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
        "broker-1 appended offset 1 to orders-0 as leader of epoch 0, which broker-1 took up, but it no longer led"
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


@pytest.mark.parametrize(("log_end", "status"), [(2, "held"), (3, "violated")])
def test_a_disk_that_lost_all_from_the_log_start_on(log_end: int, status: str) -> None:
    """Shows that a log which starts at 3, inside a segment, may end at 2 when its disk has lost what is from there on,
    and nowhere else."""
    trace = TraceBuilder()
    trace.lead(1, 0)
    for number in range(4):
        trace.append("broker-2", f"producer-1:{number}", role="follower")
    trace.emit("broker-2", LogStart(TP, 3, "delete-records", 0))
    trace.down("broker-2", "lossy", lost={TP: 2})
    trace.up("broker-2")
    trace.emit("broker-2", PartAssume(TP, "follower", 1, 1, 1, log_end, -1, 2, 10))
    assert trace.result("P14").status == status


@pytest.mark.parametrize(
    ("found", "ph_of", "log_end", "base", "wrong"),
    [
        (1, 1, 2, 2, 0),
        (1, 1, 1, 1, 0),
        (1, 1, 3, 3, 2),
        (0, 0, 2, 2, 0),
        (0, 0, 0, 0, 0),
    ],
)
def test_a_log_that_goes_on_below_its_lost_start(found: int, ph_of: int, log_end: int, base: int, wrong: int) -> None:
    """Shows that the next process may find what the disk has below the log start, from the first segment on, or
    nothing; and that the log goes on there, with what it had."""
    trace = TraceBuilder()
    trace.lead(1, 0)
    for number in range(4):
        trace.append("broker-2", f"producer-1:{number}", role="follower")
    hashes = dict(trace.logs[TP, "broker-2"])
    trace.emit("broker-2", LogStart(TP, 3, "delete-records", 0))
    trace.down("broker-2", "lossy", lost={TP: 2})
    trace.up("broker-2")
    if found:
        trace.emit("broker-2", LogStart(TP, found, "load", 0, hashes[ph_of]))
    trace.emit("broker-2", PartAssume(TP, "follower", 1, 1, 1, log_end, -1, 2, 10))
    body = LogAppend(TP, "follower", base, base, 0, 0, 7, 0, base, False, [f"producer-1:{base}"])
    trace.emit("broker-2", body)
    assert trace.result("P14").violated == wrong
