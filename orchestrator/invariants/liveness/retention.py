"""L17: that replicas delete what need not be retained, and that leaders copy it first."""

from __future__ import annotations

from typing import Any

from actors.node.spec import is_recreated
from actors.trace.events import (
    ClockSet,
    LogAppend,
    LogDrop,
    LogLocalStart,
    LogRoll,
    LogStart,
    LogTrunc,
    NodeDown,
    NodeUp,
    PartAssume,
    PartChange,
    Stamped,
    TierSegment,
)
from actors.trace.tier_events import FINISHED
from orchestrator.invariants.folds.bounds import longest_ms
from orchestrator.invariants.folds.fold import NOTHING, Emissions, Profile
from orchestrator.invariants.folds.windows import Obligation, beta
from orchestrator.invariants.mirrors.known_limits import Limits, known_limits
from orchestrator.invariants.mirrors.own_segments import UNKNOWN_MS, Segment
from orchestrator.invariants.mirrors.retained_logs import AGE, BYTES, RETENTION, RetainedLogs, RetentionInvariant

TASK = "remote.log.manager.task.interval.ms"
COPY, FILES = "copy", "files"
"""How the names of the obligations end that a leader copies a segment, and that a replica removes segments below its
log start."""
ROLLS = {BYTES: f"roll/{BYTES}", AGE: f"roll/{AGE}"}
"""By which limit the active segment of a tiered log has to go -> how the name of the obligation ends that a replica
begins a new one: what is active is not copied."""
BY_LIMITS = (BYTES, AGE, *ROLLS.values())
"""How the names of the obligations end that the limits give."""


class Retained(RetainedLogs):
    """copied: broker -> where the copies end (exclusive) that its process knows. leads: broker -> leader epoch in which
    it leads; looked: where it began to copy in it, and has come to since: of what others have copied it takes no notice
    any more (``RLMCopyTask.maybeUpdateCopiedOffset``). copying: brokers that copy a segment now. task_us: how long a
    broker may take to see how far a tiered log is copied; copy_us: a leader, to look what it has to copy. no_copies:
    nobody knows what may be copied, so that no copy is judged. began_by: limits that have changed since a broker began
    to copy, and that it goes by until it looks again what it has to copy; copied_in: cause and request of the step in
    which a broker copied a segment last, as it looks again in no step in which it goes on at once."""

    copied: dict[str, int] = {}
    leads: dict[str, int] = {}
    looked: dict[str, int] = {}
    copying: set[str] = set()
    task_us: int = 0
    copy_us: int = 0
    no_copies: bool = False
    began_by: dict[str, list[Limits]] = {}
    copied_in: dict[str, tuple[str, str]] = {}

    def assume(self, node: str, body: PartAssume) -> bool:
        """A broker takes up a role: a leader looks how far the log is copied, once in its leader epoch. Whether the
        broker goes by other copies from now on."""
        epoch, before = body.leader_epoch if body.role == "leader" else -1, self.leads.get(node, -1)
        self.leads[node] = epoch
        if epoch == before:
            return False
        self.looked.pop(node, None)
        self.copying.discard(node)
        self.began_by.pop(node, None)
        return True

    def tiered(self, event: Stamped, body: TierSegment) -> None:
        """A broker copied a segment, or consumed what became of a copy."""
        node = event.node
        if body.phase == "known" and body.state == FINISHED:
            self.copied[node] = max(body.end + 1, self.copied.get(node, 0))
        elif body.phase == "copied" and node in self.looked:
            self.looked[node] = max(body.end + 1, self.looked[node])
        if body.phase == "copying":
            self.copying.add(node)
        elif body.phase in ("copied", "copy-failed"):
            self.copying.discard(node)
            self.copied_in[node] = event.cause, event.req
            if body.phase == "copy-failed":
                self.began_by.pop(node, None)

    def copy_limits(self, event: Stamped) -> list[Limits]:
        """Those by which its broker may have decided to copy what it begins to copy in an event, the present ones
        first."""
        if self.copied_in.get(event.node) != (event.cause, event.req):
            self.began_by.pop(event.node, None)
        return [*self.limits.within(event), *self.began_by.get(event.node, ())]

    def copied_at(self, node: str) -> int:
        """Up to where (exclusive) a broker goes by copies."""
        copied = self.looked if self.leads.get(node, -1) >= 0 else self.copied
        return copied.get(node, 0)

    def to_copy(self, node: str) -> tuple[Segment, int] | None:
        """The segment that a leader has to begin to copy, and where it ends: the first full one behind what is copied,
        if it is committed. One that copies a segment does nothing else."""
        log = self.log(node)
        if self.no_copies or node not in self.looked or node in self.copying:
            return None
        ends = [segment.base for segment in log.segments[1:]]
        behind = max(self.looked[node], log.start, log.local)
        for segment, end in zip(log.segments, ends, strict=False):
            if end > behind:
                return (segment, end) if end <= log.high_watermark else None
        return None


