"""P25: whom a leader asks out of the ISR, and when. Tests on hand-written traces."""

from __future__ import annotations

from typing import Any

import pytest

from actors.trace.events import OVERTAKEN, ClockSet, CtlFault, IsrLate, MetaImage
from tests.unit.invariants.trace_builder import TP, TraceBuilder

SECOND = 1_000_000
LAG = {"replica.lag.time.max.ms": 4000, "request.timeout.ms": 2000}


class Leader(TraceBuilder):
    """Broker-1 leads, and both followers have the one record that it has."""

    def __init__(self) -> None:
        super().__init__(config=LAG)
        self.lead(1)
        self.replicate("a")

    def passes(self, seconds: float) -> None:
        self.wall += int(seconds * SECOND)
        self.emit("driver", CtlFault("f", "drop", "start", [], {}))

    def status(self) -> tuple[str, int]:
        found = self.result("P25")
        return found.status, found.tested


def behind() -> Leader:
    """Broker-3 does not get the second record."""
    run = Leader()
    run.replicate("b", followers=(2,))
    return run


def test_who_lags_is_asked_out() -> None:
    """Shows a leader that keeps a member which lags, and one that asks it out after the time."""
    run = behind()
    run.passes(6.2)
    assert run.status() == ("vacuous", 0), "time to look, and a quarter of a second"
    run.passes(0.2)
    assert run.status() == ("violated", 1)
    assert run.result("P25").violations[0].sentence == (
        "broker-1, leader of orders-0 in leader epoch 0, did not propose its ISR [1, 2, 3] without broker-3, which "
        "has not caught up for 6,250 ms: replica.lag.time.max.ms is 4,000"
    )
    run = behind()
    run.passes(5)
    run.propose(1, (1, 2))
    run.passes(20)
    assert run.status() == ("held", 1), "one that waits for its answer asks for nothing else"


@pytest.mark.parametrize(("to", "status"), [(4, "violated"), (5, "vacuous")])
def test_who_makes_progress_still_lags(to: int, status: str) -> None:
    """Shows that a follower which gets further lags on, unless it has all that the log had at its last fetch."""
    run = behind()
    run.append("broker-1", "c")
    run.append("broker-1", "d")
    run.passes(2.9)
    run.append("broker-1", "e")
    run.fetched(1, 3, 2)
    run.fetched(1, 2, 5)
    run.passes(0.5)
    run.append("broker-1", "f")
    run.fetched(1, 3, to)
    run.fetched(1, 2, 6)
    run.passes(3.2)
    assert run.status()[0] == status


def test_how_late_a_live_leader_may_be() -> None:
    """Shows that only the sim is known to be in time."""
    run = behind()
    run.live()
    run.passes(7.9)
    assert run.status() == ("vacuous", 0), "time to look, and two seconds"
    run.passes(0.2)
    assert run.status() == ("violated", 1)


def stopped(run: Leader, phase: Any, target: str = "broker-1") -> None:
    """An operator stops a broker in good order, or is done."""
    run.emit("driver", CtlFault("s", "controlled-shutdown", phase, [target], {}))


def test_who_is_on_its_way_out_looks_at_no_isr() -> None:
    """Shows that a leader which is asked to stop is not late, be its end a long time coming; and that another one is,
    and one that was started anew."""
    run = behind()
    run.passes(5)
    stopped(run, "start")
    run.passes(3)
    stopped(run, "stop")
    run.passes(3)
    assert run.status() == ("vacuous", 0)
    other = behind()
    stopped(other, "start", "broker-3")
    other.passes(6.4)
    assert other.status() == ("violated", 1)
    for started_first in (True, False):
        anew = behind()
        stopped(anew, "start")
        anew.down("broker-1", "clean")
        if started_first:
            anew.up("broker-1")
            anew.lead(1, 1)
            anew.replicate("c", followers=(2,))
        stopped(anew, "stop")
        if not started_first:
            anew.up("broker-1")
            anew.lead(1, 1)
            anew.replicate("c", followers=(2,))
        anew.passes(6.4)
        assert anew.status() == ("violated", 1), started_first


def test_who_has_everything_stays() -> None:
    """Shows that a member with the whole log does not lag, however long it is silent; and that to fetch where the log
    ended a moment ago is to be no further behind than that."""
    run = Leader()
    run.passes(60)
    assert run.status() == ("vacuous", 0)
    run = behind()
    for number in range(8):
        run.passes(2)
        run.replicate(f"c{number}", followers=(2,))
        run.fetched(1, 3, run.log_end(1) - 1)
    assert run.status() == ("vacuous", 0)


def test_who_fetches_and_does_not_keep_up_lags() -> None:
    """Shows that a member which fetches all the while, and further on each time, is asked out if it stays so much
    behind: what counts is when the log ended where it fetches from."""
    run = behind()
    for number in range(8):
        run.passes(2)
        run.replicate(f"c{number}", followers=(2,))
        run.fetched(1, 3, max(1, number - 4))
    (finding,) = run.result("P25").violations
    assert finding.sentence.startswith("broker-1, leader of orders-0 in leader epoch 0, did not propose")


@pytest.mark.parametrize(
    ("after_s", "isr", "says"), [(1, (1, 2), "broker-3, which had the whole log 1,005"), (5, (1, 2), "")]
)
def test_nobody_is_asked_out_too_soon(after_s: float, isr: tuple[int, ...], says: str) -> None:
    """Shows a member that had everything a second ago, and one that had it five seconds ago."""
    run = behind()
    run.passes(after_s)
    run.propose(1, isr)
    assert run.status() == ("violated" if says else "held", 1)
    assert says in "".join(finding.sentence for finding in run.result("P25").violations)


