"""The fold of the invariants that compare replicas' logs: one mirror per partition, and they all look at it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic

import msgspec

from actors.trace.events import Stamped, TraceEvent
from orchestrator.invariants.fold import NOTHING, Emissions, Fold, Invariant, Profile, Route, St, State
from orchestrator.invariants.log_mirror import LOGS, MIRRORED, LogMirror


class LogInvariant(Invariant, Generic[St]):
    """An invariant over the logs of one partition. ``before_types``: events that it also judges against the mirror
    as it was before them."""

    before_types: tuple[type[TraceEvent], ...] = ()

    @property
    def depends_on(self) -> tuple[type[TraceEvent], ...]:
        return (*LOGS, *self.types)

    def initial(self, key: str, profile: Profile) -> St:
        """The state before the first event of a partition."""
        raise NotImplementedError

    def before(self, state: St, event: Stamped, mirror: LogMirror) -> Emissions:
        """Judge an event of ``before_types`` that the mirror has not taken yet."""
        return NOTHING

    def step(self, state: St, event: Stamped, mirror: LogMirror) -> Emissions:
        """Judge an event of ``types`` that the mirror has taken."""
        raise NotImplementedError

    def finish(self, state: St, mirror: LogMirror) -> Emissions:
        """The trace is over."""
        return NOTHING


class LogState(msgspec.Struct):
    """``parts``: the invariants' own states, in the order of the fold's invariants."""

    mirror: LogMirror
    parts: list[State]


class LogFold(Fold[LogState]):
    """Feeds a mirror, and after it the invariants."""

    def __init__(
        self,
        name: str,
        route: Route,
        leadership: tuple[type[TraceEvent], ...],
        invariants: Sequence[LogInvariant[Any]],
    ) -> None:
        """``leadership``: types of the events that say who leads this kind of log."""
        self._name = name
        self.route = route  # type: ignore[misc]  # the invariants of the metadata log take another route
        self._invariants = tuple(invariants)
        types: list[type[TraceEvent]] = [*LOGS, *leadership]
        types.extend(kind for each in invariants for kind in each.types)
        self._types = tuple(dict.fromkeys(types))
        self._before = {
            kind: [(index, each.before) for index, each in enumerate(invariants) if kind in each.before_types]
            for kind in types
        }
        self._after = {
            kind: [(index, each.step) for index, each in enumerate(invariants) if kind in each.types] for kind in types
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

    def initial(self, key: str, profile: Profile) -> LogState:
        return LogState(LogMirror(), [each.initial(key, profile) for each in self._invariants])

    def step(self, state: LogState, event: Stamped) -> Emissions:
        kind = type(event.body)
        found: list[Any] | None = None
        for index, judge in self._before[kind]:
            if emitted := judge(state.parts[index], event, state.mirror):
                found = [*(found or ()), *emitted]
        if kind in MIRRORED:
            state.mirror.apply(event)
        for index, judge in self._after[kind]:
            if emitted := judge(state.parts[index], event, state.mirror):
                found = [*(found or ()), *emitted]
        return NOTHING if found is None else found

    def expire(self, state: LogState, at_us: int) -> Emissions:
        return NOTHING

    def finish(self, state: LogState, horizon_us: int) -> Emissions:
        found: list[Any] = []
        for part, each in zip(state.parts, self._invariants, strict=True):
            found.extend(each.finish(part, state.mirror))
        return found

    def tested(self, state: LogState) -> dict[str, int]:
        return {each.id: part.tested for part, each in zip(state.parts, self._invariants, strict=True)}
