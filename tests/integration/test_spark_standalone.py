"""A Spark standalone cluster: campaigns, live runs and checks on it, and the death of one of its workers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from pyspark.find_spark_home import _find_spark_home

from orchestrator.campaigns.directory import CampaignDir
from orchestrator.run_dir import RunDir
from orchestrator.verdict import Verdict
from tests.integration.command import ROOT, Command, conducted
from tests.integration.standalone import LOOPBACK, standalone
from tests.unit.cli.command import scenario

pytestmark = [pytest.mark.long, pytest.mark.spark, pytest.mark.timeout(900)]

UP_S = 300.0
LIVE = ("run", "kip-207", "--variant", "off", "--runtime", "live", "--cluster", "spark", "--json")


def test_a_campaign_survives_the_death_of_a_worker(tmp_path: Path) -> None:
    """Shows that the runs of a worker that died are done again by the other one, each counted once, and that all go as
    expected. (So few of so small a scenario test too little for an outcome, hence 3.)"""
    scenario(tmp_path)
    runs = tmp_path / "runs"

    def parts() -> int:
        return len(list(runs.glob("campaign-*/results/part-*.parquet")))

    with standalone(tmp_path) as cluster:
        command = Command(
            tmp_path, "campaign", "small.yaml", "--seeds", "400", "--fresh", "--master", cluster.url, "--sample", "2"
        )
        try:
            command.until(lambda: parts() > 1, UP_S)
            cluster.workers[0].kill()
            assert command.end(UP_S) == 3, command.said()
            assert "400 as expected" in command.said()
            assert not command.left_over()
        finally:
            command.kill_family()
    [directory] = [CampaignDir(path) for path in runs.glob("campaign-*")]
    assert sorted(done.record.seed for done in directory.done()) == list(range(1, 401))


@pytest.mark.ray
def test_a_live_run_on_the_workers(tmp_path: Path) -> None:
    """Shows that nodes run on the workers' executors, that the incident happens there, and that a check that
    spark-submit starts on the same cluster judges the run in the same way."""
    runs = tmp_path / "runs"
    with standalone(tmp_path) as cluster:
        command = Command(tmp_path, *LIVE, "--master", cluster.url, "--out", str(runs))
        try:
            assert command.end(UP_S) == 0, command.said()
            assert not command.left_over()
        finally:
            command.kill_family()
        verdict = msgspec.json.decode(command.stdout.read_text(), type=Verdict)
        again = _submitted(cluster.url, "check", "latest", "--out", str(runs), "--engine", "spark", "--json")
    assert (verdict.expected, verdict.runtime) == (True, "live")
    other = msgspec.json.decode(again.splitlines()[-1], type=Verdict)
    assert [(each.id, each.status, each.tested) for each in verdict.invariants] == [
        (each.id, each.status, each.tested) for each in other.invariants
    ]


def _submitted(master: str, *words: str) -> str:
    """What a command says on stdout that spark-submit starts, below what its JVM says."""
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    settings = {
        "spark.driver.host": LOOPBACK,
        "spark.driver.bindAddress": LOOPBACK,
        "spark.executorEnv.PYTHONPATH": path,
    }
    more = [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
    script = str(ROOT / "k8s" / "image" / "krift_on_spark.py")
    done = subprocess.run(
        [f"{_find_spark_home()}/bin/spark-submit", "--master", master, *more, script, *words],
        env={**os.environ, "PYTHONPATH": path, "SPARK_LOCAL_IP": LOOPBACK, "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=UP_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.ray
def test_a_worker_that_dies_under_a_live_run_is_no_verdict(tmp_path: Path) -> None:
    """Shows that the run ends with 4, as a failure of the infrastructure: it was not carried out, or broke off, and has
    no verdict on the protocol."""
    runs = tmp_path / "runs"
    with standalone(tmp_path) as cluster:
        command = Command(tmp_path, *LIVE, "--master", cluster.url, "--out", str(runs))
        try:
            command.until(conducted(runs), UP_S)
            cluster.workers[1].kill()
            assert command.end(UP_S) == 4, command.said()
            assert not command.left_over()
        finally:
            command.kill_family()
    manifest = RunDir((runs / "latest").resolve()).read_manifest()
    assert manifest.status in ("not carried out", "broken"), manifest
