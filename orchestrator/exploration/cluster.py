"""States of the whole quorum, and the moves that lead from one to the next.

A state is three places, what is on the way between them, and what history still matters to a promise
(``promises.History``): five numbers, as each part is kept once. The moves of a part, and what a move makes of what is
on the way, are worked out once too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

from actors.node.spec import NodeSpec
from actors.quorum.quorum_state_store import QUORUM_STATE_FILE
from actors.quorum.raft_state import FETCH_CONNECTION
from krift.v1.quorum import VoteRequest, VoteResponse
from orchestrator.exploration.place import Input, Outcome, Places

REQUEST, SERVING, RESPONSE, BROKEN, ORPHAN = range(5)
"""Where an exchange stands: its request is on the way; it is being served; its response is on the way; its connection
broke, which its caller is still to notice; its caller is gone, and the request may arrive all the same."""

TIMEOUT, CRASH, DROP, APPEND = range(4)
"""What is budgeted."""
FREE = -1


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


QUORUM_STATE_SYNCED: Input = ("synced", QUORUM_STATE_FILE)

Wire = tuple[Exchange, ...]
"""All exchanges; those of a connection in their order."""

Claim = tuple[int, int, int]
"""A vote that somebody was told of: voter, epoch, id of the candidate."""

State = tuple[int, ...]
"""Places of the voters, the wire, the history."""

Used = tuple[int, ...]
"""What was used of each budget."""


class Move(NamedTuple):
    """Something that can happen. ``cost``: the budget it uses. ``wire``: number of what is on the way once the move
    has begun; ``steps``: (voter, input) in order. ``kind``, ``about``: for the story."""

    kind: str
    cost: int
    wire: int
    steps: tuple[tuple[int, Input], ...]
    about: tuple[object, ...] = ()


class Stepped(NamedTuple):
    """The end of a move, but for the history. ``claims``: votes that somebody was told of. ``error``: what one voter
    did wrong, with who it was."""

    places: tuple[int, ...]
    wire: int
    claims: tuple[Claim, ...]
    error: str
    by: int
    marks: tuple[str, ...]


class Cluster:
    """The moves of a quorum of ``specs``. ``fetching``: followers' Fetches arrive. ``looking``: see ``Places``.

    ``reduced``: leave out orders that come to the same (docs/exploration.md says why they do). A voter whose
    quorum-state is being synced puts everything into a queue, so it may as well be given nothing; and if none can crash
    any more, that Sync may as well be done before anything else happens.
    """

    def __init__(self, specs: Sequence[NodeSpec], fetching: bool, looking: bool, reduced: bool) -> None:
        self._reduced = reduced
        self.places = Places(specs, looking)
        self.names = [spec.name for spec in specs]
        self.ids = [spec.node_id for spec in specs]
        self._fetching = fetching
        self._index = {name: index for index, name in enumerate(self.names)}
        self.wires: list[Wire] = []
        self._wire_numbers: dict[Wire, int] = {}
        self._wire_moves: dict[int, tuple[Move, ...]] = {}
        self._place_moves: dict[int, tuple[tuple[str, int, Input], ...]] = {}
        self._after: dict[tuple[int, int, int], tuple[int, tuple[Claim, ...]]] = {}
        self._crashes: dict[tuple[int, int], tuple[int, tuple[tuple[int, Input], ...]]] = {}

    def first(self) -> list[Stepped]:
        """The states in which all voters have started with empty disks."""
        found: list[Stepped] = []
        for outcomes in product(*(self.places.start(voter) for voter in range(len(self.names)))):
            places = tuple(outcome.place for outcome in outcomes)
            steps = tuple((voter, QUORUM_STATE_SYNCED) for voter in range(len(self.names)))
            found += self._step(places, self.wire_number(()), steps, (), ())
        return found

    def moves(self, state: State, left: Sequence[bool]) -> Iterator[Move]:
        """What can happen in a state. ``left``: which budgets are not used up."""
        voters = len(self.names)
        wire = state[voters]
        waiting = [voter for voter in range(voters) if self._reduced and self.places.facts[state[voter]].waiting]
        if waiting and not left[CRASH]:
            yield Move("synced", FREE, wire, ((waiting[0], QUORUM_STATE_SYNCED),))
            return
        for voter in range(voters):
            place = state[voter]
            local = self._place_moves.get(place)
            if local is None:
                local = self._place_moves[place] = tuple(self._moves_of_place(place))
            for kind, cost, event in local:
                if cost != FREE and not left[cost]:
                    continue
                if cost == CRASH:
                    yield self._crash(wire, voter, event)
                else:
                    yield Move(kind, cost, wire, ((voter, event),))
        found = self._wire_moves.get(wire)
        if found is None:
            found = self._wire_moves[wire] = tuple(self._moves_of_wire(self.wires[wire]))
        for move in found:
            if not waiting or all(voter not in waiting for voter, _ in move.steps):
                yield move
        if left[DROP]:
            yield from self._drops(self.wires[wire])

    def ends(self, state: State, move: Move) -> Iterator[Stepped]:
        """How a move can end: in one way, unless numbers are drawn."""
        voters = len(self.names)
        yield from self._step(state[:voters], move.wire, move.steps, (), ())

    def wire_number(self, wire: Wire) -> int:
        """The number of what is on the way."""
        found = self._wire_numbers.get(wire)
        if found is None:
            found = self._wire_numbers[wire] = len(self.wires)
            self.wires.append(wire)
        return found

    # ---- one voter ---------------------------------------------------------------------------------------

    def _moves_of_place(self, number: int) -> Iterator[tuple[str, int, Input]]:
        place = self.places.all[number]
        if self._reduced and self.places.facts[number].waiting:
            yield ("synced", FREE, QUORUM_STATE_SYNCED)
        else:
            for timer in place.timers:
                yield ("timer", TIMEOUT, ("timer", timer))
            for file in place.files:
                if file.syncs:
                    yield ("synced", FREE, ("synced", file.name))
        if self.places.facts[number].leading:
            yield ("append", APPEND, ("append",))
        survive = [[(file.name, write) for write in range(len(file.contents))] for file in place.files]
        for kept in product(*survive):
            yield ("restart", CRASH, ("restart", *kept))

    def _step(
        self,
        places: tuple[int, ...],
        wire: int,
        steps: tuple[tuple[int, Input], ...],
        claims: tuple[Claim, ...],
        marks: tuple[str, ...],
    ) -> Iterator[Stepped]:
        if not steps:
            yield Stepped(places, wire, claims, "", -1, marks)
            return
        voter, event = steps[0]
        for outcome in self.places.step(voter, places[voter], event):
            after = (*places[:voter], outcome.place, *places[voter + 1 :])
            key = (wire, voter, outcome.number)
            found = self._after.get(key)
            if found is None:
                found = self._after[key] = self._put(wire, voter, outcome)
            now, told = found
            if outcome.error:
                yield Stepped(after, now, claims + told, outcome.error, voter, marks + outcome.marks)
            elif len(steps) == 1:
                yield Stepped(after, now, claims + told, "", -1, marks + outcome.marks)
            else:
                yield from self._step(after, now, steps[1:], claims + told, marks + outcome.marks)

    # ---- what is on the way ------------------------------------------------------------------------------

    def _put(self, number: int, voter: int, outcome: Outcome) -> tuple[int, tuple[Claim, ...]]:
        """Put on the way what a voter sends. Returns the votes that it tells somebody of."""
        wire = list(self.wires[number])
        claims: list[Claim] = []
        if outcome.served:
            begun = next(i for i, each in enumerate(wire) if each.callee == voter and each.name == "?")
            wire[begun] = wire[begun]._replace(name=outcome.served)
        if outcome.renamed:
            names = dict(outcome.renamed)
            for i, each in enumerate(wire):
                if each.caller == voter and each.phase != ORPHAN:
                    wire[i] = each._replace(call=names.get(each.call, each.call))
        for name, message in outcome.replies:
            for i, each in enumerate(wire):
                if each.callee == voter and each.phase == SERVING and each.name == name:
                    claims += self._granted(voter, each.message, message)
                    wire[i] = each._replace(phase=RESPONSE, message=message, name="")
        for peer, connection, call, message in outcome.calls:
            claims += self._own_vote(voter, message)
            if self._fetching or connection != FETCH_CONNECTION:
                wire.append(Exchange(voter, self._index[peer], connection, call, REQUEST, message))
        return self.wire_number(_in_order(wire)), tuple(dict.fromkeys(claims))

    def _granted(self, voter: int, request: int, response: int) -> list[Claim]:
        asked, told = self.places.messages.all[request], self.places.messages.all[response]
        if isinstance(asked, VoteRequest) and isinstance(told, VoteResponse) and told.vote_granted:
            return [] if asked.pre_vote else [(voter, asked.replica_epoch, asked.replica_id)]
        return []

    def _own_vote(self, voter: int, request: int) -> list[Claim]:
        asked = self.places.messages.all[request]
        if isinstance(asked, VoteRequest) and not asked.pre_vote:
            return [(voter, asked.replica_epoch, asked.replica_id)]
        return []

    def _moves_of_wire(self, wire: Wire) -> Iterator[Move]:
        heads: set[tuple[int, int, str, int]] = set()
        for i, each in enumerate(wire):
            link = (each.caller, each.callee, each.connection)
            if each.phase == REQUEST:
                head = (*link, SERVING)
                if head not in heads:
                    heads.add(head)
                    serving = each._replace(phase=SERVING, name="?")
                    event: Input = ("request", self.names[each.caller], each.connection, each.message)
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
                    event = ("orphan", self.names[each.caller], each.connection, each.message)
                    yield self._move("orphan", FREE, (*wire[:i], *wire[i + 1 :]), ((each.callee, event),), each)
        yield from self._failures(wire)

    def _move(
        self, kind: str, cost: int, wire: Sequence[Exchange], steps: tuple[tuple[int, Input], ...], *about: object
    ) -> Move:
        return Move(kind, cost, self.wire_number(_in_order(wire)), steps, about)

    def _failures(self, wire: Wire) -> Iterator[Move]:
        """A caller notices that a connection broke, and with it all its calls."""
        for link in dict.fromkeys(each[:3] for each in wire if each.phase == BROKEN):
            if any(each[:3] == link and each.phase == RESPONSE for each in wire):
                continue  # what arrived before it broke is read first
            event: Input = ("failed", *(each.call for each in wire if each[:3] == link and each.phase == BROKEN))
            rest = [each for each in wire if each[:3] != link or each.phase != BROKEN]
            yield self._move("failed", FREE, rest, ((link[0], event),), link)

    def _drops(self, wire: Wire) -> Iterator[Move]:
        """A connection breaks. Its requests may arrive all the same; its responses do not."""
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
            yield self._move("drop", DROP, now, tuple(steps), link)

    def _crash(self, number: int, voter: int, event: Input) -> Move:
        """A voter dies, and what it had not synced may be lost. It starts again at once: a voter that is down for
        long is one that nothing reaches."""
        found = self._crashes.get((number, voter))
        if found is None:
            now: list[Exchange] = []
            gone: list[tuple[int, Input]] = []
            for each in self.wires[number]:
                if each.caller == voter and each.phase == REQUEST:
                    now.append(each._replace(phase=ORPHAN, call=0))
                elif each.caller == voter and each.phase == SERVING:
                    gone.append((each.callee, ("gone", each.name)))
                elif each.callee == voter and each.phase in (REQUEST, SERVING):
                    now.append(each._replace(phase=BROKEN, message=-1, name=""))
                elif (each.callee if each.phase == ORPHAN else each.caller) != voter:
                    # A request of somebody who is gone is lost with its callee, what else is left with its caller.
                    now.append(each)
            found = self._crashes[number, voter] = (self.wire_number(_in_order(now)), tuple(gone))
        wire, steps = found
        return Move("restart", CRASH, wire, ((voter, event), *steps), (event,))


def _in_order(wire: Sequence[Exchange]) -> Wire:
    """By connection; those whose caller is gone last."""
    return tuple(sorted(wire, key=lambda each: (each.caller, each.callee, each.connection, each.phase == ORPHAN)))