class RetentionIsCarriedOut(RetentionInvariant[Retained]):
    """Retention keeps disks from filling up. It is each replica's own work, so that no other broker notices when one
    does not do it.

    Example: retention.bytes of orders is 2000. The log of broker-2 has full segments from 0 and 40 on and an active one
    from 80 on, and those from 40 on alone have 2,300 bytes. All are below its high watermark. Broker-2 looks every
    log.retention.check.interval.ms, and its log still begins at 0. Or the newest record of the segment from 0 on is
    older than retention.ms. Of a tiered log local.retention.bytes and local.retention.ms decide, when the segment is
    copied; the log start then stays, and the local log start moves.

    The active segment stays no longer, if it is not empty: broker-2 begins a new one at its log end, and deletes it; or
    of a tiered log, has it copied first. A batch that is appended before is another reason to wait.

    The files go, too, of what lies below the log start since a client has deleted records: DeleteRecords moved it to
    90, and broker-2 still has the segments up to 80.

    A broker deletes by itself: it needs no window, only time. A broker that a fault stopped begins anew.

    What is not copied is not deleted. So a leader begins to copy each full segment once that is committed, and as old
    as remote.copy.lag.ms, whatever became of the copies before: one of them has failed, broker-1 looks every
    remote.log.manager.task.interval.ms, and copies nothing any more. It copies no segment sooner, either, unless what
    is behind it has remote.copy.lag.bytes.

    It deletes no sooner, either: with retention.ms 5000, broker-2 deletes the segments up to 80 while the newest record
    in them is 900 ms old. Nobody has read that record yet, and it is gone. Or retention.bytes is 3000, and the segments
    from 80 on, which it leaves, have 2,300 bytes.
    """

    id = "L17"
    title = (
        "A replica deletes segments that are too much, or too old, at its next look, and no others; a leader of a "
        "tiered log begins to copy what is full and committed, when it is old enough"
    )
    source = "Kafka's UnifiedLog.deleteOldSegments, LogManager.cleanupLogs; KIP-405, RemoteLogManager.RLMCopyTask"
    tested_when = (
        "a replica moves its log start, or its local log start, past a segment that it had to delete, or removes those "
        "below, or begins a new segment as the active one had to go, or a leader begins to copy a segment"
    )
    unseen = (
        "an active segment of which something was cut off, until a batch is appended",
        "segments that lay below the log start when their broker ended",
        "by size, whether too much is deleted, of a log of which the trace does not tell all batches",
        "retention by age in runs in which a clock was set",
        "partitions whose log becomes a tiered one, or is copied no more, or again",
        "topics that were created again",
        "tiered logs after an unclean election, or after a disk lost a part of one: a copy may be of another log",
        "whether a copy that has begun succeeds: R12 judges what is reported",
        "copies of partitions that transactions write to, as the trace does not tell the last stable offset",
        "copies that wait until a segment is old enough in runs in which a clock was set",
        "copies that are made too soon of a log of which the trace does not tell all batches, by size",
    )

    types = (*RetentionInvariant.types, LogDrop)

    def initial(self, key: str, profile: Profile) -> Retained:
        task_us = 2000 * int(profile.setting(TASK, default=0))
        wrong = is_recreated(key) or key.startswith("__")
        return Retained(
            key,
            beta_us=beta(profile, self.id),
            since_us=0,
            profile=profile,
            limits=known_limits(key, profile),
            task_us=task_us,
            copy_us=2000 * longest_ms(profile, TASK),
            wrong=wrong,
        )

    # ---- the run ----------------------------------------------------------------------------------------------

    def hear(self, state: Retained, event: Stamped) -> Emissions:
        if type(event.body) is ClockSet:
            self._void_copies(state)
        return super().hear(state, event)

    def limited(self, state: Retained, event: Stamped, before: Limits, now: Limits) -> Emissions:
        node = event.node
        changed = {
            BYTES: before.own_bytes != now.own_bytes,
            AGE: before.own_ms != now.own_ms,
            COPY: (before.copy_lag_ms, before.copy_lag_bytes) != (now.copy_lag_ms, now.copy_lag_bytes),
        }
        changed.update({roll: changed[kind] for kind, roll in ROLLS.items()})
        for kind in [kind for kind, other in changed.items() if other]:
            self.void(state, f"{node}/{kind}")
        if changed[COPY] and node in state.copying:
            state.began_by.setdefault(node, []).append(before)
        return self._look(state, event)

    def restarts(self, state: Retained, event: Stamped, body: NodeUp | NodeDown) -> None:
        super().restarts(state, event, body)
        self._void(state, event.node)
        for known in (state.copied, state.leads, state.looked):
            known.pop(event.node, None)
        state.copying.discard(event.node)
        state.began_by.pop(event.node, None)
        if isinstance(body, NodeDown) and body.mode == "lossy":
            state.log(event.node).lose_empty()
        if isinstance(body, NodeDown) and state.key in body.lost and state.limits_at(event.node).tiered:
            state.give_up()

    def _void(self, state: Retained, node: str) -> None:
        for kind in (*BY_LIMITS, COPY, FILES):
            self.void(state, f"{node}/{kind}")

    def _void_by_limits(self, state: Retained, node: str, above: int) -> None:
        """What ends above an offset need not go any more."""
        for kind in BY_LIMITS:
            known = state.due.get(name := f"{node}/{kind}")
            if known is not None and known.target > above:
                self.void(state, name)

    # ---- what replicas do -------------------------------------------------------------------------------------

    def step(self, state: Retained, event: Stamped) -> Emissions:
        body: Any = event.body
        kind = type(body)
        if kind is PartChange:
            if body.cause == "unclean" and state.limits_at("").tiered:
                state.give_up()  # a log may be given other copies than it has made
            return NOTHING
        early = self._too_soon(state, event, body) if kind is LogStart or kind is LogLocalStart else NOTHING
        state.follow(event)
        if kind is LogAppend:
            if state.due:
                self._void_by_limits(state, event.node, state.log(event.node).segments[-1].base)
            if body.transactional and not state.no_copies:
                state.no_copies = True
                self._void_copies(state)
            return NOTHING
        if kind is LogTrunc:
            self._void(state, event.node)
        elif kind is LogRoll:
            for roll in ROLLS.values():
                self.gone(state, event, f"{event.node}/{roll}", body.base)
        elif kind is LogDrop:
            self.gone(state, event, f"{event.node}/{FILES}", body.base)
        elif kind is TierSegment:
            state.tiered(event, body)
            if body.phase == "copying":
                early = self._copies(state, event, body)
        elif kind is PartAssume:
            if state.assume(event.node, body) and state.limits_at(event.node).tiered:
                self._void(state, event.node)
        elif kind is LogStart or kind is LogLocalStart:
            if kind is LogStart and body.reason == "remote":
                state.looked[event.node] = state.copied.get(event.node, 0)
            self._begins(state, event, body)
        return [*early, *self._look(state, event)]

    def _too_soon(self, state: Retained, event: Stamped, body: LogStart | LogLocalStart) -> Emissions:
        """Whether retention takes segments that its limit lets stay. The log start of a tiered log moves with copies:
        R13 judges that."""
        kind, log = RETENTION.get(body.reason, ""), state.log(event.node)
        if not kind or state.wrong or not log.role:
            return NOTHING
        found = [self._stays(state, event, body, limits) for limits in state.limits.within(event)]
        return self.violated(state.key, found[0], event) if all(found) else NOTHING

    @staticmethod
    def _stays(state: Retained, event: Stamped, body: LogStart | LogLocalStart, limits: Limits) -> str:
        """What is wrong with a deletion by these limits, "" nothing is known to be."""
        kind, log = RETENTION[body.reason], state.log(event.node)
        if limits.tiered and isinstance(body, LogStart):
            return ""
        limit = limits.own_bytes if kind == BYTES else limits.own_ms
        name = f"{'local.' if limits.tiered else ''}retention.{kind} = {limit:,}"
        sentence = f"{event.node} deleted segments of {state.key} up to {body.new:,} by {name}"
        if limit < 0:
            return f"{sentence}, by which all of it stays"
        if kind == BYTES:
            left = log.most_behind(body.new)
            return "" if left >= limit else f"{sentence}, although what is left has {left:,} bytes at most"
        if state.skewed:
            return ""
        told_ms = max((segment.told_ms for segment in log.between(body.new)), default=-1)
        age_ms = event.wall // 1000 - told_ms
        if told_ms < 0 or age_ms > limit:
            return ""
        return f"{sentence}, although the newest record in them was {age_ms:,} ms old"

    def _begins(self, state: Retained, event: Stamped, body: LogStart | LogLocalStart) -> None:
        """What had to go has gone, by retention or because it was asked for."""
        log = state.log(event.node)
        for kind in (BYTES, AGE):
            self.gone(state, event, f"{event.node}/{kind}", log.local)
        if body.reason not in ("retention-bytes", "retention-ms"):
            for kind in (*BY_LIMITS, COPY):
                self.void(state, f"{event.node}/{kind}")
        if log.below <= log.dropped:
            self.void(state, f"{event.node}/{FILES}")

    @staticmethod
    def _void_copies(state: Retained) -> None:
        """No copy is waited for any more."""
        for name in [name for name in state.due if name.endswith(f"/{COPY}")]:
            del state.due[name]

    def _copies(self, state: Retained, event: Stamped, body: TierSegment) -> Emissions:
        """A leader begins to copy a segment, which must be old enough, or have enough behind it."""
        name = f"{event.node}/{COPY}"
        known = state.due.get(name)
        if known is not None:
            (self.kept if known.since_us <= event.wall and known.target == body.end + 1 else self.void)(state, name)
        if state.wrong or state.no_copies:
            return NOTHING
        behind = state.log(event.node).most_behind(body.end + 1)
        found = [self._waits(state, event, body, limits, behind) for limits in state.copy_limits(event)]
        return self.violated(state.key, found[0], event) if all(found) else NOTHING

    def _waits(self, state: Retained, event: Stamped, body: TierSegment, limits: Limits, behind: int) -> str:
        """What is wrong with the begin of a copy by these limits, with so much behind it at most, "" nothing is."""
        age_ms = event.wall // 1000 - body.max_timestamp
        if self._may_be_due(state, limits, body, age_ms, behind):
            return ""
        by_age = (
            f"its newest record was {age_ms:,} ms old: remote.copy.lag.ms stands for {limits.copy_lag_ms:,} ms"
            if limits.copy_lag_ms > 0
            else "remote.copy.lag.ms stands for no age"
        )
        by_size = (
            f", and what is behind it has {behind:,} bytes at most: remote.copy.lag.bytes stands for "
            f"{limits.copy_lag_bytes:,}"
            if limits.copy_lag_bytes > 0
            else ""
        )
        return (
            f"{event.node} began to copy the segment of {state.key} up to {body.end + 1:,}, although {by_age}{by_size}"
        )

    @staticmethod
    def _may_be_due(state: Retained, limits: Limits, body: TierSegment, age_ms: int, behind: int) -> bool:
        """Whether a segment may be copied at this age, with so much behind it at most."""
        lag_ms, lag_bytes = limits.copy_lag_ms, limits.copy_lag_bytes
        if 0 in (lag_ms, lag_bytes) or 0 < lag_bytes <= behind:
            return True
        return lag_ms > 0 and (state.skewed or body.max_timestamp < 0 or not 0 <= age_ms < lag_ms)

    def _look(self, state: Retained, event: Stamped) -> Emissions:
        """Whether a broker's oldest segment has to go, or files of what went, and whether it has to copy one."""
        node, log = event.node, state.log(event.node)
        if state.wrong or not log.role:
            return NOTHING
        if log.dropped < log.below <= log.high_watermark:
            self.oblige_from(state, f"{node}/{FILES}", event, event.wall, log.below)
        self._void_by_limits(state, node, log.high_watermark)
        if len(log.segments) > 1 and state.limits_at(node).tiered:
            self._look_for_copy(state, event)
        self._look_at_oldest(state, event)
        return self.arm(state)

    def _look_for_copy(self, state: Retained, event: Stamped) -> None:
        name, found = f"{event.node}/{COPY}", state.to_copy(event.node)
        known = state.due.get(name)
        if known is not None and (found is None or known.target != found[1]):
            self.void(state, name)
        if found is None:
            return
        (segment, end), limits = found, state.limits_at(event.node)
        lag_ms = limits.copy_lag_ms
        if 0 in (lag_ms, limits.copy_lag_bytes):
            self.oblige_from(state, name, event, event.wall, end)
        elif lag_ms > 0 and not state.skewed and segment.newest_ms < UNKNOWN_MS:
            old_us = 1000 * (max(segment.newest_ms, 0) + lag_ms)
            self.oblige_from(state, name, event, max(event.wall, old_us), end)

    def _look_at_oldest(self, state: Retained, event: Stamped) -> None:
        node, log = event.node, state.log(event.node)
        oldest = log.oldest()
        if oldest is None:
            return
        segment, end, behind = oldest
        limits = state.limits_at(node)
        rolls = limits.tiered and log.is_active(end)
        if end > log.high_watermark or (limits.tiered and not rolls and end > state.copied_at(node)):
            return
        since_us = event.wall + (state.task_us if limits.tiered and not rolls else 0)
        if 0 <= limits.own_bytes <= behind:
            self.oblige_from(state, f"{node}/{ROLLS[BYTES] if rolls else BYTES}", event, since_us, end)
        if limits.own_ms >= 0 and not state.skewed and segment.newest_ms < UNKNOWN_MS:
            old_us = 1000 * (max(segment.newest_ms, 0) + limits.own_ms)
            name = f"{node}/{ROLLS[AGE] if rolls else AGE}"
            self.oblige_from(state, name, event, max(since_us, old_us), end)

    # ---- when it is due ---------------------------------------------------------------------------------------

    def due_us(self, state: Retained, obligation: Obligation) -> int:
        """A broker that is stopped deletes nothing, and has all the time again when it goes on."""
        by = obligation.by
        assert by is not None, "an event opens it"
        copy_us = state.copy_us if state.due.get(f"{by.node}/{COPY}") is obligation else 0
        return max(obligation.since_us, state.stops.free_us(by.node)) + state.beta_us + copy_us

    def finish(self, state: Retained, horizon_us: int) -> Emissions:
        if all(obligation.since_us > horizon_us for obligation in state.due.values()):
            return NOTHING
        seconds = state.beta_us / 1_000_000
        return self.too_short(state, f"no broker was up for {seconds:g} s from when a segment had to go, or be copied")

    def missed(self, state: Retained, name: str, obligation: Obligation) -> Emissions:
        node, _, kind = name.partition("/")
        limits, log = state.limits_at(node), state.log(node)
        if kind == FILES:
            sentence = (
                f"{node} did not remove the segments of {state.key} up to {obligation.target:,} within "
                f"{state.beta_us / 1_000_000:g} s, although its log begins at {log.start:,}"
            )
            return self.violated(state.key, sentence, obligation.by)
        if kind == COPY:
            sentence = (
                f"{node} did not begin to copy the segment of {state.key} up to {obligation.target:,} within "
                f"{(state.beta_us + state.copy_us) / 1_000_000:g} s, although it is full, and committed: what is "
                f"copied ends at {state.copied_at(node):,}"
            )
            return self.violated(state.key, sentence, obligation.by)
        prefix = "local." if limits.tiered else ""
        limit, within = kind.removeprefix("roll/"), f"within {state.beta_us / 1_000_000:g} s"
        value = limits.own_bytes if limit == BYTES else limits.own_ms
        why = f"{'there is too much' if limit == BYTES else 'it is too old'} by {prefix}retention.{limit} = {value:,}"
        if kind in ROLLS.values():
            sentence = (
                f"{node} did not begin a new segment of {state.key} at {obligation.target:,} {within}, so that the "
                f"active one can be copied, although {why}"
            )
            return self.violated(state.key, sentence, obligation.by)
        which = "active segment" if log.is_active(obligation.target) else "segment"
        sentence = (
            f"{node} did not delete the {which} of {state.key} up to {obligation.target:,} {within}, although {why}: "
            f"what it has begins at {log.local:,}"
        )
        return self.violated(state.key, sentence, obligation.by)
