"""min.insync.replicas as the configuration records have it: what a broker has to go by, whatever it says itself."""

from __future__ import annotations

import msgspec

from actors.node.spec import split_topic_partition
from actors.trace.events import ConfigChange, MetaImage, NodeUp, QRole, Stamped, TraceEvent
from orchestrator.invariants.fold import Profile, Witness, witness

MIN_ISR = "min.insync.replicas"
UNSET = 1
"""What holds where neither a record nor the node's own configuration says anything."""

HEARD: tuple[type[TraceEvent], ...] = (ConfigChange, MetaImage, NodeUp, QRole)


class Setting(msgspec.Struct, frozen=True):
    """A record of the metadata log that sets min.insync.replicas of a resource, or, with None, unsets it."""

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


class LeastIsr(msgspec.Struct):
    """The records, oldest first, as the newest controller's log has them; applied: broker -> end of the metadata log
    that it has applied; quorum_epoch: of that controller."""

    settings: list[Setting] = []
    applied: dict[str, int] = {}
    quorum_epoch: int = -1

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
            if body.role == "leader" and body.epoch > self.quorum_epoch:
                self.quorum_epoch = body.epoch  # what a former leader had beyond this one's log is lost
                self.settings = [each for each in self.settings if each.offset < body.log_end]
            return False
        assert type(body) is ConfigChange
        if body.key == MIN_ISR and body.quorum_epoch >= self.quorum_epoch:
            self.settings.append(Setting(body.offset, body.resource, body.value, witness(event)))
        return False

    def at(self, node: str, tp: str, profile: Profile) -> Least:
        """What a broker must go by: the topic's own value, the broker's, that of all brokers, or what it was started
        with (``KafkaConfigSchema.resolveEffectiveTopicConfig``), in what it has applied."""
        end = self.applied.get(node, 0)
        newest = {each.resource: each for each in self.settings if each.offset < end}
        for resource in (f"topic/{split_topic_partition(tp)[0]}", f"broker/{node.rpartition('-')[2]}", "broker/"):
            found = newest.get(resource)
            if found is not None and found.value is not None:
                return Least(int(found.value), found.by)
        return Least(int(profile.setting(MIN_ISR, node, UNSET)))
