"""P29: when a log begins a new segment."""

from __future__ import annotations

from typing import Any

import msgspec

from actors.node.spec import is_recreated
from actors.trace.events import (
    ClockSet,
    ConfigChange,
    LogAppend,
    LogLocalStart,
    LogRoll,
    LogStart,
    LogTrunc,
    NodeUp,
    Stamped,
)
from orchestrator.invariants.folds.fold import NOTHING, Emissions, KeyedInvariant, Profile, State
from orchestrator.invariants.folds.routes import PARTITION
from orchestrator.invariants.mirrors.log_mirror import ANEW
from orchestrator.invariants.mirrors.own_segments import (
    UNKNOWN_MS,
    Limits,
    Timestamps,
    changes_limits,
    known_limits,
    least_bytes,
)


class Active(msgspec.Struct):
    """The active segment of a replica: its size at least, and the newest timestamp of its first batch, -1 not known."""

    least_bytes: int = 0
    first_ms: int = -1


class Rolling(State):
    """active: of each broker, but for one that was cut or read from the disk since: nobody knows what is in it until
    the next one begins. changed: the limits are not those of the beginning any more. skewed: nodes whose clock was
    set."""

    profile: Profile = Profile()
    active: dict[str, Active] = {}
    limits: dict[str, Limits] = {}
    timestamps: Timestamps = msgspec.field(default_factory=Timestamps)
    changed: bool = False
    skewed: set[str] = set()


class SegmentsAreRolled(KeyedInvariant[Rolling]):
    """Retention and remote storage take whole segments, and never the active one. A log that begins no new segment
    keeps everything, and copies nothing.

    Example: segment.bytes is 1000, and the active segment of broker-1 has 980 bytes. Its next batch has 80, and goes
    into the same segment. Or segment.ms is a second, and a batch goes into the segment whose first one is from two
    seconds before, by the timestamps of their records.
    """

    id = "P29"
    title = "A log begins a new segment when the active one has reached segment.bytes or segment.ms"
    source = "Kafka's LogSegment.shouldRoll"
    tested_when = "a replica appends to a segment that is not empty"
    route = PARTITION
    types = (LogAppend, LogRoll, LogTrunc, LogStart, LogLocalStart)
    unseen = (
        "keys and values of records, which count for the size, and are not in the trace",
        "segments that were truncated or read from the disk: what is left in them is not known",
        "partitions whose limits an operator changes, and topics that were created again",
        "a segment that is rolled too early",
        "the age of a marker that a leader wrote whose clock was set",
    )

    @property
    def news(self) -> tuple[type, ...]:
        return (NodeUp, ConfigChange, ClockSet)

    def initial(self, key: str, profile: Profile) -> Rolling:
        return Rolling(key, profile=profile, changed=is_recreated(key))

    def hear(self, state: Rolling, event: Stamped) -> Emissions:
        body: Any = event.body
        if type(body) is NodeUp:
            state.active.pop(event.node, None)
        elif type(body) is ClockSet:
            state.skewed.add(event.node)
        elif changes_limits(state.profile, state.key, body):
            state.changed = True
        return NOTHING

    def step(self, state: Rolling, event: Stamped) -> Emissions:
        body: Any = event.body
        kind = type(body)
        if kind is LogAppend:
            return self._append(state, event, body)
        if kind is LogRoll:
            state.active[event.node] = Active()
        elif kind is LogTrunc or body.reason in (*ANEW, "load", "remote"):
            state.active.pop(event.node, None)
        return NOTHING

    def _append(self, state: Rolling, event: Stamped, body: LogAppend) -> Emissions:
        newest_ms = state.timestamps.of(body, event.wall, clock_is_right=event.node not in state.skewed)
        active = state.active.get(event.node)
        if active is None:
            if body.base == 0:
                state.active[event.node] = Active(least_bytes(body), newest_ms)
            return NOTHING
        wrong = self._wrong(state, event.node, active, least_bytes(body), newest_ms)
        if not active.least_bytes:
            active.first_ms = newest_ms
        active.least_bytes += least_bytes(body)
        if not wrong:
            return NOTHING
        del state.active[event.node]
        return self.violated(
            state.key, f"{event.node} appended {body.base:,} of {state.key} to a segment {wrong}", event
        )

    def _wrong(self, state: Rolling, node: str, active: Active, size: int, newest_ms: int) -> str:
        """Why a batch does not belong into the active segment, "" if it may."""
        if not active.least_bytes or state.changed:
            return ""
        state.tested += 1
        limits = known_limits(state.limits, state.profile, state.key, node)
        if active.least_bytes + size > limits.segment_bytes:
            return f"of {active.least_bytes:,} bytes at least, with segment.bytes = {limits.segment_bytes:,}"
        if UNKNOWN_MS in (active.first_ms, newest_ms):
            return ""
        age_ms = newest_ms - active.first_ms
        if age_ms > limits.segment_ms:
            return f"that was {age_ms:,} ms old, with segment.ms = {limits.segment_ms:,}"
        return ""
