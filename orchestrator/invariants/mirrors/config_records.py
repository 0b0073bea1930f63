"""What the configuration records say, as far as each node has applied them: what it has to go by, whatever it says
itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from actors.config import SERVER_SYNONYMS
from actors.node.spec import node_id, partition_name, split_topic_partition
from actors.trace.events import ConfigChange, MetaImage, NodeUp, PartRemove, QRole, Stamped, TraceEvent
from actors.trace.metadata_history import Elections, History
from orchestrator.invariants.folds.fold import Profile, Witness, witness

HEARD_OF_OTHERS: tuple[type[TraceEvent], ...] = (ConfigChange, QRole)
"""What a broker's own settings depend on, of other nodes."""
HEARD: tuple[type[TraceEvent], ...] = (*HEARD_OF_OTHERS, MetaImage, NodeUp, PartRemove)
"""What the settings of topics depend on."""

ALL_BROKERS = "broker/"
"""The resource with the defaults of all brokers."""
EVERY_KEY = ""
"""The key of a record that unsets all keys of its resource."""
KEPT = 1 << 8
"""Records that are kept one by one, though an election may undo them: more than a leader that is cut off appends. Of
what is before these, the last one of each key of a resource is kept."""


def topic_of(tp: str) -> str:
    """The resource that the topic of a partition is."""
    return f"topic/{split_topic_partition(partition_name(tp))[0]}"


def broker_of(node: str) -> str:
    """The resource that a node is."""
    return f"broker/{node_id(node) if node.startswith('controller-') else node.rpartition('-')[2]}"


def resources(node: str, tp: str) -> tuple[str, str, str]:
    """Those whose settings a node goes by for a partition, the first one that says something
    (``KafkaConfigSchema.resolveEffectiveTopicConfig``)."""
    return topic_of(tp), broker_of(node), ALL_BROKERS


def places(node: str, tp: str, key: str) -> Sequence[tuple[str, str]]:
    """The same for a key of a topic, each with what the key is called there."""
    topic, *brokers = resources(node, tp)
    synonym = SERVER_SYNONYMS.get(key, key)
    return [(topic, key), *((resource, synonym) for resource in brokers)]


class Configured(msgspec.Struct, frozen=True):
    """A record of the metadata log that sets a key of a resource, or, with None, unsets it."""

    quorum_epoch: int
    offset: int
    resource: str
    key: str
    value: str | None
    by: Witness


class ConfigRecords(msgspec.Struct):
    """keys: those that matter. settled: resource and key -> the last record of those that are not kept one by one.
    applied: node -> end of the metadata log that it has applied; taken: node -> cause and request of the step in which
    it came to that."""

    keys: frozenset[str] = frozenset()
    elections: Elections = msgspec.field(default_factory=Elections)
    history: History[Configured] = msgspec.field(default_factory=lambda: History(2 * KEPT))
    settled: dict[tuple[str, str], Configured] = {}
    applied: dict[str, int] = {}
    taken: dict[str, tuple[str, str]] = {}

    # ---- following the trace -----------------------------------------------------------------------------

    def hear(self, event: Stamped) -> bool:
        """Take an event of the types in ``HEARD``; whether something else may hold at its node from now on."""
        body = event.body
        if type(body) is MetaImage:
            return self._apply(event, body)
        if type(body) is NodeUp:
            self.taken.pop(event.node, None)
            return self.applied.pop(event.node, None) is not None
        if type(body) is QRole:
            if self.elections.take(event.node, body):
                self.history.forget_lost(self.elections)
        elif type(body) is PartRemove:
            # What a topic was set to goes with it.
            self._add(event, body, topic_of(body.tp), EVERY_KEY, None)
        else:
            assert type(body) is ConfigChange
            if body.key in self.keys:
                self._add(event, body, body.resource, body.key, body.value)
        return False

    def _apply(self, event: Stamped, body: MetaImage) -> bool:
        before = self.applied.get(event.node, -1)
        self.applied[event.node], self.taken[event.node] = body.offset, (event.cause, event.req)
        return before < 0 or any(before <= each.offset < body.offset for each in self.history.records)

    def _add(self, event: Stamped, body: ConfigChange | PartRemove, resource: str, key: str, value: str | None) -> None:
        known = self.history.records
        if len(known) == self.history.limit:
            for old in known[:KEPT]:
                self._settle(old)
            del known[:KEPT]
        record = Configured(body.quorum_epoch, body.offset, resource, key, value, witness(event))
        self.history.add(record, self.elections)

    def _settle(self, record: Configured) -> None:
        """A record is far too old to be lost."""
        if record.key == EVERY_KEY:
            for place in [each for each in self.settled if each[0] == record.resource]:
                del self.settled[place]
        self.settled[record.resource, record.key] = record

    # ---- questions ---------------------------------------------------------------------------------------

    def is_changing(self, event: Stamped) -> bool:
        """Whether a node takes an image over in the step of an event, or has none: it may still go by what held
        before."""
        return event.node not in self.applied or (event.cause, event.req) == self.taken[event.node]

    def record(self, node: str, resource: str, key: str) -> Configured | None:
        """The last record about a key of a resource that a node has applied, be it that this unsets it; None: there is
        none."""
        end = self.applied.get(node, 0)
        for each in reversed(self.history.records):
            if each.offset < end and each.resource == resource and each.key in (key, EVERY_KEY):
                return each
        return self.settled.get((resource, key)) or self.settled.get((resource, EVERY_KEY))

    def first(self, node: str, where: Iterable[tuple[str, str]]) -> Configured | None:
        """Of some places, each a resource and a key, the record of the first one that is set, as far as a node knows;
        None: nothing is."""
        for resource, key in where:
            found = self.record(node, resource, key)
            if found is not None and found.value is not None:
                return found
        return None


class BrokerSettings(msgspec.Struct):
    """Those that one broker takes over from the metadata log while it runs. static: key -> the value that it starts
    with."""

    node: str = ""
    static: dict[str, int] = {}
    records: ConfigRecords = msgspec.field(default_factory=ConfigRecords)

    def hear(self, event: Stamped) -> None:
        """Take an event: of the types in ``HEARD_OF_OTHERS``, or the broker's own start or image."""
        if isinstance(event.body, HEARD):
            self.records.hear(event)

    def is_changing(self, event: Stamped) -> bool:
        """Whether the broker may still go by the settings of before in the step of an event."""
        return self.records.is_changing(event)

    def at(self, key: str) -> int:
        """The value of a key: the broker's own, that of all brokers, or the one that it started with."""
        own = [(broker_of(self.node), key)] if self.node.startswith("broker-") else []
        found = self.records.first(self.node, [*own, (ALL_BROKERS, key)])
        return self.static[key] if found is None or found.value is None else int(found.value)


def broker_settings(profile: Profile, node: str, *keys: str) -> BrokerSettings:
    """Those of a node as it starts."""
    static = {key: profile.number(key, node) for key in keys}
    return BrokerSettings(node, static, ConfigRecords(frozenset(keys)))
