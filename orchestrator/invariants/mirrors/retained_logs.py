"""What L17 and R13 share: the logs of a partition's replicas, and when retention has to take something of them."""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

import msgspec

from actors.trace.events import (
    ClockSet,
    ConfigChange,
    CtlFault,
    LogAppend,
    LogDrop,
    LogHw,
    LogLocalStart,
    LogRoll,
    LogStart,
    LogTrunc,
    NodeDown,
    NodeUp,
    PartAssume,
    PartChange,
    PartRemove,
    Stamped,
    TierSegment,
    TraceEvent,
)
from orchestrator.invariants.folds.fold import NOTHING, TOO_SHORT, Emissions, Profile, witness
from orchestrator.invariants.folds.routes import PARTITION
from orchestrator.invariants.folds.windows import Obligation, WindowInvariant, WindowState
from orchestrator.invariants.mirrors.config_records import HEARD
from orchestrator.invariants.mirrors.known_limits import KnownLimits, Limits, switches
from orchestrator.invariants.mirrors.own_segments import OwnLog, Timestamps
from orchestrator.invariants.mirrors.stops import Stops

BYTES, AGE = "bytes", "ms"
"""How the names of obligations end that the size, or the age, of a log gives."""
RETENTION = {"retention-bytes": BYTES, "retention-ms": AGE}
"""Reasons of a log's start, or of that of its local part, for which retention moved it, and by which limit."""


class RetainedLogs(WindowState):
    """Of a partition. logs: by broker. stops: faults that stop brokers, and when the last one of each ended. wrong:
    nothing is judged: another kind of limits counts, or an unclean election or a disk took something that may have been
    copied.
    skewed: a clock was set, so that no age is judged."""

    profile: Profile = Profile()
    logs: dict[str, OwnLog] = {}
    limits: KnownLimits = msgspec.field(default_factory=KnownLimits)
    timestamps: Timestamps = msgspec.field(default_factory=Timestamps)
    stops: Stops = msgspec.field(default_factory=Stops)
    wrong: bool = False
    skewed: bool = False

    def log(self, node: str) -> OwnLog:
        """That of a broker."""
        found = self.logs.get(node)
        if found is None:
            found = self.logs[node] = OwnLog()
        return found

    def follow(self, event: Stamped) -> None:
        """What a broker does to its log."""
        body: Any = event.body
        kind, log = type(body), self.log(event.node)
        if kind is LogAppend:
            log.append(body, self.timestamps.of(body, event.wall), self.timestamps.told(body))
        elif kind is LogRoll:
            log.roll(body.base)
        elif kind is LogDrop:
            log.dropped = max(log.dropped, body.base)
        elif kind is LogHw:
            log.high_watermark = body.new
        elif kind is LogTrunc:
            log.cut(body.to)
        elif kind is PartAssume:
            log.take_up(body.log_end, body.high_watermark)
        elif kind is not TierSegment:
            log.begin(body)

    def limits_at(self, node: str) -> Limits:
        """Those of a broker."""
        return self.limits.at(node)

    def give_up(self) -> None:
        """Nothing is judged from now on."""
        self.wrong = True
        self.due.clear()


R = TypeVar("R", bound=RetainedLogs)


class RetentionInvariant(WindowInvariant[R]):
    """A broker deletes by itself: it needs no window, only time. One that a fault stopped begins anew."""

    route = PARTITION
    types: ClassVar[tuple[type[TraceEvent], ...]] = (
        LogAppend,
        LogRoll,
        LogHw,
        LogStart,
        LogLocalStart,
        LogTrunc,
        PartAssume,
        PartChange,
        TierSegment,
    )

    @property
    def news(self) -> tuple[type, ...]:
        return (CtlFault, ClockSet, NodeDown, *HEARD)

    def hear(self, state: R, event: Stamped) -> Emissions:
        body: Any = event.body
        kind = type(body)
        if kind in HEARD:
            changed = state.limits.hear(event)
            if changed is not None:
                return self.limited(state, event, *changed)
        if kind is CtlFault:
            state.stops.take(event, body)
            return self.arm(state)
        if kind is ClockSet:
            state.skewed = True
            for name in [name for name in state.due if name.endswith(f"/{AGE}")]:
                del state.due[name]
        elif kind is ConfigChange:
            if switches(state.profile, state.key, body):
                state.give_up()
        elif kind is PartRemove:
            if body.tp == state.key:
                state.give_up()
        elif kind is NodeUp or kind is NodeDown:
            self.restarts(state, event, body)
        return NOTHING

    def limited(self, state: R, event: Stamped, before: Limits, now: Limits) -> Emissions:
        """A broker goes by other limits from now on. What was due by a former one need not happen any more; what is due
        by the new one has all the time from now on."""
        raise NotImplementedError

    def restarts(self, state: R, event: Stamped, body: NodeUp | NodeDown) -> None:
        """A broker ends, and its disk may lose something; or it comes back, with an empty disk, if that was wiped."""
        log = state.log(event.node)
        log.ends()
        if isinstance(body, NodeDown):
            log.doubt()
            if state.key in body.lost:
                log.cut(body.lost[state.key])
        if isinstance(body, NodeUp) and body.wiped:
            state.logs[event.node] = OwnLog()

    # ---- obligations ------------------------------------------------------------------------------------------

    def oblige_from(self, state: R, name: str, event: Stamped, since_us: int, end: int) -> None:
        """What lies below ``end`` has to go, from ``since_us`` on."""
        if name not in state.due:
            state.due[name] = Obligation(since_us, witness(event), end)

    def gone(self, state: R, event: Stamped, name: str, start: int) -> None:
        """What is left begins at ``start``: by then, what had to go has gone, or before it had to."""
        known = state.due.get(name)
        if known is not None and known.target <= start:
            (self.kept if known.since_us <= event.wall else self.void)(state, name)

    def next_due_us(self, state: R) -> int:
        return min(self.due_us(state, each) for each in state.due.values())

    def too_short(self, state: R, sentence: str) -> Emissions:
        """At the end of the run: nothing came so far that it could be judged."""
        if state.tested or not state.due:
            return NOTHING
        return self.inconclusive(TOO_SHORT, state.key, sentence)
