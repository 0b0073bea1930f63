"""P4, P10 and P11: what is committed stays."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from actors.trace.events import ClockSet, CtlFault, DiskRuleChange, LogHw, LogStart
from tests.unit.invariants.trace_builder import TP, TraceBuilder


def committed(*uids: str, followers: tuple[int, ...] = (2, 3), **profile: object) -> TraceBuilder:
    """Broker-1 leads epoch 0; the records are on it and on ``followers``, and committed."""
    trace = TraceBuilder(**profile)
    trace.lead(1, 0, isr=(1, *followers))
    for uid in uids:
        trace.replicate(uid, followers=followers)
        trace.high_watermark("broker-1", trace.log_end(1), counted=(1, *followers))
    return trace


# ---- P4 --------------------------------------------------------------------------------------------------------


def test_a_leader_with_everything() -> None:
    """Shows that a leader that holds what was committed tests P4, with more in its log or not."""
    trace = committed("a", "b")
    trace.append("broker-2", "c", role="follower")
    trace.lead(2, 1)
    result = trace.result("P4")
    assert (result.status, result.tested) == ("held", 1)


def test_a_leader_that_lacks_a_committed_record() -> None:
    """Shows that a clean leader with a shorter log violates P4, with commit and election as evidence."""
    trace = committed("a", followers=(2, 3))
    trace.replicate("b", followers=(2,))
    commit = trace.high_watermark("broker-1", 2, counted=(1, 2))
    elected = trace.lead(3, 1)
    result = trace.result("P4")
    assert result.violations[0].events == [commit, elected]
    assert result.violations[0].sentence == (
        "broker-3 leads orders-0 in leader epoch 1 from log end 1, but lacks records that broker-1 committed, up to "
        "2, in leader epoch 0"
    )


def test_a_leader_with_another_record() -> None:
    """Shows that length is not enough: a log of the same length with another record violates P4."""
    trace = committed("a", followers=(2,))
    trace.append("broker-3", "x", role="follower")
    trace.lead(3, 1)
    assert trace.result("P4").status == "violated"


def test_a_commit_after_the_election() -> None:
    """Shows that a commit of an older epoch that comes after the election in the trace is compared, too."""
    trace = committed("a")
    trace.replicate("b", followers=(2,))
    trace.lead(3, 1)
    trace.high_watermark("broker-1", 2, counted=(1, 2))
    assert trace.result("P4").status == "violated"


def test_an_unclean_leader_is_excused_and_taints() -> None:
    """Shows that an unclean election excuses what it gave up, and that the next clean one is held to the rest."""
    trace = committed("a")
    trace.replicate("b", followers=(2,))
    trace.high_watermark("broker-1", 2, counted=(1, 2))
    trace.lead(3, 1, cause="unclean", isr=(3,))
    assert (trace.result("P4").violated, trace.result("P4").excused) == (0, {"unclean-election": 1})
    trace.append("broker-3", "c", epoch=1)
    trace.high_watermark("broker-3", 2, 1, counted=(3,))
    trace.lead(2, 2)
    assert trace.result("P4").violations[0].sentence.startswith("broker-2 leads orders-0 in leader epoch 2")


def test_a_power_loss_excuses_what_it_took() -> None:
    """Shows that records which min.insync.replicas holders lost are excused, and later ones are not."""
    trace = committed("a", "b")
    trace.down("broker-2", "lossy", lost={TP: 1})
    trace.logs[TP, "broker-2"].pop()
    trace.up("broker-2")
    trace.lead(2, 1)
    assert (trace.result("P4").violated, trace.result("P4").excused) == (0, {"loss-budget": 1})
    late = committed("a", "b")
    late.down("broker-2", "lossy", lost={TP: 1})
    late.logs[TP, "broker-2"].pop()
    late.up("broker-2")
    late.append("broker-2", "b", role="follower")
    late.replicate("c", followers=(3,))
    late.high_watermark("broker-1", 3, counted=(1, 3))
    late.lead(2, 1)
    assert late.result("P4").status == "violated"


def test_a_first_leader_tests_nothing() -> None:
    """Shows that P4 is vacuous without a second leader."""
    assert committed("a").result("P4").status == "vacuous"


def test_what_an_unclean_leader_brings_back_is_committed_again() -> None:
    """Shows that the excuse of an unclean election after a loss says what its leader knew as committed before."""
    trace = committed("a", followers=(2,))
    trace.down("broker-1", "lossy", lost={TP: 0})
    trace.lead(3, 1)
    trace.change(2, 2, [2], "unclean")
    trace.assume(2, 2, high_watermark=1)
    assert trace.result("P4").excuses[-1].sentence == (
        "broker-2 leads orders-0 in leader epoch 2 from log end 1, after an unclean election; it has the committed "
        "records only up to 0; those that it knew as committed, up to 1, are committed again"
    )


# ---- P10 -------------------------------------------------------------------------------------------------------


def test_sound_high_watermarks() -> None:
    """Shows that rising high watermarks of a leader, and a follower's after it, hold P10."""
    trace = committed("a", "b")
    trace.high_watermark("broker-2", 1, role="follower")
    trace.high_watermark("broker-2", 2, role="follower")
    result = trace.result("P10")
    assert (result.status, result.tested) == ("held", 4)


