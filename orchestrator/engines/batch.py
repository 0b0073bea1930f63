"""The engine that checks a collected trace in Spark, of any size: the same folds, over a shuffle.

Each event is sent to the keys of its routes, rows are repartitioned by (route, key) and sorted within partitions by
the trace's order, and one pass over each sorted partition drives the folds, a key after the other. No group is ever
held in memory, and nothing but findings and counts comes back to the driver.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa

from actors.trace.events import RunMeta, Stamped
from orchestrator.engines.key_group import KeyGroup
from orchestrator.engines.routing import (
    ROUTED_SCHEMA,
    EventRouter,
    Targets,
    branches,
    event_type_names,
    events_of,
    news_types,
)
from orchestrator.invariants.folds.conclusion import InvariantResult, KeyResult, conclude
from orchestrator.invariants.folds.fold import Finding, Profile, profile_of
from orchestrator.invariants.registry import folds, invariants_of
from orchestrator.trace.rows import ORDER_COLUMNS, decode_body

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

RESULT_SCHEMA = "invariant string, key string, tested bigint, counts string, findings string"

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
    return conclude(invariants_of(folds(only)), keyresults_batch(trace, profile, only), profile)


def trace_profile(trace: DataFrame) -> Profile:
    """The profile in the trace's ``run.meta`` event; an empty one if it has none."""
    from pyspark.sql import functions as f

    found = trace.where(f.col("type") == "run.meta").select("body").take(1)
    if not found:
        return Profile()
    body = decode_body(found[0]["body"])
    assert type(body) is RunMeta
    return profile_of(body.profile)


def keyresults_batch(trace: DataFrame, profile: Profile, only: Collection[str] | None = None) -> list[KeyResult]:
    """What was found at each key, in no particular order."""
    from pyspark.sql import functions as f

    chosen = None if only is None else sorted(only)
    types = event_type_names({kind for fold in folds(chosen) for kind in fold.event_types})
    horizon_us = trace.agg(f.max("wall")).first()[0] or 0  # type: ignore[index]  # an aggregate has one row
    routed = trace.where(f.col("type").isin(types)).mapInArrow(_router(chosen), ROUTED_SCHEMA)
    ordered = routed.repartition("route", "key").sortWithinPartitions("route", "key", *ORDER_COLUMNS)
    rows = ordered.mapInArrow(_folder(chosen, profile, horizon_us, _news(trace, chosen)), RESULT_SCHEMA).collect()
    return results_of(rows)


def results_of(rows: Iterable[Row]) -> list[KeyResult]:
    """The results in rows of ``RESULT_SCHEMA``."""
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

    types = event_type_names(news_types(only))
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


class _router:
    """Sends each row to the keys of its routes. A class, so that Spark ships names and not code."""

    def __init__(self, only: Sequence[str] | None) -> None:
        self.only = only

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        router = EventRouter(self.only)
        for batch in batches:
            targets = Targets()
            bodies = batch.column("body").to_pylist()
            for row, event in enumerate(events_of(batch, bodies)):
                router.route(targets, row, event, bodies[row])
            yield targets.batch(batch)


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
        known = branches(self.only)
        here: tuple[str, str] | None = None
        group: KeyGroup | None = None
        last: tuple[int, int, str, int, int] | None = None
        for batch in batches:
            routes, keys = batch.column("route").to_pylist(), batch.column("key").to_pylist()
            for row, event in enumerate(events_of(batch, batch.column("body").to_pylist())):
                at = (routes[row], keys[row])
                if at != here:
                    if group is not None:
                        yield results_batch(group.close(self.horizon_us))
                    group = KeyGroup(known[at[0]].folds, at[1], self.profile, self.news)
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
            yield results_batch(group.close(self.horizon_us))


def results_batch(results: Sequence[KeyResult]) -> pa.RecordBatch:
    """Results as rows of ``RESULT_SCHEMA``."""
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
