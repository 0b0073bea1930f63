"""Sends the events of a trace to the keys of their routes, in Arrow batches: what both Spark engines begin with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from actors.trace.events import EVENT_TYPES, Stamped, Tick
from orchestrator.invariants.folds.fold import Route
from orchestrator.invariants.registry import AnyFold, folds
from orchestrator.trace.rows import ORDER_COLUMNS, decode_body, encode_body

ENVELOPE = (*ORDER_COLUMNS, "run", "cause", "req")
"""Columns that go along with every event, its body apart."""

ROUTED_SCHEMA = (
    "route string, key string, wall bigint, logical bigint, node string, incarnation bigint, seq bigint, "
    "run string, cause string, req string, body string"
)
_NO_BODY = encode_body(Tick())


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


def event_type_names(kinds: set[type[Any]]) -> list[str]:
    """As in the column ``type``."""
    return sorted(str(kind.__struct_config__.tag) for kind in kinds)


def events_of(batch: pa.RecordBatch, bodies: Sequence[str]) -> Iterator[Stamped]:
    """The events of a batch with the columns of ``ENVELOPE``."""
    columns = (batch.column(name).to_pylist() for name in (*ORDER_COLUMNS, "run", "cause", "req"))
    for wall, logical, node, incarnation, seq, run, cause, req, body in zip(*columns, bodies, strict=True):
        yield Stamped(run, node, incarnation, seq, wall, logical, cause or "", req or "", decode_body(body))


class Targets:
    """Where the events of one batch go, collected a target at a time: row numbers, with route, key and body."""

    def __init__(self) -> None:
        self.routes: list[str] = []
        self.keys: list[str] = []
        self.bodies: list[str] = []
        self.rows: list[int] = []

    def add(self, route: str, key: str, body: str, row: int) -> None:
        """One more target of a row."""
        self.routes.append(route)
        self.keys.append(key)
        self.bodies.append(body)
        self.rows.append(row)

    def batch(self, source: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of the source with their targets, in the columns of ``ROUTED_SCHEMA``."""
        taken = source.select(list(ENVELOPE)).take(pa.array(self.rows, pa.int64()))
        columns = {"route": pa.array(self.routes, pa.string()), "key": pa.array(self.keys, pa.string())}
        for name in ENVELOPE:
            column = taken.column(name)
            columns[name] = column.cast(pa.int64()) if pa.types.is_integer(column.type) else column
        columns["body"] = pa.array(self.bodies, pa.string())
        return pa.RecordBatch.from_pydict(columns)


class EventRouter:
    """Gives each event of a batch its targets."""

    def __init__(self, only: Sequence[str] | None) -> None:
        self._listening: dict[type[Any], list[Branch]] = {kind: [] for kind in EVENT_TYPES.values()}
        for branch in branches(only).values():
            for kind in EVENT_TYPES.values():
                if kind in branch.types:
                    self._listening[kind].append(branch)

    def route(self, targets: Targets, row: int, event: Stamped, body: str) -> None:
        """Add the targets of the event in a row."""
        kind = type(event.body)
        for branch in self._listening[kind]:
            reads = branch.route.reads
            text = body if reads is None or kind in reads else _NO_BODY
            for key in branch.route.keys(event):
                targets.add(branch.route.name, key, text, row)
