"""The engine that checks a collected trace in Spark, of any size: the same folds, over a shuffle.

Each event is sent to the keys of its routes, rows are repartitioned by (route, key) and sorted within partitions by
the trace's order, and one pass over each sorted partition drives the folds, a key after the other. No group is ever
held in memory, and nothing but findings and counts comes back to the driver.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from actors.trace.events import EVENT_TYPES, RunMeta, Stamped, Tick
from orchestrator.engines.key_group import KeyGroup
from orchestrator.invariants.conclusion import InvariantResult, KeyResult, conclude
from orchestrator.invariants.fold import Finding, Profile, Route, profile_of
from orchestrator.invariants.registry import AnyFold, folds, invariants_of
from orchestrator.trace.rows import ORDER_COLUMNS, decode_body, encode_body

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ROUTED_SCHEMA = (
    "route string, key string, wall bigint, logical bigint, node string, incarnation bigint, seq bigint, "
    "run string, cause string, req string, body string"
)
_RESULT_SCHEMA = "invariant string, key string, tested bigint, counts string, findings string"
_NO_BODY = encode_body(Tick())

_FINDINGS: msgspec.json.Decoder[list[Finding]] = msgspec.json.Decoder(list[Finding])
_COUNTS: msgspec.json.Decoder[dict[str, int]] = msgspec.json.Decoder(dict[str, int])


class OrderBroken(AssertionError):
    """Spark handed over rows of one key out of order."""


def check_trace(trace: DataFrame, only: Collection[str] | None = None) -> list[InvariantResult]:
    """Check the trace of one run: a DataFrame with the columns of ``orchestrator.trace.rows``, in any order.

    An event that is in it twice counts once. Gives what ``InProcessEngine`` gives for the same events.
    Raises ValueError for an unknown id in ``only``, OrderBroken (inside Spark's exception) if rows come unsorted.
    """
    profile = trace_profile(trace)
    return conclude(invariants_of(folds(only)), key_results(trace, profile, only), profile)


def trace_profile(trace: DataFrame) -> Profile:
    """The profile in the trace's ``run.meta`` event; an empty one if it has none."""
    from pyspark.sql import functions as f

    found = trace.where(f.col("type") == "run.meta").select("body").take(1)
    if not found:
        return Profile()
    body = decode_body(found[0]["body"])
    assert type(body) is RunMeta
    return profile_of(body.profile)


def key_results(trace: DataFrame, profile: Profile, only: Collection[str] | None = None) -> list[KeyResult]:
    """What was found at each key, in no particular order."""
    from pyspark.sql import functions as f

    chosen = None if only is None else sorted(only)
    types = sorted({str(kind.__struct_config__.tag) for fold in folds(chosen) for kind in fold.event_types})
    horizon_us = trace.agg(f.max("wall")).first()[0] or 0  # type: ignore[index]  # an aggregate has one row
    routed = trace.where(f.col("type").isin(types)).mapInArrow(_router(chosen), _ROUTED_SCHEMA)
    ordered = routed.repartition("route", "key").sortWithinPartitions("route", "key", *ORDER_COLUMNS)
    rows = ordered.mapInArrow(_folder(chosen, profile, horizon_us, _news(trace, chosen)), _RESULT_SCHEMA).collect()
    return [
        KeyResult(
            row["invariant"],
            row["key"],
            row["tested"],
            _COUNTS.decode(row["counts"]),
            _FINDINGS.decode(row["findings"]),
        )
        for row in rows
    ]


def _news(trace: DataFrame, only: Sequence[str] | None) -> list[Stamped]:
    """The events that concern every key, in their order: few enough to go along with every task."""
    from pyspark.sql import functions as f

    types = sorted({str(kind.__struct_config__.tag) for fold in folds(only) for kind in fold.news})
    columns = [*ORDER_COLUMNS, "run", "cause", "req", "body"]
    rows = trace.where(f.col("type").isin(types)).select(*columns).collect() if types else []
    events = {}
    for row in rows:
        event = Stamped(
            row["run"],
            row["node"],
            row["incarnation"],
            row["seq"],
            row["wall"],
            row["logical"],
            row["cause"] or "",
            row["req"] or "",
            decode_body(row["body"]),
        )
        events[event.order] = event
    return [events[order] for order in sorted(events)]


class _Branch:
    """One route with its folds; ``types``: of the events they take."""

    def __init__(self, route: Route) -> None:
        self.route = route
        self.folds: list[AnyFold] = []
        self.types: set[type[Any]] = set()


def _branches(only: Sequence[str] | None) -> dict[str, _Branch]:
    branches: dict[str, _Branch] = {}
    for fold in folds(only):
        branch = branches.setdefault(fold.route.name, _Branch(fold.route))
        branch.folds.append(fold)
        branch.types.update(fold.event_types)
    return branches


class _router:
    """Sends each row to the keys of its routes. A class, so that Spark ships names and not code."""

    def __init__(self, only: Sequence[str] | None) -> None:
        self.only = only

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        listening: dict[type[Any], list[_Branch]] = {kind: [] for kind in EVENT_TYPES.values()}
        for branch in _branches(self.only).values():
            for kind in EVENT_TYPES.values():
                if kind in branch.types:
                    listening[kind].append(branch)
        for batch in batches:
            yield self._route(batch, listening)

    def _route(self, batch: pa.RecordBatch, listening: dict[type[Any], list[_Branch]]) -> pa.RecordBatch:
        routes: list[str] = []
        keys: list[str] = []
        bodies: list[str] = []
        rows: list[int] = []
        texts = batch.column("body").to_pylist()
        for row, event in enumerate(_events(batch, texts)):
            kind = type(event.body)
            for branch in listening[kind]:
                reads = branch.route.reads
                text = texts[row] if reads is None or kind in reads else _NO_BODY
                for key in branch.route.keys(event):
                    routes.append(branch.route.name)
                    keys.append(key)
                    bodies.append(text)
                    rows.append(row)
        taken = batch.select([*ORDER_COLUMNS, "run", "cause", "req"]).take(pa.array(rows, pa.int64()))
        columns = {"route": pa.array(routes, pa.string()), "key": pa.array(keys, pa.string())}
        for name in (*ORDER_COLUMNS, "run", "cause", "req"):
            column = taken.column(name)
            columns[name] = column.cast(pa.int64()) if pa.types.is_integer(column.type) else column
        columns["body"] = pa.array(bodies, pa.string())
        return pa.RecordBatch.from_pydict(columns)


class _folder:
    """Drives the folds over sorted rows, a key after the other."""

    def __init__(
        self, only: Sequence[str] | None, profile: Profile, horizon_us: int, news: Sequence[Stamped] = ()
    ) -> None:
        self.only = only
        self.profile = profile
        self.horizon_us = horizon_us
        self.news = news

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        branches = _branches(self.only)
        here: tuple[str, str] | None = None
        group: KeyGroup | None = None
        last: tuple[int, int, str, int, int] | None = None
        for batch in batches:
            routes, keys = batch.column("route").to_pylist(), batch.column("key").to_pylist()
            for row, event in enumerate(_events(batch, batch.column("body").to_pylist())):
                at = (routes[row], keys[row])
                if at != here:
                    if group is not None:
                        yield _results(group.close(self.horizon_us))
                    group = KeyGroup(branches[at[0]].folds, at[1], self.profile, self.news)
                    here, last = at, None
                order = event.order
                if last is not None and order <= last:
                    if order < last:
                        raise OrderBroken(f"{event.id} of {here} came after {last}")
                    continue  # the same event twice
                last = order
                assert group is not None
                group.step(event)
        if group is not None:
            yield _results(group.close(self.horizon_us))


def _events(batch: pa.RecordBatch, bodies: Sequence[str]) -> Iterator[Stamped]:
    runs = batch.column("run").to_pylist()
    nodes = batch.column("node").to_pylist()
    incarnations = batch.column("incarnation").to_pylist()
    seqs = batch.column("seq").to_pylist()
    walls = batch.column("wall").to_pylist()
    logicals = batch.column("logical").to_pylist()
    causes = batch.column("cause").to_pylist()
    requests = batch.column("req").to_pylist()
    for run, node, incarnation, seq, wall, logical, cause, req, body in zip(
        runs, nodes, incarnations, seqs, walls, logicals, causes, requests, bodies, strict=True
    ):
        yield Stamped(run, node, incarnation, seq, wall, logical, cause or "", req or "", decode_body(body))


def _results(results: Sequence[KeyResult]) -> pa.RecordBatch:
    encode = msgspec.json.encode
    return pa.RecordBatch.from_pydict(
        {
            "invariant": pa.array([each.invariant for each in results], pa.string()),
            "key": pa.array([each.key for each in results], pa.string()),
            "tested": pa.array([each.tested for each in results], pa.int64()),
            "counts": pa.array([encode(each.counts).decode() for each in results], pa.string()),
            "findings": pa.array([encode(each.findings).decode() for each in results], pa.string()),
        }
    )
