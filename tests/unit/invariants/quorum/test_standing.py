"""Q23: that a voter which hears of no leader stands for election in time. Tests on hand-written traces."""

from __future__ import annotations

from typing import Any

import pytest

from actors.trace.events import ClockSet, CtlFault, DiskRuleChange, QEnd, QHeard, QVoters, RepFetch
from tests.unit.invariants.quorum.test_leadership import FOLLOWER, LEADER
from tests.unit.invariants.trace_builder import TraceBuilder

THIRD = "controller-3"
SECOND = 1_000_000
TIMERS = {
    "controller.quorum.fetch.timeout.ms": 2000,
    "controller.quorum.election.timeout.ms": 1000,
    "controller.quorum.election.backoff.max.ms": 500,
}
FETCH_S, ELECT_S = 2.1, 2.6
"""The time-outs at most, and a tenth of a second."""
LINK = {"from": [LEADER], "to": [FOLLOWER], "both_ways": False, "delay_min_us": 0, "delay_max_us": 0}


class Quorum(TraceBuilder):
    """Controller-1 leads epoch 1, and controller-2 follows it."""

    def __init__(self, **more: Any) -> None:
        super().__init__(config=TIMERS, **more)
        for node in (LEADER, FOLLOWER, THIRD):
            self.up(node)
        self.role(LEADER, 1, "leader", 101)
        self.followed = self.role(FOLLOWER, 1, "follower", 101)

    def passes(self, seconds: float) -> None:
        """Time goes by."""
        self.wall += round(seconds * SECOND)
        self.fault("heal", "drop", "stop", from_=THIRD)

    def fault(self, name: str, kind: str, phase: Any, target: str = FOLLOWER, from_: str = LEADER, **more: Any) -> None:
        """A fault begins, or ends; one of a link is on that from the leader to the follower."""
        self.emit("driver", CtlFault(name, kind, phase, [target], {**LINK, "from": [from_], **more}))

    def status(self) -> tuple[str, int]:
        """How Q23 stands, and how often it was tested."""
        result = self.result("Q23")
        return result.status, result.tested

    def is_late_after(self, seconds: float) -> None:
        """Shows that controller-2 may wait as long as that from now on, and no longer."""
        self.passes(seconds - 0.01)
        assert self.status()[0] != "violated"
        self.passes(0.02)
        assert self.status()[0] == "violated"


def test_a_follower_that_hears_from_its_leader() -> None:
    """Shows that nobody has to stand while the leader leads and the links are whole."""
    run = Quorum()
    run.passes(60)
    assert run.status() == ("vacuous", 0)


def test_a_follower_whose_leader_ends() -> None:
    """Shows that it has to stand a fetch time-out after that, also where the leader comes back in the same epoch."""
    run = Quorum()
    run.down(LEADER)
    run.passes(1)
    run.up(LEADER)
    run.role(LEADER, 1, "resigned", 101)
    run.is_late_after(FETCH_S - 1)
    (finding,) = run.result("Q23").violations
    assert (finding.sentence, finding.events) == (
        "controller-2 still followed controller-1 in epoch 1 2.1 s after it could hear from it last",
        [run.followed],
    )
    in_time = Quorum()
    in_time.down(LEADER)
    in_time.passes(2)
    in_time.role(FOLLOWER, 1, "prospective", 101)
    assert in_time.status() == ("held", 1)


def test_how_late_a_live_voter_may_be() -> None:
    """Shows that only the sim is known to be in time."""
    run = Quorum()
    run.live()
    run.down(LEADER)
    run.is_late_after(FETCH_S + 1.9)


@pytest.mark.parametrize("role", ["resigned", "unattached", "follower", "leader"])
def test_a_follower_whose_leader_leads_no_more(role: str) -> None:
    """Shows that a leader of another epoch, and one that has resigned, is none."""
    run = Quorum()
    run.role(LEADER, 1 + (role != "resigned"), role, 103 if role == "follower" else -1)
    run.passes(FETCH_S + 0.01)
    late = [each.sentence.partition(" still")[0] for each in run.result("Q23").violations]
    assert FOLLOWER in late


@pytest.mark.parametrize(("direction", "parked_s"), [({}, 0), ({"from": [FOLLOWER], "to": [LEADER]}, 0.5)])
def test_a_follower_that_is_cut_off(direction: dict[str, Any], parked_s: float) -> None:
    """Shows that a cut of either direction keeps all answers from it, until it ends; where its requests are kept from
    the leader alone, that may still answer the one that waits there."""
    run = Quorum()
    run.fault("cut", "partition", "start", **direction)
    run.is_late_after(FETCH_S + parked_s)
    healed = Quorum()
    healed.fault("cut", "partition", "start", **direction)
    healed.passes(2)
    healed.fault("cut", "partition", "stop", **direction)
    healed.passes(60)
    assert healed.status() == ("vacuous", 0)


