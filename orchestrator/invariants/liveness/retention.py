"""L17: that replicas delete what need not be retained."""

from __future__ import annotations

from typing import Any

from actors.node.spec import is_recreated
from actors.trace.events import (
    LogAppend,
    LogLocalStart,
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
from orchestrator.invariants.folds.fold import NOTHING, Emissions, Profile
from orchestrator.invariants.folds.windows import Obligation, beta
from orchestrator.invariants.mirrors.own_segments import UNKNOWN_MS
from orchestrator.invariants.mirrors.retained_logs import AGE, BYTES, RETENTION, RetainedLogs, RetentionInvariant

TASK = "remote.log.manager.task.interval.ms"


class Retained(RetainedLogs):
    """copied: broker -> where the copies end (exclusive) that its process knows. leads: broker -> leader epoch in which
    it leads; looked: where it began to copy in it, and has come to since: of what others have copied it takes no notice
    any more (``RLMCopyTask.maybeUpdateCopiedOffset``). task_us: how long a broker may take to see how far a tiered log
    is copied."""

    copied: dict[str, int] = {}
    leads: dict[str, int] = {}
    looked: dict[str, int] = {}
    task_us: int = 0

    def assume(self, node: str, body: PartAssume) -> bool:
        """A broker takes up a role: a leader looks how far the log is copied, once in its leader epoch. Whether the
        broker goes by other copies from now on."""
        epoch, before = body.leader_epoch if body.role == "leader" else -1, self.leads.get(node, -1)
        self.leads[node] = epoch
        if epoch == before:
            return False
        self.looked.pop(node, None)
        return True

    def tiered(self, node: str, body: TierSegment) -> None:
        """A broker copied a segment, or consumed what became of a copy."""
        if body.phase == "known" and body.state == FINISHED:
            self.copied[node] = max(body.end + 1, self.copied.get(node, 0))
        elif body.phase == "copied" and node in self.looked:
            self.looked[node] = max(body.end + 1, self.looked[node])

    def copied_at(self, node: str) -> int:
        """Up to where (exclusive) a broker goes by copies."""
        copied = self.looked if self.leads.get(node, -1) >= 0 else self.copied
        return copied.get(node, 0)


class RetentionIsCarriedOut(RetentionInvariant[Retained]):
    """Retention keeps disks from filling up. It is each replica's own work, so that no other broker notices when one
    does not do it.

    Example: retention.bytes of orders is 2000. The log of broker-2 has full segments from 0 and 40 on and an active one
    from 80 on, and those from 40 on alone have 2,300 bytes. All are below its high watermark. Broker-2 looks every
    log.retention.check.interval.ms, and its log still begins at 0. Or the newest record of the segment from 0 on is
    older than retention.ms. Of a tiered log local.retention.bytes and local.retention.ms decide, when the segment is
    copied; the log start then stays, and the local log start moves.

    A broker deletes by itself: it needs no window, only time. A broker that a fault stopped begins anew.

    It deletes no sooner, either: with retention.ms 5000, broker-2 deletes the segments up to 80 while the newest record
    in them is 900 ms old. Nobody has read that record yet, and it is gone.
    """

    id = "L17"
    title = "A replica deletes segments that are too much, or too old, at its next look, and no others"
    source = "Kafka's UnifiedLog.deleteOldSegments, LogManager.cleanupLogs; KIP-405"
    tested_when = "a replica moves its log start, or its local log start, past a segment that it had to delete"
    unseen = (
        "keys and values of records, which count for the size, and are not in the trace",
        "the active segment, which also goes when it is too old",
        "by size, whether too much is deleted, but where the limit lets all of it stay",
        "retention by age in runs in which a clock was set",
        "partitions whose limits an operator changes, and topics that were created again",
        "tiered logs after an unclean election, or after a disk lost a part of one: a copy may be of another log",
    )

    def initial(self, key: str, profile: Profile) -> Retained:
        task_us = 2000 * int(profile.setting(TASK, default=0))
        wrong = is_recreated(key) or key.startswith("__")
        return Retained(key, beta_us=beta(profile, self.id), since_us=0, profile=profile, task_us=task_us, wrong=wrong)

    # ---- the run ----------------------------------------------------------------------------------------------

    def restarts(self, state: Retained, event: Stamped, body: NodeUp | NodeDown) -> None:
        super().restarts(state, event, body)
        self._void(state, event.node)
        for known in (state.copied, state.leads, state.looked):
            known.pop(event.node, None)
        if isinstance(body, NodeDown) and state.key in body.lost and state.limits_at(event.node).tiered:
            state.give_up()

    def _void(self, state: Retained, node: str) -> None:
        for kind in (BYTES, AGE):
            self.void(state, f"{node}/{kind}")

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
            return NOTHING
        if kind is LogTrunc:
            self._void(state, event.node)
        elif kind is TierSegment:
            state.tiered(event.node, body)
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
        kind, limits, log = RETENTION.get(body.reason, ""), state.limits_at(event.node), state.log(event.node)
        if not kind or state.wrong or not log.role or (limits.tiered and isinstance(body, LogStart)):
            return NOTHING
        limit = limits.own_bytes if kind == BYTES else limits.own_ms
        name = f"{'local.' if limits.tiered else ''}retention.{kind} = {limit:,}"
        sentence = f"{event.node} deleted segments of {state.key} up to {body.new:,} by {name}"
        if limit < 0:
            return self.violated(state.key, f"{sentence}, by which all of it stays", event)
        if kind == BYTES or state.skewed:
            return NOTHING
        told_ms = max((segment.told_ms for segment in log.between(body.new)), default=-1)
        age_ms = event.wall // 1000 - told_ms
        if told_ms < 0 or age_ms > limit:
            return NOTHING
        sentence = f"{sentence}, although the newest record in them was {age_ms:,} ms old"
        return self.violated(state.key, sentence, event)

    def _begins(self, state: Retained, event: Stamped, body: LogStart | LogLocalStart) -> None:
        """What had to go has gone, by retention or because it was asked for."""
        log = state.log(event.node)
        for kind in (BYTES, AGE):
            self.gone(state, event, f"{event.node}/{kind}", log.local)
        if body.reason not in ("retention-bytes", "retention-ms"):
            self._void(state, event.node)

    def _look(self, state: Retained, event: Stamped) -> Emissions:
        """Whether a broker's oldest segment has to go."""
        node, log = event.node, state.log(event.node)
        if state.wrong or not log.role or len(log.segments) < 2:
            return NOTHING
        oldest = log.oldest()
        if oldest is None:
            return NOTHING
        segment, end, behind = oldest
        limits = state.limits_at(node)
        if end > log.high_watermark or (limits.tiered and end > state.copied_at(node)):
            return NOTHING
        since_us = event.wall + (state.task_us if limits.tiered else 0)
        if 0 <= limits.own_bytes <= behind:
            self.oblige_from(state, f"{node}/{BYTES}", event, since_us, end)
        if limits.own_ms >= 0 and not state.skewed and segment.newest_ms < UNKNOWN_MS:
            old_us = 1000 * (max(segment.newest_ms, 0) + limits.own_ms)
            self.oblige_from(state, f"{node}/{AGE}", event, max(since_us, old_us), end)
        return self.arm(state)

    # ---- when it is due ---------------------------------------------------------------------------------------

    def due_us(self, state: Retained, obligation: Obligation) -> int:
        """A broker that is stopped deletes nothing, and has all the time again when it goes on."""
        by = obligation.by
        assert by is not None, "an event opens it"
        return max(obligation.since_us, state.stops.free_us(by.node)) + state.beta_us

    def finish(self, state: Retained, horizon_us: int) -> Emissions:
        seconds = state.beta_us / 1_000_000
        return self.too_short(state, f"no broker was up for {seconds:g} s from when a segment had to go")

    def missed(self, state: Retained, name: str, obligation: Obligation) -> Emissions:
        node, _, kind = name.partition("/")
        limits, log = state.limits_at(node), state.log(node)
        prefix = "local." if limits.tiered else ""
        value = limits.own_bytes if kind == BYTES else limits.own_ms
        why = "there is too much" if kind == BYTES else "it is too old"
        sentence = (
            f"{node} did not delete the segment of {state.key} up to {obligation.target:,} within "
            f"{state.beta_us / 1_000_000:g} s, although {why} by {prefix}retention.{kind} = {value:,}: what it has "
            f"begins at {log.local:,}"
        )
        return self.violated(state.key, sentence, obligation.by)
