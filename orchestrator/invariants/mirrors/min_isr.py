"""min.insync.replicas as the configuration records have it: what a broker has to go by, whatever it says itself."""

from __future__ import annotations

import msgspec

from actors.node.spec import node_id, partition_name, split_topic_partition
from actors.trace.events import ConfigChange, MetaImage, NodeUp, PartRemove, QRole, Stamped, TraceEvent
from actors.trace.metadata_history import Elections, History
from orchestrator.invariants.folds.fold import Profile, Witness, witness

MIN_ISR = "min.insync.replicas"
UNSET = 1
"""What holds where neither a record nor the node's own configuration says anything."""

HEARD: tuple[type[TraceEvent], ...] = (ConfigChange, MetaImage, NodeUp, PartRemove, QRole)


class Setting(msgspec.Struct, frozen=True):
    """A record of the metadata log that sets min.insync.replicas of a resource, or, with None, unsets it."""

    quorum_epoch: int
    offset: int
    resource: str
    value: str | None
    by: Witness


class Least(msgspec.Struct, frozen=True):
    """What holds at a broker, and the record that says so; None: it was started with it."""

    value: int
    by: Witness | None = None

    def up_to(self, replicas: int) -> Least:
        """No more than a partition has replicas; 0: not known how many those are."""
        return Least(replicas, self.by) if 0 < replicas < self.value else self


KEPT = 1 << 10
"""Records that are kept: all that a run has."""


def resources(node: str, tp: str) -> tuple[str, str, str]:
    """Those whose settings a node goes by for a partition, the first one that says something."""
    number = str(node_id(node)) if node.startswith("controller-") else node.rpartition("-")[2]
    return f"topic/{split_topic_partition(partition_name(tp))[0]}", f"broker/{number}", "broker/"


class LeastIsr(msgspec.Struct):
    """settings: the records. applied: broker -> end of the metadata log that it has applied."""

    elections: Elections = msgspec.field(default_factory=Elections)
    settings: History[Setting] = msgspec.field(default_factory=lambda: History(KEPT))
    applied: dict[str, int] = {}

    def hear(self, event: Stamped) -> bool:
        """Take an event of the types in ``HEARD``; whether something else may hold at its node from now on."""
        body = event.body
        if type(body) is MetaImage:
            self.applied[event.node] = body.offset
            return True
        if type(body) is NodeUp:
            self.applied.pop(event.node, None)
            return True
        if type(body) is QRole:
            if self.elections.take(event.node, body):
                self.settings.forget_lost(self.elections)
            return False
        if type(body) is PartRemove:
            # What a topic was set to goes with it.
            topic = f"topic/{split_topic_partition(partition_name(body.tp))[0]}"
            self.settings.add(Setting(body.quorum_epoch, body.offset, topic, None, witness(event)), self.elections)
            return False
        assert type(body) is ConfigChange
        if body.key == MIN_ISR:
            told = Setting(body.quorum_epoch, body.offset, body.resource, body.value, witness(event))
            self.settings.add(told, self.elections)
        return False

    def at(self, node: str, tp: str, profile: Profile) -> Least:
        """What a broker must go by: the topic's own value, the broker's, that of all brokers, or what it was started
        with (``KafkaConfigSchema.resolveEffectiveTopicConfig``), in what it has applied."""
        end = self.applied.get(node, 0)
        newest = {each.resource: each for each in self.settings.records if each.offset < end}
        for resource in resources(node, tp):
            found = newest.get(resource)
            if found is not None and found.value is not None:
                return Least(int(found.value), found.by)
        return Least(int(profile.setting(MIN_ISR, node, UNSET)))