def test_a_high_watermark_ahead_of_the_isr() -> None:
    """Shows that a high watermark above what a member of the ISR fetched violates P10, counted or not."""
    trace = committed("a")
    trace.append("broker-1", "b")
    event = trace.high_watermark("broker-1", 2, counted=(1,))
    result = trace.result("P10")
    assert result.violations[0].events == [event]
    assert result.violations[0].sentence == (
        "broker-1 (leader epoch 0) moved the high watermark of orders-0 to 2, but broker-2 of its ISR had fetched "
        "only up to 1"
    )


def test_a_follower_that_fell_back_counts_where_it_is() -> None:
    """Shows that a member of the ISR that fetches lower again no longer covers what it had."""
    trace = committed("a")
    trace.replicate("b")
    trace.fetched(1, 3, 0)
    trace.high_watermark("broker-1", 2)
    assert trace.result("P10").violations[0].sentence.endswith("but broker-3 of its ISR had fetched only up to 0")


def test_a_controller_that_was_replaced_says_nothing_of_the_isr() -> None:
    """Shows that the ISR which a controller of an older quorum epoch appends, for itself, obliges no leader."""
    trace = committed("a")
    trace.change(1, 0, isr=(1, 2), partition_epoch=1, quorum_epoch=3, node="controller-2")
    trace.change(1, 0, isr=(1, 3), partition_epoch=1, quorum_epoch=1)
    trace.replicate("b", followers=(2,))
    trace.high_watermark("broker-1", 2, counted=(1, 2))
    assert trace.result("P10").violated == 0


@pytest.mark.parametrize(("start", "status"), [(1, "held"), (3, "violated")])
def test_a_log_that_begins_within_a_batch(start: int, status: str) -> None:
    """Shows that a follower's empty log may begin within a committed batch, where its leader's log begins after a
    deletion, with its high watermark there; not beyond what is committed."""
    trace = TraceBuilder()
    trace.lead(1, 0, isr=(1, 2, 3))
    trace.replicate("a", "b")
    trace.high_watermark("broker-1", 2)
    trace.emit("broker-3", LogStart(TP, start, "out-of-range", -1))
    trace.emit("broker-3", LogHw(TP, "follower", 0, start, start, start, [], None))
    assert trace.result("P10").status == status


def test_a_leader_lowers_its_high_watermark() -> None:
    """Shows that a leader's high watermark may not go down while it leads."""
    trace = committed("a", "b")
    trace.high_watermark("broker-1", 1)
    assert trace.result("P10").violations[0].sentence == (
        "broker-1 lowered the high watermark of orders-0 from 2 to 1 while it led epoch 0"
    )


def test_a_follower_may_learn_less() -> None:
    """Shows that a follower's high watermark may go down, to another committed boundary."""
    trace = committed("a", "b")
    trace.high_watermark("broker-2", 2, role="follower")
    trace.high_watermark("broker-2", 1, role="follower")
    assert trace.result("P10").status == "held"


def test_a_follower_exposes_what_nobody_committed() -> None:
    """Shows that a follower's high watermark above all committed boundaries violates P10."""
    trace = committed("a")
    trace.append("broker-2", "x", role="follower")
    trace.high_watermark("broker-2", 2, role="follower")
    assert trace.result("P10").violations[0].sentence == (
        "broker-2 set its high watermark of orders-0 to 2, but its log agrees with the committed one only up to 1 "
        "(leaders committed up to 1)"
    )


