"""What trace events tell of the metadata log: what controllers appended, and what of it was lost with them.

A controller says what it appends, which may never be committed: a leader that is cut off goes on fencing brokers for a
while. Its successor says where its own log ended when it was elected, and in which epoch its last record was appended.
What older leaders appended from there on is lost, and what was before it holds again, but maybe not for good: if the
successor fails before anybody has copied from it, the next leader may be one that still has those records. Events of
different nodes may come in any order.
"""

from __future__ import annotations

from collections.abc import Callable
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


class Began(msgspec.Struct, frozen=True):
    """A leader's log at its election: its end, and the epoch of its last record, -1 if that is not known."""

    end: int
    log_epoch: int


class Elections(msgspec.Struct):
    """The quorum's elections. led: controller -> newest quorum epoch that it led. began: quorum epoch -> its leader's
    log then."""

    led: dict[str, int] = {}
    began: dict[int, Began] = {}

    def take(self, node: str, body: QRole) -> bool:
        """A controller took up a role; whether it leads from now on."""
        if body.role != "leader":
            return False
        self.led[node], self.began[body.epoch] = body.epoch, Began(body.log_end, body.log_epoch)
        if len(self.began) > EPOCHS_KEPT:
            del self.began[min(self.began)]
        return True

    def epoch_of(self, node: str) -> int:
        """The quorum epoch that a controller leads, or led last. It tells of its election before it tells of anything
        that it appends."""
        return self.led.get(node, NOBODY)

    def is_lost(self, record: Placed) -> bool:
        """Whether a record is missing in the newest leader's log. That is made of what its leaders appended: the
        newest one, before it the one in whose epoch its log ended at its election, and so on."""
        end = None
        epoch = max(self.began, default=record.quorum_epoch)
        while epoch > record.quorum_epoch:
            began = self.began.get(epoch)
            if began is None:
                break  # of an election that is forgotten, or was not heard of yet
            end = began.end if end is None else min(end, began.end)
            known = 0 <= began.log_epoch < epoch  # not of who leads twice in an epoch, which is a bug
            epoch = began.log_epoch if known else self._epoch_before(epoch, record.quorum_epoch)
        return end is not None and (record.offset >= end or epoch < record.quorum_epoch)

    def _epoch_before(self, epoch: int, least: int) -> int:
        return max((each for each in self.began if least < each < epoch), default=least)


class History(msgspec.Struct, Generic[R]):
    """Records of the metadata log about one thing, in their order, of which the last ``limit`` are kept: more than a
    leader that is cut off appends before it resigns. lost: those that are missing in the newest leader's log, but may
    be in the next one's."""

    limit: int
    records: list[R] = []
    lost: list[R] = []

    @property
    def newest(self) -> R | None:
        """The last one that is not known to be lost."""
        return self.records[-1] if self.records else None

    def add(self, record: R, elections: Elections) -> bool:
        """Take a record; whether it is the newest now, and not lost."""
        is_lost = elections.is_lost(record)
        kept = self.lost if is_lost else self.records
        kept.append(record)
        kept.sort(key=place)
        del kept[: -self.limit]
        return not is_lost and self.records[-1] is record

    def forget_lost(self, elections: Elections) -> bool:
        """A leader was elected: what its log lacks is lost, and what it has is not. Whether that changed anything."""
        records: list[R] = []
        lost: list[R] = []
        for each in sorted((*self.records, *self.lost), key=place):
            (lost if elections.is_lost(each) else records).append(each)
        before, self.records, self.lost = self.records, records[-self.limit :], lost[-self.limit :]
        return self.records != before

    def keep(self, is_kept: Callable[[R], bool]) -> None:
        """Drop what counts no more, whether it is lost or not."""
        self.records, self.lost = list(filter(is_kept, self.records)), list(filter(is_kept, self.lost))


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
