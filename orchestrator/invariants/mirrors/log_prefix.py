"""What a log holds, as boundaries with their prefix hashes: of a replica, of a leader epoch, of what was committed."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from hashlib import blake2b
from operator import attrgetter

import msgspec

from actors.trace.events import LogAppend
from orchestrator.invariants.mirrors.transactions_of_log import Transactional, transactional

EMPTY_LOG = 0
"""Offset 0: below it nothing can differ."""
NO_BOUNDARY = -1
"""In place of a prefix hash where there is no such boundary, or it was forgotten."""

_EPOCH = attrgetter("epoch")


class BatchFacts(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One batch of a log. ``end`` is exclusive; ``ph`` is the prefix hash at ``end``, None where nobody can say.
    Of an idempotent producer: its id, epoch and the sequence number of the last record; else -1. ``txn``: of a
    transaction. ``control``: it is for no application; such a batch has no uids here."""

    base: int
    end: int
    epoch: int
    ph: int | None
    producer_id: int
    producer_epoch: int
    last_sequence: int
    uids: list[str]
    txn: Transactional | None = None
    control: bool = False

    def uid_at(self, offset: int) -> str:
        """Uid of the record at an offset of this batch, "" where the batch has none (a control batch)."""
        index = offset - self.base
        return self.uids[index] if index < len(self.uids) else ""


SEQUENCES = 1 << 31
"""Sequence numbers count from 0 modulo this."""


def batch_facts(body: LogAppend, log: Prefix) -> BatchFacts:
    """What the mirror keeps of an append to a log."""
    end = body.last + 1
    ph = _told(body, log.end_ph) if body.ph is None else body.ph
    txn, uids = transactional(body), [] if body.control else body.uids
    if body.producer_id < 0 or body.control or body.base_sequence < 0:
        return BatchFacts(body.base, end, body.batch_epoch, ph, -1, -1, -1, uids, txn, body.control)
    last = (body.base_sequence + body.last - body.base) % SEQUENCES
    return BatchFacts(
        body.base, end, body.batch_epoch, ph, body.producer_id, body.producer_epoch, last, uids, txn, body.control
    )


def _told(body: LogAppend, below: int | None) -> int | None:
    """What stands in for a prefix hash that the trace does not have: a hash over all that it tells of the batch, and
    of those below. Logs that differ in it are different; whether those that agree are the same it cannot say, so that
    who promises just that needs the prefix hash itself (``Invariant.ghost``). Below ``NO_BOUNDARY``, as the two kinds
    are never compared."""
    if below is None:
        return None
    producer = (body.producer_id, body.producer_epoch, body.base_sequence, body.control)
    facts = (below, body.base, body.last, body.batch_epoch, producer, body.uids)
    return NO_BOUNDARY - 1 - int.from_bytes(blake2b(repr(facts).encode(), digest_size=7).digest(), "big")


def _same(one: int | None, other: int | None) -> bool | None:
    """Whether two prefix hashes are equal; None where one is not known, or they are of two kinds."""
    if one == other:
        return None if one is None else True
    if one is None or other is None:
        return None
    told = (one >= NO_BOUNDARY, other >= NO_BOUNDARY)
    return False if told[0] == told[1] or NO_BOUNDARY in (one, other) else None


