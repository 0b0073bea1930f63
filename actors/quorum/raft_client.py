"""A member of the metadata quorum: a voter in a controller, an observer in a broker (``KafkaRaftClient.java``).

The parts are ``quorum_state`` (roles and what is durable), ``elections``, ``leadership``, ``leader_fetches``,
``follower_fetches``, ``fetch_snapshots``, ``snapshotting``, ``voter_changes``, ``voter_requests`` and
``describe_quorum``; this is the door to them. While ``quorum-state`` is being synced, inputs queue here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import msgspec

from actors.log.batch import Batch
from actors.node.component import Component, find
from actors.node.events import DiskImage, Synced
from actors.node.messages import AnyRequest, Api, api_of
from actors.node.network_client import Ended
from actors.node.spec import METADATA_PARTITION, NodeSpec
from actors.node.turn import NodeTurn
from actors.quorum import (
    describe_quorum,
    elections,
    fetch_snapshots,
    follower_fetches,
    leader_fetches,
    leadership,
    snapshotting,
    voter_changes,
    voter_requests,
)
from actors.quorum.quorum_state import BEGIN_QUORUM, CHECK_QUORUM, ELECTION, FETCH_TIMEOUT, UPDATE_VOTER
from actors.quorum.quorum_state_store import QUORUM_STATE_FILE
from actors.quorum.raft_config import raft_config
from actors.quorum.raft_state import BACKOFF, PendingRecords, RaftState
from actors.quorum.roles import Candidate, Follower, Leader, Prospective, Resigned, Unattached
from actors.quorum.snapshots import CHECKPOINT_SUFFIX, Snapshot
from actors.trace.events import QApply
from krift.v1.records import MetadataRecord
from krift.v1.wire import to_bytes

METADATA_LOG_FILE = f"{METADATA_PARTITION}/log"
PREFIX = "raft/"
"""Prefix of this component's timers, choices and purposes of calls."""
SHUTDOWN = "raft/shutdown"
SHUTDOWN_TIMEOUT_MS = 5000
"""How long a leader that stops waits for its successor (``KafkaRaftClientDriver``)."""


class LeaderChange(msgspec.Struct, frozen=True):
    """Who leads (-1 nobody known) in which epoch; ``epoch_start``: first offset of it if this node leads, else -1."""

    leader_id: int
    epoch: int
    epoch_start: int = -1


class QueuedRequest(msgspec.Struct, frozen=True, tag=True):
    """A request that waits for the Sync."""

    connection: str
    request: AnyRequest


class QueuedEnd(msgspec.Struct, frozen=True, tag=True):
    """The end of a call that waits for the Sync."""

    ended: Ended


class QueuedTimer(msgspec.Struct, frozen=True, tag=True):
    """A timer that waits for the Sync."""

    name: str


class QueuedChoice(msgspec.Struct, frozen=True, tag=True):
    """A choice that waits for the Sync."""

    value: int


class QueuedFreeze(msgspec.Struct, frozen=True, tag=True):
    """A report about a snapshot that waits for the Sync of the quorum-state."""

    file: str
    upto: int


class QueuedFlush(msgspec.Struct, frozen=True, tag=True):
    """A report about the log that waits for the Sync of the quorum-state."""

    upto: int


Queued = QueuedRequest | QueuedEnd | QueuedTimer | QueuedChoice | QueuedFreeze | QueuedFlush


