"""A consumer's side of its group (``ConsumerCoordinator.java``): what it owns, and its committed positions."""

from __future__ import annotations

from typing import Protocol

import msgspec

from actors.client.assignors.registry import ASSIGNORS, common_protocol_is_cooperative, subscription_for
from actors.client.assignors.subscription import (
    Assignment,
    Subscriptions,
    TopicPartition,
    assignment_bytes,
    assignment_of,
    subscription_bytes,
    subscription_of,
)
from actors.client.coordinator_lookup import COORDINATOR, CoordinatorLookup
from actors.client.group_membership import NO_GENERATION, Generation, GroupMembership
from actors.client.metadata_cache import MetadataCache
from actors.client.offset_commits import Commit, Committed, OffsetCommits
from actors.client.subscription_state import TopicPartitionState
from actors.node.errors import KafkaError, traits
from actors.node.network_client import Ended, NetworkClient
from actors.node.spec import split_topic_partition, topic_partition
from actors.node.step import Step
from actors.trace.client_events import CommitHow
from actors.trace.events import ConsClose, ConsOwn
from actors.trace.group_events import Entry, OwnReason

E = KafkaError
_COORDINATOR_GONE = (E.COORDINATOR_NOT_AVAILABLE, E.NOT_COORDINATOR, E.NETWORK_EXCEPTION)

AUTO_COMMIT = "group/auto-commit"
BEAT = "group/beat"


class Owner(Protocol):
    """The consumer that a coordinator works for."""

    net: NetworkClient
    metadata: MetadataCache
    positions: dict[str, TopicPartitionState]

    def next_operation(self) -> str:
        """A name for an operation of the application."""

    def take(self, step: Step, tp: str) -> None:
        """A partition is its own from now on."""

    def drop(self, step: Step, tp: str) -> None:
        """It is not any more."""


class Electing(msgspec.Struct):
    """What a leading member knows while it waits for metadata. ``awaits``: the number of refreshes that is not enough.
    ``skip``: the coordinator has the assignment, as a static member came back."""

    subscriptions: Subscriptions
    awaits: int
    skip: bool


