"""Live runs on a Ray whose nodes are tasks of Spark's executors."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from orchestrator.clusters.ray_on_spark import DEFAULT_MASTER, is_master
from orchestrator.run_dir import RunDir
from orchestrator.verdict import Verdict
from tests.integration.command import ROOT, Command

COMMAND = ("run", "kip-207", "--variant", "off", "--runtime", "live", "--json", "--cluster", "spark")
MASTER = ("--master", "local-cluster[2,1,1024]")
UP_S = 240.0
"""Ray itself waits 20 s for its head, however fast it is."""


def work() -> Path:
    """Where the executors of a local cluster have their working directories."""
    from pyspark.find_spark_home import _find_spark_home

    return Path(_find_spark_home()) / "work"


def by_executor(before: set[Path]) -> dict[Path, set[str]]:
    """Working directory of an executor that was not there before -> the nodes that keep their logs in it."""
    found: dict[Path, set[str]] = {}
    for logs in work().glob("app-*/*/krift-*/logs/node=*"):
        executor = logs.parents[2]
        if executor.parent not in before:
            found.setdefault(executor, set()).add(logs.name)
    return found


@pytest.mark.long
@pytest.mark.ray
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_nodes_run_on_the_executors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows that nodes are spread over the Ray nodes of two executors, each of which keeps their logs in a directory of
    its own, that they are fetched from there when the run is over, that the verdict of the same session is the one
    expected (offsets went backwards), that nothing but it is on stdout, and that nothing is left: no process and no
    directory."""
    # An executor's working directory is its own; relative paths lead there and nowhere else.
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--conf spark.executorEnv.TMPDIR=. pyspark-shell")
    before = set(work().glob("app-*"))
    command = Command(tmp_path, *COMMAND, *MASTER, "--out", str(tmp_path / "runs"))
    try:
        command.until(lambda: sum(map(len, by_executor(before).values())) == 10, UP_S)
        (first_at, first), (second_at, second) = by_executor(before).items()
        assert (len(first), len(second), first & second) == (5, 5, set())
        directory = RunDir((tmp_path / "runs" / "latest").resolve())
        assert [each.name for each in directory.logs.iterdir()] == ["node=driver"]
        assert command.end(UP_S) == 0, command.said()
        assert not [each for each in command.family if "SparkSubmit" in each.arguments], "its JVM is gone before it is"
        assert {each.name for each in directory.logs.iterdir()} == {"node=driver", *first, *second}
        verdict = msgspec.json.decode(command.stdout.read_text(), type=Verdict)
        assert (verdict.expected, verdict.runtime, verdict.must_happen["lagging-leader"]) == (True, "live", True)
        assert "H1" in {each.id for each in verdict.invariants if each.status == "violated"}
        assert directory.read_manifest().status == "completed"
        assert not command.left_over()
        assert first_at.parent == second_at.parent and not first_at.parent.exists()
    finally:
        command.kill_family()


@pytest.mark.long
@pytest.mark.ray
@pytest.mark.spark
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("mode", "is_it"), [("token", "closed"), ("disabled", "open")])
def test_a_token_is_made_for_a_ray_on_executors(mode: str, is_it: str) -> None:
    """Shows that a Ray on the executors asks for the token that was made for it where Ray is to ask for one, and that
    the executors know it."""
    environment = {**os.environ, "RAY_AUTH_MODE": mode, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", "tests.integration.guarded_ray"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=UP_S,
        check=False,
    )
    assert done.stdout.split()[-1:] == [is_it], done.stderr


@pytest.mark.parametrize(
    ("master", "carries"),
    [
        (DEFAULT_MASTER, True),
        ("local-cluster[2,1,1024]", True),
        ("spark://head:7077", True),
        ("yarn", True),
        ("local[2]", False),
        ("k8s://host", False),
        ("local-cluster[0,1,1024]", False),
    ],
)
def test_masters(master: str, carries: bool) -> None:
    """Shows that executors are needed, of a kind that Ray can be started on."""
    assert is_master(master) == carries
