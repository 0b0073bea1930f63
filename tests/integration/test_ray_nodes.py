"""A Ray cluster of three nodes that was there before: Krift as its job, and the death of one of its nodes."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path
from threading import Event

import msgspec
import pytest

from orchestrator.run_dir import RunDir
from orchestrator.verdict import Verdict
from tests.integration.command import ROOT, Command, conducted
from tests.integration.ray_nodes import ray_nodes

pytestmark = [pytest.mark.long, pytest.mark.ray, pytest.mark.spark, pytest.mark.timeout(900)]

UP_S = 300.0
HOSTS = ["127.0.0.1", "127.0.0.2", "127.0.0.3"]
LIVE = ("run", "kip-207", "--variant", "off", "--runtime", "live")


def test_a_job_runs_krift_on_its_cluster(tmp_path: Path) -> None:
    """Shows that a job which is submitted to Ray carries a run out on all nodes of its own cluster, and ends with the
    verdict."""
    code = "from orchestrator.cli.main import main; main()"
    words = shlex.join([sys.executable, "-c", code, *LIVE, "--out", str(tmp_path / "runs")])
    with ray_nodes(HOSTS, dashboard=True) as nodes:
        done = _submitted(nodes.jobs, tmp_path, "sh", "-c", f'exec {words} --cluster "$RAY_ADDRESS"')
    assert done.returncode == 0, done.stdout + done.stderr
    assert "violated, as expected" in done.stdout
    directory = RunDir((tmp_path / "runs" / "latest").resolve())
    assert directory.read_manifest().hosts == HOSTS
    verdict = msgspec.json.decode((directory.path / "verdict.json").read_bytes(), type=Verdict)
    assert verdict.expected


def _submitted(jobs: str, where: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """What became of a job. The agents of a cluster that has just begun may not be up, which the dashboard knows."""
    submit = [*(sys.executable, "-m", "ray.scripts.scripts", "job", "submit", "--address", jobs), "--"]
    for _ in range(30):
        done = subprocess.run(
            [*submit, *words],
            cwd=where,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=UP_S,
            check=False,
        )
        if "No available agent" not in done.stderr + done.stdout:
            return done
        Event().wait(1.0)
    raise AssertionError(done.stderr)


def test_a_ray_node_that_dies_is_no_verdict(tmp_path: Path) -> None:
    """Shows that a live run ends with exit 4 if one of its machines dies, and says whose records are lost; a broker
    that a fault kills would be judged."""
    runs = tmp_path / "runs"
    with ray_nodes(HOSTS) as nodes:
        command = Command(tmp_path, *LIVE, "--cluster", nodes.head, "--out", str(runs))
        try:
            command.until(conducted(runs), UP_S)
            nodes.kill(nodes.others[-1])
            assert command.end(UP_S) == 4, command.said()
            assert not command.left_over()
        finally:
            command.kill_family()
    assert "so the events recorded there are lost" in command.said()
    assert "Traceback" not in command.said()
    assert RunDir((runs / "latest").resolve()).read_manifest().status == "broken"
