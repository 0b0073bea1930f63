"""Whom a voter gives its vote that has given it before (Kafka's UnattachedStateWithVoteTest)."""

from __future__ import annotations

import pytest

from actors.node.step import Step
from actors.quorum.quorum_state import QuorumState
from actors.quorum.roles import Prospective, Role, Unattached
from actors.quorum.voter_set import ReplicaKey


@pytest.mark.parametrize(
    ("voted", "candidate", "granted"),
    [
        (ReplicaKey(1), ReplicaKey(1), True),
        (ReplicaKey(1), ReplicaKey(1, "a"), True),
        (ReplicaKey(1), ReplicaKey(2), False),
        (ReplicaKey(1, "a"), ReplicaKey(1, "a"), True),
        (ReplicaKey(1, "a"), ReplicaKey(1, "b"), False),
        (ReplicaKey(1, "a"), ReplicaKey(1), False),
        (ReplicaKey(1, "a"), ReplicaKey(2, "a"), False),
    ],
)
def test_the_vote_is_for_one_directory(voted: ReplicaKey, candidate: ReplicaKey, granted: bool) -> None:
    """Shows that a vote for a directory is not given again to who names another, or none, whatever its log."""
    roles: tuple[Role, ...] = (Unattached(5, -1, voted), Prospective(5, -1, voted))
    for role in roles:
        for up_to_date in (True, False):
            state = QuorumState(role=role)
            assert state.can_grant_vote(candidate, up_to_date, pre_vote=False, step=Step(0)) == granted
