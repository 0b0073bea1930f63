"""R13: that copies which need not be retained are deleted."""

from __future__ import annotations

from typing import Any

import msgspec

from actors.broker.coordinator_common.partitions import REMOTE_LOG_METADATA_TOPIC
from actors.node.spec import is_recreated
from actors.trace.events import (
    LogAppend,
    LogHw,
    LogLocalStart,
    LogStart,
    NodeDown,
    NodeUp,
    PartAssume,
    PartChange,
    Stamped,
    TierSegment,
)
from actors.trace.tier_events import DELETED, DELETION_STARTED, FINISHED, STARTED
from orchestrator.invariants.folds.bounds import NEVER_US
from orchestrator.invariants.folds.fold import NOTHING, Emissions, Profile
from orchestrator.invariants.folds.windows import Obligation, beta
from orchestrator.invariants.mirrors.known_limits import Limits, known_limits
from orchestrator.invariants.mirrors.own_segments import UNKNOWN_BYTES, OwnLog
from orchestrator.invariants.mirrors.partition_losses import PartitionLosses
from orchestrator.invariants.mirrors.retained_logs import AGE, BYTES, RETENTION, RetainedLogs, RetentionInvariant
from orchestrator.invariants.tiers.known_copies import (
    KEPT,
    Copy,
    KnownCopies,
    OwnStarts,
    copy_of,
    of_process,
    put,
)

LOG_BYTES, LOG_AGE, COPY, LEFT = f"log/{BYTES}", f"log/{AGE}", "copy/", "left/"


class AllCopies(KnownCopies):
    """With those that no process has finished yet, and those whose deletion some process has begun and none finished,
    as far as this one knows. furthest: where the finished ones end (exclusive), with those that are gone."""

    unfinished: dict[str, Copy] = {}
    begun: dict[str, Copy] = {}
    furthest: int = 0

    def consume(self, event: Stamped, body: TierSegment) -> None:
        super().consume(event, body)
        self.unfinished.pop(body.segment, None)
        self.begun.pop(body.segment, None)
        if body.state == STARTED:
            put(self.unfinished, body.segment, copy_of(event, body))
        elif body.state == DELETION_STARTED:
            put(self.begun, body.segment, copy_of(event, body))
        elif body.state == FINISHED:
            self.furthest = max(body.end + 1, self.furthest)

    def most_left(self, was: int, new: int) -> int:
        """The size at most of the finished copies when the log start has moved: of all but those that it passed. One
        that shares records with another may have stayed; and one that lay before counts until it is deleted."""
        alive = [*self.copies.values(), *self.unfinished.values()]

        def may_stay(copy: Copy) -> bool:
            passed = was <= copy.end < new
            return not passed or any(other is not copy and copy.overlaps(other) for other in alive)

        if len(self.copies) >= KEPT:
            return UNKNOWN_BYTES
        return sum(copy.size or UNKNOWN_BYTES for copy in self.copies.values() if may_stay(copy))

    def least_behind(self, first: Copy) -> int:
        """The size at least of the finished copies behind one, without what a leader may have to delete before: it
        takes the size of copies that nobody has finished from what is too much."""
        behind = sum(copy.size for copy in self.copies.values() if copy.start > first.end)
        return behind - sum(copy.size for copy in self.unfinished.values() if copy.start <= first.end)

    def left(self, log: OwnLog, copying: int) -> set[str]:
        """The copies that somebody has left half made or half deleted, and that a leader finds at each look. It goes
        along its log, and looks no further than to the first copy that stays: that ends in the log, or is the one that
        the leader makes itself (from ``copying`` on). It deletes nothing while the log start would pass its high
        watermark."""
        left = {key: each for of in (self.unfinished, self.begun) for key, each in of.items() if each.end < log.start}
        if not left:
            return set()
        alive = [*self.copies.values(), *self.unfinished.values()]
        if any(each.end >= log.high_watermark for each in alive):
            return set()
        stays = min([copying, *(each.start for each in alive if each.end >= log.start)])
        return {key for key, each in left.items() if each.start < stays}

    def that_end(self, offset: int) -> list[Copy]:
        """Those whose deletion has not begun, up to ``offset`` (exclusive)."""
        return [each for known in (self.copies, self.unfinished) for each in known.values() if each.end + 1 == offset]


