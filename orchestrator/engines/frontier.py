"""How far a trace has come that arrives in pieces, in any order: up to where nothing can come any more.

Each incarnation numbers its events, so what has come of it without a gap is known, and its clock rises: nothing below
the clock of the last event of that prefix is still to come from it. The least of these clocks over all nodes is the
frontier. A node holds it back while it is down, too, as long as the run has not ended: its next incarnation may have
recorded what has not arrived yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from actors.trace.events import DRIVER, NodeDown, RunEnd, Stamped, TraceEvent

LAST: tuple[type[TraceEvent], ...] = (NodeDown, RunEnd)
"""Types of an incarnation's last event."""

NOTHING_MORE = 1 << 62
"""Clock of a node of which everything has come."""


class Piece(msgspec.Struct, frozen=True, array_like=True):
    """Events ``first`` ... ``last`` of an incarnation have arrived. wall: clock of the last one; newest: the latest of
    their clocks; over: the incarnation's own last is among them, which should be the last one."""

    node: str
    incarnation: int
    first: int
    last: int
    wall: int
    newest: int
    over: bool


class Arrived(msgspec.Struct):
    """What has come of one incarnation: all up to ``last``, whose clock is ``wall``; what lies behind a gap is in
    ``beyond``, by its first event. ``given_up``: what was missing will not be waited for any more."""

    last: int = -1
    wall: int = 0
    over: bool = False
    given_up: bool = False
    beyond: dict[int, Piece] = {}

    def take(self, piece: Piece) -> None:
        """Something has arrived, maybe again."""
        known = self.beyond.get(piece.first)
        if known is None or known.last < piece.last:
            self.beyond[piece.first] = piece
        self._close_up()

    def jump(self) -> bool:
        """Do as if what is missing before the next piece had come; whether there is one."""
        if not self.beyond:
            return False
        self.last = min(self.beyond) - 1
        self._close_up()
        return True

    def _close_up(self) -> None:
        for first in sorted(self.beyond):
            if first > self.last + 1:
                break
            piece = self.beyond.pop(first)
            if piece.last > self.last:
                self.last, self.wall = piece.last, max(self.wall, piece.wall)
                self.over = self.over or piece.over


class Silence(msgspec.Struct, frozen=True, array_like=True):
    """An incarnation was no longer waited for. since_us: clock of the last that had come of it."""

    node: str
    incarnation: int
    since_us: int


