"""P29: when a log begins a new segment, and that the full one is durable from then on."""

from __future__ import annotations

from typing import Any

import msgspec

from actors.node.spec import is_recreated
from actors.trace.events import (
    ClockSet,
    CtlFault,
    DiskRuleChange,
    LogAppend,
    LogLocalStart,
    LogRoll,
    LogStart,
    LogTrunc,
    NodeDown,
    NodeUp,
    PartAssume,
    Stamped,
)
from orchestrator.invariants.folds.fold import NOTHING, Emissions, KeyedInvariant, Profile, State, Witness, witness
from orchestrator.invariants.folds.hindered_timers import HinderedTimers
from orchestrator.invariants.folds.routes import PARTITION
from orchestrator.invariants.mirrors.config_records import HEARD
from orchestrator.invariants.mirrors.known_limits import KnownLimits, Limits, known_limits
from orchestrator.invariants.mirrors.log_mirror import ANEW
from orchestrator.invariants.mirrors.own_segments import UNKNOWN_BYTES, UNKNOWN_MS, Timestamps, least_bytes

SYNC_US = 1_000_000
"""A Sync of a disk that nothing slows down takes less."""


class Active(msgspec.Struct):
    """The active segment of a replica: its size at least, and at most, and the newest timestamp of its first batch, -1
    not known. told_ms: that one as its leader told it, -1 it did not."""

    least_bytes: int = 0
    first_ms: int = -1
    most_bytes: int = 0
    told_ms: int = -1

    def add(self, body: LogAppend, newest_ms: int, told_ms: int) -> None:
        """A batch came into it."""
        if not self.least_bytes:
            self.first_ms, self.told_ms = newest_ms, told_ms
        self.least_bytes += least_bytes(body)
        self.most_bytes = min(self.most_bytes + (body.size or UNKNOWN_BYTES), UNKNOWN_BYTES)


class Begun(msgspec.Struct):
    """A new segment began in a step that a request or its answer made (``req``), as event ``seq`` of its node. full:
    the segment before."""

    seq: int
    req: str
    full: Active
    by: Witness


class Roll(msgspec.Struct):
    """A new segment began at ``base``, and all before it was to become durable."""

    base: int
    at_us: int
    by: Witness


class Full(msgspec.Struct):
    """The full segments of a replica in one life of its broker, since that has a role for it. ``recent``: rolls whose
    Sync may not be over; ``durable``: the last one before those."""

    incarnation: int
    durable: Roll | None = None
    recent: list[Roll] = []

    def settle(self, now_us: int) -> None:
        """Syncs are over by now."""
        while self.recent and now_us - self.recent[0].at_us > SYNC_US:
            self.durable = self.recent.pop(0)

    def cut(self, to: int) -> None:
        """The log is truncated; what is left of a full segment is durable as before."""
        for roll in (*self.recent, *([self.durable] if self.durable else [])):
            roll.base = min(roll.base, to)


class Loss(msgspec.Struct, frozen=True):
    """A disk lost records of a segment that was full since ``by``, unless it was wiped."""

    sentence: str
    by: tuple[Witness, Witness] | None


class Rolling(State):
    """active: of each broker, but for one that was cut or read from the disk since: nobody knows what is in it until
    the next one begins. begun: of each broker, the last segment that began, until its next batch. full: by broker;
    losses: of brokers that are down. timers: whose disk is slow, or who is stopped; ``free_us``: when the last Sync
    that this held up is over. recreated: it is of a topic that was created again. skewed: nodes whose clock was set."""

    profile: Profile = Profile()
    active: dict[str, Active] = {}
    begun: dict[str, Begun] = {}
    full: dict[str, Full] = {}
    losses: dict[str, Loss] = {}
    timers: HinderedTimers = msgspec.field(default_factory=HinderedTimers)
    free_us: dict[str, int] = {}
    limits: KnownLimits = msgspec.field(default_factory=KnownLimits)
    timestamps: Timestamps = msgspec.field(default_factory=Timestamps)
    recreated: bool = False
    skewed: set[str] = set()


