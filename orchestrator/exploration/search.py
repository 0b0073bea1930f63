"""Breadth first through all states that the budgets allow: the first violation has a shortest path."""

from __future__ import annotations

import gc
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import msgspec

from orchestrator.exploration.cluster import Cluster, State, Step, Stepped, Used
from orchestrator.exploration.judge import Broken
from orchestrator.exploration.models import Model, explored
from orchestrator.exploration.wire import FREE, Move

NOTHING_USED: Used = (0, 0, 0, 0)
LOOK_EVERY = 256
"""States between two looks at the clock and at whoever wants an end."""


class Progress(msgspec.Struct, frozen=True):
    """Where a search stands. ``states``: distinct ones; ``depth``: moves from the start; ``frontier``: states to be
    looked at in this depth and the next."""

    states: int
    transitions: int
    depth: int
    frontier: int
    seconds: float


class Found(msgspec.Struct, frozen=True):
    """What a search came to. ``exhausted``: there is no other state within the budgets. ``reached``: what was seen ->
    (how often, on a way to a new state; moves to the first time). ``path``: to what was broken; ``opening``: what led
    to where the search began."""

    states: int
    transitions: int
    depth: int
    exhausted: bool
    interrupted: bool
    reached: dict[str, tuple[int, int]]
    seconds: float
    node_steps: int
    broken: Broken | None
    opening: list[Step]
    path: list[Step]


