"""The engine that checks a run while it goes on, in the same process: fed with events as time passes.

A runtime that has one clock for all nodes (the sim) feeds each event as it is recorded: what happens in one
microsecond comes in the order in which nodes took their steps, and is sorted here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from actors.trace.events import RunMeta, Stamped, TraceEvent
from orchestrator.engines.key_group import KeyGroup
from orchestrator.invariants.conclusion import InvariantResult, KeyResult, conclude
from orchestrator.invariants.fold import Profile, profile_of
from orchestrator.invariants.registry import AnyFold, folds, invariants_of


class OutOfOrder(ValueError):
    """An event came after a later one."""


class _Branch:
    """One route: its folds and its groups by key."""

    __slots__ = ("folds", "groups", "keys")

    def __init__(self, keys: Callable[[Stamped], Sequence[str]]) -> None:
        self.keys = keys
        self.folds: list[AnyFold] = []
        self.groups: dict[str, KeyGroup] = {}


class InProcessEngine:
    """Feed it with ``feed`` as time passes, then ask for ``results`` once.

    The profile comes from the run's first event, ``run.meta``, unless it is given. ``violated`` turns true with the
    first violation, so that a runtime may stop there.
    """

    def __init__(self, only: Collection[str] | None = None, profile: Profile | None = None) -> None:
        self.profile = Profile() if profile is None else profile
        self.violated = False
        self.events = 0
        self._given_profile = profile is not None
        self._wall = -1
        self._now: list[Stamped] = []
        self._branches: dict[str, _Branch] = {}
        self._by_type: dict[type[TraceEvent], list[_Branch]] = {}
        chosen = folds(only)
        self._invariants = invariants_of(chosen)
        for fold in chosen:
            branch = self._branches.get(fold.route.name)
            if branch is None:
                branch = self._branches[fold.route.name] = _Branch(fold.route.keys)
            branch.folds.append(fold)
            for kind in fold.event_types:
                listening = self._by_type.setdefault(kind, [])
                if branch not in listening:
                    listening.append(branch)

    def feed(self, event: Stamped) -> None:
        """Take the next event. Events of one microsecond may come in any order; the same event twice counts once.

        Raises OutOfOrder if an event of an earlier microsecond has come before.
        """
        if event.wall != self._wall:
            if event.wall < self._wall:
                raise OutOfOrder(f"{event.id} comes after events of {self._wall} us")
            if self._now:
                self._flush()
            self._wall = event.wall
        self._now.append(event)

    def _flush(self) -> None:
        """Step the folds with the events of one microsecond, in the order of the trace."""
        events = self._now
        if len(events) == 1:
            self._step(events[0])
        else:
            events.sort(key=_order_within)
            last: Stamped | None = None
            for event in events:
                if last is None or event.seq != last.seq or event.order != last.order:
                    self._step(event)
                last = event
        self._now = []

    def _step(self, event: Stamped) -> None:
        self.events += 1
        kind = type(event.body)
        if kind is RunMeta and not self._given_profile:
            self._take_profile(event)
        for branch in self._by_type.get(kind, ()):
            groups = branch.groups
            for key in branch.keys(event):
                group = groups.get(key)
                if group is None:
                    group = groups[key] = KeyGroup(branch.folds, key, self.profile)
                for step, state, cell in group.handlers.get(kind, ()):
                    if cell.deadlines and cell.pass_time(event.wall):
                        self.violated = True
                    emissions = step(state, event)
                    if emissions and cell.take(emissions):
                        self.violated = True

    def feed_all(self, events: Iterable[Stamped]) -> None:
        """Take several events."""
        for event in events:
            self.feed(event)

    def key_results(self) -> list[KeyResult]:
        """End the trace: what was found at each key."""
        self._flush()
        horizon_us = max(self._wall, 0)
        return [
            result
            for branch in self._branches.values()
            for _, group in sorted(branch.groups.items())
            for result in group.close(horizon_us)
        ]

    def results(self) -> list[InvariantResult]:
        """End the trace: one result per invariant."""
        return conclude(self._invariants, self.key_results(), self.profile)

    def _take_profile(self, event: Stamped) -> None:
        body = event.body
        assert type(body) is RunMeta
        self.profile = profile_of(body.profile)


def check(events: Iterable[Stamped], only: Collection[str] | None = None) -> list[InvariantResult]:
    """Check a whole trace, ordered or not, that fits into memory."""
    engine = InProcessEngine(only)
    engine.feed_all(sorted(events, key=_order))
    return engine.results()


def _order(event: Stamped) -> tuple[int, int, str, int, int]:
    return event.order


def _order_within(event: Stamped) -> tuple[int, str, int, int]:
    """The trace's order among events of one microsecond."""
    return (event.logical, event.node, event.incarnation, event.seq)
