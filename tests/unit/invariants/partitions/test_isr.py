"""P5 and P6: who may be elected, and whom the high watermark waits for; for some of it with P10."""

from __future__ import annotations

from typing import Any

import pytest

from actors.trace.events import ConfigChange, LogStart, MetaImage
from tests.unit.invariants.mirrors.test_log_mirror import led
from tests.unit.invariants.trace_builder import TP, TraceBuilder

# ---- P5 --------------------------------------------------------------------------------------------------------


def test_all_of_the_isr_have_what_is_committed() -> None:
    """Shows that each commit tests P5 for each member but the leader, and each member that joins does."""
    trace = led("a", "b")
    trace.change(1, 0, (1, 2), "alter-isr", partition_epoch=1)
    trace.change(1, 0, (1, 2, 3), "alter-isr", partition_epoch=2)
    result = trace.result("P5")
    assert (result.status, result.tested) == ("held", 4 + 1)


def test_a_member_that_lacks_what_is_committed() -> None:
    """Shows that a commit which a member of the ISR lacks violates P5, with the ISR and the commit as evidence."""
    trace = led("a")
    changed = trace.change(1, 0, (1, 2), "alter-isr", partition_epoch=1)
    trace.append("broker-1", "b")
    commit = trace.high_watermark("broker-1", 2)
    (finding,) = trace.result("P5").violations
    assert finding.sentence == (
        "broker-1 committed orders-0 up to 2 in leader epoch 0, but broker-2, which may be elected, has the records "
        "only up to 1"
    )
    assert finding.events == [changed, commit]


def test_a_member_that_joins_too_early() -> None:
    """Shows that whoever joins the ISR, or becomes eligible, must have everything by then; members need not prove it
    again."""
    for how in ({"isr": (1, 2)}, {"isr": (1,), "elr": [2]}):
        trace = led("a")
        trace.change(1, 0, (1,), "alter-isr", partition_epoch=1)
        trace.append("broker-1", "b")
        trace.high_watermark("broker-1", 2, counted=(1,))
        trace.change(1, 0, cause="alter-isr", partition_epoch=2, **how)  # type: ignore[arg-type]  # a table
        (finding,) = trace.result("P5").violations
        assert finding.sentence == (
            "broker-2 may be elected for orders-0 from partition epoch 2 on, but it has the committed records only up "
            "to 1, not up to 2"
        )


@pytest.mark.parametrize(("start", "status"), [(2, "held"), (1, "violated")])
def test_nothing_is_needed_of_what_was_deleted(start: int, status: str) -> None:
    """Shows that a member may join the ISR, and be counted, without committed records that all were deleted."""
    trace = led("a")
    trace.change(1, 0, (1,), "alter-isr", partition_epoch=1)
    trace.append("broker-1", "b")
    trace.high_watermark("broker-1", 2, counted=(1,))
    trace.emit("broker-1", LogStart(TP, start, "retention-ms", 0))
    trace.change(1, 0, cause="alter-isr", partition_epoch=2, isr=(1, 2))
    trace.high_watermark("broker-1", 2)
    assert trace.result("P5").status == status


def test_an_unclean_leader_gives_up_what_it_lacks() -> None:
    """Shows that a broker which comes in by an unclean election is excused; and so is what a stale leader commits."""
    trace = led("a")
    trace.change(1, 0, (1,), "alter-isr", partition_epoch=1)
    trace.append("broker-1", "b")
    trace.high_watermark("broker-1", 2, counted=(1,))
    trace.lead(3, 1, cause="unclean", isr=(3,), partition_epoch=2)
    assert (trace.result("P5").violated, trace.result("P5").excused) == (0, {"unclean-election": 1})


def test_a_member_that_lost_its_tail() -> None:
    """Shows that what a power loss took from as many replicas as min.insync.replicas asks for is excused."""
    for min_isr, violated in ((1, 0), (2, 1)):
        trace = led("a", "b", config={"min.insync.replicas": min_isr})
        trace.change(1, 0, (1,), "alter-isr", partition_epoch=1)
        trace.down("broker-2", "lossy", lost={TP: 1})
        trace.logs[TP, "broker-2"].pop()
        trace.up("broker-2")
        trace.assume(2, 0, leader=1)
        trace.change(1, 0, (1, 2), "alter-isr", partition_epoch=2)
        assert trace.result("P5").violated == violated


