"""R11: the log start of a tiered partition, at its leaders, and the local log start at its followers."""

from __future__ import annotations

from typing import Any

import msgspec

from actors.node.list_timestamps import EARLIEST_LOCAL
from actors.trace.events import (
    LogHw,
    LogLocalStart,
    LogStart,
    RpcReply,
    Stamped,
    TierSegment,
    TraceEvent,
)
from actors.trace.tier_events import DELETION_STARTED, FINISHED
from orchestrator.invariants.folds.fold import NOTHING, Emissions, Profile, State, Witness, witness
from orchestrator.invariants.mirrors.log_fold import LogInvariant
from orchestrator.invariants.mirrors.log_mirror import LogMirror
from orchestrator.invariants.mirrors.replica import Replica
from orchestrator.invariants.tiers.known_copies import (
    KEPT,
    METADATA_LOST,
    METADATA_NEWS,
    WENT_BACK,
    Copy,
    KnownCopies,
    LostCopies,
    OwnStarts,
    epoch_at,
    of_process,
    put,
)


class Known(KnownCopies):
    """``looked``: the leader epoch in which the broker has looked for its log start, -1 none; ``by``: the event.
    deleting: segment -> the offsets of a copy whose deletion has begun and has not ended; ``started``: the log start
    that the broker found, if it is in such a copy. former: the offsets of copies that a leader of an earlier epoch has
    begun to delete since this one looked, or before without its knowledge. kept: the log start that it found, if its
    copy was gone and the broker itself had the record, -1 otherwise. gone_us: segment -> when the broker heard that the
    deletion of a copy has begun."""

    looked: int = -1
    deleting: dict[str, tuple[int, int]] = {}
    started: int = -1
    former: list[tuple[int, int]] = []
    kept: int = -1
    gone_us: dict[str, int] = {}
    by: Witness | None = None


class Begun(msgspec.Struct, frozen=True):
    """The offsets of a copy whose deletion a leader of an epoch has begun."""

    offsets: tuple[int, int]
    leader_epoch: int


class Beginnings(State):
    """known: by broker. begun: by segment. copied: segment -> the offsets of a copy that some process ever knew as
    finished. emptied: what is below, a broker had deleted and had no more itself when it lost its log start. told_us:
    follower -> when its leader told it last where what the leader has itself begins."""

    known: dict[str, Known] = {}
    begun: dict[str, Begun] = {}
    lost: LostCopies = msgspec.field(default_factory=LostCopies)
    copied: dict[str, tuple[int, int]] = {}
    emptied: int = 0
    told_us: dict[str, int] = {}
    starts: OwnStarts = msgspec.field(default_factory=OwnStarts)

    def of(self, event: Stamped) -> Known:
        """Of the process that recorded an event."""
        return of_process(self.known, Known, event)

    def consume(self, event: Stamped, body: TierSegment) -> None:
        """Some process consumed the new state of a copy."""
        self.lost.consume(event, body)
        if body.state == FINISHED:
            put(self.copied, body.segment, (body.start, body.end))

    def load(self, event: Stamped, body: LogLocalStart) -> None:
        """A broker begins with a log that it has itself only from there on."""
        had = self.starts.highest.get(event.node, 0)
        if body.log_start < had:
            self.emptied = max(self.emptied, min(had, body.new))

    def is_in_hole(self, offset: int) -> bool:
        """Whether a record was deleted before any copy of it was finished, and a log start went back below it."""
        return offset < self.emptied and not any(first <= offset <= last for first, last in self.copied.values())


