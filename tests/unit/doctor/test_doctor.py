"""``krift doctor``: each thing that can be wrong is found, and told with a remedy."""

from __future__ import annotations

import importlib.metadata
import json
import os
import resource
import shutil
import sys
import threading
from pathlib import Path

import pyspark
import pytest

from orchestrator.doctor import machine, software, spark, trial
from orchestrator.doctor.base import Check
from orchestrator.engines import spark_session
from orchestrator.version import __version__
from tests.unit.cli.command import krift, scenario

FAILS = """
expect: {violated: [T2]}
"""


def java_that_says(directory: Path, text: str) -> Path:
    """A JAVA_HOME whose java says this."""
    (directory / "bin").mkdir(parents=True)
    java = directory / "bin" / "java"
    java.write_text(f"#!/bin/sh\necho '{text}' >&2\n")
    java.chmod(0o755)
    return directory


def assert_wrong(check: Check, status: str, found: str) -> None:
    """It was found, and there is a remedy."""
    assert check.status == status, check
    assert found in check.found
    assert check.remedy


def test_a_machine_that_is_ready(tmp_path: Path) -> None:
    """Shows the answer on the machine that runs the tests, which has what Krift needs: every check by name, exit 0."""
    ended = krift("doctor", "--quick", "--json", "--out", tmp_path / "runs")
    told = json.loads(ended.out)
    assert (ended.code, told["ready"]) == (0, True), ended.out
    names = [check["name"] for check in told["checks"]]
    assert names[:4] == ["Python", "packages", "wire", "Java"]
    assert all(check["remedy"] for check in told["checks"] if check["status"] != "ok")
    assert ended.err.count("\n") >= len(names)


def test_a_problem_makes_it_unready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows exit 4, the remedy below the problem, and a last line that counts."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    ended = krift("doctor", "--quick", "--out", tmp_path / "runs")
    assert ended.code == 4
    assert "problem  Java" in ended.out
    assert "-> install Java 17" in ended.out
    assert ended.out.splitlines()[-1].startswith("not ready: 1 problem, ")


def test_both_runtimes_and_spark_are_tried_at_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows that nobody waits for one of them before the next begins, that the sim's is told first, and that the JVM is
    ended beside them, once."""
    all_of_them = threading.Barrier(3, timeout=60)

    def tried(what: str) -> Check:
        all_of_them.wait()
        return Check(what, "ok", "tried out")

    monkeypatch.setattr(trial, "check_run", tried)
    monkeypatch.setattr(spark, "check_spark", lambda: tried("Spark"))
    ended_jvms: list[str] = []
    monkeypatch.setattr(spark_session, "end_jvm", lambda: ended_jvms.append(threading.current_thread().name))
    ended = krift("doctor", "--out", tmp_path / "runs")
    assert [line.split()[1] for line in ended.out.splitlines() if line.endswith("tried out")] == [
        "sim",
        "Spark",
        "live",
    ]
    assert ended.out.splitlines()[-1].endswith("both runtimes and Spark were tried")
    assert ended_jvms != [threading.current_thread().name]
    assert len(ended_jvms) == 1


def test_python_is_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows the version that was found."""
    monkeypatch.setattr(sys, "version_info", (3, 10, 4, "final", 0))
    assert_wrong(software.check_python(), "problem", "3.10.4")


def test_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows a package that is missing, one out of its range, one for another extra, and no installation at all."""
    needed = ["no-such-package>=1", "msgspec<0.1", 'pytest>=999; extra == "dev"', "click"]
    monkeypatch.setattr(importlib.metadata, "requires", lambda name: needed)
    check = software.check_packages()
    assert_wrong(check, "problem", "no-such-package is missing; msgspec is ")
    assert "pytest" not in check.found
    assert "click" not in check.found

    def missing(name: str) -> list[str]:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "requires", missing)
    assert_wrong(software.check_packages(), "warning", "not installed")


def test_generated_code_is_missing() -> None:
    """Shows what is told where proto/ was never compiled."""
    assert_wrong(software.check_generated("krift.v1.nothing_pb2"), "problem", "nothing_pb2")


@pytest.mark.parametrize(
    ("said", "found"),
    [('openjdk version "11.0.2"', "11 ("), ('java version "1.8.0_392"', "8 ("), ("gibberish", "gibberish")],
)
def test_java_is_too_old(said: str, found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows both ways of numbering, and what is no Java."""
    monkeypatch.setenv("JAVA_HOME", str(java_that_says(tmp_path / "java", said)))
    assert_wrong(software.check_java(), "problem", found)