class RaftClient(RaftState):
    """The quorum as the rest of a node sees it. Its methods are given the node's turn.

    Every input is taken in the order it comes; after each, the node calls ``poll``.
    """

    queue: list[Queued] = msgspec.field(default_factory=list)
    shutting_down: bool = False
    shutdown_expired: bool = False

    # ---- what the rest of the node asks ------------------------------------------------------------------

    @property
    def is_leader(self) -> bool:
        """Whether this node leads and may append."""
        role = self.quorum.role
        return isinstance(role, Leader) and role.started

    @property
    def epoch(self) -> int:
        """The quorum epoch."""
        return self.quorum.epoch

    @property
    def leader_id(self) -> int:
        """Node id of the active leader, -1 unknown."""
        return -1 if isinstance(self.quorum.role, Resigned) else self.quorum.leader_id

    @property
    def controller_id(self) -> int:
        """Node id of the active controller as brokers find it, -1 unknown: they look the leader up among the voters of
        their own log, and there is no other way (``NodeToControllerChannelManager.scala``,
        RaftControllerNodeProvider)."""
        leader = self.leader_id
        return leader if self.voters.is_voter(leader) else -1

    @property
    def high_watermark(self) -> int:
        """End of what this node knows to be committed."""
        return self.log.high_watermark

    @property
    def end_offset(self) -> int:
        """End of the metadata log."""
        return self.log.end_offset

    @property
    def next_offset(self) -> int:
        """Where the next record that is appended will be, behind those that linger."""
        return self.log.end_offset + len(self.pending.values)

    def append(self, turn: NodeTurn, records: list[MetadataRecord]) -> int | None:
        """Append records, all or none of which will be committed; the offset of the last, None if not leader."""
        if not self.is_leader or self.quorum.waiting:
            return None
        offset = leadership.accept(self, turn, [to_bytes(record) for record in records])
        if self.config.append_linger_ms == 0:
            self._drain(turn)
        return offset

    def take_snapshot(self, turn: NodeTurn) -> Snapshot | None:
        """A snapshot to load in the place of the state so far: at the start of an incarnation, or when the log no
        longer has what ``take_commits`` would hand out next. Ask before that."""
        if not self.snapshots.stored or self.delivered >= self.log.high_watermark:
            return None
        if 0 < self.delivered >= self.log.start_offset:
            return None
        snapshot = self.snapshots.read_latest()
        assert snapshot is not None
        self.delivered = snapshot.end
        self.snapshots.start_counting(turn.step.now_ms)
        snapshotting.record(self, turn, "load", snapshot)
        return snapshot

    def is_snapshot_due(self, turn: NodeTurn) -> bool:
        """Whether the state machine should make a snapshot of all it was handed out."""
        return snapshotting.is_due(self, turn)

    def create_snapshot(self, turn: NodeTurn, records: list[bytes], digest: int) -> None:
        """Keep a snapshot of all that was handed out: ``records`` make the state, ``digest`` is over the records of the
        log."""
        snapshotting.create(self, turn, records, digest)

    def take_commits(self, turn: NodeTurn) -> list[Batch]:
        """Batches committed since the last call, control batches included: each once per incarnation, from offset 0 or
        the end of the last snapshot on."""
        committed = self.log.high_watermark if "apply-uncommitted" not in turn.step.defects else self.log.end_offset
        if self.delivered >= committed:
            return []
        batches = self.log.read(self.delivered, committed, 2**62)
        if batches:
            self.delivered = batches[-1].end_offset
            size = self.snapshots.note_applied(batches)
            turn.step.record(QApply(batches[0].base_offset, self.delivered, batches[-1].ph, size))
        return batches

    def take_leader_changes(self, defects: Collection[str] = ()) -> list[LeaderChange]:
        """What changed since the last call. This node itself is named only after everything below its epoch's start
        was handed out by ``take_commits``; a leader that resigned is named no longer. ``defects``: of this node."""
        role = self.quorum.role
        if role.epoch == self.announced_epoch and self.leader_id == self.announced_leader:
            return []
        if self.quorum.waiting:
            return []
        epoch_start = -1
        if isinstance(role, Leader):
            behind = self.delivered < role.epoch_start and "active-before-caught-up" not in defects
            if not role.started or behind:
                return []
            epoch_start = role.epoch_start
        self.announced_epoch, self.announced_leader = role.epoch, self.leader_id
        return [LeaderChange(self.leader_id, role.epoch, epoch_start)]

    def begin_shutdown(self, turn: NodeTurn) -> None:
        """Stand for no election any more; a leader resigns and waits until another voter leads, but not for long."""
        if not self.shutting_down:
            self.shutting_down = True
            turn.step.set_timer(SHUTDOWN, SHUTDOWN_TIMEOUT_MS)

    @property
    def is_shut_down(self) -> bool:
        """Whether a shutdown that was begun is over: another node leads, nobody else can, or it took too long."""
        config = self.config
        others_lead = self.quorum.has_leader and self.quorum.leader_id != config.node_id
        alone = not self.is_voter or self.voters.is_only_voter(config.key)
        return self.shutting_down and not self.quorum.waiting and (others_lead or alone or self.shutdown_expired)

    # ---- inputs ------------------------------------------------------------------------------------------

    def start(self, turn: NodeTurn, spec: NodeSpec, disk: DiskImage) -> None:
        """Begin an incarnation with what the disk holds."""
        config = self.config = raft_config(spec)
        snapshotting.load(self, turn, METADATA_LOG_FILE, disk)
        stored = disk.get(QUORUM_STATE_FILE)
        content = stored[0] if stored else None
        voter_changes.load(self, turn)
        self.quorum.initialize(turn.step, config, content, self.log_end)
        if isinstance(self.quorum.role, Candidate):
            elections.record_own_vote(self, turn)
        if self.log.batches:
            # The process may have died between a Write and its Sync, and the first Fetch will vouch for all of it.
            self.flush(turn)
        self._advance(turn)

    def on_request(self, turn: NodeTurn, connection: str, request: AnyRequest) -> None:
        """Take a request of those that are in HANDLERS."""
        assert self.config.serves, "an observer serves nobody"
        self._take(turn, QueuedRequest(connection, request))

    def on_disconnected(self, connection: str) -> None:
        """Forget the Fetch that is parked on a connection which is gone. Its timer finds nothing."""
        self.purgatory.remove(connection)
        voter_changes.on_disconnected(self, connection)

    def on_ended(self, turn: NodeTurn, ended: Ended) -> None:
        """Take the end of a call."""
        self._take(turn, QueuedEnd(ended))

    def on_timer(self, turn: NodeTurn, name: str) -> None:
        """Take a timer."""
        self._take(turn, QueuedTimer(name))

    def on_chosen(self, turn: NodeTurn, value: int) -> None:
        """Take a choice: there is one, of a bootstrap server."""
        self._take(turn, QueuedChoice(value))

    def on_synced(self, turn: NodeTurn, event: Synced) -> None:
        """Take a report about a file; those of other components are ignored."""
        if event.file == METADATA_LOG_FILE:
            self._take(turn, QueuedFlush(event.upto))
        elif event.file.endswith(CHECKPOINT_SUFFIX):
            self._take(turn, QueuedFreeze(event.file, event.upto))
        elif event.file == QUORUM_STATE_FILE:
            self.quorum.on_synced(turn.step, event.upto)
            self._advance(turn)
            while self.queue and not self.quorum.waiting:
                self._handle(turn, self.queue.pop(0))

    def poll(self, turn: NodeTurn) -> None:
        """Send what the present role calls for and the network lets through. Called after every event."""
        quorum = self.quorum
        if quorum.waiting:
            return
        if self.shutting_down and isinstance(quorum.role, Leader):
            quorum.transition_to_resigned(turn.step, self.log_end)
            self._advance(turn)
        role = quorum.role
        if not isinstance(role, Follower):
            self.snapshots.download = None
        if isinstance(role, Prospective | Candidate):  # also of a voter that stops: an election that was begun goes on
            elections.poll(self, turn, role)
            self._advance(turn)
        elif isinstance(role, Resigned):
            leadership.poll_end(self, turn, role)
        elif self.shutting_down:
            return
        elif isinstance(role, Leader):
            if role.begin_due:
                leadership.poll_begin(self, turn, role)
            if self.voter_change is not None:
                voter_changes.poll(self, turn, role)
        elif isinstance(role, Follower | Unattached):
            if self.voter_request_due and isinstance(role, Follower):
                voter_requests.poll(self, turn, role)
            follower_fetches.poll(self, turn, role)

    # ---- inside ------------------------------------------------------------------------------------------

    def _take(self, turn: NodeTurn, item: Queued) -> None:
        if self.quorum.waiting:
            self.queue.append(item)
        else:
            self._handle(turn, item)

    def _handle(self, turn: NodeTurn, item: Queued) -> None:
        if isinstance(item, QueuedRequest):
            HANDLERS[api_of(item.request)](self, turn, item.connection, item.request)
        elif isinstance(item, QueuedEnd):
            on_ended, peer = find(ANSWERS, item.ended.purpose)
            on_ended(self, turn, item.ended, int(peer))
        elif isinstance(item, QueuedTimer):
            on_timer, argument = find(TIMERS, item.name)
            on_timer(self, turn, argument)
        elif isinstance(item, QueuedFlush):
            self._on_flushed(turn, item.upto)
        elif isinstance(item, QueuedFreeze):
            snapshotting.on_synced(self, turn, item.file, item.upto)
        else:
            follower_fetches.on_bootstrap_chosen(self, turn, item.value)
        self._advance(turn)

    def _on_shutdown_timeout(self) -> None:
        self.shutdown_expired = True

    def _on_election_timeout(self, turn: NodeTurn) -> None:
        if not self.shutting_down:
            elections.on_election_timeout(self, turn)

    def _on_fetch_timeout(self, turn: NodeTurn) -> None:
        if not self.shutting_down:
            elections.on_fetch_timeout(self, turn)

    def _on_check_quorum(self, turn: NodeTurn) -> None:
        if isinstance(self.quorum.role, Leader) and "no-check-quorum" not in turn.step.defects:
            elections.on_check_quorum_timeout(self, turn)

    def _on_begin_quorum(self, turn: NodeTurn) -> None:
        if isinstance(self.quorum.role, Leader):
            leadership.on_begin_quorum_timer(self, turn, self.quorum.role)

    def _on_fetch_backoff(self) -> None:
        self.fetch_backoff = False

    def _on_flushed(self, turn: NodeTurn, upto: int) -> None:
        end = self.flushed(turn, upto)
        role = self.quorum.role
        if end is None or not isinstance(role, Leader):
            return
        mine = role.progress(self.voters, self.config.key)
        mine.end_offset = max(mine.end_offset, end)
        if leadership.update_high_watermark(self, turn, role, self.config.node_id):
            leader_fetches.on_commit(self, turn)

    def _drain(self, turn: NodeTurn) -> None:
        role = self.quorum.role
        if isinstance(role, Leader) and role.started and leadership.drain(self, turn, role):
            leader_fetches.on_append(self, turn)

    def _advance(self, turn: NodeTurn) -> None:
        """Draw the consequences of an input, up to the next thing that must become durable first."""
        quorum = self.quorum
        role = quorum.role
        if isinstance(role, Prospective | Candidate):
            elections.advance(self, turn)
        elif isinstance(role, Leader):
            if not role.started and not quorum.waiting and not self.shutting_down:
                leadership.start_epoch(self, turn, role)
            if quorum.records.voter_sets:
                voter_changes.advance(self, turn, role)
        if self.voter_change is not None and not isinstance(quorum.role, Leader):
            voter_changes.abandon(self, turn)
        if self.purgatory.parked and isinstance(quorum.role, Follower | Resigned):
            leader_fetches.refuse_all(self, turn)
        if "append-in-resignation" in turn.step.defects and isinstance(quorum.role, Resigned) and self.pending.values:
            leadership.drain(self, turn, Leader(quorum.epoch, 0, []))
        if self.pending.values and not isinstance(quorum.role, Leader):
            self.pending = PendingRecords()
            turn.step.cancel_timer(leadership.APPEND_LINGER)
        if quorum.dirty:
            quorum.settle(turn)


