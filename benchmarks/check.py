"""The checks: events a second in Spark on two cores, in batch and as a stream, beside the same folds in one process."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.figures import Figure, Goal, alternate
from benchmarks.sim import baseline
from chaos.conductor import ScenarioConductor
from orchestrator.clusters.base import RunOrder
from orchestrator.clusters.sim import SimCluster
from orchestrator.engines.batch import check_trace
from orchestrator.engines.in_process import InProcessEngine
from orchestrator.engines.spark_session import spark_session
from orchestrator.engines.streaming import check_stream, parts
from orchestrator.invariants.folds.conclusion import InvariantResult
from orchestrator.runner import warm_up
from orchestrator.trace.read import TRACE, read_events

CORES = 2
GOAL_FROM = 5_000_000
"""Events of a trace from which on the goal is meant: a smaller one is over before Spark has come to speed."""


def record(directory: Path, seconds: float) -> int:
    """Leave the trace of a ``baseline`` of ``seconds`` virtual seconds in a directory; how many events it has."""
    plan, cluster = baseline(seconds), SimCluster(keep=True)
    conductor = ScenarioConductor(plan)
    outcome = cluster.run(RunOrder("benchmark", plan, directory), conductor)
    assert conductor.status == "completed", outcome.detail
    return outcome.events


def figures(rounds: int, seconds: float) -> list[Figure]:
    """``seconds``: virtual ones of the run whose trace is checked, some four thousand events each."""
    spark = spark_session(f"local[{CORES}]")
    try:
        warm_up(spark)
        with tempfile.TemporaryDirectory() as folder:
            directory = Path(folder)
            events = record(directory, seconds)

            def in_one_process() -> list[InvariantResult]:
                engine = InProcessEngine()
                engine.feed_all(read_events(directory))
                return engine.results()

            def in_spark() -> list[InvariantResult]:
                return check_trace(spark.read.parquet(str(directory / TRACE)))

            def as_a_stream() -> list[InvariantResult]:
                with tempfile.TemporaryDirectory() as checkpoint:
                    return check_stream(parts(spark, directory / TRACE), Path(checkpoint))

            assert in_spark() == as_a_stream() == in_one_process(), "the engines do not agree: no figure means anything"
            plain = rate(in_one_process, events)
            batch, beside_batch = alternate(rate(in_spark, events), plain, rounds)
            stream, beside_stream = alternate(rate(as_a_stream, events), plain, rounds)
    finally:
        spark.stop()
    what, goal = f"check: {events:,} events", Goal("least", 1.5) if events >= GOAL_FROM else None
    yardstick = "the same folds in one process"
    return [
        Figure(f"{what} in Spark, {CORES} cores", "events/s", batch, yardstick, beside_batch, goal),
        Figure("  as a stream", "events/s", stream, yardstick, beside_stream),
    ]


def rate(check: Callable[[], list[InvariantResult]], events: int) -> Callable[[], float]:
    """Checks, and returns the events a second, by the wall clock."""

    def measured() -> float:
        began = time.perf_counter()
        check()
        return events / (time.perf_counter() - began)

    return measured