def test_who_has_everything_is_not_asked_out() -> None:
    """Shows that a whole log is enough, however old the last fetch is; what is proposed again is judged once."""
    run = behind()
    run.passes(5)
    run.propose(1, (1, 3))
    assert run.result("P25").violations[0].sentence == (
        "broker-1 proposed the ISR [1, 3] of orders-0 without broker-2, which had the whole log, up to 2"
    )
    again = behind()
    again.passes(5)
    again.propose(1, (1, 2))
    again.fetched(1, 3, again.log_end(1))
    again.propose(1, (1, 2), outcome="NETWORK_EXCEPTION")
    again.propose(1, (1, 2), proposal=2)
    assert again.status() == ("held", 1)


def test_what_a_new_leader_does_not_know() -> None:
    """Shows that all members count as caught up when a leader begins, and lag when none of them fetches from it."""
    run = Leader()
    run.append("broker-2", "a", role="follower")
    run.passes(3600)
    run.lead(2, 1)
    soon, at = len(run.events), run.wall
    run.passes(1)
    run.propose(2, (2, 3), epoch=1, partition_epoch=1)
    assert "broker-1, which had the whole log 1,002" in run.result("P25").violations[0].sentence
    del run.events[soon:]
    run.wall = at
    run.passes(9)
    assert run.status() == ("violated", 1)


def test_an_answer_ends_the_wait_for_it() -> None:
    """Shows that what the controller took, or what metadata brought, makes a leader judge anew, by the new ISR."""
    for outcome, expected in (
        ("accepted", "violated"),
        ("INELIGIBLE_REPLICA", "violated"),
        ("NEW_LEADER_ELECTED", "held"),
    ):
        run = behind()
        run.passes(5)
        run.propose(1, (1, 2))
        run.propose(1, (1, 2), outcome=outcome)
        run.replicate("c", followers=())
        run.passes(9)
        assert run.status()[0] == expected, outcome
    run = behind()
    run.passes(5)
    run.propose(1, (1, 2))
    run.change(1, 0, isr=(1, 2), cause="alter-isr", partition_epoch=1)
    run.emit("broker-1", MetaImage(12, 0))
    run.passes(3600)
    assert run.status() == ("held", 1), "who is out of the ISR lags for nobody"


def test_a_member_that_had_everything_and_lost_it() -> None:
    """Shows that who has the whole log lags for nobody, be its last fetch ever so long ago; once its disk has lost
    something, the leader asks it out when it looks next."""
    run = Leader()
    run.passes(60)
    run.fetched(1, 3, 0)
    run.passes(2.2)
    assert run.status() == ("vacuous", 0), "time to look, and a quarter of a second"
    run.passes(0.2)
    assert run.status() == ("violated", 1)
    again = Leader()
    again.passes(60)
    again.fetched(1, 3, 0)
    again.fetched(1, 3, 1)
    again.passes(60)
    assert again.status() == ("vacuous", 0)


def test_a_proposal_that_was_given_up_is_in_the_way_until_it_is_answered() -> None:
    """Shows that a leader whose answer is lost, again and again, is not late, nor when it leads anew; and that it is
    late some time after the answer."""
    for again in (False, True):
        run = behind()
        run.passes(5)
        run.propose(1, (1, 2))
        run.propose(1, (1, 2), outcome=OVERTAKEN)
        if again:
            run.lead(1, epoch=1, isr=(1, 2, 3))
        run.replicate("c", epoch=int(again), followers=(2,))
        run.passes(60)
        assert run.status() == ("held", 1)
        run.emit("broker-1", IsrLate(TP, 1, 95))
        run.passes(2.2)
        assert run.status() == ("held", 1), "time to look once more"
        run.passes(0.2)
        assert run.status() == ("violated", 2)


@pytest.mark.parametrize(
    "wrong",
    [CtlFault("p", "pause", "start", ["broker-1"], {}), ClockSet("c", "start", 5_000_000, 0)],
)
def test_a_leader_whose_time_is_wrong(wrong: CtlFault | ClockSet) -> None:
    """Shows that a leader which is stopped, or whose clock is not right, owes nothing meanwhile."""
    run = behind()
    run.emit("driver" if isinstance(wrong, CtlFault) else "broker-1", wrong)
    run.passes(20)
    assert run.status() == ("vacuous", 0)


def test_a_process_that_is_gone() -> None:
    """Shows that a leader which has died, or follows now, owes nothing."""
    dead = behind()
    dead.down("broker-1", lost={TP: 1})
    dead.passes(20)
    assert dead.status() == ("vacuous", 0)
    follows = behind()
    follows.assume(1, 1, leader=2)
    follows.passes(20)
    assert follows.status() == ("vacuous", 0)


@pytest.mark.parametrize(("after_s", "violated"), [(0, 0), (2, 1)])
def test_a_leader_that_was_stopped_within_a_step(after_s: float, violated: int) -> None:
    """Shows that who begins to lead as it is no longer stopped may have begun, by its own time, before it was; later it
    may not ask anybody out at once."""
    run = Leader()
    for phase in ("start", "stop"):
        run.emit("driver", CtlFault("p", "pause", phase, ["broker-1"], {}))
        run.passes(5 if phase == "start" else after_s)
    run.lead(1, 1)
    run.append("broker-1", "b", epoch=1)
    run.propose(1, (1, 2), 1, 1)
    assert run.result("P25").violated == violated
