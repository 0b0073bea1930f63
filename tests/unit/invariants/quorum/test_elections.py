"""Q5, Q10, Q12, Q15 and Q16: who leads the quorum, and what a leader does."""

from __future__ import annotations

import pytest

from actors.node.spec import METADATA_PARTITION
from actors.trace.events import BrokerReg, ConfigChange, MetaState, QVoters
from tests.unit.invariants.quorum.test_leadership import FOLLOWER, LEADER, committed, voted
from tests.unit.invariants.trace_builder import TraceBuilder

THIRD = "controller-3"


def elected(trace: TraceBuilder, epoch: int = 1, log_end: int = 0) -> str:
    """controller-1 wins with the vote of controller-2."""
    voted(trace, LEADER, epoch, 101)
    voted(trace, FOLLOWER, epoch, 101)
    return trace.role(LEADER, epoch, "leader", 101, log_end)


# ---- Q5 --------------------------------------------------------------------------------------------------------


def test_a_majority_elects() -> None:
    """Shows that the leader's own vote and that of another one are enough out of three."""
    trace = TraceBuilder()
    elected(trace)
    result = trace.result("Q5")
    assert (result.status, result.tested) == ("held", 1)


def test_too_few_votes() -> None:
    """Shows that pre-votes, refusals, votes of another epoch and votes of strangers do not count."""
    trace = TraceBuilder()
    own = voted(trace, LEADER, 2, 101)
    trace.vote(FOLLOWER, 2, 101, pre=True)
    trace.vote(FOLLOWER, 2, 101, granted=False)
    voted(trace, FOLLOWER, 1, 101)
    voted(trace, "broker-1", 2, 101)
    leads = trace.role(LEADER, 2, "leader", 101)
    result = trace.result("Q5")
    assert result.violations[0].events == [own, leads]
    assert result.violations[0].sentence == (
        "controller-1 leads epoch 2 with the votes of controller-1; that is no majority of the 3 voters controller-1, "
        "controller-2, controller-3"
    )


def test_no_votes_and_no_known_voters() -> None:
    """Shows that a leader without any vote is told of as such, and that a trace that names no voters tests nothing."""
    trace = TraceBuilder()
    trace.role(LEADER, 1, "leader", 101)
    assert "with the votes of no voter; that is no majority of" in trace.result("Q5").violations[0].sentence
    unknown = TraceBuilder(voters=[])
    unknown.role(LEADER, 1, "leader", 101)
    assert {unknown.result(each).status for each in ("Q5", "Q15")} == {"vacuous"}


# ---- Q15 -------------------------------------------------------------------------------------------------------


def test_voters_stand() -> None:
    """Shows that each role on the way to the leadership is a test, and following none."""
    trace = TraceBuilder()
    for role in ("follower", "prospective", "candidate", "leader"):
        trace.role(LEADER, 1, role, 101)
    trace.role("broker-1", 1, "follower", 101)
    result = trace.result("Q15")
    assert (result.status, result.tested) == ("held", 3)


def test_an_observer_stands() -> None:
    """Shows that a broker that stands for election violates Q15."""
    trace = TraceBuilder()
    stands = trace.role("broker-1", 1, "prospective")
    found = trace.result("Q15").violations[0]
    assert (found.events, found.sentence) == (
        [stands],
        (
            "broker-1 became prospective in epoch 1, but is none of the voters controller-1, controller-2, "
            "controller-3 in its log"
        ),
    )


# ---- Q12 -------------------------------------------------------------------------------------------------------


def test_a_former_leader_cuts_its_log() -> None:
    """Shows that a leader may cut once it follows another one, and lead a later epoch after a restart."""
    trace = TraceBuilder()
    trace.role(LEADER, 1, "leader", 101)
    trace.append(LEADER, "a", "b", epoch=1, tp=METADATA_PARTITION)
    trace.role(LEADER, 2, "follower", 102)
    trace.truncate(LEADER, 0, METADATA_PARTITION)
    trace.up(LEADER, "controller")
    trace.role(LEADER, 3, "leader", 101)
    result = trace.result("Q12")
    assert (result.status, result.tested) == ("held", 2)


def test_a_leader_cuts_its_log() -> None:
    """Shows that a cut in office violates Q12; that of a voter which never led is no test."""
    trace = TraceBuilder()
    trace.append(FOLLOWER, "a", epoch=1, tp=METADATA_PARTITION, role="follower")
    trace.truncate(FOLLOWER, 0, METADATA_PARTITION)
    leads = trace.role(LEADER, 1, "leader", 101)
    trace.append(LEADER, "a", epoch=1, tp=METADATA_PARTITION)
    cut = trace.truncate(LEADER, 0, METADATA_PARTITION)
    result = trace.result("Q12")
    assert (result.tested, result.violations[0].events) == (1, [leads, cut])
    assert result.violations[0].sentence == "controller-1 truncated its log from 1 to 0 while it led epoch 1"


