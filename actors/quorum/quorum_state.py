"""Who a quorum member is in its epoch: every change of role, and what of it must be on disk first.

Nothing outside this file replaces a role. The legal changes are the table ``TRANSITIONS``; any other is a bug and
raises AssertionError, so handlers ask before they act on what a peer says (``QuorumState.java``).

A change of role takes effect in memory at once. Except for those to Prospective and Resigned it must be durable
before anybody may learn of it: until the Sync of ``quorum-state`` is reported the owner gives no further input to
this component, and replies and trace events that depend on the change are held here.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from actors.node.messages import AnyResponse
from actors.node.step import Step
from actors.node.turn import NodeTurn
from actors.quorum.control_records import ControlRecords
from actors.quorum.quorum_state_store import (
    QUORUM_STATE_FILE,
    ElectionState,
    read_election_state,
    write_election_state,
)
from actors.quorum.raft_config import UNCONFIGURED, RaftConfig
from actors.quorum.roles import (
    Candidate,
    EpochElection,
    Follower,
    Leader,
    Prospective,
    ReplicaProgress,
    Resigned,
    Role,
    Unattached,
)
from actors.quorum.voter_set import ReplicaKey, VoterSet
from actors.trace.events import AnyTraceEvent, QPersist, QRole


class OffsetAndEpoch(msgspec.Struct, frozen=True):
    """Where a log ends: its end offset, and the epoch of its last record, 0 if empty (``OffsetAndEpoch.java``)."""

    offset: int
    epoch: int


RoleName = Literal["unattached", "prospective", "candidate", "leader", "follower", "resigned"]
EpochChange = Literal["same", "next", "higher", "same or higher"]

TRANSITIONS: dict[tuple[RoleName, RoleName], EpochChange] = {
    ("unattached", "unattached"): "same or higher",  # same: a vote was granted
    ("unattached", "prospective"): "same",  # election timeout
    ("unattached", "follower"): "same or higher",
    ("prospective", "unattached"): "same or higher",  # same: lost, and no leader is known
    ("prospective", "prospective"): "same",  # a vote was granted
    ("prospective", "candidate"): "next",
    ("prospective", "follower"): "same or higher",  # same: lost, or the leader was found
    ("candidate", "unattached"): "higher",
    ("candidate", "prospective"): "same",  # election timeout
    ("candidate", "leader"): "same",
    ("candidate", "follower"): "same or higher",
    ("leader", "unattached"): "higher",
    ("leader", "follower"): "higher",
    ("leader", "resigned"): "same",
    ("follower", "unattached"): "higher",
    ("follower", "prospective"): "same",  # fetch timeout
    ("follower", "follower"): "higher",
    ("resigned", "unattached"): "higher",  # by one at the election timeout
    ("resigned", "prospective"): "same",  # at the start of a lone voter
    ("resigned", "follower"): "higher",
}
"""(from, to) -> what becomes of the epoch."""

TRANSITIONS_WITHOUT_PRE_VOTE: dict[tuple[RoleName, RoleName], EpochChange] = {
    ("unattached", "candidate"): "next",
    ("follower", "candidate"): "next",
    ("candidate", "candidate"): "next",
    ("resigned", "candidate"): "next",
}
"""Added to the table where the feature kip-996 is off; ("unattached", "prospective") and the like are then unused."""

TRANSITIONS_OF_SEED_PROGRESS: dict[tuple[RoleName, RoleName], EpochChange] = {
    ("leader", "candidate"): "next",  # too few fetched
}
"""Added to the table where kip-595.leader-progress is ``seed``, in which a leader resigns for that only where it is no
voter any more."""

ELECTION = "raft/election"
FETCH_TIMEOUT = "raft/fetch-timeout"
CHECK_QUORUM = "raft/check-quorum"
BEGIN_QUORUM = "raft/begin-quorum"
UPDATE_VOTER = "raft/update-voter"

TIMERS: dict[RoleName, tuple[str, ...]] = {
    "unattached": (ELECTION,),
    "prospective": (ELECTION,),
    "candidate": (ELECTION,),
    "leader": (CHECK_QUORUM, BEGIN_QUORUM),
    "follower": (FETCH_TIMEOUT,),
    "resigned": (ELECTION,),
}
"""The timers a role lives with; a change of role stops the others. (UPDATE_VOTER of a follower runs on: it finds that
there is nothing to do.)"""


class HeldReply(msgspec.Struct, frozen=True, tag=True):
    """A reply that waits for the Sync."""

    connection: str
    response: AnyResponse


class HeldRecord(msgspec.Struct, frozen=True, tag=True):
    """A trace event that waits for the Sync."""

    event: AnyTraceEvent


def role_name(role: Role) -> RoleName:
    """The name under which a role is traced."""
    name: RoleName = role.__struct_config__.tag  # type: ignore[assignment]  # the tags are these names
    return name


def is_legal(source: Role, target: Role, pre_vote: bool, seed_progress: bool = False) -> bool:
    """Whether the table has the change from ``source`` to ``target``; the features may add to it."""
    pair = (role_name(source), role_name(target))
    rule = TRANSITIONS.get(pair)
    if rule is None and not pre_vote:
        rule = TRANSITIONS_WITHOUT_PRE_VOTE.get(pair)
    if rule is None and seed_progress:
        rule = TRANSITIONS_OF_SEED_PROGRESS.get(pair)
    step = target.epoch - source.epoch
    return (
        (rule == "same" and step == 0)
        or (rule == "next" and step == 1)
        or (rule == "higher" and step > 0)
        or (rule == "same or higher" and step >= 0)
    )


class QuorumState(msgspec.Struct):
    """A member's role, and the gate between a change of role and its becoming known.

    term: how many roles there were before this one, in whichever epochs: what was asked in an earlier one is of no
    interest any more. dirty: the role differs from what was last written. syncing: number of the write whose Sync is
    open, else 0. records: what the log says of the voters.
    """

    config: RaftConfig = UNCONFIGURED
    role: Role = msgspec.field(default_factory=Unattached)
    term: int = 0
    dirty: bool = False
    syncing: int = 0
    written: ElectionState = ElectionState()
    held: list[HeldReply | HeldRecord] = []
    records: ControlRecords = msgspec.field(default_factory=ControlRecords)

    # ---- what it is --------------------------------------------------------------------------------------

    @property
    def voters(self) -> VoterSet:
        """The voters in force."""
        return self.records.voters

    @property
    def is_voter(self) -> bool:
        """Whether this replica is one of them."""
        return self.voters.has(self.config.key)

    @property
    def may_stand(self) -> bool:
        """Whether this replica may come to stand for election: it is a voter, or, with the mend, its log still has the
        voters before the last change, of whom it was one."""
        return self.is_voter or (self.config.removed_stands and self.records.had_voter(self.config.key))

    @property
    def epoch(self) -> int:
        """The quorum epoch."""
        return self.role.epoch

    @property
    def leader_id(self) -> int:
        """Leader of the epoch as this node tells others, -1 unknown. A resigned leader still names itself."""
        role = self.role
        if isinstance(role, Follower):  # first: every step of a broker asks
            return role.leader_id
        if isinstance(role, Leader | Resigned):
            return self.config.node_id
        return -1 if isinstance(role, Candidate) else role.leader_id

    @property
    def has_leader(self) -> bool:
        """Whether the leader of the epoch is known."""
        return self.leader_id >= 0

    @property
    def knows_endpoint(self) -> bool:
        """Whether this node knows where the leader that it knows listens."""
        role = self.role
        if isinstance(role, Prospective):
            return role.has_endpoint or self.voters.is_voter(role.leader_id)
        return not isinstance(role, Unattached)

    @property
    def election_state(self) -> ElectionState:
        """What must be durable of the present role."""
        role = self.role
        if isinstance(role, Candidate):
            return ElectionState(role.epoch, -1, self.config.key)
        if isinstance(role, Leader | Resigned):
            return ElectionState(role.epoch, self.config.node_id)
        return ElectionState(role.epoch, role.leader_id, role.voted)

    def is_consistent_leader(self, epoch: int, leader_id: int) -> bool:
        """Whether a claim that ``leader_id`` (-1 none) leads ``epoch`` contradicts nothing this node knows."""
        if leader_id == self.config.node_id:
            return isinstance(self.role, Leader) and epoch == self.epoch
        return epoch != self.epoch or leader_id < 0 or self.leader_id in (-1, leader_id)

    def can_grant_vote(self, candidate: ReplicaKey, up_to_date: bool, pre_vote: bool, step: Step) -> bool:
        """Whether this node grants a vote of its present epoch. ``up_to_date``: the candidate's log is not behind."""
        role = self.role
        if pre_vote:
            if "pre-vote-for-all" in step.defects:
                return True
            if isinstance(role, Follower):
                return up_to_date and (not role.has_fetched or "pre-vote-while-followed" in step.defects)
            keeps = isinstance(role, Prospective) and "prospective-refuses" in step.defects
            return up_to_date and not isinstance(role, Leader) and not keeps
        if not isinstance(role, Unattached | Prospective):
            return False
        if role.voted is not None and "double-vote" not in step.defects:
            # The log is not compared again: this is the same vote, whose answer was lost.
            return role.voted.id == candidate.id and role.voted.directory_id in ("", candidate.directory_id)
        return role.leader_id < 0 and up_to_date

    # ---- start -------------------------------------------------------------------------------------------

    def initialize(self, step: Step, config: RaftConfig, stored: bytes | None, log_end: OffsetAndEpoch) -> None:
        """Take up the role that the disk calls for; never Leader."""
        self.config = config
        election, log_epoch = ElectionState() if stored is None else read_election_state(stored), log_end.epoch
        if "epoch-reset" in step.defects:
            election, log_epoch = ElectionState(), 0
        role = self._initial_role(election, log_epoch)
        if "leader-resumes" in step.defects and isinstance(role, Resigned):
            role = Leader(role.epoch, log_end.offset, [], replicas={config.node_id: ReplicaProgress()})
        self._enter(step, role, log_end)
        if self.voters.is_only_voter(config.key) and isinstance(self.role, Unattached | Resigned):
            step.set_timer(ELECTION, 0, wall=True)  # there is nobody to wait for
        elif isinstance(self.role, Follower):
            self._start_follower_timers(step)
        elif isinstance(self.role, Resigned):
            self._set_election_timer(step)
        else:
            self._start_election_timer(step)

    def _initial_role(self, election: ElectionState, log_epoch: int) -> Role:
        me = self.config.key
        if election.epoch < log_epoch:
            return Unattached(log_epoch)
        if election.leader_id == me.id and me.id >= 0:
            # Records of this epoch that were not flushed may be lost: this node must not write in it again.
            return Resigned(election.epoch, self.voters.others(me.id))
        if election.voted is not None and me.matches(election.voted) and self.is_voter:
            return Candidate(election.epoch, EpochElection([me.id]))
        if election.leader_id >= 0 and self.voters.is_voter(election.leader_id):
            return Follower(election.epoch, election.leader_id, election.voted)
        return Unattached(election.epoch, election.leader_id, election.voted)

    # ---- transitions -------------------------------------------------------------------------------------

    def transition_to_unattached(self, step: Step, log_end: OffsetAndEpoch, epoch: int, leader_id: int = -1) -> None:
        """A higher epoch whose leader is unknown or has no known endpoint. A running election timer runs on."""
        previous = self.role
        self._change(step, Unattached(epoch, leader_id), log_end)
        if isinstance(previous, Leader | Follower):
            self._start_election_timer(step)

    def add_vote(self, step: Step, log_end: OffsetAndEpoch, candidate: ReplicaKey) -> None:
        """Grant a vote. The timer starts anew: the candidate has as good a chance as this node."""
        role = self.role
        if isinstance(role, Prospective):
            election = self._own_tally()
            again = Prospective(role.epoch, role.leader_id, candidate, election, role.has_endpoint)
            self._change(step, again, log_end)
            self.dirty = True  # this once: a vote must be durable whatever the role
        else:
            self._change(step, Unattached(role.epoch, self.leader_id, candidate), log_end)
        self._start_election_timer(step)

    def transition_to_prospective(self, step: Step, log_end: OffsetAndEpoch) -> None:
        """Begin to ask for PreVotes; the leader and the vote of the epoch are kept, a candidate's own included."""
        election = self.election_state
        tally = self._own_tally()
        knows = isinstance(self.role, Follower)
        voted = None if "standing-forgets-vote" in step.defects else election.voted
        self._change(step, Prospective(election.epoch, election.leader_id, voted, tally, knows), log_end)
        self._start_election_timer(step)

    def transition_to_candidate(self, step: Step, log_end: OffsetAndEpoch) -> None:
        """Raise the epoch and vote for itself."""
        retries = self.role.retries + 1 if isinstance(self.role, Candidate) else 1
        role = Candidate(self.epoch + 1, self._own_tally(), retries)
        self._change(step, role, log_end)
        self._start_election_timer(step)

    def _own_tally(self) -> EpochElection:
        """An election in which this replica is for itself, which counts if it is a voter."""
        return EpochElection([self.config.node_id] if self.is_voter else [])

    def transition_to_leader(self, step: Step, log_end: OffsetAndEpoch) -> None:
        """The election is won: the epoch starts at the log end."""
        role = self.role
        assert isinstance(role, Candidate)
        others = self.voters.others(self.config.node_id)
        me = ReplicaProgress(directory_id=self.config.directory_id)
        replicas = {self.config.node_id: me} if self.is_voter else {}
        leader = Leader(role.epoch, log_end.offset, sorted(role.election.granting), replicas=replicas, begin_due=others)
        self._change(step, leader, log_end)
        self.start_check_quorum(step)
        if others:
            step.set_timer(BEGIN_QUORUM, self.config.fetch_timeout_ms // 2, wall=True)

    def transition_to_follower(self, step: Step, log_end: OffsetAndEpoch, epoch: int, leader_id: int) -> None:
        """Follow ``leader_id``, whose endpoint is known. A vote of the same epoch is kept, but for this node's own:
        with it on disk it would start as a candidate again."""
        role = self.role
        voted = role.voted if isinstance(role, Unattached | Prospective) and role.epoch == epoch else None
        if voted is not None and voted.id == self.config.node_id:
            voted = None
        self._change(step, Follower(epoch, leader_id, voted), log_end)
        self._start_follower_timers(step)

    def transition_to_resigned(self, step: Step, log_end: OffsetAndEpoch) -> None:
        """Give up the leadership. Not written: a stored leader starts as Resigned anyway."""
        role = self.role
        assert isinstance(role, Leader)
        others = self.voters.others(self.config.node_id)
        preferred = role.voters_by_descending_end(others)
        if "shortest-log-succeeds" in step.defects:
            preferred.reverse()
        self._change(step, Resigned(role.epoch, others, preferred), log_end)
        self._set_election_timer(step)  # of a leader that is no voter any more, too

    def lose_pre_vote(self, step: Step, log_end: OffsetAndEpoch) -> None:
        """A Prospective found no majority: back to the leader it knows, or Unattached, in the same epoch."""
        role = self.role
        assert isinstance(role, Prospective)
        if role.has_endpoint or self.voters.is_voter(role.leader_id):
            self.transition_to_follower(step, log_end, role.epoch, role.leader_id)
            return
        self._change(step, Unattached(role.epoch, role.leader_id, role.voted), log_end)
        self._start_election_timer(step)

    def start_check_quorum(self, step: Step) -> None:
        """(Re)start the time in which a majority must fetch. A single voter never misses it, whoever that is
        (``LeaderState.timeUntilCheckQuorumExpires``)."""
        progress, fetch_timeout_ms = self.config.leader_progress, self.config.fetch_timeout_ms
        if progress != "off" and len(self.voters.ids) > 1:
            time_ms = fetch_timeout_ms if progress == "seed" else fetch_timeout_ms * 3 // 2
            step.set_timer(CHECK_QUORUM, time_ms, wall=True)

    def on_voters_changed(self, step: Step, before: VoterSet) -> None:
        """Other voters than ``before`` are in force: a leader counts them from now on. Its timers run on, as only
        fetches put off the check of the quorum; with a single voter there is no check, and with nobody else there is
        nobody to remind (``LeaderState.updateVoterAndObserverStates``, ``timeUntilCheckQuorumExpires``)."""
        role = self.role
        if not isinstance(role, Leader):
            return
        role.follow_voters(self.voters)
        if len(self.voters.ids) == 1:
            step.cancel_timer(CHECK_QUORUM)
        elif len(before.ids) == 1:
            self.start_check_quorum(step)
        was_alone, is_alone = (voters.is_only_voter(self.config.key) for voters in (before, self.voters))
        if is_alone:
            step.cancel_timer(BEGIN_QUORUM)
        elif was_alone:
            step.set_timer(BEGIN_QUORUM, self.config.fetch_timeout_ms // 2, wall=True)

    def _start_follower_timers(self, step: Step) -> None:
        step.set_timer(FETCH_TIMEOUT, self.config.fetch_timeout_ms, wall=True)
        if self.config.serves and self.config.kraft_version > 0:
            step.set_timer(UPDATE_VOTER, self.config.update_voter_period_ms, wall=True)

    def _start_election_timer(self, step: Step) -> None:
        if self.may_stand:
            self._set_election_timer(step)

    def _set_election_timer(self, step: Step) -> None:
        base = self.config.election_timeout_ms
        step.set_timer(ELECTION, base, max(base, 2 * base - 1), wall=True)

    def _change(self, step: Step, role: Role, log_end: OffsetAndEpoch) -> None:
        if not is_legal(self.role, role, self.config.pre_vote, self.config.leader_progress == "seed"):
            raise AssertionError(f"no transition from {self.role} to {role}")
        for timer in TIMERS[role_name(self.role)]:
            if timer not in TIMERS[role_name(role)]:
                step.cancel_timer(timer)
        gave_vote_only = type(role) is type(self.role) and role.epoch == self.epoch
        self.term += not gave_vote_only
        self._enter(step, role, None if gave_vote_only else log_end)

    def _enter(self, step: Step, role: Role, log_end: OffsetAndEpoch | None) -> None:
        """Take up a role and say so, unless ``log_end`` is None: a vote alone is no change of role."""
        self.role = role
        if not isinstance(role, Prospective | Resigned):
            self.dirty = True
        if log_end is None:
            return
        votes = role.granting if isinstance(role, Leader) else []
        directory_id, name = self.config.directory_id, role_name(role)
        told = QRole(directory_id, role.epoch, name, self.leader_id, log_end.offset, votes, log_end.epoch)
        self.record(step, told)

    # ---- the gate ----------------------------------------------------------------------------------------

    @property
    def waiting(self) -> bool:
        """Whether the present role is not durable yet."""
        return self.dirty or self.syncing > 0

    def record(self, step: Step, event: AnyTraceEvent) -> None:
        """Record an event that speaks of the present role: now, or when that is durable."""
        if self.waiting:
            self.held.append(HeldRecord(event))
        else:
            step.record(event)

    def reply(self, step: Step, connection: str, response: AnyResponse) -> None:
        """Answer a request: now, or when the present role is durable."""
        if self.waiting:
            self.held.append(HeldReply(connection, response))
        else:
            step.reply(connection, response)

    def settle(self, turn: NodeTurn) -> None:
        """At the end of an input: write and sync what changed."""
        if not self.dirty:
            return
        self.dirty = False
        self.written = self.election_state
        content = write_election_state(self.written, self.voters.ids, self.records.kraft_version)
        self.syncing = turn.files.replace(turn.step, QUORUM_STATE_FILE, content)
        turn.files.sync(turn.step, QUORUM_STATE_FILE)
        if "vote-before-sync" in turn.step.defects:
            self._release(turn.step)

    def on_synced(self, step: Step, upto: int) -> None:
        """The file is durable up to write ``upto``: let go what waited for it."""
        if not self.syncing or upto < self.syncing:
            return
        self.syncing = 0
        state = self.written
        step.record(QPersist(self.config.directory_id, state.epoch, state.leader_id, state.voted_id))
        self._release(step)

    def _release(self, step: Step) -> None:
        held, self.held = self.held, []
        for item in held:
            if isinstance(item, HeldReply):
                step.reply(item.connection, item.response)
            else:
                step.record(item.event)
