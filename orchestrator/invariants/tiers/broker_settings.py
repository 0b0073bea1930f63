"""The settings that a broker takes over from the metadata log while it runs."""

from __future__ import annotations

import msgspec

from actors.node.spec import node_id
from actors.trace.events import ConfigChange, MetaImage, NodeUp, QRole, Stamped, TraceEvent
from actors.trace.metadata_history import Elections, History
from orchestrator.invariants.folds.fold import Profile

KEPT = 1 << 10
"""Records that are kept: all that a run has."""
HEARD_OF_OTHERS: tuple[type[TraceEvent], ...] = (ConfigChange, QRole)
"""What a broker's settings depend on, of other nodes."""


class Configured(msgspec.Struct, frozen=True):
    """A record of the metadata log that sets a key of a resource, or, with None, unsets it."""

    quorum_epoch: int
    offset: int
    resource: str
    key: str
    value: str | None


class BrokerSettings(msgspec.Struct):
    """Of one broker. static: key -> the value that it starts with. own: its resource. ``image``: the end of its
    metadata image, -1 it has none since it started; ``taken``: cause and request of the step that took that over."""

    static: dict[str, int] = {}
    own: str = ""
    records: History[Configured] = msgspec.field(default_factory=lambda: History(KEPT))
    elections: Elections = msgspec.field(default_factory=Elections)
    image: int = -1
    taken: tuple[str, str] = ("", "")

    def hear(self, event: Stamped) -> None:
        """Take an event: of the types in ``HEARD_OF_OTHERS``, or the broker's own start or image."""
        body = event.body
        if type(body) is ConfigChange:
            if body.key in self.static and body.resource in (self.own, "broker/"):
                told = Configured(body.quorum_epoch, body.offset, body.resource, body.key, body.value)
                self.records.add(told, self.elections)
        elif type(body) is QRole:
            if self.elections.take(event.node, body):
                self.records.forget_lost(self.elections)
        elif type(body) is MetaImage:
            self.image, self.taken = body.offset, (event.cause, event.req)
        elif type(body) is NodeUp:
            self.image = -1

    def is_changing(self, event: Stamped) -> bool:
        """Whether the broker takes an image over in the step of an event, or has none: it may still go by the settings
        of before."""
        return self.image < 0 or (event.cause, event.req) == self.taken

    def at(self, key: str) -> int:
        """The value of a key: the broker's own, that of all brokers, or the one that it started with."""
        known = {each.resource: each.value for each in self.records.records if self._is_there(each, key)}
        found = next((known[resource] for resource in (self.own, "broker/") if known.get(resource) is not None), None)
        return self.static[key] if found is None else int(found)

    def _is_there(self, record: Configured, key: str) -> bool:
        return record.key == key and record.offset < self.image


def broker_settings(profile: Profile, node: str, *keys: str) -> BrokerSettings:
    """Those of a node as it starts."""
    own = f"broker/{node_id(node)}" if node.startswith("broker-") else ""
    return BrokerSettings({key: profile.number(key, node) for key in keys}, own)
