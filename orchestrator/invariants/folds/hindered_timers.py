"""What keeps a node's timers from being right: a stopped process measures no time, and one with a wrong clock or a slow
disk measures the wrong time."""

from __future__ import annotations

import msgspec

from actors.trace.events import ClockSet, CtlFault, DiskRuleChange, Stamped
from chaos.faults.process import NodePause


class HinderedTimers(msgspec.Struct):
    """by: node -> what hinders it now; clocks_us: node -> error of its clock."""

    by: dict[str, set[str]] = {}
    clocks_us: dict[str, int] = {}

    def take(self, event: Stamped, body: CtlFault | ClockSet | DiskRuleChange) -> list[tuple[str, int]]:
        """Something begins to hinder nodes, or ends. Whom, each with the microseconds by which a timer may be late that
        was set before: one that was set by a clock that is ahead comes later by as much."""
        late_us = 0
        if type(body) is CtlFault:
            nodes = body.targets if body.kind == NodePause.kind else []
            name, begins = f"{body.kind} {body.fault}", body.phase == "start"
        elif type(body) is ClockSet:
            nodes, name, begins = [event.node], "clock", bool(body.offset_us or body.rate_ppm)
            late_us = abs(body.offset_us - self.clocks_us.get(event.node, 0))
            self.clocks_us[event.node] = body.offset_us
        else:
            assert type(body) is DiskRuleChange
            nodes, name, begins = [event.node], f"disk {body.rule}", body.phase == "start"
            late_us = body.delay_max_us
        for node in nodes:
            hindrances = self.by.setdefault(node, set())
            (hindrances.add if begins else hindrances.discard)(name)
        return [(node, late_us) for node in nodes]

    def are_wrong(self, node: str) -> bool:
        """Whether a node's timers may be wrong now."""
        return bool(self.by.get(node))