def test_java_of_java_home_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows that it is the Java that Spark would take, wherever another may be."""
    monkeypatch.setenv("JAVA_HOME", str(java_that_says(tmp_path / "java", 'openjdk version "21.0.1"')))
    assert software.check_java() == Check("Java", "ok", f"21 ({tmp_path / 'java' / 'bin' / 'java'})")


def test_there_is_no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Shows a PATH without one."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert_wrong(software.check_java(), "problem", "none on PATH")


def test_variables_that_surprise() -> None:
    """Shows variables that redirect Spark or Ray, and a proxy that does not spare the loopback."""
    assert software.check_environment({"HOME": "/root"}).status == "ok"
    assert_wrong(software.check_environment({"SPARK_HOME": "/opt/spark"}), "warning", "SPARK_HOME=/opt/spark")
    assert_wrong(software.check_environment({"http_proxy": "http://proxy:1"}), "warning", "http_proxy is set")
    assert software.check_environment({"http_proxy": "http://proxy:1", "no_proxy": "127.0.0.1"}).status == "ok"


def test_a_small_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows one core, little memory, an unknown one, little shared memory, and few files."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0})
    assert_wrong(machine.check_cores(), "warning", "1")
    meminfo = tmp_path / "meminfo"
    assert_wrong(machine.check_memory(meminfo), "warning", "does not report")
    meminfo.write_text("MemTotal: 9000000 kB\nMemAvailable: 1048576 kB\n")
    assert_wrong(machine.check_memory(meminfo), "warning", "1.0 GiB free")
    assert_wrong(machine.check_shared_memory(tmp_path / "none"), "warning", "No such file")
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda place: usage._replace(free=1 << 20))
    assert_wrong(machine.check_shared_memory(tmp_path), "warning", "1 MiB free")
    assert_wrong(machine.check_disk(tmp_path / "runs", tmp_path), "problem", "0.0 GiB free")
    monkeypatch.setattr(shutil, "disk_usage", lambda place: usage._replace(free=9 << 30, used=usage.total))
    assert_wrong(machine.check_disk(tmp_path / "runs", tmp_path), "warning", "9.0 GiB free")
    monkeypatch.setattr(resource, "getrlimit", lambda which: (256, 256))
    assert_wrong(machine.check_files(), "warning", "at most 256")


def test_runs_cannot_be_written(tmp_path: Path) -> None:
    """Shows a place for runs that is a file."""
    (tmp_path / "file").touch()
    assert_wrong(machine.check_out(tmp_path / "file"), "problem", "no run can be kept there")


def test_an_address_that_cannot_be_served_on() -> None:
    """Shows what is told where a process may not serve (192.0.2.1 is nobody's, RFC 5737)."""
    assert_wrong(machine.check_loopback("192.0.2.1"), "problem", "192.0.2.1: ")


def test_a_run_shows_that_it_works(tmp_path: Path) -> None:
    """Shows the sim's trial, and what is told of one whose verdict is not as expected."""
    assert trial.check_run("sim").status == "ok"
    assert_wrong(trial.check_run("sim", scenario(tmp_path, FAILS)), "problem", "T2 was to be violated")


def test_spark_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Shows what is told where no JVM comes up."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert_wrong(
        spark.check_spark(), "problem", f"Spark did not start: it needs Java 17 or newer, and JAVA_HOME is {tmp_path}"
    )


@pytest.mark.spark
def test_spark_works() -> None:
    """Shows a job of Spark's with a Python worker that has Krift."""
    assert spark.check_spark() == Check(
        "Spark", "ok", f"{pyspark.__version__} on local[2], with Krift {__version__} in its Python workers"
    )