class Kept(RetainedLogs):
    """Of a tiered partition. known: broker -> the copies that its process knows. leader: who leads it, "" nobody is
    known to. looks: it has looked where the log begins, so that it knows all copies. losses: of this partition, and of
    the metadata topic; deleting: the copies that it deletes now, one that has expired and one that failed at most, and
    busy_us: up to when what it must delete besides has been given the time for that. copying: the first offset of the
    segment that it copies now. copied_to: up to where (exclusive) the leader has copied its log, as far as it certainly
    knows. starts: of the logs."""

    known: dict[str, AllCopies] = {}
    leader: str = ""
    leader_epoch: int = -1
    looks: bool = False
    losses: PartitionLosses = msgspec.field(default_factory=PartitionLosses)
    deleting: list[str] = []
    busy_us: int = 0
    copying: int = NEVER_US
    copied_to: int = 0
    starts: OwnStarts = msgspec.field(default_factory=OwnStarts)

    def most_left(self, event: Stamped, was: int, new: int) -> int:
        """What the leader's log and its copies have at most, together, when its log start has moved from ``was`` to
        ``new``: of its own segments only those count that it has not copied. Some of those may lie below the log start
        as long as that is not copied."""
        if event.node != self.leader or new > self.copied_to:
            return UNKNOWN_BYTES
        return of_process(self.known, AllCopies, event).most_left(was, new) + self.log(event.node).most_behind(
            self.copied_to
        )

    def is_over(self, now_us: int, *, failed: bool) -> None:
        """The leader has come to the end of a deletion: no other one has begun meanwhile. One that failed ends the run
        of its task, and the next run goes through all copies again."""
        for name, obligation in self.due.items():
            if name.startswith(LEFT):
                obligation.since_us = now_us if failed else obligation.since_us + now_us - self.busy_us
        self.busy_us = now_us


