"""Tallies, and the arithmetic of majorities."""

from __future__ import annotations

from actors.quorum.roles import EpochElection, Leader, ReplicaProgress
from actors.quorum.voter_set import ReplicaKey, VoterSet


def test_a_voter_counts_once() -> None:
    """Shows that a second answer of a voter, whatever it says, changes nothing."""
    voters, election = VoterSet([1, 2, 3]), EpochElection([1])
    election.record(2, False)
    election.record(2, True)
    assert not election.is_granted(voters) and not election.is_rejected(voters)
    election.record(3, False)
    assert election.is_rejected(voters) and election.unrecorded(voters) == []


def test_majorities_of_even_quorums() -> None:
    """Shows that two of four voters decide nothing, and that two rejections decide against."""
    voters, election = VoterSet([1, 2, 3, 4]), EpochElection([1, 2])
    assert not election.is_granted(voters)
    election.record(3, False)
    assert not election.is_rejected(voters)
    election.record(4, False)
    assert election.is_rejected(voters)


def test_keys_match_where_both_know_the_directory() -> None:
    """Shows that an unknown directory matches any, and a known one only itself."""
    assert ReplicaKey(1).matches(ReplicaKey(1, "a")) and ReplicaKey(1, "a").matches(ReplicaKey(1))
    assert not ReplicaKey(1, "a").matches(ReplicaKey(1, "b")) and not ReplicaKey(1).matches(ReplicaKey(2))


def test_the_longest_log_succeeds() -> None:
    """Shows that successors are listed by their log ends, unknown ones last, and by id where they are equal."""
    leader = Leader(1, 0, [1], replicas={2: ReplicaProgress(5), 3: ReplicaProgress(9), 5: ReplicaProgress(5)})
    assert leader.voters_by_descending_end([2, 3, 4, 5]) == [3, 2, 5, 4]
