"""What leaders copy to the remote store, what they delete there, and what becomes of copies that break off."""

from __future__ import annotations

from typing import Any

from actors.log.segment_objects import LEADER_EPOCH, LOG, OFFSET, PRODUCER_SNAPSHOT, TIMESTAMP
from actors.node.spec import REMOTE_STORE
from actors.trace.events import (
    CtlFault,
    LogHw,
    LogLocalStart,
    NodeUp,
    PartAssume,
    PartRemove,
    Stamped,
    StoreObject,
    TierSegment,
)
from actors.trace.tier_events import FINISHED
from chaos.faults.kinds import kinds_of
from chaos.faults.store import StaleListing
from orchestrator.invariants.folds.fold import (
    NOTHING,
    Emissions,
    KeyedInvariant,
    Profile,
    State,
    Witness,
    witness,
)
from orchestrator.invariants.folds.routes import PARTITION, SEGMENT
from orchestrator.invariants.folds.windows import Obligation, WindowInvariant, WindowState, beta
from orchestrator.invariants.tiers.known_copies import KEPT, KnownCopies, copy_of, of_process

NEEDED = frozenset({LOG, OFFSET, TIMESTAMP, PRODUCER_SNAPSHOT, LEADER_EPOCH})
"""Objects without which a copy is of no use."""
GONE = "gone"
"""Name of the obligation that nothing is left of a copy that broke off."""
NEVER_US = 1 << 62
STALE = kinds_of(StaleListing)


class Knowledge(KnownCopies):
    """Of one process. high_watermark: its own, -1 not told yet, and the event ``by``. begun: the leader epoch in which
    it copies, -1 none; behind: the copies that it knew when it began to, or made: it goes on from there, whatever a
    former leader still copies."""

    high_watermark: int = -1
    by: Witness | None = None
    begun: int = -1
    behind: list[str] = []


class Copied(State):
    """end: how far was ever copied (exclusive). known: by broker."""

    end: int = 0
    known: dict[str, Knowledge] = {}

    def of(self, event: Stamped) -> Knowledge:
        """Of the process that recorded an event."""
        return of_process(self.known, Knowledge, event)


class CopiesMakeOneLog(KeyedInvariant[Copied]):
    """What is in remote storage is read as the log itself, long after the replicas have dropped it. A copy of records
    that are not committed, a gap between two copies, or a copy that goes while the log still begins before its end,
    shows what never was, or hides what was acknowledged.

    Example: broker-1, leader of orders-0, copies the segment with the offsets from 40 to 59 while its high watermark is
    52; or it deletes the copy of offsets 0 to 19 while its log begins at 10; or it has learned that offsets 40 to 59
    are copied, before it copied anything as their leader, and copies them again; or it deletes its own segment of the
    offsets from 40 to 59, which nobody has copied.
    """

    id = "R10"
    title = "Copies are committed, leave no gap, and stay as long as the log shows them"
    source = "KIP-405; KAFKA-15272; KAFKA-15241; Kafka's RemoteLogManager.java"
    tested_when = (
        "a leader begins to copy a segment, or to delete a copy that was finished; or a replica drops segments by its "
        "local retention"
    )
    route = PARTITION
    unseen = ("What is copied, and what a replica drops, in the same leader epochs: R7 judges what is read.",)
    types = (TierSegment, LogHw, LogLocalStart)

    def initial(self, key: str, profile: Profile) -> Copied:
        return Copied(key)

    def step(self, state: Copied, event: Stamped) -> Emissions:
        body: Any = event.body
        kind = type(body)
        if kind is LogHw:
            # Of a follower too: it begins as a leader with what it knew.
            known = state.of(event)
            known.high_watermark, known.by = body.new, witness(event)
        elif kind is LogLocalStart:
            return self._dropped(state, event, body)
        elif body.phase == "known":
            state.of(event).consume(event, body)
            if body.state == FINISHED:
                # Whoever copied it may have gone before it told of that.
                state.end = max(state.end, body.end + 1)
        elif body.phase == "copied":
            state.end = max(state.end, body.end + 1)
            known = state.of(event)
            if known.begun == body.leader_epoch:
                known.behind = [*known.behind, body.segment][-KEPT:]
        elif body.phase == "copying":
            state.tested += 1
            return self._copies(state, event, body)
        elif body.phase == "deleting" and body.state == FINISHED:
            state.tested += 1
            if body.within and body.end >= body.log_start:
                sentence = (
                    f"{event.node} deletes the copy of {state.key} from {body.start} to {body.end}, "
                    f"and its log begins at {body.log_start}"
                )
                return self.violated(state.key, sentence, event)
        return NOTHING

    def _dropped(self, state: Copied, event: Stamped, body: LogLocalStart) -> Emissions:
        if body.reason not in ("retention-ms", "retention-bytes"):
            return NOTHING
        state.tested += 1
        if body.new <= state.end:
            return NOTHING
        sentence = (
            f"{event.node} has {state.key} only from {body.new} on, while its log begins at {body.log_start}, and what "
            f"is from {state.end} on was not copied"
        )
        return self.violated(state.key, sentence, event)

    def _copies(self, state: Copied, event: Stamped, body: TierSegment) -> Emissions:
        what = f"{event.node} copies {state.key} from {body.start} to {body.end}"
        known = state.of(event)
        watermark = body.high_watermark if known.by is None else known.high_watermark
        limit = min(watermark, body.last_stable_offset)
        if body.end >= limit:
            sentence = (
                f"{what}, with the high watermark at {watermark} and the last stable offset {body.last_stable_offset}"
            )
            return self.violated(state.key, sentence, known.by, event)
        if body.start > max(state.end, body.log_start):
            sentence = f"{what}: nothing between {max(state.end, body.log_start)} and that was copied"
            return self.violated(state.key, sentence, event)
        mine = copy_of(event, body)
        if known.begun != body.leader_epoch:
            known.begun, known.behind = body.leader_epoch, list(known.copies)
        for each in (known.copies[segment] for segment in known.behind if segment in known.copies):
            inside = each.start <= body.start and body.end <= each.end
            if inside and each.same_at(mine, body.start, body.end):
                return self.violated(state.key, f"{what}, and knows of a copy of them", each.by, event)
        return NOTHING


