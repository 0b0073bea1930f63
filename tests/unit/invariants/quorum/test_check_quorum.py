"""Q17 and L2: leaders that have to go, and leaders that may stay."""

from __future__ import annotations

from typing import Any

import pytest

from actors.node.spec import METADATA_PARTITION
from actors.trace.events import CtlFault, DiskRuleChange, QSnapFetch, QVoters
from actors.trace.run_events import ClockSet
from tests.unit.invariants.quorum.test_leadership import FOLLOWER, LEADER
from tests.unit.invariants.trace_builder import TraceBuilder

THIRD = "controller-3"
VOTERS = (LEADER, FOLLOWER, THIRD)
SECOND = 1_000_000


def led(**profile: Any) -> TraceBuilder:
    """controller-1 leads epoch 1 from 0.001 s on; a fetch of controller-2 arrives at 1 s."""
    trace = TraceBuilder(**profile)
    trace.role(LEADER, 1, "leader", 101)
    trace.wall = SECOND
    trace.asked(LEADER, 102, 0, 0, 1)
    return trace


def passes(trace: TraceBuilder, seconds: float) -> TraceBuilder:
    """Time goes by."""
    trace.wall += round(seconds * SECOND)
    trace.end()
    return trace


# ---- Q17 -------------------------------------------------------------------------------------------------------


def test_a_leader_steps_down() -> None:
    """Shows that a leader which resigns after 1.5 times the fetch timeout holds Q17, and an earlier end is no test."""
    trace = led()
    trace.wall += 3 * SECOND
    trace.role(LEADER, 1, "resigned", 101)
    result = passes(trace, 60).result("Q17")
    assert (result.status, result.tested) == ("held", 1)
    early = led()
    early.role(LEADER, 2, "follower", 102)
    assert passes(early, 60).result("Q17").status == "vacuous"


def test_a_leader_stays() -> None:
    """Shows that a leader which stays for longer than that, and 2 s, violates Q17."""
    trace = led()
    leads = trace.events[1].id
    found = passes(trace, 6).result("Q17").violations[0]
    assert (found.events, found.sentence) == (
        [leads],
        "controller-1 still led epoch 1 5 s after the last time that a majority of the 3 voters had fetched from it",
    )


def test_who_keeps_a_leader_in_office() -> None:
    """Shows that a majority of fetches does, of voters, that fit the log; of five voters one other is not enough."""
    trace = led()
    for _ in range(4):
        trace.wall += 2 * SECOND
        trace.asked(LEADER, 103, 0, 0, 1)
    assert trace.result("Q17").status == "vacuous"
    for how in ({"follower": 1}, {"follower": 101}, {"told": (1, 0)}):
        other = led()
        for _ in range(4):
            other.wall += 2 * SECOND
            other.asked(LEADER, **{"follower": 102, "offset": 3, "last_epoch": 1, "epoch": 1, **how})  # type: ignore[arg-type]
        assert other.result("Q17").status == "violated", how
    five = led(voters=[101, 102, 103, 104, 105])
    for _ in range(4):
        five.wall += 2 * SECOND
        five.asked(LEADER, 102, 0, 0, 1)
    assert five.result("Q17").status == "violated"


def test_a_download_keeps_a_leader_in_office() -> None:
    """Shows that pieces of a snapshot count like fetches, of voters, with the fetches of others; and that of five
    voters one that downloads is not enough."""
    five = [101, 102, 103, 104, 105]
    for voters, fetches, downloads, status in (
        ([101, 102, 103], (), (102,), "vacuous"),
        ([101, 102, 103], (), (1, 101), "violated"),
        (five, (), (102, 103), "vacuous"),
        (five, (102,), (103,), "vacuous"),
        (five, (102,), (102,), "violated"),
    ):
        trace = led(voters=voters)
        for position in range(4):
            trace.wall += 2 * SECOND
            for follower in fetches:
                trace.asked(LEADER, follower, 0, 0, 1)
            for follower in downloads:
                trace.emit(LEADER, QSnapFetch(follower, 1, 50, position))
        assert trace.result("Q17").status == status, (voters, fetches, downloads)


def test_who_is_told_of_a_snapshot_keeps_nobody_in_office() -> None:
    """Shows that a voter counts when it fetches the snapshot, not when it is told to."""
    trace = led()
    for _ in range(4):
        trace.wall += 2 * SECOND
        trace.emit(LEADER, QSnapFetch(102, 1, 50, -1))
    assert trace.result("Q17").status == "violated"


def test_who_need_not_step_down() -> None:
    """Shows that a lone voter and one that ended are not judged, and that one which nothing protects is."""
    lone = led(voters=[101])
    ended = led()
    ended.down(LEADER)
    for trace in (lone, ended):
        assert passes(trace, 60).result("Q17").status == "vacuous"
    off = led(features={"kip-595.leader-progress": "off"})
    assert passes(off, 60).result("Q17").status == "violated"


