"""Q20: how voters decide on votes, by the tables of Kafka's UnattachedStateTest, ProspectiveStateTest,
FollowerStateTest, CandidateStateTest, LeaderStateTest and ResignedStateTest (canGrantVote)."""

from __future__ import annotations

import pytest

from actors.node.spec import METADATA_PARTITION
from actors.trace.events import RepFetch
from tests.unit.invariants.trace_builder import TraceBuilder

VOTER = "controller-2"
BEHIND, LEVEL, AHEAD = (1, 1), (1, 2), (2, 1)
"""Last epoch and end of a candidate's log, by that of the voter, which is LEVEL."""


def follows(role: str, leader: int = -1, epoch: int = 3) -> TraceBuilder:
    """A voter with two records of epoch 1, in that role."""
    trace = TraceBuilder()
    trace.up(VOTER, "controller")
    trace.append(VOTER, "a", "b", epoch=1, tp=METADATA_PARTITION, role="follower")
    trace.role(VOTER, epoch, role, leader, 2)
    return trace


@pytest.mark.parametrize(
    ("role", "leader", "asks", "pre", "expected"),
    [
        *((role, -1, BEHIND, pre, False) for role in ("unattached", "prospective") for pre in (True, False)),
        *((role, -1, asks, pre, True) for role in ("unattached", "prospective") for pre in (True, False)
          for asks in (LEVEL, AHEAD)),
        *((role, 103, AHEAD, False, False) for role in ("unattached", "prospective", "follower")),
        *((role, 103, AHEAD, True, True) for role in ("unattached", "prospective", "follower")),
        *((role, -1, AHEAD, False, False) for role in ("candidate", "resigned", "leader")),
        *((role, -1, AHEAD, True, True) for role in ("candidate", "resigned")),
        ("follower", 103, BEHIND, True, False),
        ("leader", 102, AHEAD, True, False),
    ],
)  # fmt: skip
def test_a_vote_is_decided_by_role_and_log(
    role: str, leader: int, asks: tuple[int, int], pre: bool, expected: bool
) -> None:
    """Shows that what Kafka decides holds, and that the other decision violates Q20, refusals too."""
    for granted in (True, False):
        trace = follows(role, leader)
        trace.vote(VOTER, 3, 101, granted, pre, asks, LEVEL)
        result = trace.result("Q20")
        assert (result.status, result.tested) == ("held" if granted == expected else "violated", 1)


def test_a_follower_that_is_served_promises_nothing() -> None:
    """Shows that a leader's records make a follower refuse votes beforehand (KIP-996)."""
    for granted in (False, True):
        wrong = follows("follower", 103)
        wrong.append(VOTER, "c", epoch=3, tp=METADATA_PARTITION, role="follower")
        wrong.vote(VOTER, 3, 101, granted, True, (3, 3), (3, 3))
        assert wrong.result("Q20").status == ("violated" if granted else "held")
    assert wrong.result("Q20").violations[0].sentence == (
        "controller-2 granted controller-1 a pre-vote in epoch 3; the voter follows controller-3, which has answered it"
    )


def test_a_follower_that_is_heard_may_have_been_served() -> None:
    """Shows that either answer to a vote beforehand is right once a leader of the epoch has taken note of a fetch: what
    was parked is refused when the leader resigns. Nobody whose log is behind gets it."""
    for epoch, asks, granted, status in (
        (3, AHEAD, False, "held"),
        (3, AHEAD, True, "held"),
        (3, BEHIND, True, "violated"),
        (2, AHEAD, True, "held"),
        (2, AHEAD, False, "violated"),
    ):
        trace = follows("follower", 103)
        trace.emit("controller-3", RepFetch(METADATA_PARTITION, 102, epoch, epoch, -1, 2, 1))
        trace.vote(VOTER, 3, 101, granted, True, asks, LEVEL)
        assert trace.result("Q20").status == status


def test_the_same_vote_again() -> None:
    """Shows that a vote is given again to who has it, whatever its log: to the same directory alone, and to nobody
    else, over a restart too."""
    for restarts in (False, True):
        for candidate, directory, granted in ((101, "", True), (101, "other", False), (103, "", False)):
            for says in (True, False):
                trace = follows("unattached")
                trace.vote(VOTER, 3, 101, True, False, LEVEL, LEVEL)
                if restarts:
                    trace.up(VOTER, "controller")
                    trace.role(VOTER, 3, "unattached", log_end=2)
                trace.vote(VOTER, 3, candidate, says, False, BEHIND, LEVEL, directory)
                result = trace.result("Q20")
                assert (result.status == "held") == (says == granted), (restarts, candidate, directory, says)


