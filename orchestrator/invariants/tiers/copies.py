"""What leaders copy to the remote store, what they delete there, and what becomes of copies that break off."""

from __future__ import annotations

from typing import Any

import msgspec

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

NEEDED = frozenset({LOG, OFFSET, TIMESTAMP, PRODUCER_SNAPSHOT, LEADER_EPOCH})
"""Objects without which a copy is of no use."""
FINISHED = "COPY_SEGMENT_FINISHED"
KEPT = 1024
"""Copies that are remembered."""
GONE = "gone"
"""Name of the obligation that nothing is left of a copy that broke off."""
NEVER_US = 1 << 62
STALE = kinds_of(StaleListing)


class Copy(msgspec.Struct, frozen=True):
    """A finished copy: offsets, where each leader epoch begins in it, and the event that told of it."""

    start: int
    end: int
    epochs: dict[str, int]
    by: Witness

    def epoch_at(self, offset: int) -> int:
        """The leader epoch of a record in it, -1 none."""
        return max((int(epoch) for epoch, start in self.epochs.items() if start <= offset), default=-1)


class Copied(State):
    """end: how far was ever copied (exclusive). watermarks: broker -> its high watermark as a leader, and the event.
    known: broker -> segment -> the finished copies that it has consumed, and that are not being deleted. begun: broker
    -> the leader epoch in which it copies, and the copies that it knew when it began to, or made: it goes on from
    there, whatever a former leader still copies."""

    end: int = 0
    watermarks: dict[str, tuple[int, Witness]] = {}
    known: dict[str, dict[str, Copy]] = {}
    begun: dict[str, tuple[int, list[str]]] = {}


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
            state.watermarks[event.node] = (body.new, witness(event))
        elif kind is LogLocalStart:
            return self._dropped(state, event, body)
        elif body.phase == "known":
            self._consumed(state, event, body)
        elif body.phase == "copied":
            state.end = max(state.end, body.end + 1)
            epoch, segments = state.begun.get(event.node, (-1, []))
            if epoch == body.leader_epoch:
                state.begun[event.node] = (epoch, [*segments, body.segment][-KEPT:])
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

    @property
    def news(self) -> tuple[type, ...]:
        return (NodeUp,)

    def hear(self, state: Copied, event: Stamped) -> Emissions:
        state.known.pop(event.node, None)
        state.begun.pop(event.node, None)
        state.watermarks.pop(event.node, None)
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

    def _consumed(self, state: Copied, event: Stamped, body: TierSegment) -> None:
        known = state.known.setdefault(event.node, {})
        if body.state == FINISHED:
            # Whoever copied it may have gone before it told of that.
            state.end = max(state.end, body.end + 1)
            known[body.segment] = Copy(body.start, body.end, body.epochs, witness(event))
            if len(known) > KEPT:
                del known[next(iter(known))]
        else:
            known.pop(body.segment, None)

    def _copies(self, state: Copied, event: Stamped, body: TierSegment) -> Emissions:
        what = f"{event.node} copies {state.key} from {body.start} to {body.end}"
        watermark, by = state.watermarks.get(event.node, (body.high_watermark, None))
        limit = min(watermark, body.last_stable_offset)
        if body.end >= limit:
            sentence = (
                f"{what}, with the high watermark at {watermark} and the last stable offset {body.last_stable_offset}"
            )
            return self.violated(state.key, sentence, by, event)
        if body.start > max(state.end, body.log_start):
            sentence = f"{what}: nothing between {max(state.end, body.log_start)} and that was copied"
            return self.violated(state.key, sentence, event)
        mine = Copy(body.start, body.end, body.epochs, witness(event))
        known = state.known.get(event.node, {})
        if state.begun.get(event.node, (-1, []))[0] != body.leader_epoch:
            state.begun[event.node] = (body.leader_epoch, list(known))
        for each in (known[segment] for segment in state.begun[event.node][1] if segment in known):
            inside = each.start <= body.start and body.end <= each.end
            if inside and all(each.epoch_at(at) == mine.epoch_at(at) for at in (body.start, body.end)):
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
