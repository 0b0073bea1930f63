"""States of all nodes together, and the moves that lead from one to the next.

A state is a place for each node, what is on the way between them, what the controller has published, and what history
still matters to a promise: some numbers, as each part is kept once. The moves of a part, and what a move makes of what
is on the way, are worked out once too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from actors.node.messages import AnyRequest, AnyResponse
from actors.node.spec import NodeSpec
from actors.trace.events import AnyTraceEvent
from orchestrator.exploration.place import FactsT, Input, Kind, NodeT, Outcome, Places
from orchestrator.exploration.wire import (
    ORPHAN,
    REQUEST,
    RESPONSE,
    SAME,
    SERVING,
    Exchange,
    Move,
    Steps,
    Wires,
    in_order,
)

Facts_contra = TypeVar("Facts_contra", contravariant=True)

FIRST, CRASH, DROP, LAST = range(4)
"""What is budgeted: what moves leadership, crashes, dropped connections, what clients ask for."""

Claim = tuple[Any, ...]
"""What one node has told another one, or a client, and history remembers."""

State = tuple[int, ...]
"""Places of the nodes, the wire, what the controller has published, the history."""

Used = tuple[int, ...]
"""What was used of each budget."""


class Step(NamedTuple):
    """One move of a path: from where, what, and how it ended."""

    before: State
    move: Move
    end: Stepped


class Stepped(NamedTuple):
    """The end of a move, but for the history. ``claims``: what somebody was told. ``error``: what one node did wrong,
    with who it was."""

    places: tuple[int, ...]
    wire: int
    control: int
    claims: tuple[Claim, ...]
    error: str
    by: int
    marks: tuple[str, ...]


class Words(Protocol[Facts_contra]):
    """What moves and messages of one kind of nodes are called."""

    def moved(self, move: Move, name: str) -> str:
        """A move that only this kind has."""

    def restarted(self, name: str, event: Input) -> str:
        """A crash."""

    def asked(self, request: AnyRequest) -> str:
        """A request."""

    def said(self, response: AnyResponse) -> str:
        """A response."""

    def changes(self, before: Facts_contra, after: Facts_contra) -> Iterator[str]:
        """What a step has made of the facts of a node."""


class Cluster(Generic[NodeT, FactsT]):
    """The moves of nodes of one kind. ``choosing``: see ``Places``. ``reduced``: leave out orders that come to the same
    (docs/exploration.md says why they do)."""

    def __init__(
        self, specs: Sequence[NodeSpec], kind: Kind[NodeT, FactsT], choosing: bool = False, reduced: bool = True
    ) -> None:
        self._reduced = reduced
        self.places = Places(specs, kind, choosing)
        self.names = [spec.name for spec in specs]
        self.ids = [spec.node_id for spec in specs]
        self.wires = Wires(self.names)
        self._index = {name: index for index, name in enumerate(self.names)}
        self._place_moves: dict[int, tuple[tuple[str, int, Input], ...]] = {}
        self._after: dict[tuple[int, int, int], tuple[int, tuple[Claim, ...]]] = {}

    # ---- of a kind of nodes ------------------------------------------------------------------------------

    words: Words[FactsT]
    """What moves are called."""
    family: str
    """Family of the invariants that judge the trace of a path."""
    voters: Sequence[int] = ()
    """Ids of the voters in that trace."""
    controller = "controller-1"
    """Who publishes."""
    first_control = 0
    """Number of what the controller has published at the start."""

    def published(self, before: int, after: int) -> list[AnyTraceEvent]:
        """What the controller has recorded between two numbers."""
        return []

    def lost(self, before: int, after: int) -> dict[str, int]:
        """What a restart has taken: partition -> first lost offset; the places before and after it."""
        return {}

    def awaited(self, index: int) -> Steps:
        """What a node is given right after its first start."""
        return ()

    def opening_move(self, state: State, opening: Sequence[Step]) -> Move | None:
        """The next move before the search begins, None: it begins here."""
        return None

    def moves(self, state: State, left: Sequence[bool]) -> Iterator[Move]:
        """What can happen in a state. ``left``: which budgets are not used up."""
        raise NotImplementedError

    def _moves_of_place(self, number: int) -> Iterator[tuple[str, int, Input]]:
        """What can happen to a node alone: kind of the move, its cost, the input."""
        raise NotImplementedError

    def _travels(self, connection: str) -> bool:
        """Whether what is sent on a connection gets anywhere."""
        return True

    def _told(self, index: int, request: int, response: int) -> list[Claim]:
        """What an answer claims."""
        return []

    def _asked(self, index: int, request: int) -> list[Claim]:
        """What a request claims."""
        return []

    def _answered(self, index: int, name: str, response: int) -> list[Claim]:
        """What the answer to somebody who is no node claims."""
        return []

    # ---- the search asks ---------------------------------------------------------------------------------

    def first(self) -> list[Stepped]:
        """The states in which all nodes have started with empty disks."""
        found: list[Stepped] = []
        everybody = range(len(self.names))
        for outcomes in product(*(self.places.start(index) for index in everybody)):
            places = tuple(outcome.place for outcome in outcomes)
            wire = self.wires.number(())
            for index, outcome in enumerate(outcomes):
                wire, _ = self._put(wire, index, outcome)
            steps = tuple(step for index in everybody for step in self.awaited(index))
            found += self._step(places, wire, self.first_control, steps, (), ())
        return found

    def ends(self, state: State, move: Move) -> Iterator[Stepped]:
        """How a move can end: in one way, unless numbers are drawn."""
        nodes = len(self.names)
        control = state[nodes + 1] if move.control == SAME else move.control
        yield from self._step(state[:nodes], move.wire, control, move.steps, (), ())

    # ---- inside ------------------------------------------------------------------------------------------

    def _local(self, place: int) -> tuple[tuple[str, int, Input], ...]:
        found = self._place_moves.get(place)
        if found is None:
            found = self._place_moves[place] = tuple(self._moves_of_place(place))
        return found

    def _step(
        self,
        places: tuple[int, ...],
        wire: int,
        control: int,
        steps: Steps,
        claims: tuple[Claim, ...],
        marks: tuple[str, ...],
    ) -> Iterator[Stepped]:
        if not steps:
            yield Stepped(places, wire, control, claims, "", -1, marks)
            return
        index, event = steps[0]
        for outcome in self.places.step(index, places[index], event):
            after = (*places[:index], outcome.place, *places[index + 1 :])
            key = (wire, index, outcome.number)
            found = self._after.get(key)
            if found is None:
                found = self._after[key] = self._put(wire, index, outcome)
            now, told = found
            if outcome.error:
                yield Stepped(after, now, control, claims + told, outcome.error, index, marks + outcome.marks)
            elif len(steps) == 1:
                yield Stepped(after, now, control, claims + told, "", -1, marks + outcome.marks)
            else:
                yield from self._step(after, now, control, steps[1:], claims + told, marks + outcome.marks)

    def _put(self, number: int, index: int, outcome: Outcome) -> tuple[int, tuple[Claim, ...]]:
        """Put on the way what a node sends. Returns what it claims by that."""
        wire = list(self.wires.all[number])
        claims: list[Claim] = []
        if outcome.served:
            begun = next((i for i, each in enumerate(wire) if each.callee == index and each.name == "?"), -1)
            if begun >= 0:
                wire[begun] = wire[begun]._replace(name=outcome.served)
        if outcome.renamed:
            names = dict(outcome.renamed)
            for i, each in enumerate(wire):
                if each.caller == index and each.phase != ORPHAN:
                    wire[i] = each._replace(call=names.get(each.call, each.call))
        for name, message in outcome.replies:
            key = (index, SERVING, name)
            served = [i for i, each in enumerate(wire) if (each.callee, each.phase, each.name) == key]
            for i in served:
                claims += self._told(index, wire[i].message, message)
                wire[i] = wire[i]._replace(phase=RESPONSE, message=message, name="")
            if not served:
                claims += self._answered(index, name, message)
        for peer, connection, call, message in outcome.calls:
            claims += self._asked(index, message)
            if self._travels(connection):
                wire.append(Exchange(index, self._index[peer], connection, call, REQUEST, message))
        return self.wires.number(in_order(wire)), tuple(dict.fromkeys(claims))

    def _crash(self, wire: int, index: int, event: Input) -> Move:
        """A node dies. It starts again at once: one that is down for long is one that nothing reaches."""
        now, steps = self.wires.without(wire, index)
        return Move("restart", CRASH, now, ((index, event), *steps), (event,))
