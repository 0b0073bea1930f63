"""What is on the way between nodes: exchanges, and what can happen to them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from orchestrator.exploration.place import Input

REQUEST, SERVING, RESPONSE, BROKEN, ORPHAN = range(5)
"""Where an exchange stands: its request is on the way; it is being served; its response is on the way; its connection
broke, which its caller is still to notice; its caller is gone, and the request may arrive all the same."""

FREE = -1
"""The cost of a move that needs no budget."""

SAME = -1
"""The number of what the controller published, where a move leaves it as it is."""


class Exchange(NamedTuple):
    """A request and its answer. ``message``: number of the request until it is answered, then of the response.
    ``name``: under which the one that serves it knows the connection."""

    caller: int
    callee: int
    connection: str
    call: int
    phase: int
    message: int
    name: str = ""


Wire = tuple[Exchange, ...]
"""All exchanges; those of a connection in their order."""

Steps = tuple[tuple[int, Input], ...]
"""(node, input) in order."""


class Move(NamedTuple):
    """Something that can happen. ``cost``: the budget it uses. ``wire``: number of what is on the way once the move
    has begun; ``steps``: what nodes are given; ``control``: number of what the controller has published then.
    ``kind``, ``about``: for the story."""

    kind: str
    cost: int
    wire: int
    steps: Steps
    about: tuple[object, ...] = ()
    control: int = SAME


def in_order(wire: Sequence[Exchange]) -> Wire:
    """By connection; those whose caller is gone last."""
    return tuple(sorted(wire, key=lambda each: (each.caller, each.callee, each.connection, each.phase == ORPHAN)))


class Wires:
    """All that was ever on the way at once, by number, and what can happen to it. ``names``: of the nodes."""

    def __init__(self, names: Sequence[str]) -> None:
        self.all: list[Wire] = []
        self._names = names
        self._numbers: dict[Wire, int] = {}
        self._moves: dict[int, tuple[Move, ...]] = {}
        self._crashes: dict[tuple[int, int], tuple[int, Steps]] = {}

    def number(self, wire: Wire) -> int:
        """The number of what is on the way."""
        found = self._numbers.get(wire)
        if found is None:
            found = self._numbers[wire] = len(self.all)
            self.all.append(wire)
        return found

    def moves(self, number: int) -> tuple[Move, ...]:
        """What can happen to it without a budget."""
        found = self._moves.get(number)
        if found is None:
            found = self._moves[number] = tuple(self._arrivals(self.all[number]))
        return found

    def _arrivals(self, wire: Wire) -> Iterator[Move]:
        heads: set[tuple[int, int, str, int]] = set()
        for i, each in enumerate(wire):
            link = (each.caller, each.callee, each.connection)
            if each.phase == REQUEST:
                head = (*link, SERVING)
                if head not in heads:
                    heads.add(head)
                    serving = each._replace(phase=SERVING, name="?")
                    event: Input = ("request", self._names[each.caller], each.connection, each.message)
                    yield self._move(
                        "request", FREE, (*wire[:i], serving, *wire[i + 1 :]), ((each.callee, event),), each
                    )
            elif each.phase == SERVING:
                heads.add((*link, SERVING))
            elif each.phase == RESPONSE:
                head = (*link, RESPONSE)
                if head not in heads:
                    heads.add(head)
                    event = ("answered", each.call, each.message)
                    yield self._move("response", FREE, (*wire[:i], *wire[i + 1 :]), ((each.caller, event),), each)
            elif each.phase == ORPHAN:
                head = (*link, ORPHAN)
                if head not in heads:
                    heads.add(head)
                    event = ("orphan", self._names[each.caller], each.connection, each.message)
                    yield self._move("orphan", FREE, (*wire[:i], *wire[i + 1 :]), ((each.callee, event),), each)
        yield from self._failures(wire)

    def _move(self, kind: str, cost: int, wire: Sequence[Exchange], steps: Steps, *about: object) -> Move:
        return Move(kind, cost, self.number(in_order(wire)), steps, about)

    def _failures(self, wire: Wire) -> Iterator[Move]:
        """A caller notices that a connection broke, and with it all its calls."""
        for link in dict.fromkeys(each[:3] for each in wire if each.phase == BROKEN):
            if any(each[:3] == link and each.phase == RESPONSE for each in wire):
                continue  # what arrived before it broke is read first
            event: Input = ("failed", *(each.call for each in wire if each[:3] == link and each.phase == BROKEN))
            rest = [each for each in wire if each[:3] != link or each.phase != BROKEN]
            yield self._move("failed", FREE, rest, ((link[0], event),), link)

    def drops(self, number: int, cost: int) -> Iterator[Move]:
        """A connection breaks. Its requests may arrive all the same; its responses do not."""
        wire = self.all[number]
        for link in dict.fromkeys(each[:3] for each in wire if each.phase in (REQUEST, SERVING, RESPONSE)):
            now: list[Exchange] = []
            steps: list[tuple[int, Input]] = []
            for each in wire:
                if each[:3] != link or each.phase in (BROKEN, ORPHAN):
                    now.append(each)
                    continue
                now.append(each._replace(phase=BROKEN, message=-1, name=""))
                if each.phase == REQUEST:
                    now.append(each._replace(phase=ORPHAN, call=0))
                elif each.phase == SERVING:
                    steps.append((each.callee, ("gone", each.name)))
            yield self._move("drop", cost, now, tuple(steps), link)

    def without(self, number: int, node: int) -> tuple[int, Steps]:
        """What is left on the way of a node that dies, and what others notice of it."""
        found = self._crashes.get((number, node))
        if found is None:
            now: list[Exchange] = []
            gone: list[tuple[int, Input]] = []
            for each in self.all[number]:
                if each.caller == each.callee == node:
                    continue
                if each.caller == node and each.phase == REQUEST:
                    now.append(each._replace(phase=ORPHAN, call=0))
                elif each.caller == node and each.phase == SERVING:
                    gone.append((each.callee, ("gone", each.name)))
                elif each.callee == node and each.phase in (REQUEST, SERVING):
                    now.append(each._replace(phase=BROKEN, message=-1, name=""))
                elif (each.callee if each.phase == ORPHAN else each.caller) != node:
                    # A request of somebody who is gone is lost with its callee, what else is left with its caller.
                    now.append(each)
            found = self._crashes[number, node] = (self.number(in_order(now)), tuple(gone))
        return found
