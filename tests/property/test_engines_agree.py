"""The engines agree: one definition of an invariant gives the same findings wherever it runs."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import Phase, given, settings, strategies as st
from pyspark.errors import StreamingQueryException

from actors.trace.events import Stamped
from actors.trace.lines import encode_line
from orchestrator.clusters.local_ray import LocalRayCluster
from orchestrator.clusters.sim import SimCluster
from orchestrator.engines.batch import check_trace
from orchestrator.engines.in_process import check
from orchestrator.engines.shard import OtherLayout
from orchestrator.engines.streaming import (
    SHARDS,
    Progress,
    check_stream,
    chunks,
    feed,
    follow,
    parts,
    results as stream_results,
)
from orchestrator.invariants.folds.fold import Finding
from orchestrator.trace.read import TRACE, read_events
from orchestrator.trace.rows import COLUMNS, stamped_to_row
from orchestrator.trace.write import write_events
from tests.harness.pieces import recorded
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


@pytest.mark.long
@pytest.mark.ray
@pytest.mark.spark
@pytest.mark.timeout(300)
def test_spark_and_process_agree_on_a_live_run(spark: SparkSession, local_ray: LocalRayCluster, tmp_path: Path) -> None:
    """Shows that the engines agree on what real processes recorded, read by each in its own way: collected, or from the
    chunks of the nodes' logs."""
    case = CASES["leader-crash"]
    play(local_ray, case.plan(1), tmp_path / "run")
    in_spark = check_trace(spark.read.parquet(str(tmp_path / "run" / TRACE)))
    assert in_spark == check(read_events(tmp_path / "run"))
    assert in_spark == check_stream(chunks(spark, tmp_path / "run" / "logs"), tmp_path / "checkpoint")
    held = {each.id for each in in_spark if each.status == "held" and each.tested}
    assert set(case.plan(1).expect.held) <= held


def chunked(directory: Path, events: list[Stamped], files: int, stamp: int) -> None:
    """Write events, in the order given, as closed chunks that a stream takes one after the other, by their times."""
    size = len(events) // files + 1
    folder = directory / "logs" / "node=any"
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(files):
        path = folder / f"{stamp}-{number}.jsonl"
        path.write_bytes(b"".join(map(encode_line, events[number * size : (number + 1) * size])))
        os.utime(path, (stamp + number, stamp + number))


class Killed(Exception):
    """What ends the query of a test."""


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_a_stream_and_process_agree(spark: SparkSession, tmp_path: Path) -> None:
    """Shows that the streaming engine gives the results of the in-process engine for a run of the sim that violates
    H6, from chunks with events of any node in any order, some twice, and one node's after all others; and that a
    query which is killed in the middle goes on from its checkpoint as if nothing had been."""
    whole = list(recorded("parity/scenarios/leader-crash", "list-behind"))
    random = Random(1)
    early = [event for event in whole if event.node != "broker-2"]
    early += early[100:150]
    random.shuffle(early)
    late = [event for event in whole if event.node == "broker-2"]
    chunked(tmp_path, early, 3, stamp=1_000)
    told: list[str] = []

    def kill(violation: Finding) -> None:
        raise Killed(violation.invariant)

    checkpoint = tmp_path / "checkpoint"
    feed(chunks(spark, tmp_path / "logs", 3), checkpoint)
    chunked(tmp_path, late, 1, stamp=2_000)
    with pytest.raises(StreamingQueryException, match="Killed"):
        feed(chunks(spark, tmp_path / "logs", 1), checkpoint, tell=kill)
    feed(chunks(spark, tmp_path / "logs", 1), checkpoint, tell=lambda violation: told.append(violation.invariant))
    results = stream_results(spark, checkpoint)
    assert results == check(whole)
    assert "H6" in told
    assert {each.id: each.status for each in results}["H6"] == "violated"


ROCKS_DB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"


def encoders(spark: SparkSession) -> int:
    """How many last rows of shards RocksDB's store keeps."""
    jvm = spark._jvm
    assert jvm is not None
    store = jvm.java.lang.Class.forName(f"{ROCKS_DB}$")
    held = store.getDeclaredField("dataEncoderCache")
    held.setAccessible(True)
    cache = held.get(None)
    inner = cache.getClass().getDeclaredField("cache")
    inner.setAccessible(True)
    return int(inner.get(cache).size())


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.timeout(300)
def test_a_stream_that_is_followed(spark: SparkSession, tmp_path: Path) -> None:
    """Shows that a query which goes on as the trace grows gives the results of the in-process engine; that it says how
    far it is, from which files, and now and then all that it knows; and that it keeps no more with each micro-batch."""
    whole = list(recorded("parity/scenarios/leader-crash", "list-behind"))
    half = len(whole) // 2
    chunked(tmp_path, whole[:half], 2, stamp=1_000)
    told: list[str] = []
    batches: list[list[Progress]] = []
    spark.conf.set(PROVIDER, ROCKS_DB)
    try:
        before = encoders(spark)
        query = follow(
            chunks(spark, tmp_path / "logs", 1, age_max="1d"),
            tmp_path / "checkpoint",
            every_s=1,
            patience_us=-1,
            put_aside_us=2_000_000,
            tell=lambda violation: told.append(violation.invariant),
            watch=batches.append,
        )
        query.processAllAvailable()
        chunked(tmp_path, whole[half:], 2, stamp=2_000)
        query.processAllAvailable()
        query.stop()
        assert encoders(spark) == before + SHARDS
        assert stream_results(spark, tmp_path / "checkpoint") == check(whole)
    finally:
        spark.conf.unset(PROVIDER)
    assert "H6" in told
    assert [each.number for batch in batches for each in batch] == [*range(SHARDS)] * len(batches)
    files = [name for batch in batches for each in batch for name in each.chunks]
    assert len(batches) == 4
    assert {Path(name).name for name in files} == {path.name for path in (tmp_path / "logs").rglob("*.jsonl")}
    assert batches[-1][0].at_us == batches[-1][0].newest_us == whole[-1].wall
    aside = [[bool(each.saved) for each in batch] for batch in batches]
    assert aside[-1] == [True] * SHARDS
    assert all(len(set(batch)) == 1 for batch in aside)
    assert all(each.size > 1_000 for each in batches[-1])


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_a_stream_of_a_collected_trace(spark: SparkSession, tmp_path: Path) -> None:
    """Shows that a run without logs is streamed from its Parquet files, for some invariants if need be; that nothing
    gives what nothing gives; that a checkpoint is not read for other invariants; and that nothing is left behind
    in Spark."""
    events = list(recorded("parity/scenarios/steady"))
    write_events(tmp_path, events)
    checkpoint, only = tmp_path / "checkpoint", ["H1", "X4"]
    (tmp_path / "none").mkdir()
    assert check_stream(parts(spark, tmp_path / "none"), checkpoint) == check([])
    assert check_stream(parts(spark, tmp_path / TRACE), checkpoint, only) == check(events, only)
    open_jobs = spark.sparkContext._jsc.sc().dagScheduler().activeQueryToJobs()
    assert open_jobs.isEmpty(), "a process that looks again and again would keep all that it has ever read"
    with pytest.raises(OtherLayout, match=r"for H1, X4; this is .* all invariants"):
        check_stream(parts(spark, tmp_path / TRACE), checkpoint)
    with pytest.raises(ValueError, match="no such invariant: H99"):
        check_stream(parts(spark, tmp_path / TRACE), checkpoint, ["H99"])