class Search:
    """One search of ``model``. ``tell``: is told of the progress, now and then. ``seen``: distinct states, with
    the least that was used on a way to each."""

    def __init__(self, model: Model, tell: Callable[[Progress], None] = lambda _: None) -> None:
        self.model = model
        self.cluster: Cluster[Any, Any]
        self.cluster, self._judge = explored(model)
        self._tell = tell
        self.stopped = False
        self.histories: list[Any] = []
        self._history_numbers: dict[Any, int] = {}
        self._notes: dict[tuple[Any, ...], tuple[int, Broken | None]] = {}
        self._openings: dict[State, list[Step]] = {}
        self._lefts: dict[Used, tuple[bool, ...]] = {}
        self.seen: dict[State, list[Used]] = {}
        self._nodes: list[tuple[State, Used]] = []
        self._parents: list[int] = []
        self._reached: Counter[str] = Counter()
        self._first: dict[str, tuple[int, int, Step]] = {}
        self._transitions = 0
        self._depth = 0
        self._broken: Broken | None = None
        self._last: Step | None = None
        self._last_parent = -1

    def stop(self) -> None:
        """Come to an end soon."""
        self.stopped = True

    def run(self) -> Found:
        """Search until something is broken, all is seen, the model's number of states is reached, or ``stop``."""
        began = time.monotonic()
        with _no_garbage():
            self._begin()
            exhausted = self._broken is None and self._all(began)
        return Found(
            len(self.seen),
            self._transitions,
            self._depth,
            exhausted,
            self.stopped,
            {mark: (self._reached[mark], self._first[mark][0]) for mark in self._first},
            time.monotonic() - began,
            self.cluster.places.steps,
            self._broken,
            *self._to_what_is_broken(),
        )

    # ---- breadth first -----------------------------------------------------------------------------------

    def _begin(self) -> None:
        history = self._number(self._judge.nothing_yet())
        for end in self.cluster.first():
            state: State = (*end.places, end.wire, end.control, history)
            state, opening = self._opened(state)
            self._openings[state] = opening
            if state not in self.seen:
                self._add(state, NOTHING_USED, -1)

    def _opened(self, state: State) -> tuple[State, list[Step]]:
        """The state with which the search begins, and what led to it."""
        opening: list[Step] = []
        while (move := self.cluster.opening_move(state, opening)) is not None:
            end = next(self.cluster.ends(state, move))
            after, broken = self._noted(state, end)
            assert after is not None and broken is None, broken
            opening.append(Step(state, move, end))
            state = after
        return state, opening

    def _all(self, began: float) -> bool:
        begin = 0
        while begin < len(self._nodes):
            end = len(self._nodes)
            self._depth += 1
            for index in range(begin, end):
                if index % LOOK_EVERY == 0:
                    if self.stopped:
                        return False
                    seconds = time.monotonic() - began
                    waiting = len(self._nodes) - index
                    self._tell(Progress(len(self.seen), self._transitions, self._depth, waiting, seconds))
                if self._expand(index):
                    return False
            begin = end
        self._depth -= 1
        return True

    def _expand(self, index: int) -> bool:
        """Look at all that can follow. True: the search is over."""
        state, used = self._nodes[index]
        seen = self.seen
        for move in self.cluster.moves(state, self._left(used)):
            spent = used
            cost = move.cost
            if cost != FREE:
                spent = (*used[:cost], used[cost] + 1, *used[cost + 1 :])
            for end in self.cluster.ends(state, move):
                self._transitions += 1
                after, broken = self._noted(state, end)
                if after is None:
                    continue
                if broken is None:
                    known = seen.get(after)
                    if known is not None:
                        if any(all(map(int.__le__, one, spent)) for one in known):
                            continue
                    else:
                        broken = self._judged(after, move)
                        self._see(index, Step(state, move, end), after)
                if broken is not None:
                    self._broken, self._last, self._last_parent = broken, Step(state, move, end), index
                    return True
                self._add(after, spent, index)
        return len(seen) >= self.model.states

    def _left(self, used: Used) -> tuple[bool, ...]:
        """Which budgets are not used up."""
        found = self._lefts.get(used)
        if found is None:
            within = [caps for caps in self.model.budgets if all(map(int.__le__, used, caps))]
            found = self._lefts[used] = tuple(any(caps[i] > used[i] for caps in within) for i in range(len(used)))
        return found

    def _add(self, state: State, used: Used, parent: int) -> None:
        self.seen.setdefault(state, []).append(used)
        self._nodes.append((state, used))
        self._parents.append(parent)

    # ---- judging -----------------------------------------------------------------------------------------

    def _number(self, history: Any) -> int:
        found = self._history_numbers.setdefault(history, len(self.histories))
        if found == len(self.histories):
            self.histories.append(history)
        return found

    def _noted(self, state: State, end: Stepped) -> tuple[State | None, Broken | None]:
        """The state at the end of a move, None beyond the bounds; and what the move itself broke."""
        places = self.cluster.places
        if end.error:
            wrong = Broken(self._judge.sound, f"{self.cluster.names[end.by]}: {end.error}")
            return (*end.places, end.wire, end.control, state[-1]), wrong
        numbers = tuple([places.facts_number[place] for place in end.places])
        key = (state[-1], end.claims, numbers, end.control)
        found = self._notes.get(key)
        if found is None:
            all_facts = [places.facts[place] for place in end.places]
            history, broken = self._judge.noted(self.histories[state[-1]], end, all_facts)
            found = self._notes[key] = (-1 if history is None else self._number(history), broken)
        after = None if found[0] < 0 else (*end.places, end.wire, end.control, found[0])
        return after, found[1]

    def _judged(self, state: State, move: Move) -> Broken | None:
        """The first promise that a new state breaks."""
        return self._judge.judged(state, move, self.histories[state[-1]])

    def _see(self, index: int, step: Step, after: State) -> None:
        """Note what was seen on the way from a state to a new one."""
        marks = list(step.end.marks)
        if step.move.kind in MARK_OF_MOVE:
            marks.append(MARK_OF_MOVE[step.move.kind])
        if after[-1] != step.before[-1]:
            marks += self._judge.marks(self.histories[step.before[-1]], self.histories[after[-1]])
        for mark in marks:
            self._reached[mark] += 1
            if mark not in self._first:
                self._first[mark] = (self._depth, index, step)

    # ---- the way back ------------------------------------------------------------------------------------

    def _to_what_is_broken(self) -> tuple[list[Step], list[Step]]:
        if self._last is None:
            return [], []
        opening, path = self._way(self._last_parent)
        return opening, [*path, self._last]

    def way(self, mark: str) -> list[Step]:
        """The shortest way to what was seen, from the first start of the nodes."""
        _, index, step = self._first[mark]
        opening, path = self._way(index)
        return [*opening, *path, step]

    def _way(self, index: int) -> tuple[list[Step], list[Step]]:
        """What led to where the search began, and the path from there to a state."""
        indices = [index]
        while (index := self._parents[index]) >= 0:
            indices.append(index)
        indices.reverse()
        path = [self._between(one, other) for one, other in pairwise(indices)]
        return self._openings[self._nodes[indices[0]][0]], path

    def _between(self, index: int, after: int) -> Step:
        """A move that leads from one state to the next."""
        state, used = self._nodes[index]
        return next(
            Step(state, move, end)
            for move in self.cluster.moves(state, self._left(used))
            for end in self.cluster.ends(state, move)
            if self._noted(state, end) == (self._nodes[after][0], None)
        )


MARK_OF_MOVE = {
    "restart": "crash",
    "drop": "connection dropped",
    "orphan": "request of one that gave up",
    "elected": "leadership moved",
}
"""Kind of a move -> what is seen with it."""


@contextmanager
def _no_garbage() -> Iterator[None]:
    """The collector would look again and again at millions of tuples, none of which is in a cycle."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
