"""The fold of invariants that look at the same mirror: a model of part of the cluster, built from the trace once for
all of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from actors.trace.events import Stamped, TraceEvent
from orchestrator.invariants.fold import NOTHING, Emissions, Fold, Invariant, Profile, Route, St, State


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
    def depends_on(self) -> tuple[type[TraceEvent], ...]:
        return (*self.mirrored, *self.types)

    def initial(self, key: str, profile: Profile) -> St:
        """The state before the first event of a key."""
        raise NotImplementedError

    def before(self, state: St, event: Stamped, mirror: M) -> Emissions:
        """Judge an event of ``before_types`` that the mirror has not taken yet."""
        return NOTHING

    def step(self, state: St, event: Stamped, mirror: M) -> Emissions:
        """Judge an event of ``types`` that the mirror has taken."""
        return NOTHING

    def finish(self, state: St, mirror: M) -> Emissions:
        """The trace is over."""
        return NOTHING


class MirrorState(msgspec.Struct):
    """``parts``: the invariants' own states, in the order of the fold's invariants."""

    mirror: Any
    parts: list[State]


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
        self._follows = frozenset(follows)
        self._before = {
            kind: [(index, each.before) for index, each in enumerate(invariants) if kind in each.before_types]
            for kind in types
        }
        self._after = {
            kind: [
                (index, each.step)
                for index, each in enumerate(invariants)
                if kind in each.types and type(each).step is not MirrorInvariant.step
            ]
            for kind in types
        }

    @property
    def name(self) -> str:
        return self._name

    @property
    def invariants(self) -> Sequence[Invariant]:
        return self._invariants

    @property
    def event_types(self) -> tuple[type[TraceEvent], ...]:
        return self._types

    def mirror(self, key: str, profile: Profile) -> Mirror:
        """The mirror of a key before its first event."""
        raise NotImplementedError

    def initial(self, key: str, profile: Profile) -> MirrorState:
        return MirrorState(self.mirror(key, profile), [each.initial(key, profile) for each in self._invariants])

    def step(self, state: MirrorState, event: Stamped) -> Emissions:
        kind = type(event.body)
        found: list[Any] | None = None
        for index, judge in self._before[kind]:
            if emitted := judge(state.parts[index], event, state.mirror):
                found = [*(found or ()), *emitted]
        if kind in self._follows:
            state.mirror.apply(event)
        for index, judge in self._after[kind]:
            if emitted := judge(state.parts[index], event, state.mirror):
                found = [*(found or ()), *emitted]
        return NOTHING if found is None else found

    def expire(self, state: MirrorState, at_us: int) -> Emissions:
        return NOTHING

    def finish(self, state: MirrorState, horizon_us: int) -> Emissions:
        found: list[Any] = []
        for part, each in zip(state.parts, self._invariants, strict=True):
            found.extend(each.finish(part, state.mirror))
        return found

    def tested(self, state: MirrorState) -> dict[str, int]:
        return {each.id: part.tested for part, each in zip(state.parts, self._invariants, strict=True)}