class TieredLogsBeginWhereTheirRecordsDo(LogInvariant[Beginnings]):
    """A restarted broker may have an outdated log start, from before the last deletions in remote storage; so may a
    follower. A new leader therefore looks for the log start in remote storage. Otherwise it offers deleted records to
    its followers and consumers, and a consumer that begins at the earliest offset never reads a record.

    Example: broker-1 deletes the copies of orders-0 up to offset 40, and crashes. The log start in its checkpoint is 0.
    It becomes leader again, looks at the copies, and its log start is still 0.

    A follower that starts its local log after a copy takes over the leader epochs of that copy: without them it would
    find no copy as the leader.

    Until a leader has looked, its log start may be too low. A copy whose deletion has begun counts as deleted, because
    nobody reads from it.
    """

    id = "R11"
    title = (
        "A tiered log starts at a record that its leader has, locally or in a copy, and followers know the copies' "
        "epochs"
    )
    source = "KAFKA-15351; KIP-405; Kafka's RemoteLogManager.findLogStartOffset"
    tested_when = (
        "a leader that has looked for its log start, which is in remote storage alone, moves its high watermark; or a "
        "follower starts its local log after a copy"
    )
    types = (LogHw, LogStart, LogLocalStart, RpcReply, TierSegment)
    exemptions = {
        "deletion-begun": "When the leader looked, the deletion of a copy with that record had begun and not ended. "
        "Kafka looks at all copies that have metadata (RemoteLogManager.findLogStartOffset), ends the deletion, and "
        "moves the log start when the next copy expires.",
        "deleted-by-former": "A former leader that did not know yet of its replacement deleted a copy with that "
        "record. Kafka's metadata of copies has no fencing by leader epochs.",
        **METADATA_LOST,
        "dropped-since": "When the leader looked, the copy with that record was deleted, and the broker itself had the "
        "record: its log start is older than the deletion. Local retention has dropped the record since. For Kafka "
        "what was ever copied needs no local record (RemoteLogManager.findHighestRemoteOffset), and the log start "
        "moves when the next copy expires.",
        **WENT_BACK,
        "never-copied": "The broker lost the checkpoint of its log start, and had deleted the record before, of which "
        "no copy was ever finished. Kafka begins with the first copy below (RemoteLogManager.findLogStartOffset), and "
        "moves the log start behind each copy that expires, also if the next one begins later.",
    }
    unseen = (
        "Whether a leader looks, and how soon.",
        "Whether the log could start earlier, because remote storage still has earlier copies.",
        "The leader epoch of a record that all high watermarks have passed long ago.",
    )

    def initial(self, key: str, profile: Profile) -> Beginnings:
        return Beginnings(key)

    @property
    def news(self) -> tuple[type[TraceEvent], ...]:
        return METADATA_NEWS

    def hear(self, state: Beginnings, event: Stamped) -> Emissions:
        body: Any = event.body
        state.lost.hear(event, body)
        return NOTHING

    def step(self, state: Beginnings, event: Stamped, mirror: LogMirror) -> Emissions:
        body: Any = event.body
        if type(body) is TierSegment:
            if body.phase == "deleting":
                put(state.begun, body.segment, Begun((body.start, body.end), body.leader_epoch))
                for known in state.known.values():
                    if known.looked > body.leader_epoch:
                        known.former = [*known.former, (body.start, body.end)][-KEPT:]
            elif body.phase == "known":
                known = state.of(event)
                known.consume(event, body)
                state.consume(event, body)
                known.deleting.pop(body.segment, None)
                if body.state == DELETION_STARTED:
                    known.deleting[body.segment] = (body.start, body.end)
                    put(known.gone_us, body.segment, event.wall)
        elif type(body) is RpcReply:
            if any(told.tp == state.key and told.timestamp == EARLIEST_LOCAL for told in body.partitions):
                state.told_us[body.src] = event.wall
        elif type(body) is LogHw:
            return self._leads(state, event, body, mirror) if body.role == "leader" else NOTHING
        elif type(body) is LogLocalStart:
            if body.reason == "load":
                state.load(event, body)
            return self._follows(state, event, body) if body.reason == "remote" else NOTHING
        else:
            state.starts.take(event, body)
            if body.reason != "remote":
                return NOTHING
            self._looks(state, event, body.new, mirror.replica(event.node))
        return NOTHING

    def _looks(self, state: Beginnings, event: Stamped, start: int, replica: Replica) -> None:
        """A leader found its log start."""
        known = state.of(event)
        known.looked, known.by = replica.leads, witness(event)
        inside = any(first <= start <= last for first, last in known.deleting.values())
        known.started = start if inside else -1
        unknown = [each for segment, each in state.begun.items() if segment in known.copies]
        known.former = [each.offsets for each in unknown if each.leader_epoch < known.looked]
        lost = replica.local_start <= start and known.is_gone(start, epoch_at(replica.log, start))
        known.kept = start if lost else -1

    def _follows(self, state: Beginnings, event: Stamped, body: LogLocalStart) -> Emissions:
        state.tested += 1
        copy = next((each for each in self._read(state, event) if each.end + 1 == body.new), None)
        sentence = f"{event.node} moved the local log start of {state.key} to {body.new:,}"
        if copy is None:
            return self.violated(state.key, f"{sentence}, but it knows no copy that ends there", event)
        lacks = [epoch for epoch, start in copy.epochs.items() if body.epochs.get(epoch, start + 1) > start]
        if not lacks:
            return NOTHING
        return self.violated(
            state.key, f"{sentence}, but it does not know leader epoch {lacks[0]} of the copy that ends there", event
        )

    def _read(self, state: Beginnings, event: Stamped) -> list[Copy]:
        """The copies that a follower may have read: those that it knows, and those whose deletion it heard of since its
        leader told it where to begin. A copy that it has found it goes on to read, however long the store takes."""
        known, told_us = state.of(event), state.told_us.get(event.node, event.wall)
        late = [each for segment, each in known.gone.items() if known.gone_us.get(segment, -1) >= told_us]
        return [*known.copies.values(), *late]

    def _leads(self, state: Beginnings, event: Stamped, body: LogHw, mirror: LogMirror) -> Emissions:
        replica, known, start = mirror.replica(event.node), state.of(event), body.log_start
        if known.looked != body.leader_epoch or start >= replica.local_start:
            return NOTHING
        state.tested += 1
        if known.has(start, epoch_at(replica.log, start)):
            return NOTHING
        sentence = (
            f"the log of {event.node}, leader of epoch {body.leader_epoch} of {state.key}, starts at {start:,} and "
            f"its local log at {replica.local_start:,}, but it knows no copy with offset {start:,}"
        )
        if start == known.started:
            return self.excused("deletion-begun", state.key, sentence, known.by, event)
        if any(first <= start <= last for first, last in known.former):
            return self.excused("deleted-by-former", state.key, sentence, known.by, event)
        if start == known.kept:
            return self.excused("dropped-since", state.key, sentence, known.by, event)
        if known.has(start, -1) and state.starts.went_back(event.node, start):
            return self.excused("log-start-went-back", state.key, sentence, known.by, event)
        if state.is_in_hole(start):
            return self.excused("never-copied", state.key, sentence, known.by, event)
        epoch = epoch_at(replica.log, start)
        behind = any(each.end + 1 == start for each in known.gone.values())
        if state.lost.has(start, epoch, known.copies) or (behind and state.lost.had(start, epoch, known)):
            return self.excused("metadata-lost", state.key, sentence, known.by, event)
        return self.violated(state.key, sentence, known.by, event)
