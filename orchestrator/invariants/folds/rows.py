"""Facts of many records in few bytes.

A record that a state remembers as a Struct costs some hundred bytes, most of them names of nodes. A row has a fixed
size and holds numbers alone; all rows lie in one bytearray, which a state store takes as it is.
"""

from __future__ import annotations

import msgspec

from orchestrator.invariants.folds.fold import Witness

WITNESS = "HiqHiq"
"""Format (``struct``) of a packed witness: the event, and its cause, each as node, incarnation and seq."""

REMEMBERED = 1 << 18
"""How far back rows are kept, at least."""


class Names(msgspec.Struct):
    """Numbers for names that come up again and again, in the order in which they came; 0 is ""."""

    names: list[str] = msgspec.field(default_factory=lambda: [""])
    numbers: dict[str, int] = msgspec.field(default_factory=lambda: {"": 0})

    def number(self, name: str) -> int:
        """The number of a name, a new one for a new name."""
        known = self.numbers.get(name)
        if known is None:
            known = self.numbers[name] = len(self.names)
            self.names.append(name)
        return known

    def pack(self, by: Witness) -> tuple[int, int, int, int, int, int]:
        """A witness as numbers."""
        if not by.cause:
            return self.number(by.node), by.incarnation, by.seq, 0, 0, 0
        node, incarnation, seq = by.cause.rsplit("/", 2)
        return self.number(by.node), by.incarnation, by.seq, self.number(node), int(incarnation), int(seq)

    def unpack(
        self, node: int, incarnation: int, seq: int, cause: int, cause_incarnation: int, cause_seq: int
    ) -> Witness:
        """Inverse of ``pack``."""
        by = f"{self.names[cause]}/{cause_incarnation}/{cause_seq}" if cause else ""
        return Witness(self.names[node], incarnation, seq, by)


class Rows(msgspec.Struct):
    """Rows of ``size`` bytes at ``start`` ... ``end`` - 1. The first byte of a row that is known is not 0."""

    size: int
    start: int = 0
    data: bytearray = msgspec.field(default_factory=bytearray)

    @property
    def end(self) -> int:
        """One past the last row."""
        return self.start + len(self.data) // self.size

    def place(self, at: int) -> int:
        """Where in ``data`` the row at a place is, -1 where none is known."""
        place = (at - self.start) * self.size
        return place if 0 <= place < len(self.data) and self.data[place] else -1

    def put(self, at: int, row: bytes) -> None:
        """Set a row. What lies further back than is remembered is forgotten, or not taken."""
        data, size = self.data, self.size
        place = (at - self.start) * size
        if place < 0:
            return
        gap = place - len(data)
        if gap > REMEMBERED * size:
            self.start, place, gap = at, 0, 0
            data.clear()
        elif gap > 0:
            data.extend(bytes(gap))
        data[place : place + size] = row
        if len(data) > 2 * REMEMBERED * size:
            gone = len(data) // size - REMEMBERED
            del data[: gone * size]
            self.start += gone

    def forget(self, at: int) -> None:
        """Nobody asks for what is below ``at`` any more."""
        if at > self.start:
            del self.data[: (at - self.start) * self.size]
            self.start = at

    def clear(self, at: int) -> None:
        """Forget a row."""
        place = self.place(at)
        if place >= 0:
            self.data[place] = 0

    def cut(self, at: int) -> None:
        """Forget what is at ``at`` and above."""
        if at < self.end:
            del self.data[max(at - self.start, 0) * self.size :]