HANDLERS: dict[Api, Callable[[RaftClient, NodeTurn, str, Any], None]] = {
    Api.Fetch: leader_fetches.on_fetch_request,
    Api.Vote: elections.on_vote_request,
    Api.BeginQuorumEpoch: leadership.on_begin_request,
    Api.EndQuorumEpoch: leadership.on_end_request,
    Api.DescribeQuorum: describe_quorum.on_describe_request,
    Api.FetchSnapshot: fetch_snapshots.on_fetch_snapshot_request,
    Api.AddRaftVoter: voter_changes.on_add_request,
    Api.RemoveRaftVoter: voter_changes.on_remove_request,
    Api.UpdateRaftVoter: voter_changes.on_update_request,
}
"""What a controller answers as a member of the quorum, and who does, with the connection and the request."""


OnEnded = Callable[[RaftClient, NodeTurn, Ended, int], None]
"""Takes the end of a call, with the peer."""


def _expected(take: OnEnded) -> OnEnded:
    """Leaves out an answer that comes too late, in another term."""

    def take_expected(raft: RaftClient, turn: NodeTurn, ended: Ended, peer: int) -> None:
        if raft.call_ended(ended, peer):
            take(raft, turn, ended, peer)

    return take_expected


ANSWERS: dict[str, OnEnded] = {
    "raft/fetch/": lambda raft, turn, ended, _: follower_fetches.on_fetch_ended(raft, turn, ended),
    "raft/snapshot/": lambda raft, turn, ended, _: follower_fetches.on_fetch_snapshot_ended(raft, turn, ended),
    "raft/begin/": _expected(leadership.on_begin_ended),
    "raft/end/": _expected(leadership.on_end_ended),
    "raft/vote/": _expected(elections.on_vote_ended),
    "raft/pre-vote/": _expected(elections.on_vote_ended),
    f"raft/{voter_requests.KIND}/": _expected(voter_requests.on_ended),
}
"""Who takes the end of which call: by its purpose, ``raft/<kind>/<peer>``."""

