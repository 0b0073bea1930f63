"""What is known about the cluster while it runs, folded from trace events.

The conductor waits for the steady state on it, selectors are resolved against it, and the progress line shows it.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from actors.node.spec import ClusterSpec, node_name, partition_name, topic_partition
from actors.trace.events import (
    BrokerReg,
    NodeDown,
    NodeUp,
    PartAssume,
    PartChange,
    PartRemove,
    QRole,
    QVoters,
    Stamped,
    TraceEvent,
)
from actors.trace.metadata_history import Elections, History, place

VIEWED: frozenset[type[TraceEvent]] = frozenset(
    {PartChange, PartRemove, PartAssume, QRole, QVoters, BrokerReg, NodeUp, NodeDown}
)
"""Events that change the view of the cluster."""

KEPT = 64
"""Changes of one broker or partition that are kept: more than a leader without followers appends before it resigns."""


class PartitionView(msgspec.Struct):
    """A topic partition. ``leader`` -1: none. ``changes``: the last metadata records about it. ``changed_epoch``:
    leader epoch of the newest, behind ``leader_epoch`` while a broker has been heard of that leads in a newer one.
    ``assumed_by``: who took up ``assumed_epoch``. ``key``: what the trace calls it, "" what it is called here.
    ``removed``: its topic was, and none of its name has come since."""

    replicas: list[int]
    leader: int = -1
    leader_epoch: int = -1
    isr: list[int] = []
    changes: History[PartChange] = msgspec.field(default_factory=lambda: History(KEPT))
    changed_epoch: int = -1
    assumed_epoch: int = -1
    assumed_by: str = ""
    key: str = ""
    removed: bool = False

    def steady(self, away: Collection[str] = ()) -> bool:
        """Its ISR is whole, but for who is away, and its leader has taken up the leadership; or it is no more."""
        return self.removed or (
            self.leader >= 0
            and self.changed_epoch == self.leader_epoch
            and self.assumed_epoch == self.leader_epoch
            and self.assumed_by == node_name(self.leader)
            and sorted(self.isr) == sorted(each for each in self.replicas if node_name(each) not in away)
        )


class Registration(msgspec.Struct, frozen=True):
    """A metadata record about a broker, and the time of the event that told of it."""

    quorum_epoch: int
    offset: int
    wall: int
    fenced: bool


class VotersView(msgspec.Struct, frozen=True):
    """A voter set that is or was in force in some member's log. members: name -> id of its directory."""

    quorum_epoch: int
    offset: int
    members: dict[str, str]


