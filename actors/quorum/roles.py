"""The roles of a quorum member, named as in Kafka (``UnattachedState.java``, ``LeaderState.java``, ...).

A role is plain data for one epoch. ``QuorumState`` alone replaces one role by another.
"""

from __future__ import annotations

import msgspec

from actors.quorum.voter_set import ReplicaKey, VoterSet


class EpochElection(msgspec.Struct):
    """Tally of one election: the voters that granted and that rejected (``EpochElection.java``)."""

    granting: list[int] = []
    rejecting: list[int] = []

    def record(self, voter: int, granted: bool) -> None:
        """Note the answer of ``voter``; its first answer counts, as a voter counts once."""
        if voter not in self.granting and voter not in self.rejecting:
            (self.granting if granted else self.rejecting).append(voter)

    def unrecorded(self, voters: VoterSet) -> list[int]:
        """The voters that have not answered."""
        return [voter for voter in voters.ids if voter not in self.granting and voter not in self.rejecting]

    def is_granted(self, voters: VoterSet) -> bool:
        """Whether a majority granted."""
        return len(self.granting) >= voters.majority

    def is_rejected(self, voters: VoterSet) -> bool:
        """Whether so many rejected that no majority can grant."""
        return len(voters.ids) - len(self.rejecting) < voters.majority


class Unattached(msgspec.Struct, tag="unattached"):
    """Knows the epoch but no leader it could fetch from. ``leader_id``: a leader whose endpoint is unknown."""

    epoch: int = 0
    leader_id: int = -1
    voted: ReplicaKey | None = None


class Prospective(msgspec.Struct, tag="prospective"):
    """Asks for PreVotes; the epoch stays (KIP-996). Keeps the leader and the vote that it had. ``has_endpoint``: it
    knows where that leader listens."""

    epoch: int
    leader_id: int = -1
    voted: ReplicaKey | None = None
    election: EpochElection = msgspec.field(default_factory=EpochElection)
    has_endpoint: bool = False


class Candidate(msgspec.Struct, tag="candidate"):
    """Asks for votes. ``retries`` and ``backing_off`` matter without PreVote only."""

    epoch: int
    election: EpochElection = msgspec.field(default_factory=EpochElection)
    retries: int = 1
    backing_off: bool = False


class ReplicaProgress(msgspec.Struct):
    """What a leader knows of a replica: its log end (-1 unknown) and when it last fetched (-1 never) and was
    last caught up, in node time (``LeaderState.ReplicaState``)."""

    end_offset: int = -1
    last_fetch_ms: int = -1
    last_caught_up_ms: int = -1
    leader_end_at_last_fetch: int = -1
    directory_id: str = ""


class Leader(msgspec.Struct, tag="leader"):
    """Leads its epoch, whose first offset is ``epoch_start``.

    started: the LeaderChange record was appended. high_watermark_known: the rule held once. replicas: the voters that
    fetched, and this node if it is one, by id. observers: the other replicas that fetched, by key (a voter's id with
    another directory is no voter). fetched: voters that fetched since check-quorum was last satisfied. begin_due:
    voters to send BeginQuorumEpoch to.
    """

    epoch: int
    epoch_start: int
    granting: list[int]
    started: bool = False
    high_watermark_known: bool = False
    replicas: dict[int, ReplicaProgress] = {}
    observers: dict[str, ReplicaProgress] = {}
    fetched: list[int] = []
    begin_due: list[int] = []

    def progress(self, voters: VoterSet, key: ReplicaKey) -> ReplicaProgress:
        """What is known of a replica, now also if nothing was before."""
        if voters.has(key):
            known = self.replicas.setdefault(key.id, ReplicaProgress())
        else:
            known = self.observers.setdefault(str(key), ReplicaProgress())
        known.directory_id = key.directory_id or known.directory_id
        return known

    def follow_voters(self, voters: VoterSet) -> None:
        """Other voters are in force: a replica that was an observer may be a voter now, and the other way round
        (``LeaderState.updateVoterAndObserverStates``)."""
        known = {
            **self.observers,
            **{str(ReplicaKey(replica, each.directory_id)): each for replica, each in self.replicas.items()},
        }
        keys = {voter: str(voters.key(voter)) for voter in voters.ids}
        self.replicas = {voter: known.pop(key) for voter, key in keys.items() if key in known}
        self.observers = known
        self.fetched = [voter for voter in self.fetched if voter in voters.ids]
        self.begin_due = [voter for voter in self.begin_due if voter in voters.ids]

    def voters_by_descending_end(self, voters: list[int]) -> list[int]:
        """``voters``, those with the longest logs first: they make the best successors."""
        ends = {voter: self.replicas[voter].end_offset if voter in self.replicas else -1 for voter in voters}
        return sorted(voters, key=lambda voter: (-ends[voter], voter))


class Follower(msgspec.Struct, tag="follower"):
    """Fetches from ``leader_id``. has_fetched: a Fetch from this leader was answered. timed_out: an observer's fetch
    timeout is over and it asks the bootstrap servers who leads. resigned: the leader has told it that it resigned."""

    epoch: int
    leader_id: int
    voted: ReplicaKey | None = None
    has_fetched: bool = False
    timed_out: bool = False
    resigned: bool = False


class Resigned(msgspec.Struct, tag="resigned"):
    """Led this epoch and gave it up. ``unacknowledged``: voters that must still hear EndQuorumEpoch;
    ``preferred``: successors, best first."""

    epoch: int
    unacknowledged: list[int] = []
    preferred: list[int] = []


Role = Unattached | Prospective | Candidate | Leader | Follower | Resigned
