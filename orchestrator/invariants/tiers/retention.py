"""R13: that copies which need not be retained are deleted."""

from __future__ import annotations

from typing import Any

import msgspec

from actors.node.spec import is_recreated
from actors.trace.events import (
    ClockSet,
    ConfigChange,
    CtlFault,
    LogAppend,
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
)
from actors.trace.tier_events import DELETED
from orchestrator.invariants.folds.fold import NOTHING, TOO_SHORT, Emissions, Profile, witness
from orchestrator.invariants.folds.routes import PARTITION
from orchestrator.invariants.folds.windows import Obligation, WindowInvariant, WindowState, beta
from orchestrator.invariants.mirrors.own_segments import (
    Limits,
    OwnLog,
    changes_limits,
    limits_of,
)
from orchestrator.invariants.mirrors.stops import Stops
from orchestrator.invariants.tiers.known_copies import KnownCopies, of_process

BYTES, AGE, COPY = "log/bytes", "log/ms", "copy/"


class Kept(WindowState):
    """Of a tiered partition. logs, known: by broker, what it has of the log, and the copies that its process knows.
    leader: who leads it, "" nobody is known to. looks: it has looked where the log begins, so that it knows all copies;
    deleting: the copy that it deletes now, "" none. stops: faults that stop brokers, and when the last one of each
    ended. wrong: nothing is judged: limits were changed, or an unclean election or a disk took something. skewed: a
    clock was set."""

    profile: Profile = Profile()
    logs: dict[str, OwnLog] = {}
    limits: dict[str, Limits] = {}
    known: dict[str, KnownCopies] = {}
    leader: str = ""
    leader_epoch: int = -1
    looks: bool = False
    deleting: str = ""
    stops: Stops = msgspec.field(default_factory=Stops)
    wrong: bool = False
    skewed: bool = False

    def log(self, node: str) -> OwnLog:
        """That of a broker."""
        found = self.logs.get(node)
        if found is None:
            found = self.logs[node] = OwnLog()
        return found

    def limits_at(self, node: str) -> Limits:
        """Those of a broker."""
        found = self.limits.get(node)
        if found is None:
            found = self.limits[node] = limits_of(self.profile, self.key, node)
        return found