def test_a_high_watermark_of_no_leader_and_one_outside_the_log() -> None:
    """Shows that moving it without leading, or past the log's end, violates P10."""
    trace = committed("a")
    trace.high_watermark("broker-2", 1, epoch=3)
    assert trace.result("P10").violations[0].sentence.endswith("as leader of epoch 3, which it never took up")
    past = committed("a")
    past.high_watermark("broker-1", 5)
    assert past.result("P10").violations[0].sentence.endswith("to 5, outside its log of 0 to 1")


def test_an_unclean_election_excuses_a_stale_follower() -> None:
    """Shows that a follower that exposes what an unclean election gave up is excused."""
    trace = committed("a", followers=(2,))
    trace.lead(3, 1, cause="unclean", isr=(3,))
    trace.high_watermark("broker-2", 1, role="follower")
    assert trace.result("P10").excused == {"unclean-election": 1}
    trace.high_watermark("broker-2", 1, 1, role="follower")
    assert trace.result("P10").violated == 1  # in the epoch of the unclean leader there is nothing to be late for


@pytest.mark.parametrize("late", [False, True])
def test_a_high_watermark_with_which_a_replica_begins(late: bool) -> None:
    """Shows that a replica may take the partition up with a high watermark over what an unclean election gave up, and
    has not cut so far; what came to its log after the election is not excused."""
    trace = committed("a", "b", followers=(2,))
    trace.high_watermark("broker-2", 2, role="follower")
    trace.lead(3, 1, cause="unclean", isr=(3,))
    if late:
        trace.truncate("broker-2", 0)
        trace.high_watermark("broker-2", 0, 1, role="follower")
        trace.append("broker-2", "x", "y", epoch=1, role="follower")
    else:
        trace.assume(2, 1, high_watermark=2, leader=3)
    trace.lead(1, 2)
    trace.assume(2, 2, high_watermark=2, leader=1)
    result = trace.result("P10")
    assert (result.violated, result.excused) == ((1, {}) if late else (0, {"unclean-election": 2}))


def test_a_later_cut_is_not_excused_by_an_unclean_election() -> None:
    """Shows that a follower which cuts records of a later epoch, and keeps a high watermark that nobody committed in
    them, violates P10 also after an unclean election."""
    trace = committed("a", followers=(2,))
    trace.lead(3, 1, cause="unclean", isr=(3,))
    trace.truncate("broker-2", 0)
    trace.append("broker-2", "x", epoch=1, role="follower")
    trace.append("broker-2", "y", epoch=1, role="follower")
    trace.high_watermark("broker-2", 2, 1, role="follower")
    trace.truncate("broker-2", 1)
    trace.high_watermark("broker-2", 1, 1, role="follower")
    result = trace.result("P10")
    assert (result.violated, result.excused) == (2, {})


def test_a_follower_cuts_what_an_unclean_election_gave_up_in_several_steps() -> None:
    """Shows that a high watermark that goes down with a cut, to what nobody has committed in the unclean leader's log,
    is excused; another one below such an election, and one without any, are not."""
    trace = committed("a", "b", "c", followers=(2,))
    trace.high_watermark("broker-2", 3, role="follower")
    trace.lead(3, 1, cause="unclean", isr=(3,))
    trace.truncate("broker-2", 2)
    trace.high_watermark("broker-2", 2, 1, role="follower")
    assert trace.result("P10").excused == {"unclean-election": 1}
    assert trace.result("P10").violated == 0
    trace.high_watermark("broker-2", 1, 1, role="follower")
    assert trace.result("P10").violated == 1  # nothing was cut
    other = committed("a", followers=(2,))
    other.append("broker-2", "x", role="follower")
    other.append("broker-2", "y", role="follower")
    other.high_watermark("broker-2", 3, role="follower")
    other.truncate("broker-2", 2)
    other.high_watermark("broker-2", 2, role="follower")
    assert other.result("P10").violated == 2