class ExpiredCopiesGoAway(RetentionInvariant[Kept]):
    """Remote storage is for what is kept long, and not for ever. Nothing but the leader's own task deletes there.

    Example: retention.bytes of orders is 20000. The log of orders-0 begins at 0 with a copy up to 79, and from 80 on it
    has 24,000 bytes. Its leader, broker-1, looks every remote.log.manager.task.interval.ms, and its log start stays at
    0. Or the newest record of that copy is older than retention.ms. Or the log start is 80, and broker-1 does not begin
    to delete the copy.

    It also deletes what others have left below its log start: a copy of a leader that crashed before it was finished,
    and one whose deletion has begun and failed.

    All that is the leader's own work, which needs no other node, once it knows the copies. It deletes one copy after
    the other, and looks again after the last one, or after one that it could not delete.

    It moves its log start past no other copy, either: retention.ms is 3000, and the newest record of the last copy that
    it passes is 700 ms old; or retention.bytes is 20000, and what is left has 19,000 bytes. A leader also tells of each
    copy how old it is, by its newest record, not by its first.
    """

    id = "R13"
    title = (
        "A leader moves its log start past copies that are too much, or too old, and no others, and deletes copies "
        "below it"
    )
    source = "KIP-405; Kafka's RemoteLogManager.RLMExpirationTask"
    tested_when = (
        "a leader moves its log start past a copy that had to go, or begins to delete a copy that lies below the log "
        "start"
    )
    cases = {LogHw: ("leader",)}
    unseen = (
        "what becomes of a deletion that has begun, and of others while it lasts: R12 judges that, and that it ends",
        "retention by age in runs in which a clock was set",
        "by size, whether too many copies go, past several with the same records, or past what is not copied",
        "partitions whose log becomes a tiered one, or is copied no more, or again",
        "topics that were created again or removed",
        "partitions that may have lost committed records, or their metadata: a copy may be of another log",
        "copies that were never finished, and that lie in the log, or behind a copy that does: R12 judges those",
    )

    def initial(self, key: str, profile: Profile) -> Kept:
        beta_us = beta(profile, self.id)
        losses = PartitionLosses(profile, (key, f"{REMOTE_LOG_METADATA_TOPIC}-"))
        limits, wrong = known_limits(key, profile), is_recreated(key)
        return Kept(key, beta_us=beta_us, since_us=0, profile=profile, limits=limits, wrong=wrong, losses=losses)

    # ---- the run ----------------------------------------------------------------------------------------------

    @property
    def news(self) -> tuple[type, ...]:
        return (*super().news, PartChange)

    def hear(self, state: Kept, event: Stamped) -> Emissions:
        if type(event.body) is PartChange:
            self._changed(state, event)
            return NOTHING
        if type(event.body) is NodeDown:
            self._changed(state, event)
        return super().hear(state, event)

    @staticmethod
    def _changed(state: Kept, event: Stamped) -> None:
        lost = state.losses.take(event)
        if any(each.tp == state.key or each.tp.startswith(REMOTE_LOG_METADATA_TOPIC) for each in lost):
            state.give_up()

    def limited(self, state: Kept, event: Stamped, before: Limits, now: Limits) -> Emissions:
        if event.node != state.leader:
            return NOTHING
        if before.all_bytes != now.all_bytes:
            self.void(state, LOG_BYTES)
        if before.all_ms != now.all_ms:
            self.void(state, LOG_AGE)
        return self._look(state, event)

    def restarts(self, state: Kept, event: Stamped, body: NodeUp | NodeDown) -> None:
        super().restarts(state, event, body)
        if event.node == state.leader:
            self._leads(state, "")

    # ---- what brokers do --------------------------------------------------------------------------------------

    def step(self, state: Kept, event: Stamped) -> Emissions:
        body: Any = event.body
        kind, log = type(body), state.log(event.node)
        if kind is PartChange:
            self._changed(state, event)
            return NOTHING
        was = log.start
        state.follow(event)
        if kind is LogAppend:
            return NOTHING
        early = NOTHING
        if kind is PartAssume:
            self._assumed(state, event, body)
        elif kind is TierSegment:
            early = self._honest(state, event, body) if body.phase == "copying" else NOTHING
            self._tiered(state, event, body)
        elif kind is LogStart or kind is LogLocalStart:
            if kind is LogStart:
                early = self._too_soon(state, event, body, was)
                self._starts(state, event, body)
            for name in (LOG_BYTES, LOG_AGE) if event.node == state.leader else ():
                self.gone(state, event, name, log.start)
        return [*early, *self._look(state, event)] if event.node == state.leader else early

    @staticmethod
    def _starts(state: Kept, event: Stamped, body: LogStart) -> None:
        """A log begins there. A leader looks how far it is copied. One that begins before its leader epochs may find
        no copy."""
        state.starts.take(event, body)
        if event.node != state.leader or body.reason != "remote":
            return
        state.looks = True
        if not state.starts.went_back(event.node, body.new):
            copies = of_process(state.known, AllCopies, event).copies.values()
            state.copied_to = max((copy.end + 1 for copy in copies if copy.end >= body.new), default=0)

    def _too_soon(self, state: Kept, event: Stamped, body: LogStart, was: int) -> Emissions:
        """Whether the log start moves past copies that their limit lets stay: past the last one of them, as the limit
        that is told of is the one by which that goes. ``was``: where the log began before."""
        if body.reason not in RETENTION or state.wrong:
            return NOTHING
        copies = of_process(state.known, AllCopies, event).that_end(body.new)
        found = [self._stay(state, event, body, was, limits, copies) for limits in state.limits.within(event)]
        by = [copies[0].by] if copies else []
        return self.violated(state.key, found[0], *by, event) if all(found) else NOTHING

    @staticmethod
    def _stay(state: Kept, event: Stamped, body: LogStart, was: int, limits: Limits, copies: list[Copy]) -> str:
        """What is wrong with a log start past copies by these limits, "" nothing is known to be."""
        if not limits.tiered:
            return ""
        kind = RETENTION[body.reason]
        limit = limits.all_bytes if kind == BYTES else limits.all_ms
        sentence = (
            f"{event.node} moved the log start of {state.key} to {body.new:,}, past a copy, by retention.{kind} = "
            f"{limit:,}"
        )
        if limit < 0:
            return f"{sentence}, by which all copies stay"
        if kind == BYTES and copies:
            left = state.most_left(event, was, body.new)
            return "" if left >= limit else f"{sentence}, although what is left has {left:,} bytes at most"
        if kind == BYTES or state.skewed or not copies:
            return ""
        age_ms = event.wall // 1000 - min(copy.max_timestamp for copy in copies)
        return "" if age_ms > limit else f"{sentence}, although the newest record in it was {age_ms:,} ms old"

    def _honest(self, state: Kept, event: Stamped, body: TierSegment) -> Emissions:
        """Whether a leader tells the age of a segment that it copies: retention goes by that."""
        told_ms = {each.base: each.told_ms for each in state.log(event.node).segments}
        if state.wrong or body.start not in told_ms or body.end + 1 not in told_ms:
            return NOTHING
        newest_ms = max(ms for base, ms in told_ms.items() if body.start <= base <= body.end)
        if body.max_timestamp >= newest_ms:
            return NOTHING
        sentence = (
            f"{event.node} copies offsets {body.start:,} to {body.end:,} of {state.key} with {body.max_timestamp:,} as "
            f"their greatest timestamp, but a record in them has {newest_ms:,}"
        )
        return self.violated(state.key, sentence, event)

    def _assumed(self, state: Kept, event: Stamped, body: PartAssume) -> None:
        if body.leader_epoch > state.leader_epoch or (
            body.role == "leader" and body.leader_epoch == state.leader_epoch
        ):
            state.leader_epoch = body.leader_epoch
            self._leads(state, event.node if body.role == "leader" else "")

    @staticmethod
    def _leads(state: Kept, leader: str) -> None:
        state.leader, state.looks, state.deleting, state.copying = leader, False, [], NEVER_US
        state.copied_to = 0
        state.due.clear()

    def _tiered(self, state: Kept, event: Stamped, body: TierSegment) -> None:
        if body.phase == "known":
            of_process(state.known, AllCopies, event).consume(event, body)
            if body.state == DELETED:
                self.void(state, f"{COPY}{body.segment}")
        if event.node != state.leader:
            return
        if body.phase == "copying":
            state.copying = body.start
        elif body.phase in ("copied", "copy-failed"):
            state.copying = NEVER_US
            if body.phase == "copied" and state.looks:
                state.copied_to = body.end + 1
        elif body.phase == "deleting":
            self.kept(state, f"{COPY}{body.segment}")
            self.kept(state, f"{LEFT}{body.segment}")
            if not state.deleting:
                state.busy_us = event.wall
            state.deleting = [*state.deleting, body.segment]
            # What is next waits for the end of it.
            for name in [name for name in state.due if not name.startswith(LEFT)]:
                del state.due[name]
        elif body.phase in ("deleted", "delete-failed"):
            state.deleting = [each for each in state.deleting if each != body.segment]
            state.is_over(event.wall, failed=body.phase == "delete-failed")

    def _look(self, state: Kept, event: Stamped) -> Emissions:
        """What the leader has to delete."""
        limits = state.limits_at(state.leader)
        if state.wrong or not limits.tiered or not state.looks or state.deleting:
            return NOTHING
        log, known = state.log(state.leader), of_process(state.known, AllCopies, event)
        copies, left = known.copies, {f"{LEFT}{segment}" for segment in known.left(log, state.copying)}
        for name in [name for name in state.due if name.startswith(LEFT) and name not in left]:
            self.void(state, name)
        for name in sorted(left):
            self.oblige(state, name, event)
        for segment, copy in copies.items():
            if copy.end < log.start:
                self.oblige(state, f"{COPY}{segment}", event)
        within = [copy for copy in copies.values() if copy.start <= log.start <= copy.end < log.high_watermark]
        if len(within) == 1:
            [first] = within
            own = log.behind(max(known.furthest, state.copied_to, log.local))
            if 0 <= limits.all_bytes <= known.least_behind(first) + own:
                self.oblige_from(state, LOG_BYTES, event, event.wall, first.end + 1)
            else:
                self.void(state, LOG_BYTES)  # a copy that made it too much has gone
            if limits.all_ms >= 0 and first.max_timestamp >= 0 and not state.skewed:
                old_us = 1000 * (first.max_timestamp + limits.all_ms)
                self.oblige_from(state, LOG_AGE, event, max(event.wall, old_us), first.end + 1)
        return self.arm(state)

    # ---- when it is due ---------------------------------------------------------------------------------------

    def due_us(self, state: Kept, obligation: Obligation) -> int:
        """A leader that is stopped deletes nothing, and has all the time again when it goes on. One that deletes
        something deletes nothing else."""
        if state.deleting:
            return NEVER_US
        return max(obligation.since_us, state.stops.free_us(state.leader)) + state.beta_us

    def finish(self, state: Kept, horizon_us: int) -> Emissions:
        seconds = state.beta_us / 1_000_000
        return self.too_short(state, f"no leader had {seconds:g} s from when a copy had to go")

    def missed(self, state: Kept, name: str, obligation: Obligation) -> Emissions:
        log, limits = state.log(state.leader), state.limits_at(state.leader)
        within = f"within {state.beta_us / 1_000_000:g} s"
        if name.startswith((COPY, LEFT)):
            what = "a copy" if name.startswith(COPY) else "what is left of a copy"
            sentence = (
                f"{state.leader} did not begin to delete {what} of {state.key} below its log start, {log.start:,}, "
                f"{within}"
            )
            return self.violated(state.key, sentence, obligation.by)
        why = f"there is too much by retention.bytes = {limits.all_bytes:,}"
        if name == LOG_AGE:
            why = f"it is too old by retention.ms = {limits.all_ms:,}"
        sentence = (
            f"{state.leader} did not move the log start of {state.key} to {obligation.target:,}, past a copy, {within}"
            f", although {why}: it is {log.start:,}"
        )
        return self.violated(state.key, sentence, obligation.by)
