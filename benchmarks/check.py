"""The checks in batch: events a second in Spark on two cores, beside the same folds in one process."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.figures import Figure, Goal, alternate
from benchmarks.sim import baseline
from chaos.conductor import ScenarioConductor
from orchestrator.clusters.base import RunOrder
from orchestrator.clusters.sim import SimCluster
from orchestrator.engines.batch import check_trace
from orchestrator.engines.in_process import InProcessEngine
from orchestrator.engines.spark_session import spark_session
from orchestrator.invariants.folds.conclusion import InvariantResult
from orchestrator.runner import warm_up
from orchestrator.trace.read import TRACE, read_events

CORES = 2
GOAL_FROM = 5_000_000
"""Events of a trace from which on the goal is meant: a smaller one is over before Spark has come to speed."""
YARDSTICK = "the same folds in one process"

Check = Callable[[SparkSession, Path], list[InvariantResult]]
"""Judges the trace of the run in a directory."""


def figures(rounds: int, seconds: float) -> list[Figure]:
    """``seconds``: virtual ones of the run whose trace is checked, some four thousand events each."""
    events, values, beside = recorded_and_checked(in_batch, rounds, seconds)
    goal = Goal("least", 1.5) if events >= GOAL_FROM else None
    return [Figure(f"check: {events:,} events in Spark, {CORES} cores", "events/s", values, YARDSTICK, beside, goal)]


def in_batch(spark: SparkSession, directory: Path) -> list[InvariantResult]:
    """A Spark job over the whole trace."""
    return check_trace(spark.read.parquet(str(directory / TRACE)))


def recorded_and_checked(check: Check, rounds: int, seconds: float) -> tuple[int, list[float], list[float]]:
    """The events of a run of ``seconds`` virtual seconds; the rates at which Spark and one process judge them."""
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        events = record(directory, seconds)
        return (events, *rates(check, directory, events, rounds))


def record(directory: Path, seconds: float) -> int:
    """Leave the trace of a ``baseline`` of ``seconds`` virtual seconds in a directory; how many events it has."""
    plan, cluster = baseline(seconds), SimCluster(keep=True)
    conductor = ScenarioConductor(plan)
    outcome = cluster.run(RunOrder("benchmark", plan, directory), conductor)
    assert conductor.status == "completed", outcome.detail
    return outcome.events


def rates(check: Check, directory: Path, events: int, rounds: int) -> tuple[list[float], list[float]]:
    """The events a second of a check in Spark, and of one process, in turns. Both must come to the same results."""
    results: list[list[InvariantResult]] = []

    def rate(judged: Callable[[], list[InvariantResult]]) -> float:
        began = time.perf_counter()
        results.append(judged())
        return events / (time.perf_counter() - began)

    spark = spark_session(f"local[{CORES}]")
    try:
        warm_up(spark)
        values, beside = alternate(
            lambda: rate(lambda: check(spark, directory)), lambda: rate(lambda: in_one_process(directory)), rounds
        )
    finally:
        spark.stop()
    assert all(each == results[0] for each in results), "the engines do not agree: no figure means anything"
    return values, beside


def in_one_process(directory: Path) -> list[InvariantResult]:
    """The yardstick."""
    engine = InProcessEngine()
    engine.feed_all(read_events(directory))
    return engine.results()
