"""Faults that stop nodes, so that nothing of their own work gets done."""

from __future__ import annotations

import msgspec

from actors.trace.events import CtlFault, Stamped
from orchestrator.invariants.folds.bounds import NEVER_US
from orchestrator.invariants.folds.fault_kinds import LINK_FAULTS


class Stops(msgspec.Struct):
    """faults: node -> faults in force that stop it, or its disk; ended_us: node -> when the last one began or ended."""

    faults: dict[str, set[str]] = {}
    ended_us: dict[str, int] = {}

    def take(self, event: Stamped, body: CtlFault) -> None:
        """A fault begins, or ends. Those of links stop nobody."""
        if body.kind in LINK_FAULTS:
            return
        for node in body.targets:
            faults = self.faults.setdefault(node, set())
            (faults.add if body.phase == "start" else faults.discard)(body.fault)
            self.ended_us[node] = event.wall

    def has(self, node: str) -> bool:
        """Whether something stops a node now."""
        return bool(self.faults.get(node))

    def free_us(self, node: str) -> int:
        """Since when nothing stops a node, ``NEVER_US`` while something does."""
        return NEVER_US if self.has(node) else self.ended_us.get(node, 0)
