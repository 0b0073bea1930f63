"""min.insync.replicas as the configuration records have it: what a broker has to go by, whatever it says itself."""

from __future__ import annotations

import msgspec

from actors.trace.events import MetaImage, NodeUp, Stamped
from actors.trace.metadata_history import Elections
from orchestrator.invariants.folds.fold import Profile, Witness
from orchestrator.invariants.mirrors.config_records import ConfigRecords, places

MIN_ISR = "min.insync.replicas"
UNSET = 1
"""What holds where neither a record nor the node's own configuration says anything."""


class Least(msgspec.Struct, frozen=True):
    """What holds at a broker, and the record that says so; None: it was started with it."""

    value: int
    by: Witness | None = None

    def up_to(self, replicas: int) -> Least:
        """No more than a partition has replicas; 0: not known how many those are."""
        return Least(replicas, self.by) if 0 < replicas < self.value else self


class LeastIsr(msgspec.Struct):
    """Of any topic, at any node."""

    records: ConfigRecords = msgspec.field(default_factory=lambda: ConfigRecords(frozenset({MIN_ISR})))

    @property
    def elections(self) -> Elections:
        """The quorum's elections."""
        return self.records.elections

    def hear(self, event: Stamped) -> bool:
        """Take an event of the types in ``HEARD``; whether its node has come to another image, or starts anew."""
        self.records.hear(event)
        return type(event.body) in (MetaImage, NodeUp)

    def at(self, node: str, tp: str, profile: Profile) -> Least:
        """What a broker must go by: the topic's own value, the broker's, that of all brokers, or what it was started
        with, in what it has applied."""
        found = self.records.first(node, places(node, tp, MIN_ISR))
        if found is None or found.value is None:
            return Least(int(profile.setting(MIN_ISR, node, UNSET)))
        return Least(int(found.value), found.by)