def test_what_is_on_its_way_still_arrives() -> None:
    """Shows that a fault that slows the link down excuses a follower until all that it has slowed down has arrived."""
    run = Quorum()
    run.fault("slow", "delay", "start", delay_max_us=3 * SECOND)
    run.down(LEADER)
    run.passes(30)
    run.fault("slow", "delay", "stop", delay_max_us=3 * SECOND)
    run.is_late_after(3 + FETCH_S)


@pytest.mark.parametrize("role", ["unattached", "prospective", "candidate", "resigned"])
def test_a_voter_that_waits_for_a_leader(role: str) -> None:
    """Shows that each of these roles is over after an election time-out; and that a vote for another one begins it
    anew, while a PreVote does not."""
    run = Quorum()
    run.role(FOLLOWER, 2, role)
    run.passes(1)
    run.vote(FOLLOWER, 2, 103, pre=True)
    run.vote(FOLLOWER, 2, 103, granted=False)
    run.is_late_after(ELECT_S - 1)
    assert run.result("Q23").violations[0].sentence == (
        f"controller-2 still was {role} in epoch 2 2.6 s after its election time-out began"
    )
    voted = Quorum()
    voted.role(FOLLOWER, 2, role)
    voted.passes(1)
    voted.vote(FOLLOWER, 2, 103)
    voted.is_late_after(ELECT_S)
    voted.role(FOLLOWER, 3, "candidate")
    again = Quorum()
    again.role(FOLLOWER, 2, role)
    again.passes(2)
    again.role(FOLLOWER, 2, "prospective")
    assert again.status() == ("held", 1)


@pytest.mark.parametrize("hindrance", ["pause", "clock", "disk"])
def test_a_voter_whose_time_is_wrong(hindrance: str) -> None:
    """Shows that it owes nothing meanwhile, and has all the time again, and what its timers may be late by."""

    def hinder(run: Quorum, phase: Any) -> float:
        begins = phase == "start"
        if hindrance == "pause":
            run.fault("p", "pause", phase)
            return 0
        if hindrance == "clock":
            run.emit(FOLLOWER, ClockSet("c", phase, 5 * SECOND * begins, 0))
            return 5
        run.emit(FOLLOWER, DiskRuleChange("d", phase, 0, SECOND, 0))
        return 1

    run = Quorum()
    run.down(LEADER)
    hinder(run, "start")
    run.passes(60)
    run.is_late_after(hinder(run, "stop") + FETCH_S)


def test_who_shuts_down_stands_no_more() -> None:
    """Shows that a process that is asked to stop owes nothing any more, also where it takes longer than the fault. The
    next one has another role, and all the time again."""
    run = Quorum()
    run.down(LEADER)
    run.fault("s", "controlled-shutdown", "start")
    run.passes(60)
    assert run.status() == ("vacuous", 0)
    run.fault("s", "controlled-shutdown", "stop")
    run.passes(60)
    assert run.status() == ("vacuous", 0)
    anew = Quorum()
    anew.fault("s", "controlled-shutdown", "start")
    anew.down(FOLLOWER, "clean")
    anew.up(FOLLOWER)
    anew.role(FOLLOWER, 1, "unattached")
    anew.is_late_after(ELECT_S)


def test_who_is_no_voter_does_not_stand() -> None:
    """Shows that an observer, a voter that was removed, and one whose disk is another one, owe nothing."""
    run = Quorum()
    run.role("controller-4", 1, "follower", 101)
    run.down(LEADER)
    others = {"101": "a", "103": "b"}
    run.emit(FOLLOWER, QVoters(f"dir-{FOLLOWER}", 5, 1, 1, others, 6, 6, "fetch"))
    run.emit(THIRD, QVoters(f"dir-{THIRD}", 5, 1, 1, others, 6, 6, "fetch"))
    run.role(THIRD, 1, "follower", 101)
    run.passes(60)
    assert run.status() == ("vacuous", 0)


def test_each_goes_by_its_own_time_out() -> None:
    """Shows that a voter's own settings count."""
    run = Quorum(nodes={FOLLOWER: {"config": {"controller.quorum.fetch.timeout.ms": 7000}}})
    run.down(LEADER)
    run.is_late_after(FETCH_S + 5)


def told(run: Quorum, preferred: list[int], directories: list[str] | None = None, epoch: int = 1) -> str:
    """Controller-2 hears that controller-1 has resigned."""
    return run.emit(FOLLOWER, QEnd(101, epoch, preferred, directories or [""] * len(preferred)))


