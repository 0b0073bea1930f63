"""The story of a run: which events have a line in it, what the line says, and what is left out."""

from __future__ import annotations

from typing import Any

import pytest

from actors.node.errors import KafkaError
from actors.trace.events import (
    BUSY_MACHINE,
    DRIVER,
    BrokerReg,
    CtlFault,
    CtlPhase,
    IsrPropose,
    Lag,
    LinkRuleChange,
    LogTrunc,
)
from orchestrator.story.chronicle import LINES_MAX
from orchestrator.story.moments import Break, Moment
from tests.unit.story.stage import TP, Stage


def test_nothing_is_told_of_the_time_before_time_0() -> None:
    """Shows that the story begins with the chaos, and that times count from there."""
    trace = Stage()
    trace.change(1, 0, cause="create")
    trace.change(2, 1)
    trace.begin()
    trace.wall += 999_000
    trace.change(3, 2)
    assert trace.chronicle.told() == [
        Moment(1_000_000, "orders-0: broker-3 is elected in leader epoch 2 (a clean election), ISR [1, 2, 3]")
    ]


def test_a_fault_has_its_end_its_effect_and_who_came_back_late() -> None:
    """Shows one line for a fault, from its beginning to what came of it."""
    trace = Stage().begin()
    trace.fault("crash", "start", "broker-1")
    trace.down("broker-1")
    trace.wall += 1_996_000
    trace.fault("crash", "stop", "broker-1")
    trace.wall += 3_000_000
    trace.up("broker-1", wiped=True)
    back = "broker-1 up again with an empty disk at 5.000 s, as its start takes 3.001 s"
    assert trace.story() == [
        f"f1 crash of broker-1, until 1.999 s, {back}",
    ]


@pytest.mark.parametrize(("held", "words"), [(0, "no effect: no message hit"), (2, "2 messages hit")])
def test_a_fault_says_what_it_hit(held: int, words: str) -> None:
    """Shows the number of messages that a rule hit, and that a rule which hit none had no effect."""
    trace = Stage().begin()
    trace.fault("reorder", "start", "broker-1")
    trace.emit("broker-1", LinkRuleChange("f1/0", "reorder", "stop", ["broker-1"], ["broker-2"], held))
    assert trace.story() == [f"f1 reorder of broker-1 ({words})"]


@pytest.mark.parametrize(
    ("both", "words"), [(True, "between broker-1 and broker-2"), (False, "from broker-1 to broker-2 (one way)")]
)
def test_a_partition_says_which_way_it_goes(both: bool, words: str) -> None:
    """Shows who is cut off from whom."""
    trace = Stage().begin()
    ways: dict[str, Any] = {"from": ["broker-1"], "to": ["broker-2"], "both_ways": both}
    trace.fault("partition", "start", "broker-1", "broker-2", **ways)
    assert trace.story() == [f"f1 partition {words}"]


def test_a_node_that_is_cut_off_from_all_others() -> None:
    """Shows that nobody has to count a list of names to see that it has everybody, and a list that has not."""
    trace = Stage().begin()
    for number in (1, 2, 3):
        trace.up(f"broker-{number}")
    ways: dict[str, Any] = {"from": ["broker-1"], "to": ["broker-2", "broker-3"], "both_ways": True}
    trace.fault("partition", "start", "broker-1", **ways)
    trace.up("broker-4")
    trace.fault("partition", "start", "broker-1", **ways)
    assert trace.story() == [
        "f1 partition between broker-1 and all other nodes",
        "f1 partition between broker-1 and broker-2, broker-3",
    ]


def test_a_process_that_ends_by_itself_is_told() -> None:
    """Shows that an end which no fault brought about has a line with its reason, and the end of the run has none."""
    trace = Stage().begin()
    trace.down("broker-1", "fatal", detail="its log directory failed")
    trace.down("broker-2", "end")
    assert trace.story() == ["broker-1 ends itself: its log directory failed"]


