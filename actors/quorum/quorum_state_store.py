"""The durable part of a quorum member's state: the file ``quorum-state`` (``FileQuorumStateStore.java``)."""

from __future__ import annotations

import msgspec

from actors.quorum.voter_set import ReplicaKey

QUORUM_STATE_FILE = "quorum-state"


class ElectionState(msgspec.Struct, frozen=True):
    """Epoch, leader (-1 unknown) and vote of a member (``ElectionState.java``)."""

    epoch: int = 0
    leader_id: int = -1
    voted: ReplicaKey | None = None

    @property
    def voted_id(self) -> int:
        """Id voted for, -1 none."""
        return -1 if self.voted is None else self.voted.id


class _CurrentVoter(msgspec.Struct):
    voterId: int


class _Version0(msgspec.Struct):
    """kraft.version 0: has the voters, forgets the directory that was voted for."""

    leaderId: int
    leaderEpoch: int
    votedId: int
    currentVoters: list[_CurrentVoter]
    clusterId: str = ""
    appliedOffset: int = 0
    data_version: int = 0


class _Version1(msgspec.Struct):
    """kraft.version 1: the voters are in the log; the directory is kept."""

    leaderId: int
    leaderEpoch: int
    votedId: int
    votedDirectoryId: str
    data_version: int = 1


class _DataVersion(msgspec.Struct):
    data_version: int


def write_election_state(election: ElectionState, voters: list[int], kraft_version: int) -> bytes:
    """The file's content for a cluster at ``kraft_version`` 0 or 1."""
    if kraft_version == 0:
        current = [_CurrentVoter(voter) for voter in voters]
        return msgspec.json.encode(_Version0(election.leader_id, election.epoch, election.voted_id, current))
    directory_id = "" if election.voted is None else election.voted.directory_id
    return msgspec.json.encode(_Version1(election.leader_id, election.epoch, election.voted_id, directory_id))


def read_election_state(content: bytes) -> ElectionState:
    """What ``write_election_state`` kept. Raises msgspec.ValidationError for another content."""
    if msgspec.json.decode(content, type=_DataVersion).data_version == 0:
        zero = msgspec.json.decode(content, type=_Version0)
        voted = None if zero.votedId < 0 else ReplicaKey(zero.votedId)
        return ElectionState(zero.leaderEpoch, zero.leaderId, voted)
    one = msgspec.json.decode(content, type=_Version1)
    voted = None if one.votedId < 0 else ReplicaKey(one.votedId, one.votedDirectoryId)
    return ElectionState(one.leaderEpoch, one.leaderId, voted)
