"""Links between two nodes on which a fault is in force, or was."""

from __future__ import annotations

import msgspec

from actors.trace.events import CtlFault
from orchestrator.invariants.folds.fault_kinds import LINK_FAULTS
from orchestrator.invariants.folds.leftovers import Leftovers, pairs_of

NEVER_US = 1 << 62


class BrokenLinks(msgspec.Struct):
    """``broken``: faults on links that are in force -> "source target"; ``over_us``: "source target" -> when the last
    one was over; ``left``: what is still on its way then."""

    broken: dict[str, list[str]] = {}
    over_us: dict[str, int] = {}
    left: Leftovers = msgspec.field(default_factory=Leftovers)

    def take(self, body: CtlFault, now_us: int) -> None:
        """A fault of any kind begins, or ends."""
        self.left.take(body, now_us)
        if body.kind not in LINK_FAULTS:
            return
        if body.phase == "start":
            self.broken[body.fault] = list(pairs_of(body))
        else:
            for pair in self.broken.pop(body.fault, ()):
                self.over_us[pair] = now_us

    def whole_since_us(self, one: str, other: str) -> int:
        """Since when two nodes exchange everything at once, either way; ``NEVER_US`` while they do not."""
        pairs = (f"{one} {other}", f"{other} {one}")
        if any(pair in broken for broken in self.broken.values() for pair in pairs):
            return NEVER_US
        return max(self.left.between_us(one, other), *(self.over_us.get(pair, 0) for pair in pairs))
