"""How often controllers give partitions back to their preferred leaders by the clock."""

from __future__ import annotations

import msgspec

from actors.trace.events import ClockSet, CtlFault, DiskRuleChange, MetaState, NodeDown, NodeUp, PartChange, Stamped
from chaos.faults.kinds import kinds_of
from chaos.faults.process import NodeBounce
from orchestrator.invariants.folds.bounds import SLACK_US
from orchestrator.invariants.folds.fold import Profile, Witness, witness
from orchestrator.invariants.folds.hindered_timers import HinderedTimers

INTERVAL = "leader.imbalance.check.interval.seconds"
BOUNCES = kinds_of(NodeBounce)

SIM_EARLY_US = 20_000
"""By how much a pass may seem to be early in the sim, as events have the time at which they are recorded. In a live
run a machine may be late by ``SLACK_US``, and the next pass is not."""


class Pass(msgspec.Struct):
    """What a controller's interval began with: that it became active, or the pass before. offset: of the last election
    of that pass, -1 none; one directly behind it is of the same pass."""

    at_us: int
    offset: int
    by: Witness


class PreferredPasses(msgspec.Struct):
    """since: controller -> what its interval began with, as far as its clock has been right since then. timers: whose
    are wrong. judged: no rolling bounce has set the interval."""

    since: dict[str, Pass] = {}
    timers: HinderedTimers = msgspec.field(default_factory=HinderedTimers)
    judged: bool = True

    def hear(self, event: Stamped) -> None:
        """A fault, a clock or a disk: whose intervals are not known any more."""
        body = event.body
        assert isinstance(body, CtlFault | ClockSet | DiskRuleChange)
        for node, _ in self.timers.take(event, body):
            self.since.pop(node, None)
        if type(body) is CtlFault and body.kind in BOUNCES and INTERVAL in body.parameters.get("config", {}):
            self.judged = False

    def begins(self, event: Stamped, body: MetaState | NodeUp | NodeDown) -> None:
        """A controller becomes active, and its interval begins, or is that no more."""
        self.since.pop(event.node, None)
        if type(body) is MetaState and body.of == "active":
            self._restart(event, -1)

    def _restart(self, event: Stamped, offset: int) -> None:
        if not self.timers.are_wrong(event.node):
            self.since[event.node] = Pass(event.wall, offset, witness(event))

    def elects(self, event: Stamped, body: PartChange, profile: Profile) -> tuple[int, Pass | None]:
        """An election of a preferred leader that no operator asked for: 1 if it could be early, and the pass before it
        if it is."""
        before = self.since.get(event.node)
        if before is not None and before.offset >= 0 and body.offset == before.offset + 1:
            before.offset = body.offset
            return 0, None
        self._restart(event, body.offset)
        early_us = SIM_EARLY_US if profile.runtime == "sim" else SLACK_US
        shortest_us = 1_000_000 * profile.number(INTERVAL, event.node) - early_us
        if before is None or not self.judged or shortest_us <= 0:
            return 0, None
        return 1, before if event.wall - before.at_us < shortest_us else None