class ExpiredCopiesGoAway(WindowInvariant[Kept]):
    """Remote storage is for what is kept long, and not for ever. Nothing but the leader's own task deletes there.

    Example: retention.bytes of orders is 20000. The log of orders-0 begins at 0 with a copy up to 79, and from 80 on it
    has 24,000 bytes. Its leader, broker-1, looks every remote.log.manager.task.interval.ms, and its log start stays at
    0. Or the newest record of that copy is older than retention.ms. Or the log start is 80, and broker-1 does not begin
    to delete the copy.

    All that is the leader's own work, which needs no other node, once it knows the copies. It deletes one copy after
    the other, and looks again after the last one, or after one that it could not delete.
    """

    id = "R13"
    title = "A leader moves its log start past copies that are too much, or too old, and deletes copies below it"
    source = "KIP-405; Kafka's RemoteLogManager.RLMExpirationTask"
    tested_when = (
        "a leader moves its log start past a copy that had to go, or begins to delete a copy that lies below the log "
        "start"
    )
    route = PARTITION
    types = (LogAppend, LogRoll, LogHw, LogStart, LogLocalStart, LogTrunc, PartAssume, TierSegment)
    cases = {LogHw: ("leader",)}
    unseen = (
        "keys and values of records, which count for the size, and are not in the trace",
        "whether a deletion that has begun succeeds: R12 judges what is reported",
        "retention by age in runs in which a clock was set",
        "partitions whose limits an operator changes, and topics that were created again or removed",
        "partitions after an unclean election, or after a disk lost a part: a copy may be of another log",
        "copies that were never finished: R12 judges those",
    )

    @property
    def news(self) -> tuple[type, ...]:
        return (CtlFault, ClockSet, ConfigChange, NodeUp, NodeDown, PartChange, PartRemove)

    def initial(self, key: str, profile: Profile) -> Kept:
        beta_us = beta(profile, self.id)
        return Kept(key, beta_us=beta_us, since_us=0, profile=profile, wrong=is_recreated(key))

    # ---- the run ----------------------------------------------------------------------------------------------

    def hear(self, state: Kept, event: Stamped) -> Emissions:
        body: Any = event.body
        kind = type(body)
        if kind is CtlFault:
            state.stops.take(event, body)
            return self.arm(state)
        if kind is ClockSet:
            state.skewed = True
            self.void(state, AGE)
        elif kind is ConfigChange:
            if changes_limits(state.profile, state.key, body):
                self._give_up(state)
        elif kind is PartChange:
            if body.cause == "unclean":
                self._give_up(state)
        elif kind is PartRemove:
            if body.tp == state.key:
                self._give_up(state)
        else:
            self._restarts(state, event, body)
        return NOTHING

    def _give_up(self, state: Kept) -> None:
        state.wrong = True
        state.due.clear()

    def _restarts(self, state: Kept, event: Stamped, body: NodeUp | NodeDown) -> None:
        log = state.log(event.node)
        log.role, log.high_watermark = False, 0
        if event.node == state.leader:
            self._leads(state, "")
        if isinstance(body, NodeUp):
            if body.wiped:
                state.logs[event.node] = OwnLog()
        elif body.lost:
            self._give_up(state)

    # ---- what brokers do --------------------------------------------------------------------------------------

    def step(self, state: Kept, event: Stamped) -> Emissions:
        body: Any = event.body
        kind, log = type(body), state.log(event.node)
        if kind is LogAppend:
            log.append(body, -1)
            return NOTHING
        if kind is LogRoll:
            log.roll(body.base)
        elif kind is LogHw:
            log.high_watermark = body.new
        elif kind is LogTrunc:
            log.cut(body.to)
        elif kind is PartAssume:
            self._assumed(state, event, body)
        elif kind is TierSegment:
            self._tiered(state, event, body)
        else:
            log.begin(body)
            state.looks = state.looks or (event.node == state.leader and body.reason == "remote")
            for name in (BYTES, AGE) if event.node == state.leader else ():
                known = state.due.get(name)
                if known is not None and known.target <= log.start:
                    (self.kept if known.since_us <= event.wall else self.void)(state, name)
        return self._look(state, event) if event.node == state.leader else NOTHING

    def _assumed(self, state: Kept, event: Stamped, body: PartAssume) -> None:
        log = state.log(event.node)
        log.role, log.high_watermark = True, body.high_watermark
        if body.leader_epoch > state.leader_epoch or (
            body.role == "leader" and body.leader_epoch == state.leader_epoch
        ):
            state.leader_epoch = body.leader_epoch
            self._leads(state, event.node if body.role == "leader" else "")

    @staticmethod
    def _leads(state: Kept, leader: str) -> None:
        state.leader, state.looks, state.deleting = leader, False, ""
        state.due.clear()

    def _tiered(self, state: Kept, event: Stamped, body: TierSegment) -> None:
        if body.phase == "known":
            of_process(state.known, KnownCopies, event).consume(event, body)
            if body.state == DELETED:
                self.void(state, f"{COPY}{body.segment}")
        if event.node != state.leader:
            return
        if body.phase == "deleting":
            self.kept(state, f"{COPY}{body.segment}")
            state.deleting = body.segment
            state.due.clear()  # what is next waits for the end of it
        elif body.phase in ("deleted", "delete-failed"):
            state.deleting = ""

    def _look(self, state: Kept, event: Stamped) -> Emissions:
        """What the leader has to delete."""
        limits = state.limits_at(state.leader)
        if state.wrong or not limits.tiered or not state.looks or state.deleting:
            return NOTHING
        log = state.log(state.leader)
        copies = of_process(state.known, KnownCopies, event).copies
        for segment, copy in copies.items():
            if copy.end < log.start:
                self.oblige(state, f"{COPY}{segment}", event)
        within = [copy for copy in copies.values() if copy.start <= log.start <= copy.end < log.high_watermark]
        if len(within) == 1:
            [first] = within
            if 0 <= limits.all_bytes <= log.behind(first.end + 1):
                self._oblige(state, BYTES, event, event.wall, first.end + 1)
            if limits.all_ms >= 0 and first.max_timestamp >= 0 and not state.skewed:
                old_us = 1000 * (first.max_timestamp + limits.all_ms)
                self._oblige(state, AGE, event, max(event.wall, old_us), first.end + 1)
        return self.arm(state)

    def _oblige(self, state: Kept, name: str, event: Stamped, since_us: int, end: int) -> None:
        if name not in state.due:
            state.due[name] = Obligation(since_us, witness(event), end)

    # ---- when it is due ---------------------------------------------------------------------------------------

    def due_us(self, state: Kept, obligation: Obligation) -> int:
        """A leader that is stopped deletes nothing, and has all the time again when it goes on."""
        return max(obligation.since_us, state.stops.free_us(state.leader)) + state.beta_us

    def next_due_us(self, state: Kept) -> int:
        return min(self.due_us(state, each) for each in state.due.values())

    def finish(self, state: Kept, horizon_us: int) -> Emissions:
        if state.tested or not state.due:
            return NOTHING
        seconds = state.beta_us / 1_000_000
        return self.inconclusive(TOO_SHORT, state.key, f"no leader had {seconds:g} s from when a copy had to go")

    def missed(self, state: Kept, name: str, obligation: Obligation) -> Emissions:
        log, limits = state.log(state.leader), state.limits_at(state.leader)
        within = f"within {state.beta_us / 1_000_000:g} s"
        if name.startswith(COPY):
            sentence = (
                f"{state.leader} did not begin to delete a copy of {state.key} below its log start, {log.start:,}, "
                f"{within}"
            )
            return self.violated(state.key, sentence, obligation.by)
        why = f"there is too much by retention.bytes = {limits.all_bytes:,}"
        if name == AGE:
            why = f"it is too old by retention.ms = {limits.all_ms:,}"
        sentence = (
            f"{state.leader} did not move the log start of {state.key} to {obligation.target:,}, past a copy, {within}"
            f", although {why}: it is {log.start:,}"
        )
        return self.violated(state.key, sentence, obligation.by)
