"""The copies of a partition's segments that each broker knows: the state that several invariants share."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeVar

import msgspec

from actors.broker.coordinator_common.partitions import REMOTE_LOG_METADATA_TOPIC
from actors.trace.events import LogStart, PartChange, Stamped, TierSegment
from actors.trace.tier_events import DELETED, DELETION_STARTED, FINISHED
from orchestrator.invariants.folds.fold import Witness, witness
from orchestrator.invariants.mirrors.log_mirror import ANEW
from orchestrator.invariants.mirrors.log_prefix import Prefix
from orchestrator.invariants.mirrors.replica import Replica

V = TypeVar("V")

KEPT = 4096
"""Copies of a partition that are remembered for each broker."""


class Copy(msgspec.Struct, frozen=True):
    """A finished copy whose deletion has not begun: its offsets, the start of each leader epoch in it, the greatest
    timestamp of its records, the event with its metadata, and its size, 0 not told."""

    start: int
    end: int
    epochs: dict[str, int]
    max_timestamp: int
    by: Witness
    size: int = 0

    def overlaps(self, other: Copy) -> bool:
        """Whether another copy has a record of it."""
        return self.start <= other.end and other.start <= self.end

    def epoch_at(self, offset: int) -> int:
        """The leader epoch of the record at an offset, -1 none."""
        return max((int(epoch) for epoch, start in self.epochs.items() if start <= offset), default=-1)

    def holds(self, offset: int, epoch: int) -> bool:
        """Whether it has the record of a leader epoch at an offset, -1 any epoch."""
        return self.start <= offset <= self.end and epoch in (-1, self.epoch_at(offset))

    def same_at(self, other: Copy, *offsets: int) -> bool:
        """Whether the records at these offsets have the same leader epochs in another copy."""
        return all(self.epoch_at(offset) == other.epoch_at(offset) for offset in offsets)


def put(kept: dict[str, V], segment: str, value: V) -> None:
    """Remember something of a segment; of too many the oldest goes."""
    kept[segment] = value
    if len(kept) > KEPT:
        del kept[next(iter(kept))]


def copy_of(event: Stamped, body: TierSegment) -> Copy:
    """The copy that an event describes."""
    return Copy(body.start, body.end, body.epochs, body.max_timestamp, witness(event), body.size)


METADATA_NEWS = (PartChange, LogStart)
"""Types of the events by which the metadata topic may lose records."""
DELETES = frozenset({"retention-ms", "retention-bytes", "delete-records"})
"""Why a log starts later for everybody who reads it."""


def may_lose_metadata(body: PartChange | LogStart) -> bool:
    """Whether an election may shorten the metadata topic, or its oldest records are deleted: a broker's own limit of
    bytes holds for that topic, too (``TopicBasedRemoteLogMetadataManager.newRemoteLogMetadataTopic`` sets none)."""
    loses = body.cause == "unclean" if isinstance(body, PartChange) else body.reason in DELETES
    return loses and body.tp.startswith(f"{REMOTE_LOG_METADATA_TOPIC}-")


class Life(msgspec.Struct):
    """The knowledge of one incarnation of a node, which is one process."""

    incarnation: int


class KnownCopies(Life):
    """The copies whose metadata one process has consumed, by segment. gone: those that were finished, and whose
    deletion has begun since."""

    copies: dict[str, Copy] = {}
    gone: dict[str, Copy] = {}

    def consume(self, event: Stamped, body: TierSegment) -> None:
        """The process consumed the new state of a copy."""
        copy = self.copies.pop(body.segment, None)
        if body.state == FINISHED:
            put(self.copies, body.segment, copy_of(event, body))
        elif copy is not None:
            put(self.gone, body.segment, copy)

    def has(self, offset: int, epoch: int) -> bool:
        """Whether a copy has the record of a leader epoch at an offset, -1 any epoch."""
        return any(each.holds(offset, epoch) for each in self.copies.values())

    def is_gone(self, offset: int, epoch: int) -> bool:
        """Whether no copy has it any more."""
        return not self.has(offset, epoch) and any(each.holds(offset, epoch) for each in self.gone.values())


class LostCopies(msgspec.Struct):
    """The copies of a partition whose metadata may be gone. finished: by segment, those that some process knew as
    finished, none as deleted; ended: those that some process knew as deleted. lost, lost_ended: those of which the
    metadata topic may have lost the records since; ``by``: the election that it lost them in."""

    finished: dict[str, Copy] = {}
    ended: dict[str, Copy] = {}
    lost: dict[str, Copy] = {}
    lost_ended: dict[str, Copy] = {}
    by: Witness | None = None

    def consume(self, event: Stamped, body: TierSegment) -> None:
        """Some process consumed the new state of a copy."""
        if body.state == FINISHED:
            put(self.finished, body.segment, copy_of(event, body))
        elif body.state in (DELETION_STARTED, DELETED):
            lost, finished = self.lost.pop(body.segment, None), self.finished.pop(body.segment, None)
            if (copy := finished or lost) is not None:
                put(self.ended, body.segment, copy)

    def hear(self, event: Stamped, body: PartChange | LogStart) -> None:
        """A partition of some topic changed, or a log starts later."""
        if may_lose_metadata(body):
            self.lost, self.lost_ended, self.by = dict(self.finished), dict(self.ended), witness(event)

    def has(self, offset: int, epoch: int, known: Collection[str]) -> bool:
        """Whether there is one with the record of a leader epoch at an offset, -1 any epoch, that is not among the
        copies which a process knows."""
        return any(each.holds(offset, epoch) for segment, each in self.lost.items() if segment not in known)

    def had(self, offset: int, epoch: int, known: KnownCopies) -> bool:
        """The same of one that was deleted: who knows nothing of a copy does not know that either."""
        return any(
            each.holds(offset, epoch)
            for segment, each in self.lost_ended.items()
            if segment not in known.copies and segment not in known.gone
        )


METADATA_LOST = {
    "metadata-lost": "An unclean election, or retention, shortened the metadata topic after a copy with that record "
    "was finished, and the broker knows nothing of that copy."
}
"""The rule for a position in a copy whose metadata is gone."""

WENT_BACK = {
    "log-start-went-back": "The broker lost the checkpoint of its log start, and begins with the copy that has that "
    "start inside. It kept its leader epochs, which begin with the lost start: Kafka finds no epoch for the older one, "
    "and takes nothing for it from remote storage (LeaderEpochFileCache.epochForOffset)."
}
"""The rule for a log start between the beginning of a copy and the beginning of the leader epochs."""


class OwnStarts(msgspec.Struct):
    """The highest log start that each broker has had since it began its log anew."""

    highest: dict[str, int] = {}

    def take(self, event: Stamped, body: LogStart) -> None:
        """A broker's log begins there now. A log that is loaded has no new start: at first it is that of its first
        segment, until the topic's configuration is known."""
        if body.reason == "load":
            return
        anew = body.reason in ANEW
        self.highest[event.node] = body.new if anew else max(self.highest.get(event.node, 0), body.new)

    def went_back(self, node: str, start: int) -> bool:
        """Whether a broker has had a higher one."""
        return start < self.highest.get(node, 0)