def test_a_former_leader_comes_back() -> None:
    """Shows that who led an epoch comes back in it as resigned, and as nothing else unless its disk was wiped."""
    for role, wiped, epoch, held in (
        ("resigned", False, 7, True),
        ("follower", False, 8, True),
        ("unattached", True, 7, True),
        ("unattached", False, 7, False),
        ("follower", False, 7, False),
        ("candidate", False, 7, False),
    ):
        trace = TraceBuilder()
        trace.role(LEADER, 7, "leader", 101)
        trace.up(LEADER, "controller", wiped=wiped)
        trace.role(LEADER, epoch, role)
        trace.role(LEADER, epoch, "follower", 102)
        assert (trace.result("Q12").status != "violated") == held, (role, wiped, epoch)


def test_a_leader_goes_on_after_a_restart() -> None:
    """Shows that the same epoch led again violates Q12, and is excused where the disk was wiped since: once."""
    trace = TraceBuilder()
    first = trace.role(LEADER, 7, "leader", 101)
    trace.up(LEADER, "controller")
    again = trace.role(LEADER, 7, "leader", 101)
    assert trace.result("Q12").violations[0].events == [first, again]
    wiped = TraceBuilder()
    wiped.role(LEADER, 7, "leader", 101)
    wiped.up(LEADER, "controller", wiped=True)
    wiped.role(LEADER, 7, "leader", 101)
    assert wiped.result("Q12").excused == {"wiped": 1}
    wiped.up(LEADER, "controller")
    wiped.role(LEADER, 7, "leader", 101)
    assert wiped.result("Q12").violated == 1


# ---- Q10 -------------------------------------------------------------------------------------------------------


def copied(trace: TraceBuilder, node: str, count: int, epoch: int = 1) -> None:
    """A follower has the first records of the log that ``committed`` makes."""
    for _ in range(count):
        trace.append(node, "m", epoch=epoch, tp=METADATA_PARTITION, role="follower")


def test_a_leader_with_everything() -> None:
    """Shows that a new leader whose log has what was committed, and more, holds Q10."""
    trace = TraceBuilder()
    committed(trace, 1, 2)
    copied(trace, FOLLOWER, 3)
    trace.role(FOLLOWER, 2, "leader", 102, 3)
    result = trace.result("Q10")
    assert (result.status, result.tested) == ("held", 1)


def test_a_leader_without_the_end() -> None:
    """Shows that Q10 is violated whichever comes first, the election or the commit of the older leader."""
    trace = TraceBuilder()
    committed(trace, 1, 2)
    copied(trace, FOLLOWER, 1)
    leads = trace.role(FOLLOWER, 2, "leader", 102, 1)
    found = trace.result("Q10").violations[0]
    assert found.events[1] == leads
    assert found.sentence == (
        "controller-2 leads __cluster_metadata-0 in leader epoch 2 from log end 1, but lacks records that "
        "controller-1 committed, up to 2, in leader epoch 1"
    )
    late = TraceBuilder()
    late.role(LEADER, 1, "leader", 101)
    late.append(LEADER, "m", epoch=1, tp=METADATA_PARTITION)
    late.role(FOLLOWER, 2, "leader", 102)
    late.high_watermark(LEADER, 1, 1, METADATA_PARTITION)
    assert late.result("Q10").status == "violated"


def lost_with_a_disk(third_has_it: bool) -> TraceBuilder:
    """controller-2 had what was committed on its disk, was wiped, and leads without it."""
    trace = TraceBuilder()
    committed(trace, 1)
    copied(trace, FOLLOWER, 1)
    trace.flush(FOLLOWER, 1)
    if third_has_it:
        copied(trace, THIRD, 1)
    trace.down(FOLLOWER, "lossy", lost={METADATA_PARTITION: 0})
    trace.logs[METADATA_PARTITION, FOLLOWER] = [(0, 0)]
    trace.up(FOLLOWER, "controller", wiped=True)
    trace.role(FOLLOWER, 2, "leader", 102)
    return trace


def test_a_wiped_disk_excuses_what_no_majority_is_left_to_have() -> None:
    """Shows that one wiped voter of three is an excuse if one other had it, and none if both others did."""
    assert lost_with_a_disk(third_has_it=False).result("Q10").excused == {"loss-budget": 1}
    assert lost_with_a_disk(third_has_it=True).result("Q10").status == "violated"


def test_a_leader_that_comes_back_with_another_directory_is_another_one() -> None:
    """Shows that where voters are known by their directories a wiped disk does not excuse the one who has it still."""
    trace = TraceBuilder()
    trace.emit(LEADER, QVoters("a", 0, 1, 1, {"101": "a", "102": "b"}, 1, 0, "start"))
    trace.role(LEADER, 7, "leader", 101, directory="a")
    trace.up(LEADER, "controller", wiped=True, directory="z")
    trace.role(LEADER, 7, "leader", 101, directory="z")
    assert trace.result("Q12").status == "vacuous"
    trace.up(LEADER, "controller", wiped=True, directory="a")
    trace.role(LEADER, 7, "leader", 101, directory="a")
    assert trace.result("Q12").status == "violated"


