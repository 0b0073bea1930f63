"""The engines agree: one definition of an invariant gives the same findings wherever it runs."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from actors.trace.events import Stamped
from orchestrator.engines.batch import check_trace
from orchestrator.engines.in_process import check
from orchestrator.engines.spark_session import spark_session
from orchestrator.trace.rows import COLUMNS, stamped_to_row
from tests.unit.invariants.random_trace import random_trace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = (
    "run string, node string, incarnation int, seq bigint, wall bigint, logical bigint, type string, tp string, "
    "cause string, req string, body string"
)


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """The module's session."""
    session = spark_session()
    yield session
    session.stop()


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