def test_what_changes_in_a_partition_is_told_with_its_reason() -> None:
    """Shows elections, clean, in place, unclean by whom, and changes of the ISR; and that nothing is said where neither
    leader nor ISR changed."""
    trace = Stage().begin()
    trace.change(1, 0, cause="create")
    trace.change(1, 0, [1, 2], "alter-isr", 1)
    trace.change(1, 0, [1, 2, 3], "alter-isr", 2)
    trace.change(1, 0, [1, 2, 3], "alter-isr", 3)
    trace.change(1, 1, [1, 2, 3], "elect", 4)
    trace.change(-1, 2, [], "fence", 5)
    trace.change(2, 3, [2], "unclean", 6)
    trace.change(3, 4, [3], "unclean", 7, asked=True)
    assert trace.story() == [
        "ISR of orders-0 shrinks from [1, 2, 3] to [1, 2]",
        "ISR of orders-0 grows from [1, 2] to [1, 2, 3]",
        "orders-0: broker-1 is elected again in place, leader epoch 1 (a clean election)",
        "no leader any more for orders-0 (broker-1 is fenced), ISR []",
        "orders-0: UNCLEAN election by the controller: broker-2 leads in leader epoch 3, ISR [2]",
        "orders-0: UNCLEAN election that an operator asked for: broker-3 leads in leader epoch 4, ISR [3]",
    ]


@pytest.mark.parametrize(
    ("lagging", "why"),
    [
        ({"3": Lag(7, 9, 2100, 2100)}, " (broker-3 has not fetched for 2.100 s)"),
        ({"3": Lag(7, 9, 20, 2100)}, " (broker-3 has not had the whole log for 2.100 s)"),
        ({"3": Lag(-1, 9, -1, 2100)}, " (broker-3 has not fetched from this leader)"),
        ({}, ""),
    ],
)
def test_why_a_leader_takes_a_follower_out_of_the_isr(lagging: dict[str, Lag], why: str) -> None:
    """Shows that its line tells a follower that is silent from one that fetches and is too slow."""
    trace = Stage().begin()
    trace.change(1, 0, cause="create")
    trace.emit("broker-1", IsrPropose("orders-0", 1, 0, 0, [1, 2], {"1": 1, "2": 2}, 9, 0, "proposed", lagging))
    trace.change(1, 0, [1, 2], "alter-isr", 1)
    assert trace.story() == [f"ISR of orders-0 shrinks from [1, 2, 3] to [1, 2]{why}"]


def test_who_left_the_isr_for_one_reason() -> None:
    """Shows that several followers have one reason together, and that a reason counts for the ISR asked for alone."""
    lagging = {"2": Lag(7, 9, 2100, 2100), "3": Lag(9, 9, 2100, 2100)}
    trace = Stage().begin()
    trace.change(1, 0, cause="create")
    for number, isr in enumerate(([1], [1, 3]), 1):
        trace.emit("broker-1", IsrPropose("orders-0", 1, 0, 0, [1], {"1": 1}, 9, 0, "proposed", lagging))
        trace.change(1, 0, isr, "alter-isr", number)
        trace.change(1, 0, [1, 2, 3], "alter-isr", number + 1)
    why = "(broker-2, broker-3 have not fetched for 2.100 s); broker-1 is alone in it"
    assert [line for line in trace.story() if "shrinks" in line] == [
        f"ISR of orders-0 shrinks from [1, 2, 3] to [1] {why}",
        "ISR of orders-0 shrinks from [1, 2, 3] to [1, 3]",
    ]


def test_truncations_have_the_number_of_records() -> None:
    """Shows how many records a replica drops and why, and that a truncation of nothing has no line."""
    trace = Stage().begin()
    trace.append("broker-2", "a", "b", "c")
    trace.truncate("broker-2", 0)
    trace.truncate("broker-2", 0)
    cut = "3 records of orders-0 (none of them committed), from offset 0 on"
    assert trace.story() == [f"broker-2 truncates {cut}, where it diverges from the leader's log"]