def test_what_a_wiped_majority_committed_may_be_committed_again() -> None:
    """Shows that Q9 allows a lower high watermark after such a loss, and only then."""
    for third_has_it, status in ((False, "excused"), (True, "violated")):
        trace = lost_with_a_disk(third_has_it)
        trace.append(FOLLOWER, "x", epoch=2, tp=METADATA_PARTITION)
        trace.high_watermark(FOLLOWER, 1, 2, METADATA_PARTITION)
        trace.high_watermark(LEADER, 2, 1, METADATA_PARTITION)
        found = trace.result("Q9")
        assert (found.status if found.violated else "excused") == status
        assert bool(found.excused) == (status == "excused")


def test_what_was_never_on_disk_is_no_excuse() -> None:
    """Shows that a voter which loses what it had not synced gives nobody leave to lose it."""
    trace = TraceBuilder()
    committed(trace, 1)
    copied(trace, FOLLOWER, 1)
    trace.down(FOLLOWER, "lossy", lost={METADATA_PARTITION: 0})
    trace.logs[METADATA_PARTITION, FOLLOWER] = [(0, 0)]
    trace.role(FOLLOWER, 2, "leader", 102)
    assert trace.result("Q10").status == "violated"


# ---- Q16 -------------------------------------------------------------------------------------------------------


def test_a_controller_in_office() -> None:
    """Shows that everything a controller writes is a test, and what followers append is none."""
    trace = TraceBuilder()
    trace.role(LEADER, 1, "leader", 101)
    trace.change(1, 0)
    trace.registered(1)
    trace.emit(LEADER, ConfigChange(3, 1, "topic/orders", "k", "v"))
    trace.append(LEADER, "m", epoch=1, tp=METADATA_PARTITION)
    trace.append(FOLLOWER, "m", epoch=1, tp=METADATA_PARTITION, role="follower")
    result = trace.result("Q16")
    assert (result.status, result.tested) == ("held", 4)


@pytest.mark.parametrize(("offset", "status"), [(3, "held"), (2, "violated")])
def test_a_controller_begins_with_all_that_its_log_had(offset: int, status: str) -> None:
    """Shows that the state with which it begins reaches to where the log ended at the election; what it hands over
    later, or makes a snapshot of, is no beginning."""
    trace = TraceBuilder()
    trace.role(LEADER, 1, "leader", 101, 3)
    begun = trace.emit(LEADER, MetaState("active", offset))
    trace.emit(LEADER, MetaState("snapshot", 1))
    trace.emit(LEADER, MetaState("standby", 1))
    result = trace.result("Q16")
    assert (result.status, result.tested) == (status, 1)
    for found in result.violations:
        assert found.events[-1] == begun
        assert found.sentence == (
            "the controller of controller-1 began in epoch 1 with a state up to 2, but the log ended at 3 when its "
            "node was elected"
        )


def test_a_controller_out_of_office() -> None:
    """Shows that an act after a resignation, in another epoch, or in the next incarnation violates Q16."""
    trace = TraceBuilder()
    trace.role(LEADER, 1, "leader", 101)
    ended = trace.role(LEADER, 1, "resigned", 101)
    change = trace.change(1, 0)
    found = trace.result("Q16").violations[0]
    assert (found.events, found.sentence) == (
        [ended, change],
        "controller-1 changed a partition as leader of epoch 1, but it does not lead the quorum",
    )
    other = TraceBuilder()
    other.role(LEADER, 2, "leader", 101)
    other.append(LEADER, "m", epoch=1, tp=METADATA_PARTITION)
    assert other.result("Q16").violations[0].sentence == (
        "controller-1 appended to the metadata log as leader of epoch 1, but it leads epoch 2"
    )
    later = TraceBuilder()
    later.role(LEADER, 1, "leader", 101)
    later.up(LEADER, "controller")
    later.emit(LEADER, BrokerReg(1, 7, "i", False, False, False, 1))
    assert (
        later.result("Q16").violations[0].sentence
        == "controller-1 changed a registration, but it does not lead the quorum"
    )


def test_a_removed_leader_goes_with_the_commit() -> None:
    """Shows that a leader may commit its own removal, and that whatever it writes or commits after that violates Q15;
    a role that it takes up ends the matter."""
    trace = TraceBuilder()
    after = {"102": "b", "103": "c"}
    elected(trace)
    trace.append(LEADER, "m", epoch=1, tp=METADATA_PARTITION)
    trace.emit(LEADER, QVoters(f"dir-{LEADER}", 1, 1, 1, after, 2, 1, "append"))
    trace.append(LEADER, "m", epoch=1, tp=METADATA_PARTITION)
    trace.high_watermark(LEADER, 1, 1, METADATA_PARTITION)
    trace.append(LEADER, "m", epoch=1, tp=METADATA_PARTITION)
    done = trace.high_watermark(LEADER, 2, 1, METADATA_PARTITION)
    assert trace.result("Q15").status == "held"
    more = trace.append(LEADER, "m", epoch=1, tp=METADATA_PARTITION)
    found = trace.result("Q15").violations[0]
    assert (found.events, found.sentence) == (
        [done, more],
        "controller-1 appended to the metadata log after its own removal from the voters was committed",
    )
    trace.events.pop()
    trace.role(LEADER, 1, "resigned", 101)
    assert trace.result("Q15").status == "held"
