"""Names whose topics were removed, by the metadata log: a topic may be made anew, and lost with its controller."""

from __future__ import annotations

import msgspec

from actors.node.spec import partition_name
from actors.trace.events import PartChange, PartRemove, QRole, Stamped, TraceEvent

REMOVALS: tuple[type[TraceEvent], ...] = (PartChange, PartRemove, QRole)
"""Types of the events that tell of it."""


class RemovedNames(msgspec.Struct):
    """gone: names of partitions whose topics were removed, and that none has now. anew: names that came again -> quorum
    epoch and offset at which they stand in the metadata log."""

    gone: set[str] = set()
    anew: dict[str, tuple[int, int]] = {}

    def take(self, event: Stamped) -> bool:
        """Take note of an event of ``REMOVALS``; whether a name came again with it."""
        body = event.body
        if type(body) is PartRemove:
            self.gone.add(partition_name(body.tp))
        elif type(body) is PartChange:
            name = partition_name(body.tp)
            if name in self.gone:
                self.gone.remove(name)
                self.anew[name] = (body.quorum_epoch, body.offset)
                return True
        elif type(body) is QRole and body.role == "leader":
            for name, (quorum_epoch, offset) in list(self.anew.items()):
                if body.epoch > quorum_epoch:
                    del self.anew[name]
                    if offset >= body.log_end:
                        self.gone.add(name)
        return False