def test_truncations_of_one_moment_are_one_line() -> None:
    """Shows that a replica which drops records of two partitions at once has one line, with the number of each."""
    trace = Stage(apart=0).begin()
    for tp in ("orders-0", "orders-1"):
        trace.emit("broker-2", LogTrunc(tp, 116, 98, "diverge", 1))
    both = "18 records of orders-0, from offset 98 on, and 18 records of orders-1, from offset 98 on"
    assert trace.story() == [f"broker-2 truncates {both}, where it diverges from the leader's log"]


@pytest.mark.parametrize(("committed", "told"), [(0, "none of them"), (2, "2 of them"), (3, "all of them")])
def test_what_a_power_loss_took(committed: int, told: str) -> None:
    """Shows that a disk that loses records has a line with their number, how many of them had been committed, and the
    first one, and that it has none for a log of which nothing is gone."""
    trace = Stage().begin()
    trace.append("broker-1", "a", "b", "c", "d")
    trace.append("broker-1", "x", tp="other-0")
    trace.high_watermark("broker-1", 1 + committed)
    trace.fault("power-loss", "start", "broker-1")
    trace.down("broker-1", "lossy", lost={TP: 1, "other-0": 1})
    took = f"3 records of orders-0 ({told} committed), from offset 1 on"
    assert trace.story() == ["f1 power-loss of broker-1", f"the disk of broker-1 loses {took}"]


def test_what_a_disk_loses_of_many_partitions() -> None:
    """Shows that it is one line, which names the first ones and how many more there are."""
    trace = Stage(apart=0).begin()
    for partition in range(6):
        trace.append("broker-1", "a", tp=f"orders-{partition}")
    trace.down("broker-1", "lossy", lost={f"orders-{partition}": 0 for partition in range(6)})
    took = ", and ".join(f"1 record of orders-{each} (not committed), from offset 0 on" for each in range(3))
    assert trace.story() == ["broker-1 is killed", f"the disk of broker-1 loses {took}, and 3 more"]


def test_a_short_story_has_what_a_loss_cannot_be_understood_without() -> None:
    """Shows that of more events than a story has lines for, the shrink of the ISR that left the later leader out, the
    last leader's end, the unclean election and the largest truncation stay, wherever they are."""
    trace = Stage(apart=300_000).begin()
    trace.change(1, 0, cause="create")
    trace.change(1, 0, [1, 2], "alter-isr", 1)
    trace.change(1, 0, [1], "alter-isr", 2)
    trace.change(-1, 1, [], "fence", 3)
    trace.change(3, 2, [3], "unclean", 4)
    for number in range(2 * LINES_MAX):
        trace.emit("broker-2", LogTrunc("orders-0", 350 if number == LINES_MAX else 12, 10, "diverge", 2))
    story = trace.story(Break(0, "P1 VIOLATED: One leader per leader epoch"))
    assert [line for line in story if "broker-2 truncates 2 " not in line] == [
        "P1 VIOLATED: One leader per leader epoch",
        "ISR of orders-0 shrinks from [1, 2, 3] to [1, 2]",
        "no leader any more for orders-0 (broker-1 is fenced), ISR []",
        "orders-0: UNCLEAN election by the controller: broker-3 leads in leader epoch 2, ISR [3]",
        "broker-2 truncates 340 records of orders-0, from offset 10 on, where it diverges from the leader's log",
        story[-1],
    ]
    assert len(story) == LINES_MAX


def test_a_leader_behind_its_own_log_is_told() -> None:
    """Shows the leader that does not know yet how much is committed, and no other one."""
    trace = Stage().begin()
    trace.append("broker-2", "a", "b")
    trace.assume(2, 1, high_watermark=1)
    trace.assume(2, 2, high_watermark=2)
    behind = "broker-2 becomes leader of orders-0 with high watermark 1, below its log end 2"
    assert trace.story() == [behind]
    trace.apart = 1_000_000
    trace.high_watermark("broker-2", 2, epoch=1)
    assert trace.story() == [f"{behind}, until 1.003 s"]