def test_a_truncation_takes_the_high_watermark_along() -> None:
    """Shows that a replica that cuts its log below its high watermark must lower that with it; a process that has begun
    anew has the one of its checkpoint."""
    lowered = committed("a", "b")
    lowered.high_watermark("broker-2", 2, role="follower")
    lowered.truncate("broker-2", 1)
    lowered.high_watermark("broker-2", 1, role="follower")
    assert lowered.result("P10").status == "held"
    kept = committed("a", "b")
    kept.high_watermark("broker-2", 2, role="follower")
    cut = kept.truncate("broker-2", 1)
    then = kept.assume(2, 1, leader=3)
    (finding,) = kept.result("P10").violations
    assert finding.events == [cut, then]
    assert (
        finding.sentence == "broker-2 truncated orders-0 below its high watermark, but did not lower the high watermark"
    )
    killed = committed("a", "b")
    killed.high_watermark("broker-2", 2, role="follower")
    killed.truncate("broker-2", 1)
    killed.down("broker-2")
    killed.up("broker-2")
    killed.assume(2, 1, leader=3)
    assert killed.result("P10").status == "held"
    begun_anew = committed("a", "b")
    begun_anew.high_watermark("broker-2", 2, role="follower")
    begun_anew.up("broker-2")
    begun_anew.truncate("broker-2", 1, reason="recovery")
    begun_anew.assume(2, 1, leader=3)
    assert begun_anew.result("P10").status == "held"


@pytest.mark.parametrize(
    ("mode", "wiped", "begins_with", "violated"),
    [("clean", False, 1, 0), ("clean", False, 0, 1), ("crash", False, 0, 0), ("clean", True, 0, 0)],
)
def test_a_high_watermark_outlives_a_shutdown(
    mode: Literal["clean", "crash"], wiped: bool, begins_with: int, violated: int
) -> None:
    """Shows that a broker that shut itself down begins with its last high watermark. After a crash the checkpoint may
    be older, and a wiped disk has none."""
    trace = committed("a")
    trace.assume(2, 0, leader=1)
    trace.high_watermark("broker-2", 1, role="follower")
    trace.down("broker-2", mode)
    trace.up("broker-2", wiped=wiped)
    trace.assume(2, 0, begins_with, leader=1)
    trace.assume(2, 1, 0, leader=3)
    assert trace.result("P10").violated == violated


@pytest.mark.parametrize(("mode", "violated"), [("crash", 0), ("clean", 1)])
def test_a_process_that_shuts_down_before_it_has_its_replicas(mode: Literal["clean", "crash"], violated: int) -> None:
    """Shows that it keeps the checkpoint which it found: that of the last process that had them."""
    trace = committed("a")
    trace.assume(2, 0, leader=1)
    trace.high_watermark("broker-2", 1, role="follower")
    for how in (mode, "clean"):
        trace.down("broker-2", how)
        trace.up("broker-2")
    trace.assume(2, 0, 0, leader=1)
    assert trace.result("P10").violated == violated


SECOND = 1_000_000
EVERY_SECOND = {"replica.high.watermark.checkpoint.interval.ms": 1000}
"""So that three seconds are looked back."""


def follows(**profile: Any) -> TraceBuilder:
    """Broker-2 follows with a log of three records, and high watermark 2 after 1."""
    trace = committed("a", "b", "c", config=EVERY_SECOND, **profile)
    trace.assume(2, 0, leader=1)
    trace.high_watermark("broker-2", 1, role="follower")
    trace.high_watermark("broker-2", 2, role="follower")
    return trace


def comes_back(trace: TraceBuilder, high_watermark: int, mode: Any = "crash", **down: Any) -> str:
    """Broker-2 ends, and follows again."""
    event = trace.down("broker-2", mode, **down)
    trace.up("broker-2")
    trace.assume(2, 0, high_watermark, leader=1)
    return event


@pytest.mark.parametrize(("begins_with", "violated"), [(1, 1), (2, 0), (3, 0)])
def test_a_high_watermark_outlives_a_crash(begins_with: int, violated: int) -> None:
    """Shows that a broker begins with the high watermark that was due in its checkpoint when it crashed, or a later
    one; with the crash and the role as evidence."""
    trace = follows()
    trace.wall += 4 * SECOND
    trace.high_watermark("broker-2", 3, role="follower")
    before = trace.result("P10").tested
    crashed = comes_back(trace, begins_with)
    result = trace.result("P10")
    assert (result.violated, result.tested) == (violated, before + 1)
    if violated:
        (finding,) = result.violations
        assert finding.events == [crashed, trace.events[-1].id]
        assert finding.sentence == (
            "broker-2 took up orders-0 with high watermark 1, but its checkpoint had 2 at least when it crashed"
        )
    comes_back(trace, 0)
    assert trace.result("P10").violated == violated, "that one has not had it for long enough"