def test_a_member_that_joins_after_its_end() -> None:
    """Shows that a leader's proposal which arrives after the new member lost power is no violation, as the controller
    cannot know of that yet; if the member is in the ISR still when it is back, that is one."""
    trace = led("a", "b", config={"min.insync.replicas": 2})
    trace.change(1, 0, (1,), "alter-isr", partition_epoch=1)
    trace.down("broker-2", "lossy", lost={TP: 1})
    trace.change(1, 0, (1, 2), "alter-isr", partition_epoch=2)
    assert (trace.result("P5").violated, trace.result("P5").excused) == (0, {"away": 1})
    trace.logs[TP, "broker-2"].pop()
    trace.up("broker-2")
    trace.assume(2, 0, leader=1)
    (finding,) = trace.result("P5").violations
    assert finding.sentence.startswith("broker-2 came back to orders-0 and may be elected")


def test_a_member_that_is_gone_with_its_tail() -> None:
    """Shows that a leader may count what a member had before its machine lost power; not once the member is back."""
    trace = led("a", "b", config={"min.insync.replicas": 2})
    trace.replicate("c")
    trace.down("broker-2", "lossy", lost={TP: 2})
    trace.high_watermark("broker-1", 3)
    assert (trace.result("P5").violated, trace.result("P5").excused) == (0, {"away": 1})
    trace.logs[TP, "broker-2"].pop()
    trace.up("broker-2")
    trace.assume(2, 1, leader=1)
    trace.replicate("d", followers=(3,))
    trace.high_watermark("broker-1", 4)
    assert trace.result("P5").status == "violated"


def test_a_member_whose_removal_was_lost() -> None:
    """Shows that a member joins if it was no member in the partition epoch before: what a controller appended in place
    of a change, and lost, removed nobody."""
    for epochs, violated in (((1, 1), 0), ((1, 2), 1)):
        trace = led("a", "b", config={"min.insync.replicas": 2})
        trace.down("broker-2", "lossy", lost={TP: 1})
        trace.change(1, 0, isr=(1, 3), partition_epoch=epochs[0], cause="fence")
        trace.logs[TP, "broker-2"].pop()
        trace.up("broker-2")
        trace.assume(2, 0, leader=1)
        trace.change(1, 0, isr=(1, 2, 3), partition_epoch=epochs[1], cause="alter-isr", quorum_epoch=2)
        assert trace.result("P5").violated == violated


def test_a_member_that_comes_back_without_its_tail() -> None:
    """Shows that a process which takes the partition up must have what is committed if it may be elected: in the ISR,
    or as an eligible leader replica; not once it is out of both, and not each time that it takes up another state."""
    for pool, violated in (({"isr": (1, 2)}, 1), ({"isr": (1,), "elr": [2]}, 1), ({"isr": (1,)}, 0)):
        trace = led("a", "b", config={"min.insync.replicas": 2})
        changed = trace.change(1, 0, cause="alter-isr", partition_epoch=1, **pool)  # type: ignore[arg-type]  # a table
        trace.down("broker-2", "lossy", lost={TP: 1})
        trace.logs[TP, "broker-2"].pop()
        trace.up("broker-2")
        back = trace.assume(2, 0, leader=1)
        trace.assume(2, 0, leader=1)
        result = trace.result("P5")
        assert result.violated == violated
        for finding in result.violations:
            assert finding.sentence == (
                "broker-2 came back to orders-0 and may be elected, but it has the committed records only up to 1, "
                "not up to 2"
            )
            assert finding.events == [changed, back]


def test_the_last_member_may_come_back_without_its_tail() -> None:
    """Shows that a loss that nothing could be done about is excused: as many as min.insync.replicas lost the record."""
    trace = led("a", "b")
    trace.change(1, 0, (1,), "alter-isr", partition_epoch=1)
    trace.down("broker-1", "lossy", lost={TP: 1})
    trace.logs[TP, "broker-1"].pop()
    trace.up("broker-1")
    trace.assume(1, 0, leader=-1)
    assert (trace.result("P5").violated, trace.result("P5").excused) == (0, {"loss-budget": 1})