class Prefix(msgspec.Struct):
    """A log as boundaries. ``floor``: everything below was forgotten; ``floor_ph``: prefix hash there (None at 0,
    where nothing can differ, and where it is not known); ``floor_epochs``: leader epochs of the batches below it, as
    far as they are known, each with the first offset that is known to be of it. ``cut_from``: where it ended before the
    cut that was its last change, -1 if that was none; ``cut_off``: the batches that it took."""

    floor: int = EMPTY_LOG
    floor_ph: int | None = None
    floor_epochs: list[tuple[int, int]] = []
    ends: list[int] = []
    batches: list[BatchFacts] = []
    cut_from: int = -1
    cut_off: list[BatchFacts] = []

    @property
    def end(self) -> int:
        """LEO."""
        return self.ends[-1] if self.ends else self.floor

    @property
    def end_ph(self) -> int | None:
        """Prefix hash at the end; None where it is not known."""
        if self.batches:
            return self.batches[-1].ph
        return EMPTY_LOG if self.floor == EMPTY_LOG else self.floor_ph

    @property
    def last_epoch(self) -> int:
        """Leader epoch of the last batch; -1 where there is none, or it is not known."""
        return self.batches[-1].epoch if self.batches else self.floor_epoch

    @property
    def floor_epoch(self) -> int:
        """Leader epoch of the last batch below the floor; -1 where there is none, or it is not known."""
        return self.floor_epochs[-1][0] if self.floor_epochs else -1

    @property
    def newest_forgotten(self) -> int:
        """A leader epoch that no batch below the floor is newer than, as those of a log never go back; -1 where that is
        not known."""
        return self.batches[0].epoch if self.floor_epoch < 0 and self.batches else self.floor_epoch

    @property
    def end_before_last(self) -> int:
        """Where the log ended before its last batch."""
        return self.ends[-2] if len(self.ends) > 1 else self.floor

    def append(self, batch: BatchFacts) -> None:
        """Add a batch at the end (or after a gap that the trace left)."""
        self.cut_from, self.cut_off = -1, []
        self.ends.append(batch.end)
        self.batches.append(batch)

    def cut(self, offset: int) -> None:
        """Keep what ends at or below ``offset``, of which only leader epochs are known where that was forgotten."""
        if offset >= self.end:
            return
        keep, self.cut_from = bisect_right(self.ends, offset), self.end
        self.cut_off = self.batches[keep:]
        del self.ends[keep:], self.batches[keep:]
        if offset < self.floor:
            self.floor, self.floor_ph = offset, None
            self.floor_epochs = [each for each in self.floor_epochs if each[1] < offset]

    def undo_cut(self, to: int) -> None:
        """The cut that was the last change took place down to an end, and no further."""
        for batch in self.cut_off:
            if batch.end <= to:
                self.append(batch)

    def matches(self, offset: int, ph: int | None) -> bool | None:
        """Whether this log has the boundary ``offset`` with prefix hash ``ph``. None: forgotten, or not known."""
        if offset <= self.floor:
            if offset == self.floor and self.floor_ph is not None:
                return _same(self.floor_ph, ph)
            return True if offset == EMPTY_LOG else None
        index = bisect_left(self.ends, offset)
        if index >= len(self.ends) or self.ends[index] != offset:
            return False
        return _same(self.batches[index].ph, ph)

    def ph_at(self, offset: int) -> int | None:
        """Prefix hash at a boundary, None where it is not known; NO_BOUNDARY where there is none, or it was
        forgotten."""
        if offset <= self.floor:
            return NO_BOUNDARY if offset < self.floor or self.floor_ph is None else self.floor_ph
        index = bisect_left(self.ends, offset)
        return self.batches[index].ph if index < len(self.ends) and self.ends[index] == offset else NO_BOUNDARY

    def batch_at(self, offset: int) -> BatchFacts | None:
        """The batch that holds ``offset``, or None (beyond the end, or forgotten)."""
        index = bisect_right(self.ends, offset)
        if index < len(self.batches) and self.batches[index].base <= offset:
            return self.batches[index]
        return None

    def between(self, start: int, end: int) -> list[BatchFacts]:
        """Batches in [start, end), as far as they are remembered."""
        return self.batches[bisect_right(self.ends, start) : bisect_right(self.ends, end)]

    def trim(self, offset: int) -> None:
        """Forget the batches that end at or below ``offset``."""
        index = bisect_right(self.ends, offset)
        if index:
            last = self.batches[index - 1]
            if not self.floor_epochs or self.floor_epochs[-1][0] != last.epoch:
                self._note_epochs(self.batches[:index])
            self.floor, self.floor_ph = last.end, last.ph
            del self.ends[:index], self.batches[:index]

    def _note_epochs(self, batches: list[BatchFacts]) -> None:
        for batch in batches:
            if not self.floor_epochs or self.floor_epochs[-1][0] != batch.epoch:
                self.floor_epochs.append((batch.epoch, batch.base))

    def shared_with(self, other: Prefix, at_most: int) -> int:
        """The highest boundary, not above ``at_most``, that both logs have with the same prefix hash: what lies below
        is the same in both. What either has forgotten counts as shared, up to where the other ends, or has a leader
        epoch that what was forgotten cannot have."""
        for index in range(bisect_right(self.ends, at_most) - 1, -1, -1):
            batch = self.batches[index]
            same = other.matches(batch.end, batch.ph)
            if same is not False and not other._never_had(batch) and (same or not other._has_instead_of(batch)):
                return batch.end
        shared = min(self.floor, at_most, other.end)
        newer = bisect_right(other.batches, self.newest_forgotten, key=_EPOCH)
        if newer < len(other.batches) and self._never_had(other.batches[newer]):
            return min(shared, other.batches[newer].base)
        return shared

    def _never_had(self, batch: BatchFacts) -> bool:
        """Whether a batch of another log lies where this one was forgotten, and is too new for that."""
        return batch.end <= self.floor and 0 <= self.newest_forgotten < batch.epoch

    def _has_instead_of(self, batch: BatchFacts) -> bool:
        """Whether the batch that ends here where one of another log does is visibly not that one. Prefix hashes do not
        tell that where one is not known: a log that begins anew knows none."""
        own = self.batch_at(batch.end - 1)
        return own is not None and (own.base, own.epoch, own.uids) != (batch.base, batch.epoch, batch.uids)

    def copy(self) -> Prefix:
        """A copy that later changes do not reach."""
        return Prefix(self.floor, self.floor_ph, list(self.floor_epochs), list(self.ends), list(self.batches))
