"""What is remembered of a log by offset, as far back as anybody may still ask."""

from __future__ import annotations

import msgspec

from actors.trace.events import Polled
from orchestrator.invariants.folds.rows import REMEMBERED


class OffsetWindow(msgspec.Struct):
    """Names of records at offsets ``start`` ... ``end`` - 1; "" where a name is not known, or there is none to know. It
    reaches back ``REMEMBERED`` offsets, at least.

    Whole polls are compared with it by comparing lists.
    """

    start: int = 0
    names: list[str] = []

    @property
    def end(self) -> int:
        """One past the last offset that was set."""
        return self.start + len(self.names)

    def between(self, first: int, end: int) -> list[str]:
        """Names at [first, end), "" where nothing is known; as many as offsets were asked for."""
        low, high = max(first, self.start), min(end, self.end)
        if low >= high:
            return [""] * (end - first)
        known = self.names[low - self.start : high - self.start]
        if len(known) == end - first:
            return known
        return [*[""] * (low - first), *known, *[""] * (end - high)]

    def at(self, offset: int) -> str:
        """The name at an offset, "" if none is known."""
        return self.names[offset - self.start] if self.start <= offset < self.end else ""

    def own(self, first: int, names: list[str]) -> list[str]:
        """Names at ``first`` and above as this window has them, if it has the same: so that two windows share them."""
        known = self.between(first, first + len(names))
        return known if known == names else names

    def put(self, first: int, names: list[str]) -> None:
        """Set the names from ``first`` on, over whatever was there."""
        if first < self.start:
            names, first = names[self.start - first :], self.start
        if first > self.end:
            if first - self.end > REMEMBERED:
                self.start, self.names = first, []
            else:
                self.names.extend([""] * (first - self.end))
        self.names[first - self.start : first - self.start + len(names)] = names
        if len(self.names) > 2 * REMEMBERED:
            self.names, self.start = self.names[-REMEMBERED:], self.end - REMEMBERED

    def forget(self, offset: int) -> None:
        """Nobody asks for what is below ``offset`` any more."""
        if offset > self.start:
            del self.names[: offset - self.start]
            self.start = offset

    def cut(self, offset: int) -> None:
        """Forget what is at ``offset`` and above."""
        if offset < self.end:
            del self.names[max(offset - self.start, 0) :]


def offsets_of(records: list[Polled]) -> list[int]:
    """Offsets of what a poll delivered."""
    return [record.offset for record in records]


def uids_of(records: list[Polled]) -> list[str]:
    """Names of what a poll delivered."""
    return [record.uid for record in records]
