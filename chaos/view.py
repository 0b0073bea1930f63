"""What is known about the cluster while it runs, folded from trace events.

The conductor waits for the steady state on it, selectors are resolved against it, and the progress line shows it.

A controller says what it appends to the metadata log, which may be lost with it: a leader that is cut off goes on
fencing brokers for a while. Its successor says where its own log ended when it was elected, and what older leaders
appended from there on never happened. So changes are kept until then, and what was before them holds again.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from actors.node.spec import ClusterSpec, node_name, topic_partition
from actors.trace.events import BrokerReg, NodeDown, NodeUp, PartAssume, PartChange, QRole, QVoters, Stamped, TraceEvent

VIEWED: frozenset[type[TraceEvent]] = frozenset({PartChange, PartAssume, QRole, QVoters, BrokerReg, NodeUp, NodeDown})
"""Events that change the view of the cluster."""

KEPT = 64
"""Changes of one broker or partition that are kept: more than a leader without followers appends before it resigns."""


class PartitionView(msgspec.Struct):
    """A topic partition. ``leader`` -1: none. ``changes``: the last metadata records about it, by (quorum epoch,
    offset), which orders the controllers' appends. ``changed_epoch``: leader epoch of the newest, behind
    ``leader_epoch`` while a broker has been heard of that leads in a newer one. ``assumed_by``: who took up
    ``assumed_epoch``."""

    replicas: list[int]
    leader: int = -1
    leader_epoch: int = -1
    isr: list[int] = []
    changes: list[PartChange] = []
    changed_epoch: int = -1
    assumed_epoch: int = -1
    assumed_by: str = ""

    def steady(self, away: Collection[str] = ()) -> bool:
        """Its ISR is whole, but for who is away, and its leader has taken up the leadership."""
        return (
            self.leader >= 0
            and self.changed_epoch == self.leader_epoch
            and sorted(self.isr) == sorted(each for each in self.replicas if node_name(each) not in away)
            and self.assumed_epoch == self.leader_epoch
            and self.assumed_by == node_name(self.leader)
        )


class Registration(msgspec.Struct, frozen=True, order=True):
    """A metadata record about a broker, and the time of the event that told of it."""

    quorum_epoch: int
    offset: int
    wall: int
    fenced: bool


class VotersView(msgspec.Struct, frozen=True):
    """A voter set that is or was in force in some member's log. members: name -> id of its directory."""

    epoch: int
    offset: int
    members: dict[str, str]


