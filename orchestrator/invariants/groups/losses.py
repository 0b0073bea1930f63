"""Ways in which an offsets partition may lose what it had committed, for those who do not follow its log."""

from __future__ import annotations

import msgspec

from actors.trace.events import NodeDown, PartChange, Stamped

OFFSETS_TOPIC = "__consumer_offsets-"
"""How offsets partitions are called."""

OFFSETS_LOSSES = {
    "unclean-election": "The offsets partition had an unclean election since: its leader may lack committed positions.",
    "disk-loss": "Disks have lost unsynced commits of the offsets partition.",
}
"""Rule -> when it excuses that something is gone."""


class OffsetsLosses(msgspec.Struct):
    """unclean: offsets partition -> last leader epoch that began uncleanly; lost: offsets partition -> the lowest
    offset that a disk lost."""

    unclean: dict[str, int] = {}
    lost: dict[str, int] = {}

    def take(self, event: Stamped) -> None:
        """Take a ``part.change`` or a ``node.down``, of whatever partition."""
        body = event.body
        if type(body) is PartChange:
            if body.cause == "unclean" and body.tp.startswith(OFFSETS_TOPIC):
                self.unclean[body.tp] = max(body.leader_epoch, self.unclean.get(body.tp, -1))
        elif type(body) is NodeDown:
            for tp, offset in body.lost.items():
                if tp.startswith(OFFSETS_TOPIC):
                    self.lost[tp] = min(offset, self.lost.get(tp, offset))

    def rule(self, tp: str, since_epoch: int = -1, offset: int = 1 << 62) -> str:
        """The rule by which what leader epoch ``since_epoch`` committed at ``offset`` may be gone, "" if there is
        none."""
        if self.unclean.get(tp, -1) > since_epoch:
            return "unclean-election"
        return "disk-loss" if tp in self.lost and self.lost[tp] <= offset else ""