class ClusterView(msgspec.Struct):
    """The cluster as its trace tells it so far; events of different nodes may come in any order.

    voters: names of the quorum's voters. voter_sets: where they are in the log, the last sets known of.
    sets_in_force: controller -> the voter set in its own log, since it started.
    directories: node -> id of its directory, as it said when it started last. strangers: nodes whose disks belong to
    another cluster.
    up: node -> incarnation that is running. started: node -> newest incarnation, running or not.
    registrations: broker -> the last metadata records about it.
    controller: name of the quorum's leader, "" if none is known.
    roles: controller that runs -> its role in the quorum since it started.
    rough: a partition that was not steady when somebody asked last, "" none known.
    """

    brokers: list[str]
    partitions: dict[str, PartitionView]
    voters: list[str]
    up: dict[str, int] = {}
    started: dict[str, int] = {}
    registrations: dict[str, History[Registration]] = {}
    controller: str = ""
    quorum_epoch: int = -1
    roles: dict[str, str] = {}
    elections: Elections = msgspec.field(default_factory=Elections)
    voter_sets: History[VotersView] = msgspec.field(default_factory=lambda: History(KEPT))
    sets_in_force: dict[str, VotersView] = {}
    directories: dict[str, str] = {}
    strangers: frozenset[str] = frozenset()
    rough: str = ""

    def fold(self, event: Stamped) -> None:
        """Take note of an event; those of other types change nothing."""
        body = event.body
        if isinstance(body, PartChange):
            self._on_change(body)
        elif isinstance(body, PartRemove):
            found = self._partition(body.tp)
            if found is not None:
                found.removed, found.leader, found.isr = True, -1, []
        elif isinstance(body, PartAssume):
            self._on_assume(event.node, body)
        elif isinstance(body, QRole):
            self._on_role(event.node, body)
        elif isinstance(body, QVoters):
            self._on_voters(event.node, body)
        elif isinstance(body, BrokerReg):
            self._on_registration(event, body)
        elif isinstance(body, NodeUp):
            if event.incarnation > self.started.get(event.node, -1):
                self.directories[event.node] = body.directory_id
                self.up[event.node] = self.started[event.node] = event.incarnation
                self._on_start(event)
        elif isinstance(body, NodeDown):
            if self.up.get(event.node) == event.incarnation:
                del self.up[event.node]
            if self.started.get(event.node, 0) <= event.incarnation:
                self.roles.pop(event.node, None)

    def _on_change(self, body: PartChange) -> None:
        found = self._partition(body.tp)
        if found is None and body.cause == "create" and not self.elections.is_lost(body):
            # A partition that the scenario does not have, or that came after another one of its name.
            found = self.partitions[partition_name(body.tp)] = PartitionView(list(body.replicas), key=body.tp)
        if found is not None and found.changes.add(body, self.elections):
            found.removed = False
            _take_newest(found)

    def _partition(self, tp: str) -> PartitionView | None:
        """What is known of a partition by its key in the trace; None if that is not the newest of its name."""
        name = partition_name(tp)
        found = self.partitions.get(name)
        return found if found is not None and (found.key or name) == tp else None

    def _on_assume(self, node: str, body: PartAssume) -> None:
        found = self._partition(body.tp)
        if found is not None and body.role == "leader" and body.leader_epoch >= found.assumed_epoch:
            found.assumed_epoch, found.assumed_by = body.leader_epoch, node
            if body.leader_epoch > found.leader_epoch:
                # The controller's own word for it may come late. A broker takes up only what is committed.
                found.leader, found.leader_epoch = body.leader, body.leader_epoch

    def _on_role(self, node: str, body: QRole) -> None:
        if not node.startswith("controller-"):
            return
        self.roles[node] = body.role
        if self.elections.take(node, body):
            self._forget_lost()
        if body.epoch < self.quorum_epoch:
            return
        if body.role == "leader":
            self.quorum_epoch, self.controller = body.epoch, node
        elif body.epoch > self.quorum_epoch or node == self.controller:
            self.quorum_epoch, self.controller = body.epoch, ""

    def _on_voters(self, node: str, body: QVoters) -> None:
        told = VotersView(body.epoch, body.offset, {node_name(int(each)): key for each, key in body.members.items()})
        self.sets_in_force[node] = told
        if not body.members:
            return
        if told not in self.voter_sets.records and told not in self.voter_sets.lost:
            self.voter_sets.add(told, self.elections)
        self.voters = list(self.voter_directories)

    @property
    def voter_directories(self) -> dict[str, str]:
        """Voter -> id of its directory, where the voters are in the log."""
        newest = self.voter_sets.newest
        return newest.members if newest is not None else {}

    def deciding_sets(self, away: Collection[str]) -> list[dict[str, str]]:
        """The voter sets by which the members that are not ``away`` count votes: voter -> id of its directory, "" for
        any. A change that nobody has but a leader that is away holds for nobody else, and as it may have been
        committed all the same, the newest set is always among them."""
        newest = self.voter_directories or dict.fromkeys(self.voters, "")
        held = [each.members for node, each in self.sets_in_force.items() if node in each.members and node not in away]
        return [newest, *(members for members in held if members != newest)]

    def has_quorum(self, away: Collection[str]) -> bool:
        """Whether most of the voters are left without those that are ``away``, by whatever set they count. Who lost its
        disk is another replica than the voter that it was (KIP-853)."""
        return all(2 * len(self._present(members, away)) > len(members) for members in self.deciding_sets(away))

    def can_elect(self, away: Collection[str]) -> bool:
        """Whether there is a quorum without those that are ``away``, and some voter of it may win."""
        return self.has_quorum(away) and self._may_elect(away)

    def _present(self, members: dict[str, str], away: Collection[str]) -> list[str]:
        """Voters of a set that are not away, of this cluster, with the directories that they are known by."""
        return [
            name
            for name, key in members.items()
            if name not in away and name not in self.strangers and (not key or self.directories.get(name, key) == key)
        ]

    def _may_elect(self, away: Collection[str]) -> bool:
        """Whether some voter may win. Who has a newer voter set has a newer log, and gives no vote; and who removed
        itself from the voters stands no more, although what it appended may never be committed: in Kafka the other one
        of two voters cannot win then (finding removed-leader-deadlock)."""
        held = {name: each for name, each in self.sets_in_force.items() if name not in away}
        return not held or any(
            2 * sum(name not in held or place(held[name]) <= place(mine) for name in present) > len(mine.members)
            for candidate, mine in held.items()
            if candidate in (present := self._present(mine.members, away))
        )

    def _forget_lost(self) -> None:
        """A leader was elected: what its log lacks is lost, and what it has is not."""
        for found in self.partitions.values():
            unknown = found.changes.newest is None
            if found.changes.forget_lost(self.elections) and (unknown or not found.removed):
                found.removed = False
                _take_newest(found)
        for known in self.registrations.values():
            known.forget_lost(self.elections)
        if any(not self.elections.is_lost(each) for each in (*self.voter_sets.records, *self.voter_sets.lost)):
            self.voter_sets.forget_lost(self.elections)
            self.voters = list(self.voter_directories)

    def _on_start(self, event: Stamped) -> None:
        self.roles.pop(event.node, None)
        self.sets_in_force.pop(event.node, None)
        # A broker that came back must register again, whatever the controller still believes. The hybrid clock says
        # whether a registration that is already known is that one.
        self._registrations(event.node).keep(lambda each: each.wall >= event.wall)

    def _on_registration(self, event: Stamped, body: BrokerReg) -> None:
        told = Registration(self.elections.epoch_of(event.node), body.offset, event.wall, body.fenced)
        self._registrations(node_name(body.broker)).add(told, self.elections)

    def _registrations(self, broker: str) -> History[Registration]:
        found = self.registrations.get(broker)
        if found is None:
            found = self.registrations[broker] = History(KEPT)
        return found

    def is_fenced(self, broker: str) -> bool:
        """Whether the active controller fences a broker, or does not know it yet."""
        known = self.registrations.get(broker)
        newest = known.newest if known is not None else None
        return newest is None or newest.fenced

    def is_back(self, node: str) -> bool:
        """Whether a controller or broker has taken its place: in the quorum under a leader; unfenced, and in the ISR of
        all of its partitions. A stranger has none."""
        if node not in self.up or node in self.strangers:
            return node in self.up
        if node not in self.brokers:
            # Somebody that is cut off may be in a higher epoch, which nobody leads.
            return "leader" in self.roles.values() and self.roles.get(node) in ("leader", "follower")
        mine = [found for found in self.living.values() if node in map(node_name, found.replicas)]
        return not self.is_fenced(node) and all(node in map(node_name, found.isr) for found in mine)

    def is_steady(self, away: Collection[str] = ()) -> bool:
        """Whether the cluster is in its steady state: every broker unfenced, every partition with its whole ISR and
        assumed by its leader; but for brokers that are ``away``. It is asked after each event, and of thousands of
        partitions mostly the one that was not steady before still is not."""
        if any(name not in away and self.is_fenced(name) for name in self.brokers):
            return False
        known = self.partitions.get(self.rough)
        if known is not None and not known.steady(away):
            return False
        names = list(self.partitions)
        first = names.index(self.rough) if known is not None else 0
        rough = (tp for tp in (*names[first:], *names[:first]) if not self.partitions[tp].steady(away))
        self.rough = next(rough, "")
        return not self.rough

    def unsteady(self, away: Collection[str] = ()) -> str:
        """Why the cluster is not in its steady state, or "" if it is."""
        fenced = [name for name in self.brokers if name not in away and self.is_fenced(name)]
        if fenced:
            return f"fenced or not registered: {', '.join(fenced)}"
        rough = [tp for tp, partition in self.partitions.items() if not partition.steady(away)]
        return f"without its leader or its whole ISR: {', '.join(rough)}" if rough else ""

    @property
    def living(self) -> dict[str, PartitionView]:
        """Partitions whose topics were not removed."""
        return {tp: found for tp, found in self.partitions.items() if not found.removed}

    def able(self, tp: str) -> list[str]:
        """Brokers that may lead a partition without anything being given up: in sync, eligible, or the last that
        led it where nobody else is left."""
        found = self.partitions[tp]
        newest = found.changes.newest
        eligible = [*found.isr, *(newest.elr if newest else [])]
        if newest is not None and not eligible:
            eligible = newest.last_known_elr
        return list(dict.fromkeys(map(node_name, eligible)))

    def leaders(self) -> dict[str, str]:
        """Topic partition -> name of its leader, "" where there is none."""
        return {tp: node_name(p.leader) if p.leader >= 0 else "" for tp, p in self.partitions.items()}


def _take_newest(found: PartitionView) -> None:
    """Let the newest change that is not lost be what is known of a partition."""
    newest = found.changes.newest
    if newest is None:
        found.leader = found.leader_epoch = found.changed_epoch = -1
        found.isr = []
        found.removed = bool(found.key)  # the topic was lost with the controller that had made it
        return
    found.changed_epoch = newest.leader_epoch
    found.isr, found.replicas = list(newest.isr), list(newest.replicas)
    if newest.leader_epoch >= found.assumed_epoch:
        # Also where it is lower than before: the change before was lost with the controller that appended it.
        found.leader, found.leader_epoch = newest.leader, newest.leader_epoch


def new_view(cluster: ClusterSpec, strangers: Collection[str] = ()) -> ClusterView:
    """The view before anything was seen."""
    partitions = {
        topic_partition(topic.name, number): PartitionView(list(replicas))
        for topic in cluster.topics
        for number, replicas in enumerate(topic.replicas)
    }
    brokers, voters = ([node_name(each) for each in ids] for ids in (cluster.brokers, cluster.voters))
    return ClusterView(brokers, partitions, voters, strangers=frozenset(strangers))
