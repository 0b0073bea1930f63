"""What is known about the cluster while it runs, folded from trace events.

The conductor waits for the steady state on it, selectors are resolved against it, and the progress line shows it.
"""

from __future__ import annotations

import msgspec

from actors.node.spec import ClusterSpec, node_name, topic_partition
from actors.trace.events import BrokerReg, NodeDown, NodeUp, PartAssume, PartChange, QRole, Stamped


class PartitionView(msgspec.Struct):
    """A topic partition. ``leader`` -1: none. ``version``: (quorum epoch, offset) of the newest metadata record,
    which orders the controllers' appends; ``changed_epoch``: its leader epoch, behind ``leader_epoch`` while a
    broker has been heard of that leads in a newer one. ``assumed_by``: who took up ``assumed_epoch``."""

    replicas: list[int]
    leader: int = -1
    leader_epoch: int = -1
    isr: list[int] = []
    version: tuple[int, int] = (-1, -1)
    changed_epoch: int = -1
    assumed_epoch: int = -1
    assumed_by: str = ""

    @property
    def steady(self) -> bool:
        """It has its whole ISR, and its leader has taken up the leadership."""
        return (
            self.leader >= 0
            and self.changed_epoch == self.leader_epoch
            and sorted(self.isr) == sorted(self.replicas)
            and self.assumed_epoch == self.leader_epoch
            and self.assumed_by == node_name(self.leader)
        )


class ClusterView(msgspec.Struct):
    """The cluster as its trace tells it so far; events of different nodes may come in any order.

    up: node -> incarnation that is running. started: node -> newest incarnation, running or not.
    fenced: broker -> whether the active controller fences it (absent: not registered yet).
    registered_at: broker -> (offset, wall) of the event that said so.
    controller: name of the quorum's leader, "" if none is known.
    """

    brokers: list[str]
    partitions: dict[str, PartitionView]
    up: dict[str, int] = {}
    started: dict[str, int] = {}
    fenced: dict[str, bool] = {}
    registered_at: dict[str, tuple[int, int]] = {}
    controller: str = ""
    quorum_epoch: int = -1

    def fold(self, event: Stamped) -> None:
        """Take note of an event; those of other types change nothing."""
        body = event.body
        if isinstance(body, PartChange):
            self._on_change(body)
        elif isinstance(body, PartAssume):
            self._on_assume(event.node, body)
        elif isinstance(body, QRole):
            self._on_role(event.node, body)
        elif isinstance(body, BrokerReg):
            self._on_registration(event.wall, body)
        elif isinstance(body, NodeUp):
            if event.incarnation > self.started.get(event.node, -1):
                self.up[event.node] = self.started[event.node] = event.incarnation
                self._on_start(event)
        elif isinstance(body, NodeDown):
            if self.up.get(event.node) == event.incarnation:
                del self.up[event.node]

    def _on_change(self, body: PartChange) -> None:
        found = self.partitions.get(body.tp)
        version = (body.quorum_epoch, body.offset)
        if found is None or version <= found.version:
            return
        found.version, found.changed_epoch = version, body.leader_epoch
        found.isr, found.replicas = list(body.isr), list(body.replicas)
        if body.leader_epoch >= found.assumed_epoch:
            # Also where it is lower than before: the change before was lost with the controller that appended it.
            found.leader, found.leader_epoch = body.leader, body.leader_epoch

    def _on_assume(self, node: str, body: PartAssume) -> None:
        found = self.partitions.get(body.tp)
        if found is not None and body.role == "leader" and body.leader_epoch >= found.assumed_epoch:
            found.assumed_epoch, found.assumed_by = body.leader_epoch, node
            if body.leader_epoch > found.leader_epoch:
                # The controller's own word for it may come late. A broker takes up only what is committed.
                found.leader, found.leader_epoch = body.leader, body.leader_epoch

    def _on_role(self, node: str, body: QRole) -> None:
        if not node.startswith("controller-") or body.epoch < self.quorum_epoch:
            return
        if body.role == "leader":
            self.quorum_epoch, self.controller = body.epoch, node
        elif body.epoch > self.quorum_epoch or node == self.controller:
            self.quorum_epoch, self.controller = body.epoch, ""

    def _on_start(self, event: Stamped) -> None:
        # A broker that came back must register again, whatever the controller still believes. The hybrid clock says
        # whether a registration that is already known is that one.
        if self.registered_at.get(event.node, (-1, -1))[1] < event.wall:
            self.fenced.pop(event.node, None)

    def _on_registration(self, wall: int, body: BrokerReg) -> None:
        name = node_name(body.broker)
        if (body.offset, wall) > self.registered_at.get(name, (-1, -1)):
            self.registered_at[name], self.fenced[name] = (body.offset, wall), body.fenced

    @property
    def unsteady(self) -> str:
        """Why the cluster is not in its steady state, or "" if it is: every broker unfenced, every partition
        with its whole ISR and assumed by its leader."""
        fenced = [name for name in self.brokers if self.fenced.get(name, True)]
        if fenced:
            return f"fenced or not registered: {', '.join(fenced)}"
        rough = [tp for tp, partition in self.partitions.items() if not partition.steady]
        return f"without its leader or its whole ISR: {', '.join(rough)}" if rough else ""

    def leaders(self) -> dict[str, str]:
        """Topic partition -> name of its leader, "" where there is none."""
        return {tp: node_name(p.leader) if p.leader >= 0 else "" for tp, p in self.partitions.items()}


def new_view(cluster: ClusterSpec) -> ClusterView:
    """The view before anything was seen."""
    partitions = {
        topic_partition(topic.name, number): PartitionView(list(replicas))
        for topic in cluster.topics
        for number, replicas in enumerate(topic.replicas)
    }
    return ClusterView([node_name(broker) for broker in cluster.brokers], partitions)