@pytest.mark.parametrize(
    ("preferred", "directories", "turn_s"),
    [
        ([], None, 0),
        ([102, 103], None, 0),
        ([103, 102], None, 0.25),
        ([103, 104, 102], None, 0.25),
        ([103, 102, 104], None, 0.125),
        ([103], None, 0.5),
        ([102, 103], ["another", ""], 0.5),
        ([102, 103], ["", ""], 0),
    ],
)
def test_a_successor_in_its_turn(preferred: list[int], directories: list[str] | None, turn_s: float) -> None:
    """Shows how long a follower waits that hears of its leader's resignation: by its place, with its directory."""
    late = Quorum()
    late.passes(1)
    resigned = told(late, preferred, directories)
    late.is_late_after(turn_s + 0.1)
    (finding,) = late.result("Q23").violations
    assert finding.sentence.endswith(f"in epoch 1 {turn_s + 0.1:g} s after it heard that it may succeed it")
    assert finding.events == [late.followed, resigned]
    in_turn = Quorum()
    in_turn.passes(1)
    told(in_turn, preferred, directories)
    in_turn.passes(turn_s)
    in_turn.role(FOLLOWER, 1, "prospective", 101)
    assert in_turn.status() == ("held", 1)


def test_a_successor_out_of_turn() -> None:
    """Shows that it has to wait; and that nobody knows since when, where it hears of the resignation again, or became a
    follower just then."""

    def stands(*, before_s: float, twice: bool = False) -> Quorum:
        run = Quorum()
        run.passes(before_s) if before_s else run.role(FOLLOWER, 1, "follower", 101)
        for _ in range(1 + twice):
            told(run, [103, 102])
        run.passes(0.1)
        run.role(FOLLOWER, 1, "prospective", 101)
        return run

    early = stands(before_s=1)
    (finding,) = early.result("Q23").violations
    assert finding.sentence == (
        "controller-2 stood for election in epoch 1 0.102 s after it heard that it may succeed controller-1, "
        "and its turn is 0.25 s after that"
    )
    assert stands(before_s=0).status() == ("held", 1)
    assert stands(before_s=1, twice=True).status() == ("held", 1)


def test_who_is_not_told_to_stand() -> None:
    """Shows that the resignation of another epoch is none, and that an answer that was on its way puts the
    election off."""
    run = Quorum()
    told(run, [102], epoch=0)
    run.passes(60)
    assert run.status() == ("vacuous", 0)
    run.role(LEADER, 1, "resigned", -1)
    told(run, [102])
    run.emit(FOLLOWER, QHeard(101, 1))
    run.is_late_after(FETCH_S)


@pytest.mark.parametrize("hindrance", ["pause", "shutdown"])
def test_a_successor_that_cannot(hindrance: str) -> None:
    """Shows that a successor that is stopped, or shuts down, owes nothing."""
    run = Quorum()
    run.passes(1)
    told(run, [102])
    run.fault("f", "pause" if hindrance == "pause" else "controlled-shutdown", "start")
    run.passes(60)
    run.role(FOLLOWER, 1, "prospective", 101)
    assert run.status() == ("vacuous", 0)


def fetched(run: Quorum, voter: int, offset: int, epoch: int = 1, error: int = 0) -> str:
    """Controller-1 takes note of a voter's Fetch."""
    return run.emit(LEADER, RepFetch("__cluster_metadata-0", voter, epoch, epoch, -1, offset, epoch, error=error))


def test_the_longest_log_succeeds() -> None:
    """Shows that a leader names whoever it likes first among those with as much of its log, and otherwise who has more;
    and the evidence where it does not."""
    equal = Quorum()
    fetched(equal, 102, 40)
    fetched(equal, 103, 40)
    told(equal, [103, 102])
    assert equal.status() == ("held", 1)
    run = Quorum()
    more, less = fetched(run, 103, 41), fetched(run, 102, 40)
    heard = told(run, [102, 103])
    (violation,) = run.result("Q23").violations
    assert violation.sentence == (
        "controller-1, which had led epoch 1, named controller-2 before controller-3 as its successor, though "
        "controller-3 had fetched up to 41, and controller-2 had fetched only up to 40"
    )
    assert set(violation.events) == {more, less, heard}


def test_who_has_not_fetched_succeeds_last() -> None:
    """Shows that a refused Fetch tells a leader nothing, and that one without any comes after all others."""
    run = Quorum()
    fetched(run, 103, 0)
    fetched(run, 102, 40, error=1)
    told(run, [102, 103])
    (violation,) = run.result("Q23").violations
    assert violation.sentence.endswith(
        "controller-3 had fetched up to 0, and controller-2 had not fetched in that epoch"
    )


@pytest.mark.parametrize("what", ["voters", "epoch"])
def test_an_order_that_cannot_be_judged(what: str) -> None:
    """Shows that other voters may have fetched before they were voters, and what of another epoch does not count."""
    run = Quorum()
    fetched(run, 103, 41, epoch=1 if what == "voters" else 0)
    if what == "voters":
        members = {str(each): f"dir-controller-{each - 100}" for each in (101, 102, 103)}
        run.emit(LEADER, QVoters(f"dir-{LEADER}", 42, 1, 1, members, 43, 41, "append"))
    told(run, [102, 103])
    assert run.status()[0] == "vacuous"
