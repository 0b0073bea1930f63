"""The engine that checks a collected trace in Spark, of any size: the same folds, over a shuffle.

The keys of all routes are shared out among as many tasks as there are cores (``shares``), each event is sent to the
tasks that have a key of it, sorted there by the trace's order, and each task drives the folds of its keys as one
process drives all of them. What an event's columns tell decides where it goes: no event is looked at before a fold
takes it. No task holds more than the folds' own states, and nothing but findings and counts comes back to the driver.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa

from actors.trace.events import EVENT_TYPES, RunMeta, Stamped, Tick
from orchestrator.engines.in_process import InProcessEngine
from orchestrator.engines.shares import Shares, Targets, shared_out
from orchestrator.invariants.folds.conclusion import InvariantResult, KeyResult, conclude
from orchestrator.invariants.folds.fold import Finding, Kind, Profile, profile_of_run
from orchestrator.invariants.registry import folds, invariants_of
from orchestrator.trace.rows import ORDER_COLUMNS, decode_body

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

KIND_COLUMNS = ("type", "tp", "node", "origin")
"""What says, of the columns of an event, where it goes: those of ``Kind``."""

RESULT_SCHEMA = "invariant string, key string, tested bigint, counts string, findings string"

_FINDINGS: msgspec.json.Decoder[list[Finding]] = msgspec.json.Decoder(list[Finding])
NO_BODY = Tick()
"""In place of a body that nobody looks at."""
_COUNTS: msgspec.json.Decoder[dict[str, int]] = msgspec.json.Decoder(dict[str, int])


def check_trace(trace: DataFrame, only: Collection[str] | None = None) -> list[InvariantResult]:
    """Check the trace of one run: a DataFrame with the columns of ``orchestrator.trace.rows``, in any order.

    An event that is in it twice counts once. Gives what ``InProcessEngine`` gives for the same events.
    Raises ValueError for an unknown id in ``only``, OutOfOrder (inside Spark's exception) if rows come unsorted.
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
    return profile_of_run(body)


def keyresults_batch(trace: DataFrame, profile: Profile, only: Collection[str] | None = None) -> list[KeyResult]:
    """What was found at each key, in no particular order."""
    from pyspark.sql import functions as f

    chosen = None if only is None else sorted(only)
    origin = f.substring_index(f.coalesce("cause", f.lit("")), "/", 1)
    trace = trace.withColumns({"origin": origin, "tp": f.coalesce("tp", f.lit(""))})
    counted = trace.groupBy(*KIND_COLUMNS).agg(f.count("*").alias("count"), f.max("wall").alias("wall")).collect()
    if not counted:
        return []
    census = {_kind_of(row): row["count"] for row in counted}
    spark = trace.sparkSession
    shares = shared_out(census, spark.sparkContext.defaultParallelism, chosen)
    targets = Targets(shares, chosen)
    sent = [(*_row_of(kind), share, reads) for kind in census for share, reads in targets.of(kind).items()]
    table = spark.createDataFrame(
        sent, f"{', '.join(f'{name} string' for name in KIND_COLUMNS)}, share int, reads boolean"
    )
    routed = trace.join(f.broadcast(table), list(KIND_COLUMNS)).select(
        "share", *ORDER_COLUMNS, "cause", "req", f.when(f.col("reads"), f.col("body")).alias("body")
    )
    # A partition is a share. So its rows are sorted by their times first, as numbers, which Spark does without a look
    # at the rest of them.
    ordered = routed.repartitionById(shares.number, "share").sortWithinPartitions(*ORDER_COLUMNS)
    check = _Check(chosen, profile, shares, max(row["wall"] for row in counted))
    return results_of(ordered.mapInArrow(check, RESULT_SCHEMA).collect())


def _kind_of(row: Row) -> Kind:
    return Kind(EVENT_TYPES[row["type"]], row["tp"], row["node"], row["origin"])


def _row_of(kind: Kind) -> tuple[str, str, str, str]:
    return str(kind.type.__struct_config__.tag), kind.tp, kind.node, kind.origin


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


def events_of(batch: pa.RecordBatch) -> Iterator[Stamped]:
    """The events of rows; those that came without their bodies have none to speak of."""
    columns = (batch.column(name).to_pylist() for name in (*ORDER_COLUMNS, "cause", "req", "body"))
    for wall, logical, node, incarnation, seq, cause, req, text in zip(*columns, strict=True):
        body = NO_BODY if text is None else decode_body(text)
        yield Stamped("", node, incarnation, seq, wall, logical, cause or "", req or "", body)


class _Check:
    """Drives the folds of a share over its rows, which come in the trace's order: a partition has the rows of one
    share. A class, so that Spark ships names and not code."""

    def __init__(self, only: Sequence[str] | None, profile: Profile, shares: Shares, horizon_us: int) -> None:
        self.only = only
        self.profile = profile
        self.shares = shares
        self.horizon_us = horizon_us

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        engine = None
        for batch in batches:
            if engine is None and batch.num_rows:
                engine = self._engine(batch.column("share")[0].as_py())
            if engine is not None:
                engine.feed_all(events_of(batch))
        if engine is not None:
            yield results_batch(engine.key_results(self.horizon_us))

    def _engine(self, share: int) -> InProcessEngine:
        owner = self.shares.owner
        return InProcessEngine(self.only, self.profile, lambda route, key, fold: owner(route, key, fold) == share)


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