class ConsumerCoordinator(msgspec.Struct):
    """See the module.

    strategy: names of assignors, the preferred one first. topics: that this consumer wants. beside: others that its
    client asks metadata for. group_topics: those of the whole group, while it leads. counts: partitions by topic, as
    the last metadata had them (``metadataSnapshot``); assigned_counts: those that the leading member assigned by,
    None if it does not lead. joined: who it was in which generation when it got its last assignment, also where it has
    lost its place since (``groupMetadata``). counted: the number of refreshes that ``counts`` is of. auto_commit_ms: 0:
    the consumer commits nothing by itself. awake_ms: when the timer of the heartbeats goes off, -1 it is not set.
    """

    lookup: CoordinatorLookup = msgspec.field(default_factory=CoordinatorLookup)
    membership: GroupMembership = msgspec.field(default_factory=GroupMembership)
    commits: OffsetCommits = msgspec.field(default_factory=OffsetCommits)
    strategy: list[str] = []
    topics: list[str] = []
    group_topics: list[str] = []
    beside: list[str] = []
    counts: dict[str, int] = {}
    counted: int = -1
    assigned_counts: dict[str, int] | None = None
    electing: Electing | None = None
    auto_commit_ms: int = 0
    auto_commit_due: bool = False
    preparing: str = ""
    prepare_end_ms: int = -1
    awake_ms: int = -1
    last_generation: int = -1
    joined: Generation = NO_GENERATION

    @property
    def cooperative(self) -> bool:
        """Whether what it owns is kept while it joins."""
        return common_protocol_is_cooperative(self.strategy)

    @property
    def fatal(self) -> int:
        """Code of the error that the application was told for good, 0 none."""
        return self.membership.fatal or self.lookup.fatal

    # ---- polling ------------------------------------------------------------------------------------------

    def poll(self, step: Step, owner: Owner) -> None:
        """The application polls: find the coordinator, join if need be, commit what is due, and look up what was
        committed."""
        membership = self.membership
        self._count(owner)
        membership.polled(step.now_ms)
        if self._peer(step, owner):
            if (
                self.assigned_counts is not None
                and self.assigned_counts != self.counts
                and not membership.rejoin_needed
            ):
                membership.request_rejoin("cached metadata has changed")
            if self.electing is not None:
                self._assign(step, owner)
            elif membership.rejoin_needed and not membership.joining and not membership.pausing:
                self._join(step, owner)
            if self.auto_commit_due and self._stable() is not None:
                self.auto_commit_due = False
                self.commit(step, owner, "auto")
                if "commits-by-itself-once" not in step.defects:
                    step.set_timer(AUTO_COMMIT, self.auto_commit_ms)
        elif not membership.pausing:
            self.lookup.poll(step, owner.net, owner.metadata)
        self._look_up(step, owner)

    def poll_network(self, step: Step, owner: Owner) -> list[Committed]:
        """What goes on whether the application polls or not: heartbeats, commits that it made, the search for the
        coordinator. Returns commits that are over."""
        peer = self._beat(step, owner)
        if self.commits.commits and not peer:
            self.lookup.want(at_once=any(each.deadline_ms < 0 for each in self.commits.commits.values()))
        over = self._without_coordinator(step, E.NETWORK_EXCEPTION) if self.lookup.lost(owner.net) else []
        self.lookup.poll(step, owner.net, owner.metadata)
        joining = self.membership.state in ("PREPARING_REBALANCE", "COMPLETING_REBALANCE")
        ended = self.commits.poll(step, owner.net, owner.metadata, peer, self._stable(), joining)
        for each in ended:
            self._on_commit_over(step, each)
        return [*over, *ended]

    def _peer(self, step: Step, owner: Owner) -> str:
        """The coordinator, "" while it is unknown or cannot be reached; it is looked for then."""
        peer = self.lookup.peer
        if peer and not owner.net.usable(peer, COORDINATOR):
            self.lose_coordinator(step, E.NETWORK_EXCEPTION)
            peer = ""
        if not peer:
            self.lookup.wanted = True
        return peer

    def _stable(self) -> Generation | None:
        return self.membership.generation if self.membership.state == "STABLE" else None

    def _count(self, owner: Owner) -> None:
        """``maybeUpdateSubscriptionMetadata``."""
        metadata = owner.metadata
        if self.counted == metadata.updates:
            return
        self.counted = metadata.updates
        counts = dict.fromkeys(self.group_topics or self.topics, 0)
        for tp in metadata.partitions:
            topic, _ = split_topic_partition(tp)
            if topic in counts:
                counts[topic] += 1
        self.counts = {topic: count for topic, count in counts.items() if count}

    def lose_coordinator(self, step: Step, error: int) -> list[Committed]:
        """``markCoordinatorUnknown``: calls that are under way fail, as the connection is closed."""
        self.lookup.forget()
        membership = self.membership
        membership.calls.clear()
        if membership.joining or self.electing is not None:
            self.electing = None
            membership.join_failed(step, E.NETWORK_EXCEPTION)
        ended = self.commits.lost_coordinator(step, error)
        for each in ended:
            self._on_commit_over(step, each)
        return ended

    # ---- joining ------------------------------------------------------------------------------------------

    def _join(self, step: Step, owner: Owner) -> None:
        """``joinGroupIfNeeded``."""
        membership = self.membership
        peer = self.lookup.peer
        if not owner.net.ready(step, peer, COORDINATOR):
            return
        if membership.needs_prepare:
            if not self._prepare(step, owner):
                return
            membership.needs_prepare = False
        owned = _partitions(owner.positions)
        protocols = [
            (name, subscription_bytes(subscription_for(name, self.topics, owned, self.last_generation)))
            for name in self.strategy
        ]
        membership.send_join(step, owner.net, peer, protocols)

    def _prepare(self, step: Step, owner: Owner) -> bool:
        """``onJoinPrepare``: commit, and give up what must not be kept. False while the commit goes on."""
        membership = self.membership
        if self.prepare_end_ms < 0:
            self.prepare_end_ms = step.now_ms + membership.settings.rebalance_ms
            if self.auto_commit_ms and self._stable() is not None:
                if not self.cooperative:
                    for position in owner.positions.values():
                        position.revoking = True
                if "revokes-without-commit" not in step.defects:
                    self.preparing = self.commit(step, owner, "auto", self.prepare_end_ms)
        if self.preparing and step.now_ms < self.prepare_end_ms:
            return False
        self.preparing, self.prepare_end_ms = "", -1
        if membership.generation.id < 0 or not membership.generation.member:
            if "keeps-what-is-lost" not in step.defects:
                self._own(step, owner, [], "lost", lost=True)
        elif not self.cooperative and "joins-without-revoking" not in step.defects:
            self._own(step, owner, [], "revoke")
        self.assigned_counts, self.electing = None, None
        if self.group_topics:
            self.group_topics = []
            owner.metadata.topics = [*self.topics, *self.beside]
        return True

    def on_joined(self, step: Step, owner: Owner, ended: Ended) -> None:
        """Take the end of a JoinGroup: the leading member assigns, the others ask for their part."""
        error, response = self.membership.on_joined(step, ended)
        if self._gone(step, error) or response is None:
            return
        if response.leader != response.member_id:
            self.membership.send_sync(step, owner.net, ended.peer, {})
            return
        subscriptions: Subscriptions = {}
        for member in response.members:
            instance = member.group_instance_id or ""
            subscriptions[member.member_id] = subscription_of(member.metadata, instance)
        metadata = owner.metadata
        topics = sorted({topic for each in subscriptions.values() for topic in each.topics})
        awaits = -1
        if any(topic not in metadata.topics for topic in topics) or metadata.wanted:
            awaits = metadata.updates
            metadata.request_update()
        self.group_topics = topics
        metadata.topics = [*topics, *(each for each in self.beside if each not in topics)]
        self.counted = -1
        self.electing = Electing(subscriptions, awaits, response.skip_assignment)
        self._assign(step, owner)

    def _assign(self, step: Step, owner: Owner) -> None:
        """``onLeaderElected``, once the metadata has all topics of the group."""
        electing, membership = self.electing, self.membership
        assert electing is not None
        if membership.state != "COMPLETING_REBALANCE":
            self.electing = None
            return
        peer = self.lookup.peer
        if electing.awaits >= owner.metadata.updates or not owner.net.ready(step, peer, COORDINATOR):
            return
        self.electing = None
        self._count(owner)
        self.assigned_counts = dict(self.counts)
        parts: dict[str, bytes] = {}
        if not electing.skip:
            assignor = ASSIGNORS[membership.generation.protocol]
            assignment = assignor.assign(dict(self.counts), electing.subscriptions)
            if "leftovers-to-one" in step.defects and not assignor.cooperative:
                _leave_to_first(assignment)
            members = [member for member in sorted(assignment) if assignment[member]]
            if "partition-left-out" in step.defects and members:
                assignment[members[-1]] = assignment[members[-1]][:-1]
            if "partition-given-twice" in step.defects and len(members) > 1:
                assignment[members[-1]] = [*assignment[members[-1]], assignment[members[0]][0]]
            parts = {member: assignment_bytes(partitions) for member, partitions in assignment.items()}
        membership.send_sync(step, owner.net, peer, parts)

    def on_synced(self, step: Step, owner: Owner, ended: Ended) -> None:
        """Take the end of a SyncGroup (``onJoinComplete``)."""
        error, data = self.membership.on_synced(step, ended)
        if self._gone(step, error) or data is None:
            return
        self.joined = self.membership.generation
        assigned = assignment_of(data)
        if any(topic not in self.topics for topic, _ in assigned):
            self.membership.request_rejoin("received assignment does not match the current subscription")
            return
        names = [topic_partition(*each) for each in assigned]
        if self.cooperative and any(tp not in names for tp in owner.positions):
            self.membership.request_rejoin("need to revoke partitions and re-join")
        self.last_generation = self.membership.generation.id
        self._own(step, owner, names, "assign")
        if self.auto_commit_ms:
            self.auto_commit_due = False
            step.set_timer(AUTO_COMMIT, self.auto_commit_ms)

    def _own(self, step: Step, owner: Owner, tps: list[str], reason: OwnReason, lost: bool = False) -> None:
        """What it owns changes to ``tps``. ``lost``: it had no say in what it owns no more."""
        before = list(owner.positions)
        gone = [tp for tp in before if tp not in tps]
        added = [tp for tp in tps if tp not in before]
        for position in owner.positions.values():
            position.revoking = False
        for tp in gone:
            owner.drop(step, tp)
        for tp in added:
            owner.take(step, tp)
        if not gone and not added and reason not in ("assign", "leave", "join"):
            return
        generation = self.membership.generation
        step.record(
            ConsOwn(
                self.membership.settings.group,
                generation.member,
                generation.id,
                sorted(owner.positions),
                added,
                [] if lost else gone,
                gone if lost else [],
                reason,
            )
        )

    # ---- heartbeats ---------------------------------------------------------------------------------------

    def _beat(self, step: Step, owner: Owner) -> str:
        """A round of Kafka's heartbeat thread; returns the coordinator, "" unknown."""
        membership = self.membership
        if membership.joined:
            peer = self._peer(step, owner)
        elif self.lookup.peer and not owner.net.usable(self.lookup.peer, COORDINATOR):
            # Without that thread the application finds it out when it polls: what was to be sent fails with the
            # connection (ConsumerNetworkClient.checkDisconnects).
            self.lose_coordinator(step, E.NETWORK_EXCEPTION)
            peer = ""
        else:
            peer = self.lookup.peer
        if not membership.joined or self.fatal:
            return peer
        now = step.now_ms
        if peer and now >= membership.session_end_ms:
            self.lose_coordinator(step, E.NETWORK_EXCEPTION)
            peer = ""
            membership.session_end_ms = now + membership.settings.session_ms
        elif peer and now >= membership.poll_end_ms and "stalls-unheeded" not in step.defects:
            self.leave(step, owner, "consumer poll timeout has expired.")
            return peer
        elif peer and now >= membership.due_ms and owner.net.ready(step, peer, COORDINATOR):
            membership.send_heartbeat(step, owner.net, peer)
        self._wake(step)
        return peer

    def _wake(self, step: Step) -> None:
        """Set the timer of the heartbeats. An application that polls all the time does so again before the end of
        max.poll.interval.ms; one that was held up finds that over."""
        membership = self.membership
        times = (membership.due_ms, membership.session_end_ms, membership.poll_end_ms - 1, membership.poll_end_ms)
        later = (each for each in times if each > step.now_ms)
        wanted = min(later, default=step.now_ms + membership.settings.backoff_ms)
        if self.awake_ms < 0 or wanted < self.awake_ms:
            self.awake_ms = wanted
            step.set_timer(BEAT, wanted - step.now_ms)

    def on_awake(self) -> None:
        """The timer of the heartbeats went off."""
        self.awake_ms = -1

    def on_heartbeat(self, step: Step, ended: Ended) -> None:
        """Take the end of a heartbeat."""
        self._gone(step, self.membership.on_heartbeat(step, ended))

    def _gone(self, step: Step, error: int) -> bool:
        """After an answer of the coordinator: whether it is not the coordinator any more."""
        if error in _COORDINATOR_GONE and self.lookup.broker >= 0:
            self.lose_coordinator(step, error)
        return error in _COORDINATOR_GONE

    def on_found(self, step: Step, owner: Owner, ended: Ended) -> list[Committed]:
        """Take the end of a FindCoordinator; returns commits that it was the last hope of."""
        if ended.call != self.lookup.call:
            return []  # of a consumer that was closed
        error = self.lookup.on_ended(step, owner.net, owner.metadata, ended)
        if not error:
            self.membership.session_end_ms = step.now_ms + self.membership.settings.session_ms
            return []
        return self._without_coordinator(step, error)

    def _without_coordinator(self, step: Step, error: int) -> list[Committed]:
        """Nobody could say who the coordinator is; returns commits that are over with that."""
        done = self.commits.no_coordinator(step, error)
        for each in done:
            self._on_commit_over(step, each)
        return done

    # ---- leaving, and coming back -------------------------------------------------------------------------

    def leave(self, step: Step, owner: Owner, reason: str) -> int:
        """Leave the group; what is owned is lost as soon as the application polls. Returns the call, 0 none."""
        peer = self.lookup.peer
        return self.membership.leave(step, owner.net, peer, reason)

    def begin_anew(self, step: Step, owner: Owner) -> None:
        """A consumer that was closed is made anew: it knows nothing of its group, nor who coordinates it."""
        self.membership = GroupMembership(self.membership.settings)
        self.lookup.begin_anew(step)
        self.last_generation, self.joined = NO_GENERATION.id, NO_GENERATION
        self.preparing, self.prepare_end_ms, self.electing = "", -1, None
        self._own(step, owner, [], "join")

    def record_close(self, step: Step) -> None:
        """The application begins to close the consumer."""
        generation = self.membership.generation
        group, stable = self.membership.settings.group, self._stable() is not None
        step.record(ConsClose(group, generation.member, generation.id, stable, self.fatal))

    def close(self, step: Step, owner: Owner) -> int:
        """The consumer is closed: it gives up what it owns and, as a dynamic member, leaves. Returns the call of its
        LeaveGroup, 0 none. One that was closed for an error, and was no member any more, did not leave of itself."""
        membership = self.membership
        lost = membership.generation.id < 0 or membership.state != "STABLE"
        self._own(step, owner, [], "lost" if lost and self.fatal else "leave", lost)
        self.commits.give_up(step)
        step.cancel_timer(AUTO_COMMIT)
        if not membership.settings.leave_on_close or "closes-without-leaving" in step.defects:
            membership.reset("the consumer is being closed", forget_member=True)
            return 0
        return self.leave(step, owner, "the consumer is being closed")

    # ---- committed positions ------------------------------------------------------------------------------

    def commit(self, step: Step, owner: Owner, how: CommitHow, deadline_ms: int = -1) -> str:
        """Commit every position that it has; returns the operation, "" if there is nothing to commit."""
        offsets, topic_ids = self.consumed(step, owner)
        if not offsets:
            return ""
        generation = self.membership.generation
        operation = owner.next_operation()
        self.commits.begin(step, Commit(operation, how, offsets, generation, deadline_ms, topic_ids))
        return operation

    def consumed(self, step: Step, owner: Owner) -> tuple[dict[str, Entry], dict[str, str]]:
        """Every position that it has, and the ids of their topics, as far as they are kept."""
        offsets: dict[str, Entry] = {}
        topic_ids: dict[str, str] = {}
        for tp, position in owner.positions.items():
            if position.state == "fetching" and position.offset >= 0:
                offsets[tp] = self.entry_of(step, owner, position)
                if position.topic_id:
                    topic_ids[split_topic_partition(tp)[0]] = position.topic_id
        return offsets, topic_ids

    @staticmethod
    def entry_of(step: Step, owner: Owner, position: TopicPartitionState) -> Entry:
        """A position, as it is committed."""
        leader_epoch = position.epoch if owner.metadata.kip_232 == "kafka" else -1
        if "commits-no-epoch" in step.defects:
            leader_epoch = -1
        offset = position.offset + (5 if "commits-ahead" in step.defects else 0)
        if "commits-behind" in step.defects:
            offset = max(offset - 1, 0)
        metadata_epoch = -1 if "commits-without-metadata-epoch" in step.defects else owner.metadata.metadata_epoch
        return [offset, leader_epoch, metadata_epoch]

    def on_committed(self, step: Step, owner: Owner, ended: Ended) -> Committed | None:
        """Take the end of an OffsetCommit; returns the commit if it is over."""
        error, over = self.commits.on_committed(step, owner.metadata, ended)
        if over is not None:
            self._on_commit_over(step, over)
        membership = self.membership
        if error == E.REBALANCE_IN_PROGRESS:
            membership.request_rejoin("offset commit failed since group is already rebalancing")
        elif error in (E.UNKNOWN_MEMBER_ID, E.ILLEGAL_GENERATION) and over is not None:
            stale = membership.generation != over.commit.generation and membership.state == "PREPARING_REBALANCE"
            if not stale:
                reason = f"encountered {E(error).name} from OFFSET_COMMIT response"
                membership.reset(reason, error != E.ILLEGAL_GENERATION)
        elif error == E.FENCED_INSTANCE_ID and over is not None and membership.generation == over.commit.generation:
            membership.fatal = error
        elif error in _COORDINATOR_GONE or error == E.REQUEST_TIMED_OUT:
            self.lose_coordinator(step, error)
        return over

    def _on_commit_over(self, step: Step, over: Committed) -> None:
        if over.commit.operation == self.preparing:
            self.preparing = ""
        elif over.commit.how == "auto" and over.error and traits(over.error).retriable:
            step.set_timer(AUTO_COMMIT, self.membership.settings.backoff_ms)

    def on_auto_commit(self) -> None:
        """auto.commit.interval.ms is over."""
        self.auto_commit_due = True

    def _look_up(self, step: Step, owner: Owner) -> None:
        """Where partitions begin that were assigned."""
        tps = [tp for tp, position in owner.positions.items() if position.state == "initializing"]
        if not tps:
            self.commits.give_up(step)
            return
        operation = self.commits.fetching if self.commits.fetched == tps else owner.next_operation()
        self.commits.fetch(step, owner.net, owner.metadata, self._peer(step, owner), tps, operation)

    def on_offsets(self, step: Step, owner: Owner, ended: Ended) -> dict[str, Entry]:
        """Take the end of an OffsetFetch; returns what is committed."""
        error, found = self.commits.on_fetched(step, owner.metadata, ended)
        if error and not traits(error).retriable:
            self.membership.fatal = error
        self._gone(step, error)
        return found or {}


def _partitions(positions: dict[str, TopicPartitionState]) -> list[TopicPartition]:
    return sorted(split_topic_partition(tp) for tp in positions)


def _leave_to_first(assignment: Assignment) -> None:
    """The defect "leftovers-to-one"."""
    first, *others = sorted(assignment)
    least = sum(map(len, assignment.values())) // len(assignment)
    for member in others:
        assignment[first] += assignment[member][least:]
        assignment[member] = assignment[member][:least]
