"""R11: where the log of a tiered partition begins at its leaders."""

from __future__ import annotations

from typing import Any

from actors.trace.events import LogHw, LogLocalStart, LogStart, Stamped, TierSegment
from actors.trace.tier_events import DELETION_STARTED
from orchestrator.invariants.folds.fold import NOTHING, Emissions, Profile, State, Witness, witness
from orchestrator.invariants.mirrors.log_fold import LogInvariant
from orchestrator.invariants.mirrors.log_mirror import LogMirror
from orchestrator.invariants.mirrors.log_prefix import Prefix
from orchestrator.invariants.tiers.known_copies import KnownCopies, of_process


class Known(KnownCopies):
    """``looked``: the leader epoch in which it has looked where the log begins, -1 none; ``by``: the event. deleting:
    segment -> the offsets of its copy, of which the deletion was begun and has not ended; ``started``: where the log
    begins as it has looked, if that is in one of these."""

    looked: int = -1
    deleting: dict[str, tuple[int, int]] = {}
    started: int = -1
    by: Witness | None = None


class Beginnings(State):
    """By broker."""

    known: dict[str, Known] = {}

    def of(self, event: Stamped) -> Known:
        """Of the process that recorded an event."""
        return of_process(self.known, Known, event)


class TieredLogsBeginWhereTheirRecordsDo(LogInvariant[Beginnings]):
    """A broker that is started again may have forgotten how far its log was deleted in remote storage, and a follower
    may not have heard of it. As the leader it looks first where the log begins there; otherwise it tells its followers
    and its readers of records that are gone, and who begins at the earliest offset never gets on.

    Example: broker-1 deletes the copies of orders-0 up to offset 40, and crashes. Its checkpoint says that the log
    begins at 0. It leads again, and its log still begins at 0 when it has looked at what is copied.

    A follower that begins behind a copy takes the leader epochs from there: as a leader it finds no copy without them.

    Until a leader has looked it may say too little. A copy that is being deleted is gone: nobody reads from it.
    """

    id = "R11"
    title = "A leader's log begins in what it has itself or in a copy, of leader epochs that it knows"
    source = "KAFKA-15351; KIP-405; Kafka's RemoteLogManager.findLogStartOffset"
    tested_when = (
        "the high watermark of a leader moves that has looked where its log begins, which is in remote storage alone; "
        "or a follower begins behind a copy"
    )
    types = (LogHw, LogStart, LogLocalStart, TierSegment)
    exemptions = {
        "deletion-begun": "When the leader looked, the deletion of a copy with that record had begun and not ended. "
        "Kafka looks at all copies whose metadata are there (RemoteLogManager.findLogStartOffset), ends the deletion, "
        "and moves the log start with the next copy that expires."
    }
    unseen = (
        "That a leader looks at all, and how soon.",
        "Whether the log might begin earlier, with copies that are still there.",
        "The leader epoch of a record that all high watermarks have passed long ago.",
    )

    def initial(self, key: str, profile: Profile) -> Beginnings:
        return Beginnings(key)

    def step(self, state: Beginnings, event: Stamped, mirror: LogMirror) -> Emissions:
        body: Any = event.body
        if type(body) is TierSegment:
            if body.phase == "known":
                known = state.of(event)
                known.consume(event, body)
                known.deleting.pop(body.segment, None)
                if body.state == DELETION_STARTED:
                    known.deleting[body.segment] = (body.start, body.end)
        elif type(body) is LogHw:
            return self._leads(state, event, body, mirror) if body.role == "leader" else NOTHING
        elif type(body) is LogLocalStart:
            return self._follows(state, event, body) if body.reason == "remote" else NOTHING
        elif body.reason == "remote":
            known = state.of(event)
            known.looked, known.by = mirror.replica(event.node).leads, witness(event)
            inside = any(first <= body.new <= last for first, last in known.deleting.values())
            known.started = body.new if inside else -1
        return NOTHING

    def _follows(self, state: Beginnings, event: Stamped, body: LogLocalStart) -> Emissions:
        state.tested += 1
        copy = next((each for each in state.of(event).copies.values() if each.end + 1 == body.new), None)
        sentence = f"{event.node} began its part of {state.key} at {body.new:,}"
        if copy is None:
            return self.violated(state.key, f"{sentence}, and knows of no copy that ends there", event)
        lacks = [epoch for epoch, start in copy.epochs.items() if body.epochs.get(epoch, start + 1) > start]
        if not lacks:
            return NOTHING
        return self.violated(
            state.key, f"{sentence}, and does not know leader epoch {lacks[0]} of the copy that ends there", event
        )

    def _leads(self, state: Beginnings, event: Stamped, body: LogHw, mirror: LogMirror) -> Emissions:
        replica, known, start = mirror.replica(event.node), state.of(event), body.log_start
        if known.looked != body.leader_epoch or start >= replica.local_start:
            return NOTHING
        state.tested += 1
        mine = epoch_at(replica.log, start)
        for each in known.copies.values():
            if each.start <= start <= each.end and mine in (-1, each.epoch_at(start)):
                return NOTHING
        sentence = (
            f"the log of {event.node}, leader of epoch {body.leader_epoch} of {state.key}, begins at {start:,}; it has "
            f"itself what is from {replica.local_start:,} on, and knows of no copy with that record"
        )
        if start == known.started:
            return self.excused("deletion-begun", state.key, sentence, known.by, event)
        return self.violated(state.key, sentence, known.by, event)


def epoch_at(log: Prefix, offset: int) -> int:
    """The leader epoch of a record of a log; -1 where it is not known."""
    batch = log.batch_at(offset)
    if batch is not None:
        return batch.epoch
    return max((epoch for epoch, start in log.floor_epochs if 0 <= start <= offset < log.floor), default=-1)