@pytest.mark.parametrize(
    ("case", "violated"),
    [
        ("", 1),
        ("soon", 0),
        ("lowered", 0),
        ("lowered-long-ago", 1),
        ("shorter", 0),
        ("again", 1),
        ("clean", 1),
        ("wiped", 0),
        ("cut-at-start", 0),
    ],
)
def test_what_is_due_in_a_checkpoint(case: str, violated: int) -> None:
    """Shows that two intervals and a second decide, that the least high watermark of that time counts, bounded by the
    log, and that a process which does not take its replicas up changes nothing."""
    trace = follows()
    if case == "lowered":
        trace.wall += 4 * SECOND
    if case.startswith("lowered"):
        trace.truncate("broker-2", 1)
        trace.high_watermark("broker-2", 1, role="follower")
        trace.append("broker-2", "b", role="follower")
    if case == "lowered-long-ago":
        trace.high_watermark("broker-2", 2, role="follower")
    trace.wall += 2 * SECOND if case in ("soon", "lowered") else 4 * SECOND
    if case == "lowered":
        trace.high_watermark("broker-2", 2, role="follower")
    if case == "again":
        trace.down("broker-2", "crash")
        trace.up("broker-2")
    trace.down("broker-2", "clean" if case == "clean" else "crash")
    trace.up("broker-2", wiped=case == "wiped")
    if case == "shorter":
        trace.logs[TP, "broker-2"] = trace.logs[TP, "broker-2"][:2]
    elif case == "cut-at-start":
        trace.truncate("broker-2", 1, reason="recovery")
    trace.assume(2, 0, 1, leader=1)
    assert trace.result("P10").violated == violated


def test_high_watermarks_of_many_slices_of_time() -> None:
    """Shows that the least one of the last three seconds counts, and no older one."""
    for seconds, violated in ((2, 0), (6, 1)):
        trace = committed(*"abcdefgh", config=EVERY_SECOND)
        trace.assume(2, 0, leader=1)
        for number in range(1, 9):
            trace.high_watermark("broker-2", number, role="follower")
            trace.wall += seconds * SECOND // 4
        comes_back(trace, 3)
        assert trace.result("P10").violated == violated


@pytest.mark.parametrize(
    ("mode", "lost", "violated"),
    [("lossy", {"bills-0": 0}, 1), ("lossy", {}, 0), ("lossy", {TP: 2}, 0), ("fatal", {}, 1), ("bug", {}, 0)],
)
def test_how_a_process_ends(mode: Any, lost: dict[str, int], violated: int) -> None:
    """Shows that a checkpoint survives a loss of power, but that nobody knows of a disk that has lost the log."""
    trace = follows()
    trace.wall += 4 * SECOND
    comes_back(trace, 1, mode, lost=lost)
    assert trace.result("P10").violated == violated


@pytest.mark.parametrize("kind", ["pause", "clock", "disk", "drop", "other"])
@pytest.mark.parametrize(
    ("when", "judged"), [("before", True), ("long-before", True), ("lately", False), ("now", False)]
)
def test_what_holds_a_checkpoint_up(kind: str, when: str, judged: bool) -> None:
    """Shows that a pause, a wrong clock or a slow disk within the time that is looked back leaves the question open,
    and nothing else does, nor what was over before."""

    def hinders(phase: Any) -> None:
        if kind == "clock":
            trace.emit("broker-2", ClockSet("f", phase, 0, 9 if phase == "start" else 0))
        elif kind == "disk":
            trace.emit("broker-2", DiskRuleChange("f/1", phase, 1000, 2000, 0))
        else:
            node = "broker-1" if kind == "other" else "broker-2"
            trace.emit("driver", CtlFault("f", "drop" if kind == "drop" else "pause", phase, [node], {}))

    trace = follows()
    if when == "long-before":
        hinders("start")
        trace.wall += 4 * SECOND
        hinders("stop")
    elif when == "before":
        hinders("start")
        hinders("stop")
    trace.wall += 4 * SECOND
    if when in ("lately", "now"):
        hinders("start")
    if when == "lately":
        hinders("stop")
        trace.wall += 2 * SECOND
    comes_back(trace, 1)
    assert trace.result("P10").violated == int(judged or kind in ("drop", "other"))


def test_a_high_watermark_beyond_the_log() -> None:
    """Shows that nobody may take up a role with a high watermark above its log end."""
    trace = committed("a")
    trace.assume(2, 1, high_watermark=2)
    assert trace.result("P10").violations[0].sentence == (
        "broker-2 took up orders-0 in leader epoch 1 with high watermark 2, beyond its log end 1"
    )


