"""The state of a quorum member, and what all its parts share: the flush of the log, replies, calls to peers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from actors.log.batch import Batch, LogRecord
from actors.log.replica_log import ReplicaLog
from actors.node.errors import KafkaError
from actors.node.fault import FatalFault
from actors.node.messages import AnyRequest, AnyResponse, Api, check_fields, request_version
from actors.node.network_client import Ended
from actors.node.purgatory import DelayedOperation, Purgatory
from actors.node.spec import node_name
from actors.node.turn import NodeTurn
from actors.quorum.control_records import BOOTSTRAP_OFFSET, VotersEntry
from actors.quorum.quorum_state import FETCH_TIMEOUT, OffsetAndEpoch, QuorumState
from actors.quorum.raft_config import UNCONFIGURED, RaftConfig
from actors.quorum.roles import Follower, Leader
from actors.quorum.snapshots import Snapshots
from actors.quorum.voter_set import ReplicaKey, VoterSet
from actors.trace.events import LogFlush, QHeard, QRefuse, QVoters, VotersCause
from krift.v1.common import NodeEndpoint
from krift.v1.fetch import FetchRequest, FetchResponse
from krift.v1.records import ControlRecord, KRaftVersionRecord
from krift.v1.wire import to_bytes

CONNECTION = "raft"
"""Connection of all requests to members of the quorum but Fetch and FetchSnapshot; a parked Fetch on it would hold them
up."""
FETCH_CONNECTION = "raft-fetch"

BACKOFF = "raft/backoff/"
"""Prefix of the timers that end the pause after an error of a peer."""


class Flush(msgspec.Struct):
    """A Sync of the log that is open: it covers write ``number`` and makes everything below ``end`` durable."""

    number: int
    end: int


class Outstanding(msgspec.Struct, frozen=True):
    """The quorum RPC a peer has not answered, and the term in which it was asked. One of an earlier term is no reason
    to wait, and its answer comes too late (``KafkaRaftClient.resetConnections``)."""

    call: int
    term: int


class FetchInFlight(msgspec.Struct, frozen=True):
    """The Fetch, or FetchSnapshot, that has not ended, and the term in which it was sent."""

    call: int
    term: int
    epoch: int
    offset: int


class DelayedFetch(DelayedOperation):
    """A Fetch that waits at the leader of ``epoch`` for records or a new high watermark: for as long as its own timer
    of the quorum runs, which waits for a Sync as everything does. response: what it gets if it waits in vain."""

    request: FetchRequest
    response: FetchResponse
    epoch: int


class PendingRecords(msgspec.Struct):
    """Records that the leader has accepted and will append as one batch when the linger is over."""

    values: list[bytes] = []


class VoterChange(msgspec.Struct):
    """A voter that is being added or removed (``AddVoterHandlerState``, ``RemoveVoterHandlerState``). connection: who
    waits for the answer to ``request``, "" nobody. offset: of the VotersRecord, -1 before it is appended."""

    connection: str
    request: AnyRequest
    voter: ReplicaKey
    offset: int = -1


class RaftState(msgspec.Struct):
    """All of a quorum member. ``actors.quorum.raft_client.RaftClient`` is the door to it.

    flushes: open Syncs of the log. backing_off: peers that are left alone for a while, and the term that this is for.
    fetch: see FetchInFlight; fetch_backoff: it pauses. bootstrap: the servers among
    which a random one was asked for; fetch_target: the one that was drawn (-1 none). delivered: end of what
    take_commits handed out. announced: last (leader, epoch) that take_leader_changes gave. voter_change: the one that
    this leader was asked for and that is not committed. voter_request_due: this follower has to see whether the voters
    should be others.
    """

    config: RaftConfig = UNCONFIGURED
    quorum: QuorumState = msgspec.field(default_factory=QuorumState)
    log: ReplicaLog = msgspec.field(default_factory=ReplicaLog)
    snapshots: Snapshots = msgspec.field(default_factory=Snapshots)
    flushes: list[Flush] = []
    purgatory: Purgatory[DelayedFetch] = msgspec.field(default_factory=Purgatory)
    pending: PendingRecords = msgspec.field(default_factory=PendingRecords)
    outstanding: dict[int, Outstanding] = {}
    backing_off: dict[int, int] = {}
    fetch: FetchInFlight | None = None
    fetch_backoff: bool = False
    bootstrap: list[int] = []
    fetch_target: int = -1
    delivered: int = 0
    announced_leader: int = -1
    announced_epoch: int = -1
    voter_change: VoterChange | None = None
    voter_request_due: bool = False

    # ---- what it knows -----------------------------------------------------------------------------------

    @property
    def voters(self) -> VoterSet:
        """The voters in force."""
        return self.quorum.records.voters

    @property
    def is_voter(self) -> bool:
        """Whether this replica is one of them."""
        return self.quorum.is_voter

    @property
    def may_stand(self) -> bool:
        """Whether this replica stands for election: it is a voter, or, with the mend of removed-leader-deadlock, it was
        one and does not know its removal to be committed."""
        last = self.quorum.records.last_voters
        if self.is_voter or last is None or last.offset < self.log.high_watermark:
            return self.is_voter
        return self.quorum.may_stand

    @property
    def last_epoch(self) -> int:
        """Epoch of the last record; 0 for an empty log."""
        return max(self.log.last_epoch, 0)

    @property
    def log_end(self) -> OffsetAndEpoch:
        """Where the log ends."""
        return OffsetAndEpoch(self.log.end_offset, self.last_epoch)

    def is_up_to_date(self, last_epoch: int, end_offset: int) -> bool:
        """Whether a log that ends so is not behind this node's."""
        return (last_epoch, end_offset) >= (self.last_epoch, self.log.end_offset)

    def control_records(self, end: int) -> list[bytes]:
        """The quorum's own records that a snapshot which ends at ``end`` begins with: at kraft.version 0, none."""
        level, entry = self.quorum.records.kraft_version_at(end - 1), self.quorum.records.voters_at(end - 1)
        if level == 0 or entry is None:
            return []
        records = (
            ControlRecord(k_raft_version=KRaftVersionRecord(k_raft_version=level)),
            ControlRecord(voters=entry.voters.to_record()),
        )
        return [to_bytes(record) for record in records]

    # ---- serving -----------------------------------------------------------------------------------------

    def refusal(self, turn: NodeTurn, api: Api, request: Any) -> KafkaError:
        """The top-level error for a request of a version that this node does not speak, or of another cluster."""
        bounds = self.config.versions.get(api.name)
        if bounds is not None and not bounds[0] <= request_version(request) <= bounds[1]:
            return KafkaError.UNSUPPORTED_VERSION
        named = request.cluster_id
        if api == Api.Fetch:
            named = named or request.seed_cluster_id
        checks = self.config.check_cluster_id and "any-cluster-served" not in turn.step.defects
        if checks and named and named != self.config.cluster_id:
            return KafkaError.INCONSISTENT_CLUSTER_ID
        return KafkaError.NONE

    def refusal_of_sender(self, api: Api, sender: int) -> KafkaError:
        """The error for a candidate or leader that is none: INVALID_REQUEST for a negative id; INCONSISTENT_VOTER_SET
        for one outside the voter set, at a member from before KIP-853, which knows version 0 of the RPC alone. Later
        ones leave the voters to the log (``KafkaRaftClient.validateVoterOnlyRequest``)."""
        if sender < 0:
            return KafkaError.INVALID_REQUEST
        bounds = self.config.versions.get(api.name)
        before_kip_853 = bounds is not None and bounds[1] == 0
        if before_kip_853 and not self.voters.is_voter(sender):
            return KafkaError.INCONSISTENT_VOTER_SET
        return KafkaError.NONE

    def is_meant(self, voter_id: int, directory_id: str) -> bool:
        """Whether a request to the voter of this id (-1: none named) and directory ("": none named) is for this
        replica."""
        config = self.config
        return (voter_id < 0 or voter_id == config.node_id) and directory_id in ("", config.directory_id)

    def epoch_error(self, turn: NodeTurn, api: Api, epoch: int) -> KafkaError:
        """What a request is refused with that names another epoch than this member's; NONE if it is the same."""
        mine = self.quorum.epoch
        if epoch == mine:
            return KafkaError.NONE
        older = (epoch < mine) != ("epoch-errors-swapped" in turn.step.defects)
        error = KafkaError.FENCED_LEADER_EPOCH if older else KafkaError.UNKNOWN_LEADER_EPOCH
        self.quorum.record(turn.step, QRefuse(api.name, epoch, error))
        return error

    def leader_error(self, turn: NodeTurn, api: Api, epoch: int, checks_epoch: bool) -> KafkaError:
        """Why a request to the leader of ``epoch`` is refused, if it is. ``checks_epoch``: whether the epoch matters
        (``KafkaRaftClient.validateLeaderOnlyRequest``)."""
        if checks_epoch and (error := self.epoch_error(turn, api, epoch)):
            return error
        role = self.quorum.role
        return KafkaError.NONE if isinstance(role, Leader) and role.started else KafkaError.NOT_LEADER_OR_FOLLOWER

    def answer(self, turn: NodeTurn, connection: str, request: Any, response: AnyResponse) -> None:
        """Reply with ``response`` once the present role is durable."""
        check_fields(response, request_version(request))
        self.quorum.reply(turn.step, connection, response)

    # ---- calling -----------------------------------------------------------------------------------------

    def can_call(self, turn: NodeTurn, peer: int) -> bool:
        """Whether a request of this term can go to ``peer`` now."""
        open_call = self.outstanding.get(peer)
        if open_call is not None and open_call.term == self.quorum.term:
            return False
        return self.backing_off.get(peer) != self.quorum.term and turn.net.ready(turn.step, node_name(peer), CONNECTION)

    def call(self, turn: NodeTurn, peer: int, kind: str, request: AnyRequest, version: int) -> None:
        """Send a quorum RPC; its end arrives with the purpose ``raft/<kind>/<peer>``."""
        number = turn.net.send(
            turn.step,
            node_name(peer),
            CONNECTION,
            request,
            version,
            f"raft/{kind}/{peer}",
            self.config.request_timeout_ms,
        )
        self.outstanding[peer] = Outstanding(number, self.quorum.term)

    def fetch_from(self, turn: NodeTurn, peer: int, kind: str, request: AnyRequest, version: int) -> None:
        """Send a Fetch or FetchSnapshot, the one in flight; its end arrives with the purpose ``raft/<kind>/<peer>``."""
        purpose, timeout_ms = f"raft/{kind}/{peer}", self.config.request_timeout_ms
        number = turn.net.send(turn.step, node_name(peer), FETCH_CONNECTION, request, version, purpose, timeout_ms)
        self.fetch = FetchInFlight(number, self.quorum.term, self.quorum.epoch, self.log.end_offset)

    def call_ended(self, ended: Ended, peer: int) -> bool:
        """Note that ``peer`` can be called again; False if the answer comes too late, in another term
        (``RequestManager.isResponseExpected``)."""
        open_call = self.outstanding.get(peer)
        if open_call is None or open_call.call != ended.call:
            return False
        del self.outstanding[peer]
        return open_call.term == self.quorum.term

    def fetch_ended(self, ended: Ended) -> FetchInFlight | None:
        """The Fetch, or FetchSnapshot, that this is the end of; None if it comes too late, in another term."""
        fetch = self.fetch
        if fetch is None or fetch.call != ended.call:
            return None
        self.fetch = None
        return fetch if fetch.term == self.quorum.term else None

    def back_off(self, turn: NodeTurn, peer: int) -> None:
        """Leave ``peer`` alone for the retry back-off."""
        if self.backing_off.get(peer) != self.quorum.term:
            self.backing_off[peer] = self.quorum.term
            turn.step.set_timer(f"{BACKOFF}{peer}", self.config.retry_backoff_ms)

    def end_back_off(self, peer: int) -> None:
        """The pause is over."""
        del self.backing_off[peer]

    # ---- what peers say about the leader -----------------------------------------------------------------

    def learn(self, turn: NodeTurn, epoch: int, leader_id: int, has_endpoint: bool = False) -> None:
        """Adopt an epoch, or the leader of the present one where none was known, that a message names (-1 none).
        ``has_endpoint``: the message says where that leader listens; otherwise the voter set does, or nothing.
        Raises FatalFault if that contradicts what this node knows: the epoch has two leaders, or this node is said to
        lead and knows nothing of it, as its disk was lost (``KafkaRaftClient.maybeTransition``)."""
        quorum = self.quorum
        if epoch < quorum.epoch:
            return
        if not quorum.is_consistent_leader(epoch, leader_id):
            leads = f"{quorum.leader_id} leads" if quorum.has_leader else "nobody leads"
            raise FatalFault(f"was told that {leader_id} leads epoch {epoch}, and knows that {leads} {quorum.epoch}")
        reachable = leader_id >= 0 and (has_endpoint or self.voters.is_voter(leader_id))
        if epoch > quorum.epoch:
            if reachable:
                quorum.transition_to_follower(turn.step, self.log_end, epoch, leader_id)
            else:
                quorum.transition_to_unattached(turn.step, self.log_end, epoch, leader_id)
        elif reachable and not (quorum.has_leader and quorum.knows_endpoint):
            quorum.transition_to_follower(turn.step, self.log_end, epoch, leader_id)

    def learn_from_response(
        self, turn: NodeTurn, error: int, epoch: int, leader_id: int, endpoints: Iterable[NodeEndpoint] = ()
    ) -> bool:
        """The part that is common to all responses; True if there is nothing more to do with this one. Raises
        FatalFault if this node asked for what nobody may ask for (``KafkaRaftClient.maybeHandleCommonResponse``)."""
        before = self.quorum.epoch
        known = any(each.node_id == leader_id for each in endpoints)
        if epoch < before or error == KafkaError.UNKNOWN_LEADER_EPOCH:
            return True
        if epoch > before or error in (KafkaError.FENCED_LEADER_EPOCH, KafkaError.NOT_LEADER_OR_FOLLOWER):
            self.learn(turn, epoch, leader_id, known)
            if "refusal-is-sign-of-life" in turn.step.defects and isinstance(self.quorum.role, Follower):
                self.heard_from_leader(turn, self.quorum.role)
            return True
        if leader_id >= 0 and not self.quorum.has_leader:
            self.learn(turn, epoch, leader_id, known)
        elif error == KafkaError.INVALID_REQUEST:
            raise FatalFault("received an INVALID_REQUEST error, which was not expected")
        return error != KafkaError.NONE

    def heard_from_leader(self, turn: NodeTurn, role: Follower) -> None:
        """The leader has answered: the fetch timeout begins anew
        (``FollowerState.resetFetchTimeoutForSuccessfulFetch``)."""
        role.has_fetched = True
        role.timed_out = False
        if role.resigned:
            role.resigned = False
            self.quorum.record(turn.step, QHeard(role.leader_id, role.epoch))
        turn.step.set_timer(FETCH_TIMEOUT, self.config.fetch_timeout_ms, wall=True)

    def leader_endpoints(self) -> list[NodeEndpoint]:
        """Where the leader listens, for those who ask; nothing where this node does not know who leads, or not where
        (``UnattachedState.leaderEndpoints``)."""
        known = self.quorum.has_leader and self.quorum.knows_endpoint
        return [self.voters.endpoint(self.quorum.leader_id)] if known else []

    # ---- the log -----------------------------------------------------------------------------------------

    def append_control(self, turn: NodeTurn, epoch: int, records: list[ControlRecord]) -> int:
        """Append control records of this leader's own as one batch, and follow them at once; the offset of the last.
        Whatever was accepted before must have been appended before."""
        values = [to_bytes(record) for record in records]
        lines = [LogRecord(turn.step.wall_ms, value=value) for value in values]
        batch = self.log.append_records(turn.step, turn.files, lines, epoch, is_control=True)
        self.take_control_batch(turn, batch, "append")
        self.flush(turn)
        return batch.last_offset

    def take_control_batch(self, turn: NodeTurn, batch: Batch, cause: VotersCause) -> None:
        """Follow what a batch that was appended says of the voters."""
        if cause == "fetch" and self.config.serves and "voters-of-old" in turn.step.defects:
            return
        before = self.voters
        if batch.is_control and self.quorum.records.append(batch):
            self.record_voters(turn, cause)
            self.quorum.on_voters_changed(turn.step, before)

    def record_voters(self, turn: NodeTurn, cause: VotersCause) -> None:
        """Trace the voters in force, unless they are static."""
        entry = self.quorum.records.last_voters
        if entry is None:
            entry = VotersEntry(BOOTSTRAP_OFFSET, 0, VoterSet())
        turn.step.record(
            QVoters(
                self.config.directory_id,
                entry.offset,
                entry.epoch,
                self.quorum.epoch,
                entry.voters.members,
                self.log.end_offset,
                self.log.high_watermark,
                cause,
            )
        )

    def flush(self, turn: NodeTurn) -> None:
        """Make everything in the log durable."""
        state = turn.files.states.get(self.log.active.file)
        self.flushes.append(Flush(state.written if state is not None else 0, self.log.end_offset))
        turn.files.sync(turn.step, self.log.active.file)

    def flushed(self, turn: NodeTurn, upto: int) -> int | None:
        """The log is durable up to write ``upto``: the end of what is now known to be, None if nothing new is."""
        done = [flush for flush in self.flushes if flush.number <= upto]
        if not done:
            return None
        self.flushes = [flush for flush in self.flushes if flush.number > upto]
        end = max(flush.end for flush in done) + ("flush-end-inclusive" in turn.step.defects)
        turn.step.record(LogFlush(self.log.tp, end))
        return end

    def truncate(self, turn: NodeTurn, offset: int) -> None:
        """Cut the log where it diverges. A Sync that is open no longer vouches for what was cut."""
        self.log.truncate_to(turn.step, turn.files, offset, "diverge", self.quorum.epoch)
        keeps = "voters-outlive-their-record" in turn.step.defects
        if not keeps and self.quorum.records.truncate_new(self.log.end_offset):
            self.record_voters(turn, "truncate")
        for flush in self.flushes:
            flush.end = min(flush.end, self.log.end_offset)
        self.flush(turn)