def test_a_leader_with_an_empty_log_is_told() -> None:
    """Shows a leader that has nothing of what its partition had, unless that was nothing, too."""
    trace = Stage().begin()
    trace.assume(1, 0)
    trace.assume(2, 1)
    trace.append("broker-2", "a")
    trace.assume(3, 2)
    assert trace.story() == ["broker-3 becomes leader of orders-0 with an EMPTY log: log end 0, high watermark 0"]


def test_an_eligible_leader_replica_is_no_unclean_leader() -> None:
    """Shows that an election from outside the ISR says that the new leader was in the ELR, and who was fenced."""
    trace = Stage().begin()
    trace.change(3, 0, [3], "alter-isr", elr=[1])
    trace.change(1, 1, [1], "fence")
    assert trace.story() == [
        "orders-0: broker-1 is elected from the ELR in leader epoch 1 (broker-3 is fenced), ISR [1]"
    ]


def test_an_election_from_outside_the_isr_is_told_as_one() -> None:
    """Shows that a leader whom nobody may elect is told with the ISR that it is not in."""
    trace = Stage().begin()
    trace.change(1, 0, [1, 2], cause="create")
    trace.change(3, 1, [3, 2], "controlled-shutdown", 1)
    outside = "broker-3 is elected, although it is outside the ISR [1, 2], in leader epoch 1 (broker-1 shuts down)"
    assert trace.story() == [f"orders-0: {outside}, ISR [3, 2]"]


def test_the_way_to_a_loss_stays_in_a_long_story() -> None:
    """Shows that the lines nearest to a loss of records stay, although something else broke long before it."""
    trace = Stage(apart=0).begin()
    trace.change(1, 0, [1, 2], cause="create")
    for number in range(1, 60):
        trace.wall += 1_000_000
        trace.change(1, 0, [1, 2] if number % 2 else [1, 2, 3], "alter-isr", number)
    broken = Break(1_500_000, "P5 excused: x", keys=(TP,))
    told = [
        moment.at_us
        for moment in trace.chronicle.told([broken, Break(55_500_000, "LOST from now on: x", keys=(TP,), loss=True)])
    ]
    assert {2_000_000, 55_000_000, 56_000_000} <= set(told) and 30_000_000 not in told


def test_what_happens_at_the_same_moment_stands_after_its_cause() -> None:
    """Shows a fencing before the election that it causes, though the controller writes it after that, and a violation
    before what the same node does next."""
    trace = Stage(apart=0).begin()
    trace.append("broker-2", "a", "b")
    trace.change(1, 0, cause="create")
    trace.change(2, 1, [2, 3], "fence")
    trace.emit("controller-1", BrokerReg(1, 7, "broker-1/0", True, False, False, 1))
    proof = trace.high_watermark("broker-2", 2, role="follower")
    trace.truncate("broker-2", 0)
    cut = "2 records of orders-0 (none of them committed), from offset 0 on"
    assert trace.story(Break(0, "P10 VIOLATED: x", proof)) == [
        "the controller fences broker-1",
        "orders-0: broker-2 is elected in leader epoch 1 (broker-1 is fenced), ISR [2, 3]",
        "P10 VIOLATED: x",
        f"broker-2 truncates {cut}, where it diverges from the leader's log",
    ]


def test_a_brokers_registration_is_told_once_for_each_change() -> None:
    """Shows fencing, a new registration of a fenced broker, which is not fenced again, and a shutdown."""
    trace = Stage().begin()
    for life, fenced, leaves in ((0, True, False), (1, True, False), (1, False, False), (1, False, True)):
        trace.wall += 1_000_000
        trace.emit("controller-1", BrokerReg(1, 7, f"broker-1/{life}", fenced, leaves, False, 1))
    assert trace.story() == [
        "the controller fences broker-1",
        "broker-1 registers again",
        "the controller unfences broker-1",
        "the controller lets broker-1 shut down",
    ]


def test_alike_changes_of_a_moment_are_one_line() -> None:
    """Shows that brokers that are fenced together share a line, and that one fenced later has its own."""
    trace = Stage().begin()
    trace.registered(1, 2, fenced=True)
    trace.wall += 1_000_000
    trace.registered(3, fenced=True)
    assert trace.story() == ["the controller fences broker-1, broker-2", "the controller fences broker-3"]


