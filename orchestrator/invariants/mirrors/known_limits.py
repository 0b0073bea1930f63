"""How much is kept of a partition, and for how long, by what each node has applied of the configuration records."""

from __future__ import annotations

import msgspec

from actors.config import SERVER_SYNONYMS
from actors.node.spec import split_topic_partition
from actors.trace.events import ConfigChange, MetaImage, NodeUp, Stamped
from orchestrator.invariants.folds.fold import Profile
from orchestrator.invariants.mirrors.config_records import ConfigRecords, places, topic_of

AS_RETENTION = -2
"""A local limit that is that of the whole log."""
AS_LOCAL = -1
"""A lag of copies that is the local limit."""
SWITCHES = frozenset({"remote.storage.enable", "remote.log.copy.disable", "remote.log.delete.on.disable"})
"""Keys that decide which limits count."""
KEYS = (
    *("retention.bytes", "retention.ms", "local.retention.bytes", "local.retention.ms"),
    *("remote.copy.lag.ms", "remote.copy.lag.bytes", "segment.bytes", "segment.ms"),
)
"""Keys of topics that set limits."""


class Limits(msgspec.Struct, frozen=True):
    """How much of a partition is kept, and for how long, -1 without end: by a replica itself, and of a tiered log in
    all. When a segment is full: at this size, at this age. A full segment is copied at the age copy_lag_ms, -1 at
    none, or when the segments behind it have copy_lag_bytes, -1 however many they have."""

    own_bytes: int
    own_ms: int
    all_bytes: int
    all_ms: int
    segment_bytes: int
    segment_ms: int
    copy_lag_ms: int
    copy_lag_bytes: int
    tiered: bool


def _records() -> ConfigRecords:
    return ConfigRecords(frozenset({*KEYS, *(SERVER_SYNONYMS[key] for key in KEYS)}))


class KnownLimits(msgspec.Struct):
    """Of a partition, ``key``. known: by node, those that it has to go by; former: those that held before it came to
    its present image."""

    key: str = ""
    profile: Profile = Profile()
    records: ConfigRecords = msgspec.field(default_factory=_records)
    known: dict[str, Limits] = {}
    former: dict[str, Limits] = {}

    def hear(self, event: Stamped) -> tuple[Limits, Limits] | None:
        """Take an event of the types in ``HEARD``. What a node went by, and has to go by now, if that differs."""
        node = event.node
        goes_on = node in self.former and self.records.is_changing(event)
        changes = self.records.hear(event)
        if type(event.body) is NodeUp:
            self.known.pop(node, None)
            self.former.pop(node, None)
        if type(event.body) is not MetaImage:
            return None
        before = self.known.get(node)
        now = self.known[node] = self._of(node) if changes or before is None else before
        if not goes_on:
            self.former[node] = before or now
        return None if before is None or before == now else (before, now)

    def at(self, node: str) -> Limits:
        """Those that a node has to go by."""
        found = self.known.get(node)
        if found is None:
            found = self.known[node] = self._of(node)
        return found

    def within(self, event: Stamped) -> list[Limits]:
        """Those that its node may go by in the step of an event, the present ones first: it takes up what it has
        applied in the course of that step."""
        now, former = self.at(event.node), self.former.get(event.node)
        changing = former is not None and former != now and self.records.is_changing(event)
        return [now, former] if changing and former is not None else [now]

    def _of(self, node: str) -> Limits:
        own = self.profile.topics.get(split_topic_partition(self.key)[0], {}).get("config", {})

        def limit(key: str) -> int:
            place, *others = places(node, self.key, key)
            told = self.records.record(node, *place)
            if told is None and key in own:
                return int(own[key])  # as the topic was created
            found = self.records.first(node, [place, *others])
            if found is not None and found.value is not None:
                return int(found.value)
            return self.profile.number(SERVER_SYNONYMS[key], node)

        def local(key: str, whole: int) -> int:
            found = limit(key)
            return whole if found == AS_RETENTION or not tiered else found

        tiered = str(own.get("remote.storage.enable", False)).lower() == "true"
        whole = limit("retention.bytes"), limit("retention.ms")
        own_bytes, own_ms = local("local.retention.bytes", whole[0]), local("local.retention.ms", whole[1])
        lag_ms, lag_bytes = limit("remote.copy.lag.ms"), limit("remote.copy.lag.bytes")
        return Limits(
            own_bytes,
            own_ms,
            *whole,
            limit("segment.bytes"),
            limit("segment.ms"),
            own_ms if lag_ms == AS_LOCAL else lag_ms,
            own_bytes if lag_bytes == AS_LOCAL else lag_bytes,
            tiered,
        )


def known_limits(key: str, profile: Profile) -> KnownLimits:
    """Those of a partition, at the beginning of the run."""
    return KnownLimits(key, profile)


def switches(profile: Profile, key: str, body: ConfigChange) -> bool:
    """Whether a change may let other limits of a partition count than those of the beginning: whether its log is
    tiered, and copied."""
    if body.key not in SWITCHES:
        return False
    if not body.resource.startswith("topic/"):
        return True
    if body.resource != topic_of(key):
        return False
    first = profile.topics.get(split_topic_partition(key)[0], {}).get("config", {}).get(body.key)
    return first is None or body.value is None or str(first).lower() != body.value.lower()