class KnownEnds(Life):
    """The ends (exclusive) of the copies that one process knows, in any state, by segment."""

    ends: dict[str, int] = {}

    def consume(self, body: TierSegment) -> None:
        """The process consumed the new state of a copy."""
        self.ends.pop(body.segment, None)
        if body.state != DELETED:
            put(self.ends, body.segment, body.end + 1)


L = TypeVar("L", bound=Life)


def of_process(known: dict[str, L], kind: type[L], event: Stamped) -> L:
    """The knowledge of the process that recorded an event: at first none."""
    found = known.get(event.node)
    if found is None or found.incarnation != event.incarnation:
        found = known[event.node] = kind(event.incarnation)
    return found


def epoch_at(log: Prefix, offset: int) -> int:
    """The leader epoch of a record of a log, -1 if the trace does not say it."""
    batch = log.batch_at(offset)
    if batch is not None:
        return batch.epoch
    return max((epoch for epoch, start in log.floor_epochs if 0 <= start <= offset < log.floor), default=-1)


HOLES = {
    "copy-gone": "The broker itself has no record at that position any more, and the deletion of the copy with it has "
    "begun, but the log start has not moved. R11 judges whether the log may begin there.",
    "metadata-lost": "The broker itself has no record at that position any more. An unclean election shortened the "
    "metadata topic after the copy with it was finished, and the broker knows nothing of that copy. Kafka finds no "
    "copy then (RemoteLogManager.read).",
}
"""The rules for a position inside a log that is in no part of it."""

UNSEEN_HOLE = (
    "after an unclean election of the metadata topic, whether a copy that a broker does not know has no metadata any "
    "more, or the broker has not taken it in"
)
"""What these rules do not see."""


class Holes(msgspec.Struct):
    """Where the logs of a partition have nothing, though they begin below. known: by broker."""

    known: dict[str, KnownCopies] = {}
    lost: LostCopies = msgspec.field(default_factory=LostCopies)

    def consume(self, event: Stamped, body: TierSegment) -> None:
        """Something became of a copy."""
        if body.phase == "known":
            of_process(self.known, KnownCopies, event).consume(event, body)
            self.lost.consume(event, body)

    def hear(self, event: Stamped) -> None:
        """A partition of some topic changed, or a log starts later."""
        assert isinstance(event.body, METADATA_NEWS)
        self.lost.hear(event, event.body)

    def why(self, node: str, replica: Replica, offset: int) -> tuple[str, Witness | None]:
        """The rule by which a broker's log may have nothing at an offset, and what it is about; "" if there is none."""
        if offset >= replica.local_start:
            return "", None
        known, epoch = self.known.get(node), epoch_at(replica.log, offset)
        if known is not None and known.is_gone(offset, epoch):
            return "copy-gone", None
        current = known is not None and known.incarnation >= replica.started_in
        copies = known.copies if known is not None and current else {}
        return ("metadata-lost", self.lost.by) if self.lost.has(offset, epoch, copies) else ("", None)