def test_a_vote_that_only_the_disk_tells_of() -> None:
    """Shows that a vote on the disk counts as given, with whatever directory, and is gone with the disk."""
    trace = follows("unattached")
    trace.persist(VOTER, 3, voted=101)
    trace.up(VOTER, "controller")
    trace.role(VOTER, 3, "unattached", log_end=2)
    trace.vote(VOTER, 3, 103, False, False, AHEAD, LEVEL)
    trace.vote(VOTER, 3, 101, True, False, LEVEL, LEVEL)
    assert trace.result("Q20").status == "held"
    trace.up(VOTER, "controller", wiped=True)
    trace.truncate(VOTER, 0, METADATA_PARTITION)
    trace.role(VOTER, 3, "unattached")
    trace.vote(VOTER, 3, 103, True, False, AHEAD)
    assert trace.result("Q20").status == "held"


def test_the_epoch_asked_for_and_the_voters_own_log() -> None:
    """Shows that a voter takes up the epoch first, decides in its own, and by the log that it has."""
    stays = follows("unattached")
    stays.vote(VOTER, 3, 101, False, False, BEHIND, LEVEL, wanted=4)
    assert (
        stays.result("Q20").violations[0].sentence.endswith("in epoch 3; the candidate had asked for a vote in epoch 4")
    )
    other = follows("unattached")
    other.vote(VOTER, 4, 101, False, False, BEHIND, LEVEL)
    assert other.result("Q20").violations[0].sentence.endswith("in epoch 4; the voter was unattached in epoch 3")
    shorter = follows("unattached")
    shorter.vote(VOTER, 3, 101, True, False, BEHIND, BEHIND)
    assert (
        shorter.result("Q20")
        .violations[0]
        .sentence.endswith(
            "the vote counts on a log of the voter up to 1 with epoch 1, but its log ends at 2 with epoch 1"
        )
    )


def test_what_is_no_test() -> None:
    """Shows that a candidate's own vote is none, nor is a decision of a member whose role the trace does not tell."""
    trace = follows("candidate")
    trace.vote(VOTER, 3, 102, True, False, LEVEL, LEVEL)
    trace.vote("controller-3", 3, 102, True)
    assert trace.result("Q20").status == "vacuous"


@pytest.mark.parametrize(("end", "status"), [(2, "held"), (3, "violated"), (1, "violated")])
@pytest.mark.parametrize("pre", [False, True])
def test_a_candidate_names_the_end_of_its_own_log(pre: bool, end: int, status: str) -> None:
    """Shows that neither a longer nor a shorter log may be named, in a vote and beforehand; and that of a candidate
    whose role is not in the trace nothing is judged."""
    trace = follows("unattached")
    trace.role("controller-1", 3, "prospective" if pre else "candidate", -1, 2, "dir-controller-1")
    trace.vote(VOTER, 3, 101, end >= 2, pre, (1, end), LEVEL)
    result = trace.result("Q20")
    assert (result.status, result.tested) == (status, 1)
    unknown = follows("unattached")
    unknown.vote(VOTER, 3, 101, end >= 2, pre, (1, end), LEVEL)
    assert unknown.result("Q20").status == "held"


def test_a_candidate_may_have_stood_with_several_logs() -> None:
    """Shows that a request that comes late counts by the log of its own time, by the directory of that log, and that a
    candidacy beforehand says nothing of one of the same epoch."""
    trace = follows("unattached")
    trace.role("controller-1", 3, "candidate", -1, 3)
    trace.role("controller-1", 3, "candidate", -1, 2)
    trace.vote(VOTER, 3, 101, True, False, (1, 3), LEVEL)
    assert trace.result("Q20").status == "held"
    trace.role("controller-1", 3, "candidate", -1, 7, "another")
    trace.vote(VOTER, 3, 101, True, False, (1, 7), LEVEL)
    (finding,) = trace.result("Q20").violations
    assert finding.sentence == (
        "controller-1 asked controller-2 for its vote in epoch 3 with a log up to 7, but its log ended at 2"
    )
    other = follows("unattached")
    other.role("controller-1", 3, "prospective", -1, 5)
    other.vote(VOTER, 3, 101, True, False, (1, 2), LEVEL)
    assert other.result("Q20").status == "held"