REFUSED = "producer-1 gets NOT_ENOUGH_REPLICAS for its Produce to broker-1 and tries again"


def test_refusals_are_counted() -> None:
    """Shows one line for an error of an API, with how often it came, and until when if it went on for long."""
    trace = Stage().begin()
    trace.refused("producer-1", KafkaError.NOT_ENOUGH_REPLICAS)
    trace.refused("producer-1", KafkaError.NOT_ENOUGH_REPLICAS)
    assert trace.story() == [f"{REFUSED}, 2 times"]
    trace.wall += 1_000_000
    trace.refused("producer-2", KafkaError.NOT_ENOUGH_REPLICAS)
    assert trace.story() == [f"{REFUSED}, 3 times until 1.003 s"]


def test_a_request_has_its_answer() -> None:
    """Shows what an operator asked for and was told, in one line with the number of that action, and not again as a
    fault; what nobody scheduled has no number."""
    trace = Stage().begin()
    trace.fault("elect", "start", "admin-1", name="f4")
    trace.asks("elect-leaders", type="unclean", partitions=[TP])
    trace.is_answered("elect-leaders", orders_0="NONE")
    trace.asks("describe-quorum")
    assert trace.story() == [
        "f4 an operator asks for an unclean election of orders-0, answered after 0.001 s: NONE (success)",
        "an operator asks for a description of the quorum",
    ]


def test_a_request_that_is_recorded_before_its_action_has_its_number() -> None:
    """Shows that the number does not depend on who of two processes records first, and that no request takes the number
    of an action that begins long after it."""
    trace = Stage().begin()
    trace.asks("describe-quorum")
    trace.wall += 1_000_000
    trace.asks("elect-leaders", partitions=[TP])
    trace.fault("elect", "start", "admin-1", name="f1")
    trace.fault("describe-quorum", "start", "admin-1", name="f2")
    trace.asks("describe-quorum")
    assert [line.partition(" asks")[0] for line in trace.story()] == ["an operator", "f1 an operator", "f2 an operator"]


def test_requests_of_one_moment_have_their_own_numbers() -> None:
    """Shows that the number comes from the event that caused the request, where the trace says which that was."""
    trace = Stage().begin()
    trace.fault("elect", "start", "admin-1", name="f1")
    second = trace.fault("describe-quorum", "start", "admin-1", name="f2")
    trace.cause = second
    trace.asks("describe-quorum")
    trace.cause = ""
    trace.asks("elect-leaders", partitions=[TP])
    assert [line[:14] for line in trace.story()] == ["f2 an operator", "f1 an operator"]


def test_what_breaks_stands_at_its_time() -> None:
    """Shows a violation between what came before and after it."""
    trace = Stage().begin()
    trace.fault("crash", "start", "broker-1")
    trace.wall += 1_000_000
    trace.emit(DRIVER, CtlPhase("healing"))
    assert trace.story(Break(500_000, "H1 VIOLATED: x")) == [
        "f1 crash of broker-1",
        "H1 VIOLATED: x",
        "the chaos is over: all faults have ended before",
    ]


def test_the_end_of_the_chaos_names_what_is_healed() -> None:
    """Shows the faults that go on to the end of the chaos, and not those that ended before."""
    trace = Stage().begin()
    for name in ("f1", "f2", "f3"):
        trace.fault("crash", "start", f"broker-{name[1]}", name=name)
    trace.fault("crash", "stop", "broker-1", name="f1")
    trace.wall += 1_000_000
    trace.fault("crash", "stop", "broker-2", name="f2")
    trace.emit(DRIVER, CtlPhase("healing"))
    trace.fault("crash", "stop", "broker-3", name="f3")
    assert trace.story()[-1] == "the chaos is over: Krift heals f2, f3"


