"""The engines agree: one definition of an invariant gives the same findings wherever it runs."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from actors.trace.events import Stamped
from orchestrator.clusters.local_ray import LocalRayCluster
from orchestrator.clusters.sim import SimCluster
from orchestrator.engines.batch import check_trace
from orchestrator.engines.in_process import check
from orchestrator.trace.read import TRACE, read_events, write_events
from orchestrator.trace.rows import COLUMNS, stamped_to_row
from tests.parity.judged import play
from tests.parity.test_parity import CASES
from tests.unit.invariants.random_trace import random_trace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = (
    "run string, node string, incarnation int, seq bigint, wall bigint, logical bigint, type string, tp string, "
    "cause string, req string, body string"
)


def frame(spark: SparkSession, events: list[Stamped]) -> DataFrame:
    """A trace as a DataFrame, in the order given."""
    rows: list[tuple[Any, ...]] = []
    for event in events:
        row = stamped_to_row(event)
        rows.append(tuple(row[name] for name in COLUMNS))  # type: ignore[literal-required]
    return spark.createDataFrame(rows, SCHEMA)


def test_the_same_trace_gives_the_same_results_in_process() -> None:
    """Shows that order of arrival and repetition of events change nothing: the trace's own order decides."""
    for seed in range(20):
        events = random_trace(Random(seed), 300)
        shuffled = [*events, *events[:10]]
        Random(seed).shuffle(shuffled)
        assert check(shuffled) == check(events)


@pytest.mark.spark
@pytest.mark.timeout(300)
@settings(max_examples=4, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(seed=st.integers(0, 1 << 32))
def test_spark_and_process_agree(spark: SparkSession, seed: int) -> None:
    """Shows that the Spark batch gives the results of the in-process engine, from shuffled rows with repetitions."""
    random = Random(seed)
    events = random_trace(random, 1500)
    shuffled = [*events, *events[:20]]
    random.shuffle(shuffled)
    assert check_trace(frame(spark, shuffled)) == check(events)


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_spark_and_process_agree_on_a_split_trace(spark: SparkSession, tmp_path: Path) -> None:
    """Shows that it is all the same into how many files a trace is split, who lies in which, and that files overlap,
    as they do where a chunk was collected twice: the trace of a sim run that violates H1."""
    case = CASES["kip-207-off"]
    with SimCluster() as sim:
        run = play(sim, case.plan(1), tmp_path / "run")
    parts = [run.trace[:1000], [], run.trace[2500:][::-1], run.trace[900:2600]]
    for number, part in enumerate(parts):
        write_events(tmp_path / f"part-{number}", part)
    trace = spark.read.parquet(*(str(tmp_path / f"part-{number}" / TRACE) for number in range(len(parts))))
    results = check_trace(trace.repartition(7, "seq"))
    assert results == check(run.trace)
    assert {each.id: each.status for each in results}["H1"] == "violated"


@pytest.mark.spark
def test_spark_and_process_agree_on_what_is_missing(spark: SparkSession) -> None:
    """Shows that both engines say the same of a trace that lacks events, and of none at all."""
    events = random_trace(Random(3), 400)
    holed = [event for number, event in enumerate(events) if number % 97 != 50]
    assert check_trace(frame(spark, holed)) == check(holed)
    assert "inconclusive" in {each.status for each in check(holed)}
    assert check_trace(frame(spark, [])) == check([])


@pytest.mark.ray
@pytest.mark.spark
@pytest.mark.timeout(300)
def test_spark_and_process_agree_on_a_live_run(spark: SparkSession, local_ray: LocalRayCluster, tmp_path: Path) -> None:
    """Shows that the engines agree on what real processes recorded, read by each in its own way."""
    case = CASES["leader-crash"]
    play(local_ray, case.plan(1), tmp_path / "run")
    in_spark = check_trace(spark.read.parquet(str(tmp_path / "run" / TRACE)))
    assert in_spark == check(read_events(tmp_path / "run"))
    held = {each.id for each in in_spark if each.status == "held" and each.tested}
    assert set(case.plan(1).expect.held) <= held
