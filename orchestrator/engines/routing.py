"""Which folds take which events, by route."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from actors.trace.events import EVENT_TYPES
from orchestrator.invariants.folds.fold import Route
from orchestrator.invariants.registry import AnyFold, folds


class Branch:
    """One route with its folds; ``types``: of the events they take."""

    def __init__(self, route: Route) -> None:
        self.route = route
        self.folds: list[AnyFold] = []
        self.types: set[type[Any]] = set()


def branches(only: Sequence[str] | None) -> dict[str, Branch]:
    """Name of a route -> the route, with the folds of some invariants (None: all)."""
    found: dict[str, Branch] = {}
    for fold in folds(only):
        branch = found.setdefault(fold.route.name, Branch(fold.route))
        branch.folds.append(fold)
        branch.types.update(fold.event_types)
    return found


def news_types(only: Sequence[str] | None) -> set[type[Any]]:
    """Types of the events that concern every key of some fold."""
    return {kind for fold in folds(only) for kind in fold.news}


def listening(only: Sequence[str] | None) -> dict[type[Any], list[Branch]]:
    """Type of events -> the routes of which some fold takes them."""
    known = list(branches(only).values())
    return {kind: [branch for branch in known if kind in branch.types] for kind in EVENT_TYPES.values()}