def test_a_fault_that_lasts_longer_than_the_chaos_is_not_healed_with_it() -> None:
    """Shows that a fault which ends later says so, in its own line and at the end of the chaos."""
    trace = Stage().begin()
    for name in ("f1", "f2"):
        trace.fault("partition", "start", f"broker-{name[1]}", name=name)
    trace.wall = 1_000_000
    trace.emit(DRIVER, CtlPhase("healing"))
    trace.fault("partition", "stop", "broker-1", name="f1")
    trace.wall += 289_000
    trace.fault("partition", "stop", "broker-2", name="f2")
    told = trace.story()
    assert told[-1].startswith("the chaos is over: Krift heals f1, but f2 lasts until 1.2")
    until = told[-1].rpartition("until ")[2]
    assert told[1] == f"f2 partition of broker-2, until {until}"
    alone = Stage().begin()
    alone.fault("partition", "start", "broker-1")
    alone.emit(DRIVER, CtlPhase("healing"))
    alone.wall += 289_000
    alone.fault("partition", "stop", "broker-1")
    assert alone.story()[-1].startswith("the chaos is over, but f1 lasts until ")


def test_the_rounds_of_a_soak_have_one_time_0() -> None:
    """Shows that the first round gives the time, and that the end of a round's chaos names no fault of a later one."""
    trace = Stage().begin()
    trace.fault("crash", "start", "broker-1", name="r0.f1")
    trace.wall += 2_000_000
    trace.fault("crash", "stop", "broker-1", name="r0.f1")
    trace.emit(DRIVER, CtlPhase("healing"))
    trace.wall += 10_000_000
    trace.begin()
    trace.fault("crash", "start", "broker-2", name="r1.f1")
    trace.wall += 3_000_000
    trace.fault("crash", "stop", "broker-2", name="r1.f1")
    told = trace.chronicle.told([])
    assert [moment.text.partition(", until")[0] for moment in told] == [
        "r0.f1 crash of broker-1",
        "the chaos is over: Krift heals r0.f1",
        "r1.f1 crash of broker-2",
    ]
    assert told[2].at_us > 12_000_000


def test_a_truncation_says_what_of_it_was_committed() -> None:
    """Shows the records that a former leader had committed and drops after an unclean election; that what followers
    have heard does not count, and that the new leader's commits are about other records."""
    trace = Stage().begin()
    trace.change(1, 0, cause="create")
    for uid in ("a", "b", "c", "d"):
        trace.append("broker-1", uid)
    trace.high_watermark("broker-1", 3)
    trace.high_watermark("broker-2", 4, role="follower")
    trace.change(2, 1, [2], "unclean")
    trace.high_watermark("broker-2", 4, epoch=1)
    trace.truncate("broker-1", 1)
    assert "broker-1 truncates 3 records of orders-0 (2 of them committed), from offset 1 on" in trace.story()[-1]
    alone = Stage().begin()
    alone.append("broker-1", "a")
    alone.high_watermark("broker-1", 1)
    alone.append("broker-1", "b")
    alone.truncate("broker-1", 1)
    alone.wall += 1_000_000
    alone.truncate("broker-1", 0)
    told = ["1 record of orders-0 (not committed), from offset 1", "1 record of orders-0 (committed), from offset 0"]
    assert [line.partition("truncates ")[2].partition(" on")[0] for line in alone.story()] == told
    again = Stage().begin()
    again.append("broker-1", "a")
    again.append("broker-1", "b")
    again.high_watermark("broker-1", 2)
    again.truncate("broker-1", 1, reason="recovery")
    assert again.story()[-1].startswith("broker-1 truncates 1 record of orders-0, from offset 1 on")


def test_the_fencing_before_an_unclean_election_stays() -> None:
    """Shows that why no member of the ISR could lead is no lesser event, whether the controller writes that before the
    election or, at the same moment, after it."""
    for first in (True, False):
        trace = Stage(apart=0).begin()
        trace.change(1, 0, [1], cause="create")
        if first:
            trace.registered(1, fenced=True)
        trace.wall += 0 if not first else 1_000_000
        trace.change(3, 1, [3], "unclean", 2)
        if not first:
            trace.registered(1, fenced=True)
        trace.registered(2, fenced=True, offset=9)
        for number in range(3, 3 + 2 * LINES_MAX):
            trace.wall += 1_000_000
            trace.change(3, 1, [3, 2] if number % 2 else [3], "alter-isr", number)
        story = trace.story(Break(trace.wall, "P1 VIOLATED: x"))
        assert "the controller fences broker-1" in " ".join(story) and "lesser events left out" in story[-1]


