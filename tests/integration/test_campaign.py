"""Campaigns on Spark, as a user starts, kills and resumes them."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import msgspec
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from orchestrator.campaigns.directory import CampaignDir
from orchestrator.campaigns.summary import Report
from orchestrator.run_dir import RunDir
from tests.integration.command import Command, Process, descendants
from tests.unit.cli.command import krift, scenario

BROKEN = ("--defect", "leader-skips-offset", "--fresh")
JOB = 16
"""Runs that go to Spark together: 8 for each of two cores."""


@pytest.mark.spark
@pytest.mark.timeout(500)
def test_a_campaign_and_its_second_opinion(spark: SparkSession, tmp_path: Path) -> None:
    """Shows a campaign from its runs on executors to one object on stdout; that the failures it kept, checked again by
    the batch engine, give equal findings; that lost results are done again, and no others; and that a kept trace
    which says something else than its verdict does ends the campaign with 4."""
    out = ("--out", tmp_path / "runs")
    ended = krift("campaign", scenario(tmp_path), "--seeds", "3", *BROKEN, *out, "--json", "--quiet")
    first = msgspec.json.decode(ended.out, type=Report)
    assert (ended.code, first.exit_code, first.runs, first.violated) == (1, 1, 3, 3)
    assert (first.kept.failures, first.kept.rechecked, first.kept.repeated, first.kept.mismatches) == (3, 3, 3, [])
    [found] = first.signatures
    assert found.signature.startswith("P14: broker-# appended a batch")

    directory = CampaignDir(Path(first.directory))
    part = max(directory.results.iterdir())
    part.write_bytes(part.read_bytes()[:-1])
    kept = RunDir(directory.path / found.kept[0])
    [trace] = kept.trace.iterdir()
    table = pq.read_table(trace)
    at = table.column("type").to_pylist().index("send.return")
    pq.write_table(table.take([row for row in range(table.num_rows) if row != at]), trace)
    ended = krift("campaign", "--resume", "latest", *out, "--fresh", "--json", "--quiet")
    again = msgspec.json.decode(ended.out, type=Report)
    assert (ended.code, again.runs, len(list(directory.done()))) == (4, 3, 3)
    assert f"MISMATCH: {kept.path}: " in ended.err
    [mismatch] = again.kept.mismatches
    assert " in its process, " in mismatch


def _executors(command: Command) -> list[Process]:
    """JVMs of executors among the processes of a command."""
    return [each for each in descendants(command.process.pid) if "CoarseGrainedExecutorBackend" in each.arguments]


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.timeout(500)
def test_executors_and_drivers_may_die(tmp_path: Path) -> None:
    """Shows that runs of a killed executor are done again by another; that a campaign whose driver is killed goes on
    where it stopped, until a Ctrl-C ends it with 130; that no run is counted twice, and no process is left behind."""
    scenario(tmp_path)
    runs = tmp_path / "runs"

    def parts() -> int:
        return len(list(runs.glob("campaign-*/results/part-*.parquet")))

    def more_than(number: int) -> Callable[[], bool]:
        return lambda: parts() > number

    two = ("--master", "local-cluster[2,1,1024]")
    command = Command(tmp_path, "campaign", "small.yaml", "--seeds", "2000", "--fresh", *two)
    try:
        command.until(more_than(0))
        os.kill(min(each.pid for each in _executors(command)), signal.SIGKILL)
        command.until(more_than(parts() + 3))
        command.process.kill()
        command.wait_for_end(20)
        assert command.left_over() == []
    finally:
        command.kill_family()
    [directory] = [CampaignDir(path) for path in runs.glob("campaign-*")]
    seeds = {done.record.seed for done in directory.done()}
    assert set(range(1, max(seeds) - 3 * JOB)) <= seeds, "but for the jobs under way at the end, nothing is missing"

    command, before = Command(tmp_path, "campaign", "--resume", "latest", "--fresh"), parts()
    try:
        command.until(more_than(before))
        command.signal_group(signal.SIGINT)
        assert command.end() == 130, command.said()
        assert command.left_over() == []
    finally:
        command.kill_family()
    results = list(directory.done())
    assert [done.number for done in results] == list(range(1, len(results) + 1))
    assert len({done.record.seed for done in results}) == len(results) > len(seeds)
    assert {done.record.exit_code for done in results} == {0}
    assert f"{len(seeds):,} of 2,000 runs done already" in command.said()
    assert f"interrupted after {len(results):,} of 2,000 runs; the finished runs are kept" in command.said()
    assert "continue with  krift campaign --resume " in command.said()