@pytest.mark.parametrize(("elr", "rules"), [("0", {"loss-budget": 1}), ("1", {})])
def test_an_unclean_leader_may_come_back_without_what_it_had_kept(elr: str, rules: dict[str, int]) -> None:
    """Shows that the records that an unclean election gave up are excused, and that those it had kept must be excused
    by a loss: here of the last member of the ISR, or else of as many as min.insync.replicas asks for."""
    config = {"unclean.leader.election.enable": True, "min.insync.replicas": 2}
    trace = led("a", "b", config=config, features={"eligible.leader.replicas.version": elr})
    trace.change(1, 0, (1, 3), "alter-isr", partition_epoch=1)
    trace.replicate("c", followers=(3,))
    trace.high_watermark("broker-1", 3, counted=(1, 3))
    trace.change(2, 1, (2,), "unclean", partition_epoch=2)
    trace.down("broker-2", "lossy", lost={TP: 1})
    trace.logs[TP, "broker-2"].pop()
    trace.change(-1, 2, (2,), "fence", partition_epoch=3)
    trace.up("broker-2")
    trace.assume(2, 2, leader=-1)
    result = trace.result("P5")
    back = {rule: count for rule, count in result.excused.items() if rule != "unclean-election"}
    assert (result.violated, back) == (0 if rules else 1, rules)
    for finding in result.violations:
        assert finding.sentence.endswith("it has the committed records only up to 1, not up to 3")


def test_a_change_that_was_lost_with_its_controller() -> None:
    """Shows that a leader whose proposal was refused is not held to the ISR that a lost record had."""
    trace = led("a")
    trace.change(1, 0, (1,), "alter-isr", partition_epoch=1)
    trace.propose(1, (1, 2), partition_epoch=1)
    trace.change(1, 0, (1, 2), "alter-isr", partition_epoch=2)
    trace.propose(1, (1, 2), partition_epoch=1, outcome="INELIGIBLE_REPLICA")
    trace.append("broker-1", "b")
    trace.high_watermark("broker-1", 2, counted=(1,))
    assert {name: each.violated for name, each in trace.check(["P5", "P6"]).items()} == {"P5": 0, "P6": 0}


@pytest.mark.parametrize("first", ["overtaken", "made"])
def test_an_isr_that_its_leader_has_given_up(first: str) -> None:
    """Shows that a leader is not held to what a controller made of a proposal that it gave up, be it before or after
    that; to what the next change says it is."""
    trace = led("a")
    trace.change(1, 0, (1,), "alter-isr", partition_epoch=1)
    trace.propose(1, (1, 2), partition_epoch=1)
    for what in (first, "overtaken" if first == "made" else "made"):
        if what == "made":
            trace.change(1, 0, (1, 2), "alter-isr", partition_epoch=2)
        else:
            trace.propose(1, (1, 2), partition_epoch=1, outcome="overtaken")
    trace.append("broker-1", "b")
    trace.high_watermark("broker-1", 2, counted=(1,))
    results = trace.check(["P5", "P6", "P10"])
    assert {name: each.violated for name, each in results.items()} == {"P5": 0, "P6": 0, "P10": 0}
    trace.change(1, 0, (1, 2), "config", partition_epoch=3)
    trace.append("broker-1", "c")
    trace.high_watermark("broker-1", 3, counted=(1,))
    assert [each.status for each in trace.check(["P5", "P6", "P10"]).values()] == ["violated"] * 3


def test_what_a_replaced_controller_says_is_ignored() -> None:
    """Shows that a change under an older quorum epoch than the last one's changes nothing."""
    trace = led("a")
    trace.change(1, 0, (1,), "alter-isr", partition_epoch=1, quorum_epoch=2)
    trace.change(1, 0, (1, 2, 3), "alter-isr", partition_epoch=2, quorum_epoch=1)
    trace.append("broker-1", "b")
    trace.high_watermark("broker-1", 2, counted=(1,))
    assert {name: each.status for name, each in trace.check(["P5", "P6"]).items()} == {"P5": "held", "P6": "held"}


# ---- P6 --------------------------------------------------------------------------------------------------------