class Frontier(msgspec.Struct):
    """Feed it with ``take``, ``expect`` and ``end``, ask for ``advance``.

    A trace that was collected comes in numbered parts, each behind the one before: then what has come of these decides,
    as a node that is silent in one part may speak in the last.

    ``patience_us``: how far a node may stay behind the newest clock before it is waited for no longer, -1 for ever.
    ``at``: everything below has come, or was given up. newest: latest clock of all. expected: names of the nodes; None
    as long as the run has not said. final: node -> incarnation -> its last event, -1 not known; None until the run has
    ended.
    """

    patience_us: int = -1
    at: int = 0
    newest: int = 0
    expected: list[str] | None = None
    final: dict[str, dict[int, int]] | None = None
    nodes: dict[str, dict[int, Arrived]] = {}
    parts: dict[int, int] = {}

    def take_part(self, number: int, newest: int) -> None:
        """A part of a collected trace has arrived, whole by the time that ``advance`` is called; ``newest``: its latest
        clock."""
        self.parts[number] = max(self.parts.get(number, 0), newest)

    def take(self, piece: Piece) -> None:
        """Events have arrived."""
        self.newest = max(self.newest, piece.newest)
        self.nodes.setdefault(piece.node, {}).setdefault(piece.incarnation, Arrived()).take(piece)

    def expect(self, nodes: Sequence[str]) -> None:
        """The run has said who takes part."""
        self.expected = list(nodes)

    def end(self, final_seq: Mapping[str, int]) -> None:
        """The run has said with which events it ends ("node/incarnation" -> number of the last)."""
        self.final = {}
        for name, last in final_seq.items():
            node, _, incarnation = name.rpartition("/")
            self.final.setdefault(node, {})[int(incarnation)] = last

    def has(self, node: str, incarnation: int, seq: int) -> bool:
        """Whether an event, and all before it of its incarnation, had come when ``take`` was last called for it."""
        own = self.nodes.get(node, {}).get(incarnation)
        return own is not None and seq <= own.last

    def advance(self) -> list[Silence]:
        """Move ``at`` on; who is not waited for any more, each incarnation once."""
        if self.parts:
            self.at = max(self.at, self._end_of_parts())
            return []
        if self.expected is None:
            return []
        given_up: list[Silence] = []
        least = NOTHING_MORE
        for node in sorted({*self.expected, *self.nodes}):
            clock = self._clock(node)
            while 0 <= self.patience_us < self.newest - clock:
                given_up += self._give_up(node, clock)
                later = self._clock(node)
                if later == clock:
                    clock = self.newest
                    break
                clock = later
            least = min(least, clock)
        self.at = max(self.at, least)
        return given_up

    def _end_of_parts(self) -> int:
        """The latest clock up to the first part that is missing."""
        end = 0
        for number in range(len(self.parts)):
            if number not in self.parts:
                break
            end = self.parts[number]
        return end

    def _clock(self, node: str) -> int:
        """Nothing below is still to come from this node."""
        clock = 0
        for number in range(1 << 30):
            own = self.nodes.get(node, {}).get(number)
            if own is None:
                if self.final is None or number in self.final.get(node, {}):
                    return clock
                if number > max(self.final.get(node, {}), default=-1):
                    return NOTHING_MORE
                continue
            clock = max(clock, own.wall)
            if not self._complete(node, number, own):
                return clock
        raise AssertionError(node)

    def _complete(self, node: str, number: int, own: Arrived) -> bool:
        final = None if self.final is None else self.final.get(node, {}).get(number)
        return own.over if final is None or final < 0 else own.last >= final

    def _give_up(self, node: str, clock: int) -> list[Silence]:
        """Step over what holds the node's clock back; says so of an incarnation that was alive, the first time."""
        incarnations = self.nodes.setdefault(node, {})
        number = 0
        while number in incarnations and self._complete(node, number, incarnations[number]):
            number += 1
        if number not in incarnations:
            if any(later > number for later in incarnations):
                incarnations[number] = Arrived(over=True, wall=clock)
            elif number == 0:
                incarnations[number] = Arrived(given_up=True)
                return [Silence(node, number, clock)]
            return []  # it is down: nobody promised that it comes back
        own = incarnations[number]
        if own.jump():
            return []  # the gap is for X4 to find
        if any(later > number for later in incarnations):
            own.over = True
            return []
        if own.given_up or node == DRIVER:  # the driver does not tick, so that its silence says nothing
            return []
        own.given_up = True
        return [Silence(node, number, clock)]


class Arrival(msgspec.Struct, frozen=True, array_like=True):
    """What has arrived: pieces of nodes' logs, and of which parts of a collected trace (number -> latest clock).
    chunks: the files that it came from, below the folder of the logs."""

    pieces: list[Piece]
    parts: dict[int, int] = {}
    chunks: list[str] = []


class Row(NamedTuple):
    """What a row says of what has arrived; ``over``: it is its incarnation's last."""

    node: str
    incarnation: int
    seq: int
    wall: int
    over: bool


def row_of(event: Stamped) -> Row:
    """The same of an event."""
    return Row(event.node, event.incarnation, event.seq, event.wall, type(event.body) in LAST)


def pieces_of(rows: Iterable[Row]) -> list[Piece]:
    """What has arrived with some rows, which may come in any order, and more than once."""
    by_incarnation: dict[tuple[str, int], dict[int, Row]] = {}
    for row in rows:
        by_incarnation.setdefault((row.node, row.incarnation), {})[row.seq] = row
    pieces: list[Piece] = []
    for (node, incarnation), own in by_incarnation.items():
        first, newest, over = -1, 0, False
        for seq in sorted(own):
            row = own[seq]
            if first < 0:
                first, newest, over = seq, 0, False
            newest, over = max(newest, row.wall), over or row.over
            if seq + 1 not in own:
                pieces.append(Piece(node, incarnation, first, seq, row.wall, newest, over))
                first = -1
    return pieces
