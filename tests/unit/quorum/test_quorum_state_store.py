"""The file quorum-state in both of its versions."""

from __future__ import annotations

import pytest

from actors.quorum.quorum_state_store import ElectionState, read_election_state, write_election_state
from actors.quorum.voter_set import ReplicaKey


def test_what_each_version_keeps() -> None:
    """Shows that version 0 keeps the voters and forgets the voted directory, and version 1 the reverse (E-056)."""
    election = ElectionState(2, 1, ReplicaKey(1, "dirA"))
    zero, one = (write_election_state(election, [1, 2, 3], version) for version in (0, 1))
    assert read_election_state(zero) == ElectionState(2, 1, ReplicaKey(1))
    assert read_election_state(one) == election
    assert b'"currentVoters":[{"voterId":1},{"voterId":2},{"voterId":3}]' in zero
    assert b"currentVoters" not in one


@pytest.mark.parametrize("version", [0, 1])
def test_nothing_known_is_nothing_read(version: int) -> None:
    """Shows that an unknown leader and no vote survive writing and reading."""
    assert read_election_state(write_election_state(ElectionState(7), [], version)) == ElectionState(7)
