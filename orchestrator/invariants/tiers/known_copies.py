"""The copies of a partition's segments that each broker knows: the state that several invariants share."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from actors.broker.coordinator_common.partitions import REMOTE_LOG_METADATA_TOPIC
from actors.trace.events import PartChange, Stamped, TierSegment
from actors.trace.tier_events import DELETED, FINISHED
from orchestrator.invariants.folds.fold import Witness, witness

KEPT = 4096
"""Copies of a partition that are remembered for each broker."""


class Copy(msgspec.Struct, frozen=True):
    """A finished copy whose deletion has not begun: its offsets, the start of each leader epoch in it, the greatest
    timestamp of its records, and the event with its metadata."""

    start: int
    end: int
    epochs: dict[str, int]
    max_timestamp: int
    by: Witness

    def epoch_at(self, offset: int) -> int:
        """The leader epoch of the record at an offset, -1 none."""
        return max((int(epoch) for epoch, start in self.epochs.items() if start <= offset), default=-1)

    def same_at(self, other: Copy, *offsets: int) -> bool:
        """Whether the records at these offsets have the same leader epochs in another copy."""
        return all(self.epoch_at(offset) == other.epoch_at(offset) for offset in offsets)


def copy_of(event: Stamped, body: TierSegment) -> Copy:
    """The copy that an event describes."""
    return Copy(body.start, body.end, body.epochs, body.max_timestamp, witness(event))


def may_lose_metadata(body: PartChange) -> bool:
    """Whether an election may shorten the metadata topic."""
    return body.cause == "unclean" and body.tp.startswith(f"{REMOTE_LOG_METADATA_TOPIC}-")


class Life(msgspec.Struct):
    """The knowledge of one incarnation of a node, which is one process."""

    incarnation: int


class KnownCopies(Life):
    """The copies whose metadata one process has consumed, by segment."""

    copies: dict[str, Copy] = {}

    def consume(self, event: Stamped, body: TierSegment) -> None:
        """The process consumed the new state of a copy."""
        self.copies.pop(body.segment, None)
        if body.state == FINISHED:
            self.copies[body.segment] = copy_of(event, body)
            if len(self.copies) > KEPT:
                del self.copies[next(iter(self.copies))]


class KnownEnds(Life):
    """The ends (exclusive) of the copies that one process knows, in any state, by segment."""

    ends: dict[str, int] = {}

    def consume(self, body: TierSegment) -> None:
        """The process consumed the new state of a copy."""
        self.ends.pop(body.segment, None)
        if body.state != DELETED:
            self.ends[body.segment] = body.end + 1
            if len(self.ends) > KEPT:
                del self.ends[next(iter(self.ends))]


L = TypeVar("L", bound=Life)


def of_process(known: dict[str, L], kind: type[L], event: Stamped) -> L:
    """The knowledge of the process that recorded an event: at first none."""
    found = known.get(event.node)
    if found is None or found.incarnation != event.incarnation:
        found = known[event.node] = kind(event.incarnation)
    return found