def test_time_that_does_not_count() -> None:
    """Shows that a pause, a wrong clock and a slow disk stop the count, and that it begins anew when they are over."""
    pause = [CtlFault("f", "pause", phase, [LEADER], {}) for phase in ("start", "stop")]
    clock = [ClockSet("f", "start", 9 * SECOND, 0), ClockSet("f", "stop", 0, 0)]
    disk = [DiskRuleChange("r", phase, 0, SECOND, 0) for phase in ("start", "stop")]
    for late, (start, stop) in ((0, pause), (9, clock), (1, disk)):
        trace = led()
        node = "driver" if isinstance(start, CtlFault) else LEADER
        trace.emit(node, start)
        trace.wall += 60 * SECOND
        trace.emit(node, stop)
        trace.wall += (4 + late) * SECOND
        trace.emit("driver", CtlFault("g", "crash", "start", ["broker-1"], {}))
        assert trace.result("Q17").status == "vacuous"
        assert passes(trace, 2).result("Q17").status == "violated"


def test_a_leader_that_was_the_only_voter() -> None:
    """Shows that a leader whom nobody had to fetch from is judged from the moment on that there is another voter."""
    trace = TraceBuilder(voters=[101])
    trace.role(LEADER, 1, "leader", 101)
    trace.wall += 60 * SECOND
    trace.emit(LEADER, QVoters("dir", 5, 1, 1, {"101": "", "102": ""}, 6, 5, "append"))
    trace.wall += 3 * SECOND
    trace.asked(LEADER, 102, 0, 0, 1)
    trace.wall += 4 * SECOND
    trace.asked(LEADER, 102, 0, 0, 1)
    assert trace.result("Q17").status == "vacuous"
    assert passes(trace, 6).result("Q17").status == "violated"


# ---- L2 --------------------------------------------------------------------------------------------------------


def well(trace: TraceBuilder, epoch: int = 1) -> None:
    """controller-1 leads, the others follow it, and have fetched and appended just now."""
    trace.role(LEADER, epoch, "leader", 101)
    for number, node in ((102, FOLLOWER), (103, THIRD)):
        trace.role(node, epoch, "follower", 101)
        trace.asked(LEADER, number, 0, 0, epoch)
        trace.append(node, "m", epoch=epoch, tp=METADATA_PARTITION, role="follower")


def raises_epoch(trace: TraceBuilder, epoch: int) -> None:
    """All is well, in a window, and then the third voter stands for election in an epoch."""
    well(trace)
    trace.window("open", *VOTERS)
    trace.role(THIRD, epoch, "candidate")


def test_a_leader_is_left_in_peace() -> None:
    """Shows that a window which ends with the leader of its beginning holds L2, and one without a leader is no test."""
    trace = TraceBuilder()
    trace.window("open", *VOTERS)
    trace.window("close", *VOTERS)
    well(trace)
    trace.window("open", *VOTERS)
    trace.role(THIRD, 1, "prospective", 101)
    trace.role(THIRD, 1, "follower", 101)
    trace.window("close", *VOTERS)
    trace.role(LEADER, 2, "unattached")
    result = trace.result("L2")
    assert (result.status, result.tested) == ("held", 1)


def test_a_leader_is_disturbed() -> None:
    """Shows that a higher epoch of a voter of the core violates L2, once a window."""
    trace = TraceBuilder()
    well(trace)
    leads = trace.events[1].id
    trace.window("open", *VOTERS)
    raised = trace.role(THIRD, 5, "candidate")
    trace.role(LEADER, 5, "unattached")
    result = trace.result("L2")
    assert (result.violated, result.violations[0].events) == (1, [leads, raised])
    assert result.violations[0].sentence == (
        "controller-3 became candidate in epoch 5 while controller-1, leader of epoch 1, had a majority of the voters "
        "as followers and no fault was active"
    )


def test_who_is_not_left_in_peace() -> None:
    """Shows that nothing is demanded of one who is not in the core, for a leader that nobody has heard of lately, or
    for one whose successor had its majority promised before."""
    outside = TraceBuilder()
    well(outside)
    outside.window("open", LEADER, FOLLOWER)
    outside.role(THIRD, 5, "candidate")
    assert outside.result("L2").tested == 1
    silent = TraceBuilder()
    well(silent)
    silent.wall += 2 * SECOND
    silent.window("open", *VOTERS)
    silent.role(THIRD, 5, "candidate")
    assert silent.result("L2").status == "vacuous"
    promised = TraceBuilder()
    promised.vote(FOLLOWER, 1, 103, pre=True)
    raises_epoch(promised, 2)
    assert promised.result("L2").status == "vacuous"