class ClusterView(msgspec.Struct):
    """The cluster as its trace tells it so far; events of different nodes may come in any order.

    voters: names of the quorum's voters. voter_sets: where they are in the log, the last sets known of, in their order.
    sets_in_force: controller -> the voter set in its own log, since it started.
    directories: node -> id of its directory, as it said when it started last. strangers: nodes whose disks belong to
    another cluster.
    up: node -> incarnation that is running. started: node -> newest incarnation, running or not.
    registrations: broker -> the last metadata records about it, in their order.
    controller: name of the quorum's leader, "" if none is known.
    roles: controller that runs -> its role in the quorum since it started.
    led: controller -> newest quorum epoch that it led. begun_at: quorum epoch -> end of its leader's log then.
    """

    brokers: list[str]
    partitions: dict[str, PartitionView]
    voters: list[str]
    up: dict[str, int] = {}
    started: dict[str, int] = {}
    registrations: dict[str, list[Registration]] = {}
    controller: str = ""
    quorum_epoch: int = -1
    roles: dict[str, str] = {}
    led: dict[str, int] = {}
    begun_at: dict[int, int] = {}
    voter_sets: list[VotersView] = []
    sets_in_force: dict[str, VotersView] = {}
    directories: dict[str, str] = {}
    strangers: frozenset[str] = frozenset()

    def fold(self, event: Stamped) -> None:
        """Take note of an event; those of other types change nothing."""
        body = event.body
        if isinstance(body, PartChange):
            self._on_change(body)
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
        found = self.partitions.get(body.tp)
        if found is None or self._is_lost(body.quorum_epoch, body.offset):
            return
        found.changes = sorted([*found.changes, body], key=_version)[-KEPT:]
        if found.changes[-1] is body:
            _take_newest(found)

    def _on_assume(self, node: str, body: PartAssume) -> None:
        found = self.partitions.get(body.tp)
        if found is not None and body.role == "leader" and body.leader_epoch >= found.assumed_epoch:
            found.assumed_epoch, found.assumed_by = body.leader_epoch, node
            if body.leader_epoch > found.leader_epoch:
                # The controller's own word for it may come late. A broker takes up only what is committed.
                found.leader, found.leader_epoch = body.leader, body.leader_epoch

    def _on_role(self, node: str, body: QRole) -> None:
        if not node.startswith("controller-"):
            return
        self.roles[node] = body.role
        if body.role == "leader":
            self.led[node], self.begun_at[body.epoch] = body.epoch, body.log_end
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
        if not body.members or self._is_lost(body.epoch, body.offset):
            return
        if told not in self.voter_sets:
            self.voter_sets = sorted([*self.voter_sets, told], key=_place)[-KEPT:]
        self.voters = list(self.voter_sets[-1].members)

    @property
    def voter_directories(self) -> dict[str, str]:
        """Voter -> id of its directory, where the voters are in the log."""
        return self.voter_sets[-1].members if self.voter_sets else {}

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
            2 * sum(name not in held or _place(held[name]) <= _place(mine) for name in present) > len(mine.members)
            for candidate, mine in held.items()
            if candidate in (present := self._present(mine.members, away))
        )

    def _is_lost(self, quorum_epoch: int, offset: int) -> bool:
        """Whether a record that a leader appended is missing in the log of a later one."""
        return any(epoch > quorum_epoch and offset >= end for epoch, end in self.begun_at.items())

    def _forget_lost(self) -> None:
        """A leader was elected: what its log lacks never happened."""
        for found in self.partitions.values():
            kept = [each for each in found.changes if not self._is_lost(each.quorum_epoch, each.offset)]
            if len(kept) < len(found.changes):
                found.changes = kept
                _take_newest(found)
        for name, known in self.registrations.items():
            self.registrations[name] = [each for each in known if not self._is_lost(each.quorum_epoch, each.offset)]
        left = [each for each in self.voter_sets if not self._is_lost(each.epoch, each.offset)]
        if left and left != self.voter_sets:
            self.voter_sets = left
            self.voters = list(left[-1].members)

    def _on_start(self, event: Stamped) -> None:
        self.roles.pop(event.node, None)
        self.sets_in_force.pop(event.node, None)
        # A broker that came back must register again, whatever the controller still believes. The hybrid clock says
        # whether a registration that is already known is that one.
        known = self.registrations.get(event.node, [])
        self.registrations[event.node] = [each for each in known if each.wall >= event.wall]

    def _on_registration(self, event: Stamped, body: BrokerReg) -> None:
        # A controller tells of its election before it tells of anything that it appends.
        told = Registration(self.led.get(event.node, -1), body.offset, event.wall, body.fenced)
        if not self._is_lost(told.quorum_epoch, told.offset):
            name = node_name(body.broker)
            self.registrations[name] = sorted([*self.registrations.get(name, []), told])[-KEPT:]

    def is_fenced(self, broker: str) -> bool:
        """Whether the active controller fences a broker, or does not know it yet."""
        known = self.registrations.get(broker)
        return known[-1].fenced if known else True

    def is_back(self, node: str) -> bool:
        """Whether a controller or broker has taken its place: in the quorum under a leader; unfenced, and in the ISR of
        all of its partitions. A stranger has none."""
        if node not in self.up or node in self.strangers:
            return node in self.up
        if node not in self.brokers:
            # Somebody that is cut off may be in a higher epoch, which nobody leads.
            return "leader" in self.roles.values() and self.roles.get(node) in ("leader", "follower")
        mine = [found for found in self.partitions.values() if node in map(node_name, found.replicas)]
        return not self.is_fenced(node) and all(node in map(node_name, found.isr) for found in mine)

    def unsteady(self, away: Collection[str] = ()) -> str:
        """Why the cluster is not in its steady state, or "" if it is: every broker unfenced, every partition
        with its whole ISR and assumed by its leader; but for brokers that are ``away``."""
        fenced = [name for name in self.brokers if name not in away and self.is_fenced(name)]
        if fenced:
            return f"fenced or not registered: {', '.join(fenced)}"
        rough = [tp for tp, partition in self.partitions.items() if not partition.steady(away)]
        return f"without its leader or its whole ISR: {', '.join(rough)}" if rough else ""

    def able(self, tp: str) -> list[str]:
        """Brokers that may lead a partition without anything being given up: in sync, eligible, or the last that
        led it where nobody else is left."""
        found = self.partitions[tp]
        newest = found.changes[-1] if found.changes else None
        eligible = [*found.isr, *(newest.elr if newest else [])]
        if newest is not None and not eligible:
            eligible = newest.last_known_elr
        return list(dict.fromkeys(map(node_name, eligible)))

    def leaders(self) -> dict[str, str]:
        """Topic partition -> name of its leader, "" where there is none."""
        return {tp: node_name(p.leader) if p.leader >= 0 else "" for tp, p in self.partitions.items()}


def _place(voters: VotersView) -> tuple[int, int]:
    return voters.epoch, voters.offset


def _version(change: PartChange) -> tuple[int, int]:
    return change.quorum_epoch, change.offset


def _take_newest(found: PartitionView) -> None:
    """Let the newest change that is not lost be what is known of a partition."""
    if not found.changes:
        found.leader = found.leader_epoch = found.changed_epoch = -1
        found.isr = []
        return
    newest = found.changes[-1]
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
