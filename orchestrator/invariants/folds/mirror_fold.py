"""The fold of invariants that look at the same mirror: a model of part of the cluster, built from the trace once for
all of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from actors.trace.events import Stamped, TraceEvent
from orchestrator.invariants.folds.fold import CASES, NOTHING, Emissions, Fold, Invariant, Profile, Route, St, State


class Mirror(Protocol):
    """What is built from the trace."""

    def apply(self, event: Stamped) -> None:
        """Take an event of the types that the mirror follows."""


M = TypeVar("M", bound=Mirror)


class MirrorInvariant(Invariant, Generic[M, St]):
    """An invariant over a mirror. ``before_types``: events that it also judges against the mirror as it was before
    them. ``mirrored``: types of the events that the mirror it looks at is built from."""

    before_types: tuple[type[TraceEvent], ...] = ()
    mirrored: tuple[type[TraceEvent], ...] = ()

    @property
    def news(self) -> tuple[type[TraceEvent], ...]:
        """As a fold's: events that concern every key."""
        return ()

    @property
    def depends_on(self) -> tuple[type[TraceEvent], ...]:
        return (*self.mirrored, *self.types, *self.news)

    def initial(self, key: str, profile: Profile) -> St:
        """The state before the first event of a key."""
        raise NotImplementedError

    def before(self, state: St, event: Stamped, mirror: M) -> Emissions:
        """Judge an event of ``before_types`` that the mirror has not taken yet."""
        return NOTHING

    def step(self, state: St, event: Stamped, mirror: M) -> Emissions:
        """Judge an event of ``types`` that the mirror has taken."""
        return NOTHING

    def hear(self, state: St, event: Stamped) -> Emissions:
        """Take an event of ``news``, in the order of the trace."""
        return NOTHING

    def finish(self, state: St, mirror: M) -> Emissions:
        """The trace is over."""
        return NOTHING


class MirrorState(msgspec.Struct):
    """``parts``: the invariants' own states, in the order of the fold's invariants."""

    mirror: Any
    parts: list[State]


_Judges = list[tuple[int, Callable[[Any, Stamped, Any], Emissions]]]
_Plan = tuple[_Judges, bool, _Judges]
"""Who judges before the mirror takes the event, whether it does, who judges after it: (index of the part, method)."""


class _Plans(dict[str, _Plan]):
    """Case of one type of events -> plan, made when the case first comes up."""

    def __init__(self, fold: MirrorFold, kind: type[TraceEvent]) -> None:
        super().__init__()
        self._fold = fold
        self._kind = kind

    def __missing__(self, case: str) -> _Plan:
        plan = self[case] = self._fold.plan(self._kind, case)
        return plan


def _takes(invariant: Invariant, kind: type[TraceEvent], case: str) -> bool:
    cases = invariant.cases.get(kind)
    return cases is None or case in cases


class MirrorFold(Fold[MirrorState]):
    """Feeds a mirror, and before and after it the invariants."""

    def __init__(
        self,
        name: str,
        route: Route,
        follows: Collection[type[TraceEvent]],
        invariants: Sequence[MirrorInvariant[Any, Any]],
    ) -> None:
        """``follows``: types of the events that the mirror takes."""
        self._name = name
        self.route = route  # type: ignore[misc]  # one class, several routes
        self._invariants = tuple(invariants)
        types = list(dict.fromkeys([*follows, *(kind for each in invariants for kind in each.types)]))
        self._types = tuple(types)
        self.follows = frozenset(follows)
        self._hearers: dict[type[TraceEvent], list[tuple[int, MirrorInvariant[Any, Any]]]] = {}
        for index, each in enumerate(invariants):
            for kind in dict.fromkeys(each.news):
                self._hearers.setdefault(kind, []).append((index, each))
        self._plans = {kind: (CASES.get(kind), _Plans(self, kind)) for kind in types}
        self.cases = {
            kind: {case for each in invariants for case in each.cases.get(kind, ())}
            for kind in types
            if kind not in self.follows and all(kind in each.cases for each in invariants if kind in each.types)
        }

    def plan(self, kind: type[TraceEvent], case: str) -> _Plan:
        """What is done with events of a type, and of one case of it ("" where it has none)."""
        invariants = [(index, each) for index, each in enumerate(self._invariants) if _takes(each, kind, case)]
        before: _Judges = [(index, each.before) for index, each in invariants if kind in each.before_types]
        after: _Judges = [
            (index, each.step)
            for index, each in invariants
            if kind in each.types and type(each).step is not MirrorInvariant.step
        ]
        return before, kind in self.follows, after

    @property
    def name(self) -> str:
        return self._name

    @property
    def invariants(self) -> Sequence[Invariant]:
        return self._invariants

    @property
    def event_types(self) -> tuple[type[TraceEvent], ...]:
        return self._types

    @property
    def news(self) -> tuple[type[TraceEvent], ...]:
        return tuple(self._hearers)

    def mirror(self, key: str, profile: Profile) -> Mirror:
        """The mirror of a key before its first event."""
        raise NotImplementedError

    def initial(self, key: str, profile: Profile) -> MirrorState:
        return MirrorState(self.mirror(key, profile), [each.initial(key, profile) for each in self._invariants])

    def step(self, state: MirrorState, event: Stamped) -> Emissions:
        body = event.body
        case_of, plans = self._plans[type(body)]
        before, follows, after = plans["" if case_of is None else case_of(body)]
        mirror, parts = state.mirror, state.parts
        found: list[Any] | None = None
        for index, judge in before:
            if emitted := judge(parts[index], event, mirror):
                found = [*(found or ()), *emitted]
        if follows:
            mirror.apply(event)
        for index, judge in after:
            if emitted := judge(parts[index], event, mirror):
                found = [*(found or ()), *emitted]
        return NOTHING if found is None else found

    def hear(self, state: MirrorState, event: Stamped) -> Emissions:
        found: list[Any] = []
        for index, each in self._hearers.get(type(event.body), ()):
            found.extend(each.hear(state.parts[index], event))
        return found

    def expire(self, state: MirrorState, at_us: int) -> Emissions:
        return NOTHING

    def finish(self, state: MirrorState, horizon_us: int) -> Emissions:
        found: list[Any] = []
        for part, each in zip(state.parts, self._invariants, strict=True):
            found.extend(each.finish(part, state.mirror))
        return found

    def tested(self, state: MirrorState) -> dict[str, int]:
        return {each.id: part.tested for part, each in zip(state.parts, self._invariants, strict=True)}