def test_a_long_story_leaves_out_what_matters_least() -> None:
    """Shows that faults stay however many changes there are, that those nearest to what broke stay, and that the number
    of the others is told."""
    trace = Stage().begin()
    trace.fault("crash", "start", "broker-1")
    trace.change(1, 0, cause="create")
    for number in range(1, 31):
        trace.wall += 1_000_000
        trace.change(1, 0, [1, 2] if number % 2 else [1, 2, 3], "alter-isr", number)
    story = trace.chronicle.told([Break(30_000_000, "H1 VIOLATED: x")])
    assert len(story) == LINES_MAX
    assert story[0].text == "f1 crash of broker-1"
    assert story[1].at_us > 12_000_000
    assert story[-1].text == "(13 lesser events left out)"


def test_the_story_of_a_failure_ends_with_it() -> None:
    """Shows what ``krift shrink`` writes into a scenario: what led to the failure, and what was done after it."""
    trace = Stage().begin()
    trace.change(1, 0, cause="create")
    trace.change(2, 1)
    trace.change(3, 2)
    trace.emit(DRIVER, CtlPhase("healing"))
    told = trace.chronicle.story_of(2_500, "P4: a record is gone")
    assert told == [
        "   0.002 s  orders-0: broker-2 is elected in leader epoch 1 (a clean election), ISR [1, 2, 3]",
        "   0.003 s  VIOLATED: P4: a record is gone",
        "   0.004 s  the chaos is over: all faults have ended before",
    ]
    assert trace.chronicle.story_of(None, "x")[-1] == "   0.004 s  at the end, VIOLATED: x"


def test_a_process_that_is_down_before_its_fault_is_noted() -> None:
    """Shows a live crash on a busy machine: the process is gone before the driver says that the crash began, while a
    partition of the same node goes on. It went down by the crash, and nobody tells of it twice."""
    trace = Stage().begin()
    trace.fault("partition", "start", "broker-1", name="f1")
    trace.wall += 1_000_000
    trace.down("broker-1")
    trace.wall += 300_000
    trace.fault("crash", "start", "broker-1", name="f2")
    trace.wall += 5_000_000
    trace.fault("crash", "stop", "broker-1", name="f2")
    trace.up("broker-1")
    told = trace.story()
    assert [line.partition(",")[0] for line in told] == ["f1 partition of broker-1", "f2 crash of broker-1"]
    assert not any("down at" in line or "is killed" in line for line in told)


def test_a_process_that_dies_of_nothing_known_is_killed() -> None:
    """Shows that an end which no fault explains is told, also where a partition of that node goes on."""
    trace = Stage().begin()
    trace.fault("partition", "start", "broker-1", name="f1")
    trace.wall += 1_000_000
    trace.down("broker-1")
    assert trace.story() == ["f1 partition of broker-1", "broker-1 is killed"]


def test_a_busy_machine_is_one_line_and_a_remark() -> None:
    """Shows that times in which a live machine gave nodes too little time are told once, with how long they were, and
    that no fault of the schedule is made of them."""
    trace = Stage().begin()
    for name in ("busy-machine-1", "busy-machine-2"):
        trace.emit(DRIVER, CtlFault(name, "pause", "start", ["broker-1"], BUSY_MACHINE))
        trace.wall += 1_499_000
        trace.emit(DRIVER, CtlFault(name, "pause", "stop", ["broker-1"], BUSY_MACHINE))
        trace.wall += 999_000
    (line,) = trace.story()
    assert line.startswith("the machine gives its nodes too little time")
    assert trace.chronicle.remarks == [
        "for 3.0 s the machine gave nodes too little time; no promise about time was judged then"
    ]