class SegmentsAreRolled(KeyedInvariant[Rolling]):
    """Retention and remote storage take whole segments, and never the active one. A log that begins no new segment
    keeps everything, and copies nothing. A full segment is made durable, so that a loss of power takes records of the
    active segment alone.

    Example: segment.bytes is 1000, and the active segment of broker-1 has 980 bytes. Its next batch has 80, and goes
    into the same segment. Or segment.ms is a second, and a batch goes into the segment whose first one is from two
    seconds before, by the timestamps of their records. Or it goes into a new one, though that with the first batch
    before has 160 bytes, and is ten milliseconds old. Or broker-1 began a segment at 1,310 ten seconds ago, its
    machine loses power, and its log ends at 1,204.
    """

    id = "P29"
    title = (
        "A log begins a new segment when the active one has reached segment.bytes or segment.ms, and then makes the "
        "full one durable"
    )
    source = "Kafka's LogSegment.shouldRoll; UnifiedLog.roll"
    tested_when = (
        "a replica appends to a segment that is not empty, or to one that it begins for that; or a broker comes back "
        "whose machine lost power after a segment was full"
    )
    route = PARTITION
    types = (LogAppend, LogRoll, LogTrunc, LogStart, LogLocalStart, PartAssume)
    unseen = (
        "segments that were truncated or read from the disk: what is left in them is not known",
        "topics that were created again",
        "a segment that is rolled too early for a marker, after one, or by no request",
        "the age of a marker that a leader wrote whose clock was set",
        "a loss of what was full in an earlier life of the broker, or for a second at most",
        "a loss of segments that were full while the broker was stopped, or its disk was slow",
    )

    @property
    def news(self) -> tuple[type, ...]:
        return (NodeDown, ClockSet, CtlFault, DiskRuleChange, *HEARD)

    def initial(self, key: str, profile: Profile) -> Rolling:
        return Rolling(key, profile=profile, limits=known_limits(key, profile), recreated=is_recreated(key))

    def hear(self, state: Rolling, event: Stamped) -> Emissions:
        body: Any = event.body
        kind = type(body)
        if kind in HEARD:
            state.limits.hear(event)
        if kind is NodeUp:
            state.active.pop(event.node, None)
            state.begun.pop(event.node, None)
            return self._back(state, event, body)
        if kind is NodeDown:
            self._ends(state, event, body)
        elif kind is ClockSet:
            state.skewed.add(event.node)
        elif kind is CtlFault or kind is DiskRuleChange:
            self._hinder(state, event, body)
        return NOTHING

    def step(self, state: Rolling, event: Stamped) -> Emissions:
        body: Any = event.body
        kind = type(body)
        if kind is LogAppend:
            return self._append(state, event, body)
        if kind is PartAssume:
            if event.node not in state.full:
                state.full[event.node] = Full(event.incarnation)
        elif kind is LogRoll:
            former = state.active.get(event.node)
            if former is not None and event.req:
                state.begun[event.node] = Begun(event.seq, event.req, former, witness(event))
            state.active[event.node] = Active()
            self._rolled(state, event, body)
        elif kind is LogTrunc:
            state.active.pop(event.node, None)
            if event.node in state.full:
                state.full[event.node].cut(body.to)
        elif body.reason in (*ANEW, "load", "remote"):
            state.active.pop(event.node, None)
            if event.node in state.full:
                state.full[event.node] = Full(event.incarnation)
        return NOTHING

    # ---- full segments are durable ------------------------------------------------------------------------------

    @staticmethod
    def _hinder(state: Rolling, event: Stamped, body: CtlFault | DiskRuleChange) -> None:
        """Syncs may take longer from now on, or no longer once those under way are over."""
        for node, late_us in state.timers.take(event, body):
            state.free_us[node] = max(state.free_us.get(node, 0), event.wall + late_us + SYNC_US)
            full = state.full.get(node)
            if full is not None:
                full.settle(event.wall)
                full.recent.clear()

    @staticmethod
    def _rolled(state: Rolling, event: Stamped, body: LogRoll) -> None:
        """A segment is full. One that a process finds at its start was full before."""
        full = state.full.get(event.node)
        if full is None or full.incarnation != event.incarnation:
            return
        full.settle(event.wall)
        if not state.timers.are_wrong(event.node) and event.wall >= state.free_us.get(event.node, 0):
            full.recent.append(Roll(body.base, event.wall, witness(event)))

    @staticmethod
    def _ends(state: Rolling, event: Stamped, body: NodeDown) -> None:
        """A process ends. Whether its disk was wiped is known when the next one begins."""
        full = state.full.pop(event.node, None)
        if full is None or body.mode != "lossy" or full.incarnation != event.incarnation:
            return
        full.settle(event.wall)
        roll = full.durable
        if roll is None:
            return
        first = body.lost.get(state.key, roll.base)
        sentence = (
            f"{event.node} lost the records of {state.key} from {first:,} on with its machine's power, although a new "
            f"segment had begun at {roll.base:,} more than a second before"
        )
        state.losses[event.node] = Loss(sentence, (roll.by, witness(event)) if first < roll.base else None)

    def _back(self, state: Rolling, event: Stamped, body: NodeUp) -> Emissions:
        loss = state.losses.pop(event.node, None)
        state.full.pop(event.node, None)
        if loss is None or body.wiped:
            return NOTHING
        state.tested += 1
        return NOTHING if loss.by is None else self.violated(state.key, loss.sentence, *loss.by)

    # ---- new segments -------------------------------------------------------------------------------------------

    def _append(self, state: Rolling, event: Stamped, body: LogAppend) -> Emissions:
        newest_ms = state.timestamps.of(body, event.wall, clock_is_right=event.node not in state.skewed)
        told_ms = state.timestamps.told(body)
        active = state.active.get(event.node)
        if active is None:
            if body.base == 0:
                active = state.active[event.node] = Active()
                active.add(body, newest_ms, told_ms)
            return NOTHING
        wrong = self._wrong(state, event, active, least_bytes(body), newest_ms)
        active.add(body, newest_ms, told_ms)
        if not wrong:
            return self._too_soon(state, event, body, told_ms)
        del state.active[event.node]
        return self.violated(
            state.key, f"{event.node} appended {body.base:,} of {state.key} to a segment {wrong}", event
        )

    def _too_soon(self, state: Rolling, event: Stamped, body: LogAppend, told_ms: int) -> Emissions:
        """Whether a batch belongs into the segment before its own. A leader also begins one for a batch that it then
        refuses, and retention makes the active one full: the batch is the reason if its append is the next that the
        node does in the same step."""
        begun = state.begun.pop(event.node, None)
        if begun is None or (begun.seq + 1, begun.req) != (event.seq, event.req) or state.recreated:
            return NOTHING
        full = begun.full
        if not body.size or min(full.told_ms, told_ms) < 0 or full.most_bytes >= UNKNOWN_BYTES:
            return NOTHING
        state.tested += 1
        size, age_ms = full.most_bytes + body.size, told_ms - full.told_ms
        for limits in state.limits.within(event):
            if size > limits.segment_bytes or age_ms > limits.segment_ms:
                return NOTHING
        limits = state.limits.at(event.node)
        sentence = (
            f"{event.node} began a new segment of {state.key} for the batch from {body.base:,} on, although the one "
            f"before would have {size:,} bytes with it, with segment.bytes = {limits.segment_bytes:,}, and was "
            f"{age_ms:,} ms old, with segment.ms = {limits.segment_ms:,}"
        )
        return self.violated(state.key, sentence, begun.by, event)

    def _wrong(self, state: Rolling, event: Stamped, active: Active, size: int, newest_ms: int) -> str:
        """Why a batch does not belong into the active segment, "" if it may."""
        if not active.least_bytes or state.recreated:
            return ""
        state.tested += 1
        found = [self._is_full(active, size, newest_ms, limits) for limits in state.limits.within(event)]
        return found[0] if all(found) else ""

    @staticmethod
    def _is_full(active: Active, size: int, newest_ms: int, limits: Limits) -> str:
        """Why the active segment takes no such batch by these limits, "" it may."""
        if active.least_bytes + size > limits.segment_bytes:
            return f"of {active.least_bytes:,} bytes at least, with segment.bytes = {limits.segment_bytes:,}"
        if UNKNOWN_MS in (active.first_ms, newest_ms):
            return ""
        age_ms = newest_ms - active.first_ms
        if age_ms > limits.segment_ms:
            return f"that was {age_ms:,} ms old, with segment.ms = {limits.segment_ms:,}"
        return ""
