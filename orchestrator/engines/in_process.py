"""The engine that checks a run while it goes on, in the same process: fed with events in the order of the trace, in
which the sim records them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from actors.trace.events import RunMeta, Stamped, TraceEvent
from orchestrator.engines.key_group import Handler, KeyGroup
from orchestrator.invariants.conclusion import InvariantResult, KeyResult, conclude
from orchestrator.invariants.fold import Finding, Profile, profile_of
from orchestrator.invariants.registry import AnyFold, folds, invariants_of


class OutOfOrder(ValueError):
    """An event came after a later one."""


_Groups = dict[str, list[Handler]]


class _Branch:
    """One route: its folds, its groups by key, and per event type what each key's folds do with it."""

    __slots__ = ("folds", "groups", "handlers", "keys")

    def __init__(self, keys: Callable[[Stamped], Sequence[str]]) -> None:
        self.keys = keys
        self.folds: list[AnyFold] = []
        self.groups: dict[str, KeyGroup] = {}
        self.handlers: dict[type[TraceEvent], _Groups] = {}


class InProcessEngine:
    """Feed it with ``feed`` in the order of the trace, then ask for ``results`` once.

    The profile comes from the run's first event, ``run.meta``, unless it is given. ``violated``: id of an
    invariant -> when it was first found to be violated (wall of the trace, microseconds), so that a runtime may stop.
    """

    def __init__(self, only: Collection[str] | None = None, profile: Profile | None = None) -> None:
        self.profile = Profile() if profile is None else profile
        self.violated: dict[str, int] = {}
        self.events = 0
        self._given_profile = profile is not None
        self._last: Stamped | None = None
        self._branches: dict[str, _Branch] = {}
        self._by_type: dict[type[TraceEvent], list[tuple[_Branch, _Groups]]] = {}
        self._news: list[Stamped] = []
        chosen = folds(only)
        self._invariants = invariants_of(chosen)
        self._news_types = {kind for fold in chosen for kind in fold.news}
        for fold in chosen:
            branch = self._branches.get(fold.route.name)
            if branch is None:
                branch = self._branches[fold.route.name] = _Branch(fold.route.keys)
            branch.folds.append(fold)
            for kind in fold.event_types:
                if kind not in branch.handlers:
                    branch.handlers[kind] = {}
                    self._by_type.setdefault(kind, []).append((branch, branch.handlers[kind]))

    def feed(self, event: Stamped) -> None:
        """Take the next event; the same event twice counts once.

        Raises OutOfOrder if a later one has come before.
        """
        last = self._last
        if last is not None and event.wall <= last.wall and event.order <= last.order:
            if event.order == last.order:
                return
            raise OutOfOrder(f"{event.id} comes after {last.id}")
        self._last = event
        self.events += 1
        kind = type(event.body)
        if kind is RunMeta and not self._given_profile:
            self._take_profile(event)
        if kind in self._news_types:
            self._tell(event)
        for branch, groups in self._by_type.get(kind, ()):
            for key in branch.keys(event):
                handlers = groups.get(key)
                if handlers is None:
                    handlers = groups[key] = self._handlers(branch, key, kind)
                for step, state, cell in handlers:
                    if cell.deadlines:
                        cell.pass_time(event.wall)
                    emissions = step(state, event)
                    if emissions:
                        cell.take(emissions)

    def _handlers(self, branch: _Branch, key: str, kind: type[TraceEvent]) -> list[Handler]:
        """What the folds of a key, which may be new, do with events of this type."""
        group = branch.groups.get(key)
        if group is None:
            group = branch.groups[key] = KeyGroup(branch.folds, key, self.profile, self._news, self._violated)
            group.hear()
        return group.handlers.get(kind, [])

    def _tell(self, event: Stamped) -> None:
        """Let every key know what concerns all of them."""
        self._news.append(event)
        for branch in self._branches.values():
            for group in branch.groups.values():
                group.hear()

    def _violated(self, finding: Finding) -> None:
        assert self._last is not None
        self.violated.setdefault(finding.invariant, self._last.wall)

    def feed_all(self, events: Iterable[Stamped]) -> None:
        """Take several events."""
        for event in events:
            self.feed(event)

    def key_results(self) -> list[KeyResult]:
        """End the trace: what was found at each key."""
        horizon_us = 0 if self._last is None else self._last.wall
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