def test_a_promise_does_not_last() -> None:
    """Shows that a promise counts for the candidate that it was made to, for as long as an election may take, by the
    candidate's own time; and that an epoch which was raised that way is over with the next leader."""
    late = TraceBuilder()
    late.vote(FOLLOWER, 1, 103, pre=True)
    late.wall += 60 * SECOND
    raises_epoch(late, 2)
    assert late.result("L2").status == "violated"
    paused = TraceBuilder()
    paused.vote(FOLLOWER, 1, 103, pre=True)
    paused.wall += 60 * SECOND
    paused.emit("driver", CtlFault("f", "pause", "stop", [THIRD], {}))
    raises_epoch(paused, 2)
    assert paused.result("L2").status == "vacuous"
    other = TraceBuilder()
    other.vote(FOLLOWER, 1, 101, pre=True)
    raises_epoch(other, 2)
    assert other.result("L2").status == "violated"


def test_an_epoch_that_was_raised_as_promised_stays_raised() -> None:
    """Shows that a candidate which was cut off meanwhile may come back with the epoch it had earned, at any time."""
    trace = TraceBuilder()
    trace.vote(FOLLOWER, 1, 103, pre=True)
    trace.role(THIRD, 2, "candidate")
    trace.wall += 60 * SECOND
    well(trace)
    trace.window("open", *VOTERS)
    trace.role(LEADER, 2, "unattached")
    assert trace.result("L2").status == "vacuous"


def test_a_leader_that_is_removed_goes() -> None:
    """Shows that a leader which is no voter by its own log may be followed by another one, whenever that was."""
    for opened_first in (False, True):
        trace = TraceBuilder()
        well(trace)
        if opened_first:
            trace.window("open", *VOTERS)
        members = {"102": "", "103": ""}
        trace.emit(LEADER, QVoters("dir", 5, 1, 1, members, 6, 5, "append"))
        if not opened_first:
            trace.window("open", *VOTERS)
        trace.role(THIRD, 2, "candidate")
        assert trace.result("L2").status == "vacuous"


def test_a_promise_to_disturb_is_none() -> None:
    """Shows that pre-votes which are granted while the leader is well excuse nothing."""
    trace = TraceBuilder()
    well(trace)
    trace.window("open", *VOTERS)
    trace.vote(FOLLOWER, 1, 103, pre=True)
    trace.role(THIRD, 2, "candidate")
    assert trace.result("L2").status == "violated"


def test_old_peers_and_no_pre_vote() -> None:
    """Shows that a voter which speaks no PreVote is an excuse; a cluster that does without, or of
    which something else is bounced, has none."""
    old: tuple[dict[str, Any], ...] = (
        {"versions": {"Vote": [0, 1]}},
        {"nodes": {LEADER: {"versions": {"Vote": [0, 0]}}}},
        {"bounced": {"kip-996": ["off"]}},
        {"bounced_versions": {"Vote": [[0, 2], [0, 1]]}},
    )
    for profile in old:
        trace = TraceBuilder(**profile)
        raises_epoch(trace, 5)
        assert trace.result("L2").excused == {"old-peer": 1}
    newest: tuple[dict[str, Any], ...] = (
        {"features": {"kip-996": "off"}},
        {"bounced": {"kip-207": ["off"]}},
        {"bounced_versions": {"Vote": [[0, 2]], "Fetch": [[4, 12]]}},
    )
    for profile in newest:
        trace = TraceBuilder(**profile)
        raises_epoch(trace, 5)
        assert trace.result("L2").status == "violated"


@pytest.mark.parametrize(
    ("others", "again", "violated"), [([FOLLOWER, THIRD], False, 0), ([FOLLOWER, THIRD], True, 1), ([THIRD], False, 1)]
)
def test_a_leader_whose_followers_wait_for_what_was_lost_is_not_well(
    others: list[str], again: bool, violated: int
) -> None:
    """Shows that a fetch from before the links failed says nothing, as its answer may be lost; that one after it does;
    and that links of other voters are none of the leader's."""
    trace = TraceBuilder()
    well(trace)
    link = {"from": [LEADER], "to": others, "both_ways": False, "delay_max_us": 0}
    for phase in ("start", "stop"):
        trace.emit("driver", CtlFault("f", "delay", phase, list(VOTERS), link))
    if again:
        well(trace)
    trace.window("open", *VOTERS)
    trace.role(LEADER, 1, "resigned", 101)
    trace.role(THIRD, 2, "candidate")
    assert trace.result("L2").violated == violated


def test_a_leader_whose_clock_was_set_is_not_well_yet() -> None:
    """Shows that a leader which resigns as its clock jumps ahead is not one that somebody disturbed."""
    trace = TraceBuilder()
    trace.emit("driver", CtlFault("f", "clock-skew", "stop", [LEADER], {}))
    well(trace)
    trace.window("open", *VOTERS)
    trace.role(LEADER, 1, "resigned", 101)
    trace.role(THIRD, 2, "candidate")
    assert trace.result("L2").status == "vacuous"