TIMERS: dict[str, Callable[[RaftClient, NodeTurn, str], None]] = {
    SHUTDOWN: lambda raft, turn, _: raft._on_shutdown_timeout(),
    ELECTION: lambda raft, turn, _: raft._on_election_timeout(turn),
    FETCH_TIMEOUT: lambda raft, turn, _: raft._on_fetch_timeout(turn),
    leader_fetches.PARKED: leader_fetches.expire,
    BACKOFF: lambda raft, turn, peer: raft.end_back_off(int(peer)),
    follower_fetches.FETCH_BACKOFF: lambda raft, turn, _: raft._on_fetch_backoff(),
    follower_fetches.FETCH_CONNECT: lambda raft, turn, _: follower_fetches.on_connect_timeout(raft),
    snapshotting.CLEAN: lambda raft, turn, _: snapshotting.clean(raft, turn),
    leadership.APPEND_LINGER: lambda raft, turn, _: raft._drain(turn),
    voter_changes.VOTER_CHANGE: lambda raft, turn, _: voter_changes.on_timeout(raft, turn),
    UPDATE_VOTER: lambda raft, turn, _: voter_requests.on_update_timer(raft, turn),
    CHECK_QUORUM: lambda raft, turn, _: raft._on_check_quorum(turn),
    BEGIN_QUORUM: lambda raft, turn, _: raft._on_begin_quorum(turn),
}
"""Who takes which timer."""

COMPONENT: Component[RaftClient, NodeTurn] = Component(
    timers={PREFIX: lambda raft, turn, name: raft.on_timer(turn, f"{PREFIX}{name}")},
    answers={PREFIX: lambda raft, turn, ended, _: raft.on_ended(turn, ended)},
    choices={PREFIX: lambda raft, turn, value, _: raft.on_chosen(turn, value)},
)
"""All of it waits its turn in the queue, and is handed out from there."""
