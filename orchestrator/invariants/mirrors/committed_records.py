"""What is known of each committed record of a partition: its name, its place, who committed it, how it was numbered.

Kept in rows, as a run commits millions. What a later commit takes the place of (an unclean election in between) is kept
apart, as it is rare.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import msgspec

from actors.trace.events import Polled
from orchestrator.invariants.folds.fold import Witness
from orchestrator.invariants.folds.memory import SESSIONS_REMEMBERED
from orchestrator.invariants.folds.rows import REMEMBERED, WITNESS, Names, Rows
from orchestrator.invariants.folds.uids import place_of
from orchestrator.invariants.folds.window import OffsetWindow, uids_of
from orchestrator.invariants.mirrors.log_prefix import BatchFacts

PRODUCERS_REMEMBERED = 1 << 14
"""Producer ids and epochs: with ``transaction.version`` 2 each transaction has an epoch of its own."""
LOOK_BACK = 64
"""Of those, how many are looked through for one that is known."""

_COMMIT = struct.Struct(f"<?iI{WITNESS}")
_OFFSET = struct.Struct("<?q")


class Numbered(msgspec.Struct, frozen=True, array_like=True, order=True, gc=False):
    """Under which producer id and epoch a record was appended."""

    producer_id: int
    producer_epoch: int


NOT_NUMBERED = Numbered(-1, -1)
"""Of a producer that is not idempotent."""
FORGOTTEN = Numbered(-2, -1)
"""Of one that is, and of which nobody knows the id and epoch any more."""
UNKNOWN = {NOT_NUMBERED, FORGOTTEN}


class Copy(msgspec.Struct, frozen=True, gc=False):
    """A committed record: its offset, the epoch of the leader that committed it, and how its producer numbered it."""

    offset: int
    leader_epoch: int
    numbered: Numbered
    by: Witness


class Held(msgspec.Struct, frozen=True, gc=False):
    """What an offset holds, or held: a record, and that copy of it."""

    uid: str
    copy: Copy


class CommittedRecords(msgspec.Struct):
    """``names`` and ``rows``: by offset. ``places``: producing session -> number of its record -> offset of the last
    copy; ``unnumbered``: uids that have no such number -> the same. ``displaced``: last copies whose offset another
    record has now. ``nodes``, ``producers``: what numbers in rows stand for, the latter from ``producers_from`` on.
    Of the event just taken: ``again``, offset
    -> the copy that its record had before; ``replaced``, offset -> what was committed there before."""

    names: OffsetWindow = msgspec.field(default_factory=OffsetWindow)
    rows: Rows = msgspec.field(default_factory=lambda: Rows(_COMMIT.size))
    places: dict[str, Rows] = {}
    unnumbered: dict[str, int] = {}
    displaced: dict[str, Copy] = {}
    nodes: Names = msgspec.field(default_factory=Names)
    producers: list[Numbered] = msgspec.field(default_factory=lambda: [NOT_NUMBERED])
    producers_from: int = 0
    again: dict[int, Copy] = {}
    replaced: dict[int, Held] = {}

    def copy_of(self, uid: str) -> Copy | None:
        """The copy of a record that was committed last, as far as it is remembered."""
        if uid in self.displaced:
            return self.displaced[uid]
        offset = self._place_of(uid)
        return self._copy_at(offset) if offset >= 0 and self.names.at(offset) == uid else None

    def at(self, offset: int) -> Held | None:
        """The record that is committed at an offset, as far as it is remembered."""
        uid = self.names.at(offset)
        copy = self._copy_at(offset) if uid else None
        return None if copy is None else Held(uid, copy)

    def are(self, records: list[Polled]) -> bool:
        """Whether these records follow one another, and are the ones that were committed at their offsets."""
        first, end = records[0].offset, records[-1].offset + 1
        if end - first != len(records):
            return False
        names = self.names.between(first, end)
        return "" not in names and names == uids_of(records)

    def copies_again(self) -> Iterator[tuple[str, Copy, Copy]]:
        """The records of idempotent producers that the event just taken has committed once more, at another offset:
        each with the copy before and the new one."""
        for offset, before in self.again.items():
            copy = self._copy_at(offset)
            if copy is not None and before.offset != offset and not {before.numbered, copy.numbered} & UNKNOWN:
                yield self.names.at(offset), before, copy

    def forget_news(self) -> None:
        """Another event is taken."""
        if self.again:
            self.again = {}
        if self.replaced:
            self.replaced = {}

    def forget(self, offset: int) -> None:
        """Nobody asks for what is below ``offset`` any more: it was deleted."""
        self.names.forget(offset)
        self.rows.forget(offset)
        for places in self.places.values():
            number = places.start
            while number < places.end and self._is_below(places, number, offset):
                number += 1
            places.forget(number)

    @staticmethod
    def _is_below(places: Rows, number: int, offset: int) -> bool:
        place = places.place(number)
        return place < 0 or _OFFSET.unpack_from(places.data, place)[1] < offset

    def commit(self, batches: list[BatchFacts], leader_epoch: int, by: Witness) -> None:
        """A leader of an epoch committed these."""
        packed = self.nodes.pack(by)
        for batch in batches:
            if batch.base < self.names.end:
                self._replace(batch)
            self.names.put(batch.base, batch.uids or [""] * (batch.end - batch.base))
            row = _COMMIT.pack(True, leader_epoch, self._producer(batch), *packed)
            for offset, uid in enumerate(batch.uids, batch.base):
                before = self.copy_of(uid)
                if before is not None:
                    self.again[offset] = before
                    self.displaced.pop(uid, None)
                self.rows.put(offset, row)
                self._place(uid, offset)

    def _replace(self, batch: BatchFacts) -> None:
        """Keep what its offsets held so far."""
        for offset, uid in enumerate(self.names.between(batch.base, batch.end), batch.base):
            copy = self._copy_at(offset) if uid else None
            if copy is not None:
                self.replaced[offset] = Held(uid, copy)
                if batch.uid_at(offset) != uid and self._place_of(uid) == offset:
                    self.displaced[uid] = copy
                    if len(self.displaced) > REMEMBERED:
                        del self.displaced[next(iter(self.displaced))]

    def _copy_at(self, offset: int) -> Copy | None:
        place = self.rows.place(offset)
        if place < 0:
            return None
        _, leader_epoch, producer, *packed = _COMMIT.unpack_from(self.rows.data, place)
        known = producer - self.producers_from if producer else 0
        numbered = self.producers[known] if known > 0 or not producer else FORGOTTEN
        return Copy(offset, leader_epoch, numbered, self.nodes.unpack(*packed))

    def _producer(self, batch: BatchFacts) -> int:
        """The number of the producer id and epoch of a batch; batches of one come one after another."""
        if batch.producer_id < 0:
            return 0
        numbered = Numbered(batch.producer_id, batch.producer_epoch)
        last = len(self.producers) - 1
        for index in range(last, max(last - LOOK_BACK, 0), -1):
            if self.producers[index] == numbered:
                return self.producers_from + index
        self.producers.append(numbered)
        if len(self.producers) > 2 * PRODUCERS_REMEMBERED:
            gone = len(self.producers) - PRODUCERS_REMEMBERED
            del self.producers[1 : 1 + gone]
            self.producers_from += gone
        return self.producers_from + len(self.producers) - 1

    def _place_of(self, uid: str) -> int:
        session, number = place_of(uid)
        if number < 0:
            return self.unnumbered.get(uid, -1)
        places = self.places.get(session)
        place = -1 if places is None else places.place(number)
        return -1 if places is None or place < 0 else _OFFSET.unpack_from(places.data, place)[1]

    def _place(self, uid: str, offset: int) -> None:
        session, number = place_of(uid)
        if number < 0:
            self.unnumbered[uid] = offset
            if len(self.unnumbered) > REMEMBERED:
                del self.unnumbered[next(iter(self.unnumbered))]
            return
        places = self.places.get(session)
        if places is None:
            if len(self.places) >= SESSIONS_REMEMBERED:
                del self.places[min(self.places, key=self._end_of)]
            places = self.places[session] = Rows(_OFFSET.size)
        places.put(number, _OFFSET.pack(True, offset))

    def _end_of(self, session: str) -> int:
        data = self.places[session].data
        return _OFFSET.unpack_from(data, len(data) - _OFFSET.size)[1] if data else -1
