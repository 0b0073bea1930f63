"""What trace events tell of the metadata log: what controllers appended, and what of it was lost with them.

A controller says what it appends, which may never be committed: a leader that is cut off goes on fencing brokers for a
while. Its successor says where its own log ended when it was elected, and what older leaders appended from there on
never happened. So records are kept until then, and what was before them holds again. Events of different nodes may come
in any order.
"""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

import msgspec

from actors.trace.events import QRole

EPOCHS_KEPT = 64
"""Elections that are remembered: a controller that goes on without having heard of one of so many is nobody's any
more."""

NOBODY = -1
"""Quorum epoch of a record by a node that never led, as far as the trace goes."""


class Placed(Protocol):
    """Something that stands in the metadata log: by the leader of a quorum epoch, at an offset."""

    @property
    def quorum_epoch(self) -> int:
        """Epoch of the leader that appended it."""

    @property
    def offset(self) -> int:
        """Where it stands."""


R = TypeVar("R", bound=Placed)


def place(record: Placed) -> tuple[int, int]:
    """What orders the controllers' appends."""
    return record.quorum_epoch, record.offset


class Elections(msgspec.Struct):
    """The quorum's elections. led: controller -> newest quorum epoch that it led. begun_at: quorum epoch -> end of its
    leader's log then."""

    led: dict[str, int] = {}
    begun_at: dict[int, int] = {}

    def take(self, node: str, body: QRole) -> bool:
        """A controller took up a role; whether it leads from now on."""
        if body.role != "leader":
            return False
        self.led[node], self.begun_at[body.epoch] = body.epoch, body.log_end
        if len(self.begun_at) > EPOCHS_KEPT:
            del self.begun_at[min(self.begun_at)]
        return True

    def epoch_of(self, node: str) -> int:
        """The quorum epoch that a controller leads, or led last. It tells of its election before it tells of anything
        that it appends."""
        return self.led.get(node, NOBODY)

    def is_lost(self, record: Placed) -> bool:
        """Whether a record is missing in the log of a later leader."""
        quorum_epoch, offset = record.quorum_epoch, record.offset
        return any(epoch > quorum_epoch and offset >= end for epoch, end in self.begun_at.items())


class History(msgspec.Struct, Generic[R]):
    """Records of the metadata log about one thing, in their order, of which the last ``limit`` are kept: more than a
    leader that is cut off appends before it resigns."""

    limit: int
    records: list[R] = []

    @property
    def newest(self) -> R | None:
        """The last one that is not known to be lost."""
        return self.records[-1] if self.records else None

    def add(self, record: R, elections: Elections) -> bool:
        """Take a record, unless it is lost; whether it is the newest now."""
        if elections.is_lost(record):
            return False
        self.records.append(record)
        self.records.sort(key=place)
        del self.records[: -self.limit]
        return self.records[-1] is record

    def forget_lost(self, elections: Elections) -> bool:
        """A leader was elected: what its log lacks never happened. Whether there was any of that."""
        kept = [each for each in self.records if not elections.is_lost(each)]
        if len(kept) == len(self.records):
            return False
        self.records = kept
        return True


class NewestController(msgspec.Struct):
    """Tells what the newest controller says from what a replaced one goes on saying, for who needs no more than
    that."""

    quorum_epoch: int = NOBODY

    def says(self, quorum_epoch: int) -> bool:
        """Whether a record of the leader of a quorum epoch is one of the newest controller's, which it may show to
        be."""
        if quorum_epoch < self.quorum_epoch:
            return False
        self.quorum_epoch = quorum_epoch
        return True