class OneCopy(WindowState):
    """One copy of a segment. tp: its partition; copier: who copies it, in which leader epoch; orphaned: that one went,
    or leads no more, so that nobody is about to finish it. objects: of it that the store has; told: whether its
    metadata are known to somebody; finished: and whether they say so. deleting: who began to delete it; untold: all of
    it was there when its copier could not tell that. stale_us: until when the store's lists may be older than what it
    has."""

    tp: str = ""
    copier: str = ""
    leader_epoch: int = -1
    orphaned: bool = False
    objects: list[str] = []
    told: bool = False
    finished: bool = False
    deleting: list[str] = []
    untold: bool = False
    stale_us: int = -1


class HalfCopiesGoAway(WindowInvariant[OneCopy]):
    """A copy that broke off takes room for ever if nobody deletes it, and one that is told to be finished before all of
    it is there cannot be read.

    Example: the store fails while broker-1 copies a segment, and its log data stay in the store though no other object
    of it ever comes; or the metadata say that a copy is finished whose index was never stored; or that it is deleted,
    and its log data are still there; or broker-1 gives a copy up, and does not try to delete what was stored of it. The
    obligation begins with the first object in the store and ends when the copy is told to be finished, or when all of
    it is gone.
    """

    id = "R12"
    title = "A copy is whole when it is reported as finished, and one that broke off is deleted"
    source = "KAFKA-17062; KAFKA-17428; Kafka's RemoteLogManager.java"
    tested_when = (
        "a copy is told to be finished or deleted, or is given up; or what was stored of one that broke off goes, in a "
        "window"
    )
    unseen = ("What the objects of a copy hold: only that the store has them.",)
    exemptions = {
        "orphaned": "Whoever copied it went down or leads the partition no more, or its topic was deleted. Kafka "
        "deletes such a half copy with what has expired, or never.",
        "untold": "All of it was in the store, and its copier gave up because it could not tell so in time. Kafka "
        "deletes such a copy with what has expired, or never.",
        "deleted-by-another": "The leader that came after its copier deleted the copy as one that had expired, and the "
        "copier did not know yet that it was replaced.",
        "outdated-list": "The store listed what it had a while ago when the copy was deleted, and deletes by that.",
    }
    route = SEGMENT
    types = (TierSegment, StoreObject)

    @property
    def news(self) -> tuple[type, ...]:
        return (*super().news, NodeUp, PartAssume, PartRemove)

    def initial(self, key: str, profile: Profile) -> OneCopy:
        return OneCopy(key, beta_us=beta(profile, self.id))

    def hear(self, state: OneCopy, event: Stamped) -> Emissions:
        body: Any = event.body
        kind = type(body)
        if kind is NodeUp:
            state.orphaned |= event.node == state.copier
            return NOTHING
        if kind is PartRemove:
            state.orphaned |= body.tp == state.tp
            return NOTHING
        if kind is PartAssume:
            left = body.role != "leader" or body.leader_epoch != state.leader_epoch
            state.orphaned |= event.node == state.copier and body.tp == state.tp and left
            return NOTHING
        if kind is CtlFault and body.kind in STALE:
            lag_us = int(body.parameters["delay_max_us"])
            state.stale_us = NEVER_US if body.phase == "start" else event.wall + lag_us
        return super().hear(state, event)

    def step(self, state: OneCopy, event: Stamped) -> Emissions:
        body: Any = event.body
        if type(body) is StoreObject:
            found = self._stored(state, event, body)
        else:
            found = self._told(state, event, body)
        return [*found, *self.arm(state)] if state.armed_us < 0 else found

    def _stored(self, state: OneCopy, event: Stamped, body: StoreObject) -> Emissions:
        if body.phase == "deleted":
            state.objects = [each for each in state.objects if each != body.object]
            if not state.objects:
                self.kept(state, GONE)
            return NOTHING
        if body.object not in state.objects:
            state.objects = [*state.objects, body.object]
        if not state.finished:
            self.oblige(state, GONE, event)
        if not state.told:
            sentence = f"{body.object} of a copy of {body.tp} was stored, and no metadata told of it"
            return self.violated(state.key, sentence, event)
        return NOTHING

    def _told(self, state: OneCopy, event: Stamped, body: TierSegment) -> Emissions:
        if body.phase == "copying":
            state.tp, state.copier, state.leader_epoch = body.tp, event.node, body.leader_epoch
        elif body.phase == "known":
            state.told = True
            state.finished = body.state == FINISHED
        elif body.phase == "copied":
            state.finished = True
            self.void(state, GONE)
            state.tested += 1
            if missing := sorted(NEEDED.difference(state.objects)):
                sentence = f"{event.node} told that its copy of {body.tp} is finished, without {', '.join(missing)}"
                if any(each != event.node for each in state.deleting):
                    return self.excused("deleted-by-another", state.key, sentence, event)
                return self.violated(state.key, sentence, event)
        elif body.phase == "deleting":
            state.deleting = [*state.deleting, event.node]
        elif body.phase == "copy-failed":
            return self._gave_up(state, event, body)
        elif body.phase == "deleted":
            state.tested += 1
            if state.objects:
                left = ", ".join(state.objects)
                sentence = f"{event.node} told that a copy of {body.tp} is deleted, which has {left}"
                if event.wall <= state.stale_us:
                    return self.excused("outdated-list", state.key, sentence, event)
                return self.violated(state.key, sentence, event)
        return NOTHING

    def _gave_up(self, state: OneCopy, event: Stamped, body: TierSegment) -> Emissions:
        state.tested += 1
        state.untold = NEEDED.issubset(state.objects)
        if not state.objects or state.untold or event.node in state.deleting:
            return NOTHING
        sentence = f"{event.node} gave up its copy of {body.tp}, and left {', '.join(state.objects)} in the store"
        return self.violated(state.key, sentence, event)

    def missed(self, state: OneCopy, name: str, obligation: Obligation) -> Emissions:
        if REMOTE_STORE not in state.core:
            return NOTHING
        sentence = f"a copy of {state.tp} by {state.copier} has {', '.join(state.objects)} in the store, and no end"
        if state.orphaned or state.copier not in state.core:
            return self.excused("orphaned", state.key, sentence, obligation.by)
        if state.untold:
            return self.excused("untold", state.key, sentence, obligation.by)
        sentence = f"{sentence} {self.within(state)}"
        return self.violated(state.key, sentence, obligation.by, state.window)
