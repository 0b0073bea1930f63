"""What brokers know of the copies of a partition's segments, shared by the invariants about them."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from actors.trace.events import Stamped, TierSegment
from actors.trace.tier_events import DELETED, FINISHED
from orchestrator.invariants.folds.fold import Witness, witness

KEPT = 4096
"""Copies of a partition that are remembered of each broker."""


class Copy(msgspec.Struct, frozen=True):
    """A finished copy, which is not being deleted: its offsets, where each leader epoch begins in it, how late its
    records are, and the event that told of it."""

    start: int
    end: int
    epochs: dict[str, int]
    max_timestamp: int
    by: Witness

    def epoch_at(self, offset: int) -> int:
        """The leader epoch of a record in it, -1 none."""
        return max((int(epoch) for epoch, start in self.epochs.items() if start <= offset), default=-1)

    def same_at(self, other: Copy, *offsets: int) -> bool:
        """Whether the records at these offsets are of the same leader epochs in another copy."""
        return all(self.epoch_at(offset) == other.epoch_at(offset) for offset in offsets)


def copy_of(event: Stamped, body: TierSegment) -> Copy:
    """What an event tells of a copy."""
    return Copy(body.start, body.end, body.epochs, body.max_timestamp, witness(event))


class Life(msgspec.Struct):
    """What is known in one life of a node, which is one process."""

    incarnation: int


class KnownCopies(Life):
    """What one process has consumed: the copies, by segment."""

    copies: dict[str, Copy] = {}

    def consume(self, event: Stamped, body: TierSegment) -> None:
        """It consumed the new state of a copy."""
        self.copies.pop(body.segment, None)
        if body.state == FINISHED:
            self.copies[body.segment] = copy_of(event, body)
            if len(self.copies) > KEPT:
                del self.copies[next(iter(self.copies))]


class KnownEnds(Life):
    """Where the copies end (exclusive) that one process knows of, in whichever state, by segment."""

    ends: dict[str, int] = {}

    def consume(self, body: TierSegment) -> None:
        """It consumed the new state of a copy."""
        self.ends.pop(body.segment, None)
        if body.state != DELETED:
            self.ends[body.segment] = body.end + 1
            if len(self.ends) > KEPT:
                del self.ends[next(iter(self.ends))]


L = TypeVar("L", bound=Life)


def of_process(known: dict[str, L], kind: type[L], event: Stamped) -> L:
    """What the process that recorded an event knows: at first nothing."""
    found = known.get(event.node)
    if found is None or found.incarnation != event.incarnation:
        found = known[event.node] = kind(event.incarnation)
    return found
