"""Drives the folds of one route at one key; the part that every engine shares."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from actors.trace.events import Stamped, TraceEvent
from orchestrator.engines.saved import SavedCell, SavedGroup, load_state, save_state
from orchestrator.invariants.folds.conclusion import KeyResult, count
from orchestrator.invariants.folds.fold import Deadline, Emissions, Finding, Profile
from orchestrator.invariants.registry import AnyFold

Tell = Callable[[Finding], None]
"""Takes a violation as soon as it is found."""


def keep_quiet(violation: Finding) -> None:
    """Tell nobody: whoever ends the trace gets the results anyway."""


Arm = Callable[["Cell", int], None]
"""Is told that a cell has a deadline at a time (microseconds), to call its ``pass_time`` once that is over."""


def look_each_time(cell: Cell, at_us: int) -> None:
    """Do nothing: a KeyGroup looks at the deadlines of its cells before each event that they take."""


class Cell:
    """One fold at one key: its state, what it found, and its deadlines."""

    __slots__ = ("arm", "deadlines", "fold", "key", "results", "state", "tell")

    def __init__(
        self, fold: AnyFold, key: str, profile: Profile, tell: Tell = keep_quiet, arm: Arm = look_each_time
    ) -> None:
        self.fold = fold
        self.key = key
        self.tell = tell
        self.arm = arm
        self.state: Any = fold.initial(key, profile)
        self.results = {each.id: KeyResult(each.id, key) for each in fold.invariants}
        self.deadlines: list[Deadline] = []

    def saved(self) -> SavedCell:
        """All that the fold has come to."""
        return SavedCell(self.fold.name, save_state(self.state), list(self.results.values()), self.deadlines)

    def restore(self, saved: SavedCell, profile: Profile) -> None:
        """Go on from there."""
        assert saved.fold == self.fold.name, saved.fold
        self.state = load_state(saved.state, self.fold, self.key, profile)
        self.results = {each.invariant: each for each in saved.results}
        self.deadlines = saved.deadlines

    def take(self, emissions: Emissions, at_us: int) -> None:
        """Enter what the fold emitted at a time of the trace's clock."""
        for emission in emissions:
            if type(emission) is Deadline:
                insort(self.deadlines, emission)
                self.arm(self, emission.at_us)
            else:
                assert type(emission) is Finding
                count(self.results[emission.invariant], emission, at_us)
                if emission.status == "violated":
                    when = at_us if emission.at_us < 0 else emission.at_us
                    self.tell(msgspec.structs.replace(emission, at_us=when))

    def hear(self, event: Stamped) -> None:
        """Take news of the whole run, of a type that the fold wants to know of."""
        if self.deadlines:
            self.pass_time(event.wall)
        self.take(self.fold.hear(self.state, event), event.wall)

    def pass_time(self, now_us: int) -> None:
        """Expire the deadlines before ``now_us``."""
        while self.deadlines and self.deadlines[0].at_us < now_us:
            at_us = self.deadlines.pop(0).at_us
            self.take(self.fold.expire(self.state, at_us), at_us)

    def close(self, horizon_us: int) -> list[KeyResult]:
        """End of the trace."""
        self.pass_time(horizon_us + 1)
        self.take(self.fold.finish(self.state, horizon_us), horizon_us)
        for invariant, tested in self.fold.tested(self.state).items():
            self.results[invariant].tested = tested
        return list(self.results.values())


Handler = tuple[Callable[[Any, Stamped], Emissions], Any, Cell]


class KeyGroup:
    """The folds of one route at one key. ``handlers``: event type -> (step, state, cell) of the folds that take it.

    ``hearers``: type of news -> cells of the folds that want to know of it. ``news``: what concerns every key, in the
    order of the trace; it may be longer than what the key has come to.
    ``saved``: where to go on, of the same folds at the same key; the news up to there must be in ``news``.
    """

    __slots__ = ("_heard", "_news", "cells", "handlers", "hearers")

    def __init__(
        self,
        folds: Sequence[AnyFold],
        key: str,
        profile: Profile,
        news: Sequence[Stamped] = (),
        tell: Tell = keep_quiet,
        saved: SavedGroup | None = None,
        arm: Arm = look_each_time,
    ) -> None:
        self._news = news
        self._heard = 0
        self.cells = [Cell(fold, key, profile, tell, arm) for fold in folds]
        if saved is not None:
            self._heard = saved.heard
            for cell, each in zip(self.cells, saved.cells, strict=True):
                cell.restore(each, profile)
        self.handlers: dict[type[TraceEvent], list[Handler]] = {}
        self.hearers: dict[type[TraceEvent], list[Cell]] = {}
        for cell in self.cells:
            for kind in dict.fromkeys(cell.fold.news):
                self.hearers.setdefault(kind, []).append(cell)
            for kind in cell.fold.event_types:
                self.handlers.setdefault(kind, []).append((cell.fold.step, cell.state, cell))

    def saved(self) -> SavedGroup:
        """All that the folds have come to, the news they have heard included."""
        return SavedGroup(self._heard, [cell.saved() for cell in self.cells])

    @property
    def due_us(self) -> int:
        """The first moment that one of the folds waits for, -1 if none does."""
        return min((cell.deadlines[0].at_us for cell in self.cells if cell.deadlines), default=-1)

    def pass_time(self, now_us: int) -> None:
        """Hear all news, then expire the deadlines before ``now_us``: for when everything up to then has come."""
        self.hear()
        for cell in self.cells:
            cell.pass_time(now_us)

    def hear(self, before: Stamped | None = None) -> None:
        """Give the folds the news from before an event (None: all)."""
        while self._heard < len(self._news) and (before is None or self._news[self._heard].order < before.order):
            event = self._news[self._heard]
            self._heard += 1
            for cell in self.hearers.get(type(event.body), ()):
                cell.hear(event)

    def has_heard_all(self) -> None:
        """The news was compacted when it had heard all of it."""
        self._heard = len(self._news)

    def takers(self, kind: type[TraceEvent], case: str) -> list[Handler]:
        """Of the folds that take a type of events those that take a case of it ("" where it has none)."""
        return [
            handler
            for handler in self.handlers.get(kind, [])
            if (cases := handler[2].fold.cases.get(kind)) is None or case in cases
        ]

    def step(self, event: Stamped) -> None:
        """Give an event to its folds."""
        if self._heard < len(self._news):
            self.hear(event)
        for step, state, cell in self.handlers.get(type(event.body), ()):
            if cell.deadlines:
                cell.pass_time(event.wall)
            emissions = step(state, event)
            if emissions:
                cell.take(emissions, event.wall)

    def close(self, horizon_us: int) -> list[KeyResult]:
        """End of the trace."""
        self.hear()
        return [result for cell in self.cells for result in cell.close(horizon_us)]
