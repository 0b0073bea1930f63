"""The checks as a stream: events a second in Spark on two cores, beside the same folds in one process."""

from __future__ import annotations

import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.check import CORES, YARDSTICK, recorded_and_checked
from benchmarks.figures import Figure
from orchestrator.engines.streaming import check_stream, parts
from orchestrator.invariants.folds.conclusion import InvariantResult
from orchestrator.trace.read import TRACE


def figures(rounds: int, seconds: float) -> list[Figure]:
    """``seconds``: virtual ones of the run whose trace is checked, some four thousand events each."""
    events, values, beside = recorded_and_checked(as_a_stream, rounds, seconds)
    return [Figure(f"stream: {events:,} events in Spark, {CORES} cores", "events/s", values, YARDSTICK, beside)]


def as_a_stream(spark: SparkSession, directory: Path) -> list[InvariantResult]:
    """Spark Structured Streaming over the parts of the trace, with its checkpoint."""
    with tempfile.TemporaryDirectory() as checkpoint:
        return check_stream(parts(spark, directory / TRACE), Path(checkpoint))
