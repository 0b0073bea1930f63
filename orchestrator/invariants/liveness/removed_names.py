"""Names whose topics were removed, by the metadata log: a removal, or a topic made anew, may be lost with its
controller."""

from __future__ import annotations

import msgspec

from actors.node.spec import partition_name
from actors.trace.events import PartChange, PartRemove, QRole, Stamped, TraceEvent
from actors.trace.metadata_history import Elections, History

REMOVALS: tuple[type[TraceEvent], ...] = (PartChange, PartRemove, QRole)
"""Types of the events that tell of it."""

KEPT = 64
"""Records of a name that are kept: more than a leader without followers appends before it resigns."""


class Fate(msgspec.Struct, frozen=True):
    """A record of the metadata log by which a partition is there, or is not."""

    quorum_epoch: int
    offset: int
    removed: bool


class RemovedNames(msgspec.Struct):
    """fates: names of partitions that were removed at least once -> what the log says of them since."""

    elections: Elections = msgspec.field(default_factory=Elections)
    fates: dict[str, History[Fate]] = {}

    @property
    def gone(self) -> set[str]:
        """Names that no partition has now."""
        newest = {name: history.newest for name, history in self.fates.items()}
        return {name for name, fate in newest.items() if fate is not None and fate.removed}

    def take(self, event: Stamped) -> bool:
        """Take note of an event of ``REMOVALS``; whether a name came again with it."""
        body, before = event.body, self.gone
        if isinstance(body, PartRemove | PartChange):
            name, removed = partition_name(body.tp), isinstance(body, PartRemove)
            if removed or name in self.fates:
                fate = Fate(body.quorum_epoch, body.offset, removed)
                self.fates.setdefault(name, History(KEPT)).add(fate, self.elections)
        elif isinstance(body, QRole) and self.elections.take(event.node, body):
            for history in self.fates.values():
                history.forget_lost(self.elections)
        return bool(before - self.gone)