def test_the_high_watermark_waits_for_all_who_may_be_elected() -> None:
    """Shows that more may be counted, and fewer not."""
    assert (led("a", "b").result("P6").status, led("a", "b").result("P6").tested) == ("held", 2)
    trace = led("a")
    trace.replicate("b", followers=(2,))
    commit = trace.high_watermark("broker-1", 2, counted=(1, 2))
    (finding,) = trace.result("P6").violations
    assert finding.sentence == (
        "broker-1 (leader epoch 0) moved the high watermark of orders-0 to 2 counting [1, 2], but not broker-3, which "
        "may be elected"
    )
    assert finding.events[-1] == commit


def test_a_leader_that_was_replaced_may_count_whom_it_knows() -> None:
    """Shows that a high watermark in an older leader epoch than the controller's is no test."""
    trace = TraceBuilder()
    trace.lead(1, 0)
    trace.change(2, 1)
    trace.high_watermark("broker-1", 0, counted=(1,))
    assert trace.result("P6").status == "vacuous"


def test_a_leader_that_has_not_heard_that_its_isr_is_too_small() -> None:
    """Shows that eligible leader replicas below min.insync.replicas are excused: the leader stops when it hears."""
    trace = TraceBuilder()
    trace.lead(1, 0)
    trace.change(1, 0, (1,), "fence", partition_epoch=1, elr=[2], min_isr=2)
    trace.append("broker-1", "a")
    trace.high_watermark("broker-1", 1, counted=(1,))
    assert (trace.result("P6").violated, trace.result("P6").excused) == (0, {"below-min-isr": 1})


def small_isr(**how: Any) -> TraceBuilder:
    """Broker-1 leads with an ISR that is too small, of two brokers that it should have."""
    trace = TraceBuilder()
    trace.emit("controller-1", ConfigChange(9, 1, "topic/orders", "min.insync.replicas", "2"))
    trace.change(1, 0, min_isr=2)
    trace.emit("broker-1", MetaImage(11, 0))
    trace.assume(1, 0)
    trace.change(1, 0, (1,), "fence", partition_epoch=1, elr=[2], min_isr=2, **how)
    trace.append("broker-1", "a")
    return trace


def test_a_leader_that_knows_that_its_isr_is_too_small() -> None:
    """Shows that a leader must not commit any more once it has heard of it, whomever it counts."""
    trace = small_isr()
    heard = trace.emit("broker-1", MetaImage(12, 0))
    commit = trace.high_watermark("broker-1", 1)
    (finding,) = trace.result("P6").violations
    assert finding.sentence == (
        "broker-1 (leader epoch 0) moved the high watermark of orders-0 to 1 although it knew that the ISR was [1], "
        "smaller than min.insync.replicas (2)"
    )
    assert finding.events[-1] == commit != heard


def test_what_a_leader_knows_of_its_isr() -> None:
    """Shows a leader that was answered that its ISR is whole again, one that has heard of a smaller least ISR, one that
    hears of a larger one in this very step, and one that another process has replaced."""
    trace = small_isr()
    trace.emit("broker-1", MetaImage(12, 0))
    trace.propose(1, (1, 2), partition_epoch=1)
    trace.change(1, 0, (1, 2), "alter-isr", partition_epoch=2, min_isr=2)
    trace.propose(1, (1, 2), partition_epoch=1, outcome="accepted")
    trace.high_watermark("broker-1", 1, counted=(1, 2))
    assert trace.result("P6").status == "held"
    trace = small_isr()
    trace.emit("controller-1", ConfigChange(12, 1, "topic/orders", "min.insync.replicas", "1"))
    trace.emit("broker-1", MetaImage(13, 0))
    trace.high_watermark("broker-1", 1)
    trace.emit("controller-1", ConfigChange(13, 1, "topic/orders", "min.insync.replicas", "2"))
    trace.req = "step#1"
    trace.emit("broker-1", MetaImage(14, 0))
    trace.append("broker-1", "b")
    trace.high_watermark("broker-1", 2)
    assert trace.result("P6").violated == 0
    trace.req = "step#2"
    trace.append("broker-1", "c")
    trace.high_watermark("broker-1", 3)
    assert trace.result("P6").violated == 1
    trace = small_isr()
    trace.emit("broker-1", MetaImage(12, 0))
    trace.up("broker-1")
    trace.high_watermark("broker-1", 1)
    assert trace.result("P6").violated == 0