# ---- P11 -------------------------------------------------------------------------------------------------------


def test_an_uncommitted_tail_may_be_cut() -> None:
    """Shows that cutting what is not committed tests P11."""
    trace = committed("a")
    trace.append("broker-2", "x", role="follower")
    trace.truncate("broker-2", 1)
    result = trace.result("P11")
    assert (result.status, result.tested) == ("held", 1)


def test_committed_records_are_cut() -> None:
    """Shows that cutting what is committed violates P11, even if the replica did not know it was committed."""
    trace = committed("a", "b")
    event = trace.truncate("broker-2", 1, reason="high-watermark")
    result = trace.result("P11")
    assert result.violations[0].events == [event]
    assert result.violations[0].sentence == (
        "broker-2 truncated orders-0 from 2 to 1 (high-watermark, leader epoch 1) although it held committed records "
        "up to 2"
    )


def test_divergent_records_below_the_high_watermark_may_be_cut() -> None:
    """Shows that hashes decide, not offsets: a log that differs from what was committed is cut by right."""
    trace = committed("a", "b", followers=(2,))
    trace.append("broker-3", "x", role="follower")
    trace.append("broker-3", "y", role="follower")
    trace.truncate("broker-3", 0)
    assert trace.result("P11").status == "held"


def test_recovery_may_cut_what_the_disk_lost_and_no_more() -> None:
    """Shows that a recovery after a power loss is no excuse for what the disk still had."""
    for lost, violated in ({}, 1), ({TP: 1}, 0):
        trace = committed("a", "b")
        trace.down("broker-2", "lossy", lost=lost)
        trace.up("broker-2")
        trace.truncate("broker-2", 1, reason="recovery")
        assert trace.check(["P11", "P12"])["P11"].violated == violated
        assert trace.check(["P11", "P12"])["P12"].violated == violated


@pytest.mark.parametrize(
    ("broker", "further", "recovered", "violated"),
    [(2, False, False, 0), (2, True, False, 0), (2, False, True, 1), (2, True, True, 1), (3, True, False, 1)],
)
def test_who_was_elected_uncleanly_may_cut_open_transactions(
    broker: int, further: bool, recovered: bool, violated: int
) -> None:
    """Shows that the proposal of KAFKA-7408 lets whoever was elected uncleanly in that leader epoch cut its log;
    also if a controller that nobody follows has gone on, but not once it has told that its log is in order."""
    trace = committed("a", "b")
    trace.change(2, 1, (2,), "unclean", partition_epoch=1)
    if recovered:
        trace.change(2, 1, (2,), "alter-isr", partition_epoch=2)
    if further:
        trace.change(3, 2, (3,), "unclean", partition_epoch=3)
    trace.truncate(f"broker-{broker}", 1, reason="last-stable-offset", epoch=1)
    assert trace.result("P11").violated == violated


def test_no_truncation_tests_nothing() -> None:
    """Shows that P11 is vacuous where no replica truncated its log."""
    assert committed("a").result("P11").status == "vacuous"


@pytest.mark.parametrize(
    ("lost", "lives_s", "mode", "status"),
    [
        ({TP: 0}, 1, "crash", "excused"),
        ({TP: 0}, 11, "crash", "violated"),
        ({TP: 0}, 1, "clean", "violated"),
        ({}, 1, "crash", "violated"),
    ],
)
def test_a_checkpoint_from_before_a_loss(
    lost: dict[str, int], lives_s: int, mode: Literal["crash", "clean"], status: str
) -> None:
    """Shows that P10 excuses the high watermark of a broker whose disk lost the log and kept the checkpoint, until that
    is written anew: at the latest after the interval, and at a clean shutdown."""
    trace = committed("a", "b", "c")
    trace.high_watermark("broker-2", 3, role="follower")
    trace.down("broker-2", "lossy", lost=lost)
    del trace.logs[TP, "broker-2"]
    trace.up("broker-2")
    trace.change(1, 1)
    trace.lead(2, 2, cause="unclean", isr=(2,))
    trace.append("broker-2", "x", epoch=2)
    trace.wall += lives_s * 1_000_000
    trace.down("broker-2", mode)
    trace.up("broker-2")
    trace.assume(2, 3, high_watermark=1, leader=3)
    assert trace.result("P10").status == status
