"""Drives the folds of one route at one key; the part that every engine shares."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Sequence
from typing import Any

from actors.trace.events import Stamped, TraceEvent
from orchestrator.invariants.conclusion import KeyResult, count
from orchestrator.invariants.fold import Deadline, Emissions, Finding, Profile
from orchestrator.invariants.registry import AnyFold


class Cell:
    """One fold at one key: its state, what it found, and its deadlines."""

    __slots__ = ("deadlines", "fold", "key", "results", "state")

    def __init__(self, fold: AnyFold, key: str, profile: Profile) -> None:
        self.fold = fold
        self.key = key
        self.state: Any = fold.initial(key, profile)
        self.results = {each.id: KeyResult(each.id, key) for each in fold.invariants}
        self.deadlines: list[Deadline] = []

    def take(self, emissions: Emissions) -> bool:
        """Enter what the fold emitted; whether a violation is among it."""
        violated = False
        for emission in emissions:
            if type(emission) is Deadline:
                insort(self.deadlines, emission)
            else:
                assert type(emission) is Finding
                count(self.results[emission.invariant], emission)
                violated = violated or emission.status == "violated"
        return violated

    def hear(self, event: Stamped) -> bool:
        """Take news of the whole run, if the fold wants to know; whether that found a violation."""
        if type(event.body) not in self.fold.news:
            return False
        violated = bool(self.deadlines) and self.pass_time(event.wall)
        return self.take(self.fold.hear(self.state, event)) or violated

    def pass_time(self, now_us: int) -> bool:
        """Expire the deadlines before ``now_us``; whether that found a violation."""
        violated = False
        while self.deadlines and self.deadlines[0].at_us < now_us:
            at_us = self.deadlines.pop(0).at_us
            violated = self.take(self.fold.expire(self.state, at_us)) or violated
        return violated

    def close(self, horizon_us: int) -> list[KeyResult]:
        """End of the trace."""
        self.pass_time(horizon_us + 1)
        self.take(self.fold.finish(self.state, horizon_us))
        for invariant, tested in self.fold.tested(self.state).items():
            self.results[invariant].tested = tested
        return list(self.results.values())


Handler = tuple[Callable[[Any, Stamped], Emissions], Any, Cell]


class KeyGroup:
    """The folds of one route at one key. ``handlers``: event type -> (step, state, cell) of the folds that take it.

    ``news``: what concerns every key, in the order of the trace; it may be longer than what the key has come to.
    """

    __slots__ = ("_heard", "_news", "cells", "handlers")

    def __init__(self, folds: Sequence[AnyFold], key: str, profile: Profile, news: Sequence[Stamped] = ()) -> None:
        self._news = news
        self._heard = 0
        self.cells = [Cell(fold, key, profile) for fold in folds]
        self.handlers: dict[type[TraceEvent], list[Handler]] = {}
        for cell in self.cells:
            for kind in cell.fold.event_types:
                self.handlers.setdefault(kind, []).append((cell.fold.step, cell.state, cell))

    def hear(self, before: Stamped | None = None) -> bool:
        """Give the folds the news from before an event (None: all); whether one found a violation."""
        violated = False
        while self._heard < len(self._news) and (before is None or self._news[self._heard].order < before.order):
            event = self._news[self._heard]
            self._heard += 1
            for cell in self.cells:
                violated = cell.hear(event) or violated
        return violated

    def step(self, event: Stamped) -> bool:
        """Give an event to its folds; whether one found a violation."""
        violated = self._heard < len(self._news) and self.hear(event)
        for step, state, cell in self.handlers.get(type(event.body), ()):
            if cell.deadlines:
                violated = cell.pass_time(event.wall) or violated
            emissions = step(state, event)
            if emissions:
                violated = cell.take(emissions) or violated
        return violated

    def close(self, horizon_us: int) -> list[KeyResult]:
        """End of the trace."""
        self.hear()
        return [result for cell in self.cells for result in cell.close(horizon_us)]
