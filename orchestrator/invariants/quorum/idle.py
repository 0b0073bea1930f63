"""How long an active controller may append nothing: it shows by no-op records that the quorum still commits."""

from __future__ import annotations

import msgspec

from actors.trace.events import (
    ClockSet,
    CtlFault,
    DiskRuleChange,
    LogAppend,
    MetaState,
    NodeDown,
    NodeUp,
    QRole,
    Stamped,
)
from orchestrator.invariants.folds.bounds import SLACK_US, by_node_us
from orchestrator.invariants.folds.fold import Profile, Witness, witness
from orchestrator.invariants.folds.hindered_timers import HinderedTimers
from orchestrator.invariants.quorum.standing import LEAVING, SIM_SLACK_US

MAX_IDLE = "metadata.max.idle.interval.ms"
LINGER = "controller.quorum.append.linger.ms"


class Quiet(msgspec.Struct, frozen=True):
    """An active controller has appended nothing since. from_us: when its present interval began at the latest."""

    since_us: int
    from_us: int
    by: Witness


class IdleControllers(msgspec.Struct):
    """quiet: active controller -> since when it has appended nothing. timers: whose are wrong. interval_us, linger_us:
    by node, the longest one under ""; none of 0 is judged. judged: no bounce has set the interval. sim: whether nothing
    takes longer than its timers say, and every end has the time at which it came."""

    quiet: dict[str, Quiet] = {}
    timers: HinderedTimers = msgspec.field(default_factory=HinderedTimers)
    interval_us: dict[str, int] = {}
    linger_us: dict[str, int] = {}
    judged: bool = True
    sim: bool = False

    @classmethod
    def of(cls, profile: Profile) -> IdleControllers:
        """With the settings of a run."""
        intervals, lingers = by_node_us(profile, MAX_IDLE), by_node_us(profile, LINGER)
        return cls(interval_us=intervals, linger_us=lingers, sim=profile.runtime == "sim")

    def hear(self, event: Stamped) -> None:
        """A fault, a clock or a disk. A timer that was set before comes late by the error of the clock, and after that
        whole intervals pass again."""
        body = event.body
        assert isinstance(body, CtlFault | ClockSet | DiskRuleChange)
        for node, late_us in self.timers.take(event, body):
            if (quiet := self.quiet.get(node)) is not None:
                from_us = event.wall + late_us + 2 * self.interval_us.get(node, self.interval_us[""])
                self.quiet[node] = msgspec.structs.replace(quiet, from_us=max(quiet.from_us, from_us))
        if type(body) is CtlFault and body.kind in LEAVING and body.phase == "start":
            self.judged = self.judged and MAX_IDLE not in body.parameters.get("config", {})
            for node in body.targets:
                self.quiet.pop(node, None)

    def take(self, event: Stamped) -> tuple[Quiet, int] | None:
        """An event of a node. Since when it had been quiet, and for how many milliseconds it may have been, if that was
        too long."""
        body, before = event.body, self.quiet.get(event.node)
        if type(body) is MetaState and body.of == "active":
            self.quiet[event.node] = Quiet(event.wall, event.wall, witness(event))
            return None
        if before is None:
            return None
        if type(body) is LogAppend:
            self.quiet[event.node] = Quiet(event.wall, max(event.wall, before.from_us), witness(event))
        elif isinstance(body, QRole | NodeUp | NodeDown) or (type(body) is MetaState and body.of == "standby"):
            del self.quiet[event.node]
        if isinstance(body, NodeUp | NodeDown) and not self.sim:
            return None  # whoever tells of that may have found it out late
        interval_us = self.interval_us.get(event.node, self.interval_us[""])
        if not interval_us or not self.judged or self.timers.are_wrong(event.node):
            return None
        longest_us = interval_us + self.linger_us.get(event.node, self.linger_us[""])
        longest_us += SIM_SLACK_US if self.sim else SLACK_US
        return (before, longest_us // 1000) if event.wall - before.from_us > longest_us else None
