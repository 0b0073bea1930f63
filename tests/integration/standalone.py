"""A Spark standalone cluster on this machine: a master and workers, each a process of its own, on the loopback."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.integration.command import descendants

LOOPBACK = "127.0.0.1"
START_S = 120.0
_MASTER = re.compile(rb"spark://127\.0\.0\.1:\d+")
_REGISTERED = re.compile(rb"Successfully registered with master")


class Daemon:
    """A JVM of Spark's, with what it logs in a file."""

    def __init__(self, log: Path, *words: str) -> None:
        from pyspark.find_spark_home import _find_spark_home

        self.log = log
        with log.open("wb") as out:
            self.process = subprocess.Popen(
                [f"{_find_spark_home()}/bin/spark-class", *words],
                env={
                    **os.environ,
                    "PATH": _path_of_others(),
                    "SPARK_LOCAL_IP": LOOPBACK,
                    "SPARK_NO_DAEMONIZE": "1",
                    "PYSPARK_PYTHON": sys.executable,
                },
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def said(self, pattern: re.Pattern[bytes]) -> bytes:
        """What it logs that matches, as soon as it does."""
        deadline = time.monotonic() + START_S
        while (found := pattern.search(self.log.read_bytes())) is None:
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            select.select([], [], [], 0.1)
        return found[0]

    def kill(self) -> None:
        """End it with all that it started, as when its machine dies."""
        for each in [*descendants(self.process.pid)]:
            os.kill(each.pid, signal.SIGKILL)
        self.process.kill()
        self.process.wait()


def _path_of_others() -> str:
    """PATH as somebody has it who knows nothing of this environment of Python's."""
    own = str(Path(sys.executable).parent)
    return os.pathsep.join(each for each in os.environ.get("PATH", os.defpath).split(os.pathsep) if each != own)


class Standalone:
    """The master's URL, and the workers."""

    def __init__(self, url: str, workers: list[Daemon]) -> None:
        self.url, self.workers = url, workers


@contextmanager
def standalone(folder: Path, workers: int = 2, cores: int = 1) -> Iterator[Standalone]:
    """A cluster whose workers have so many cores, and 1 GiB each."""
    where = ("--host", LOOPBACK, "--port", "0", "--webui-port", "0")
    master = Daemon(folder / "master.log", "org.apache.spark.deploy.master.Master", *where)
    started: list[Daemon] = []
    try:
        url = master.said(_MASTER).decode()
        for number in range(1, workers + 1):
            kind = ("org.apache.spark.deploy.worker.Worker", "--host", LOOPBACK, "--webui-port", "0")
            size = ("--cores", str(cores), "--memory", "1g", "--work-dir", str(folder / f"worker-{number}"))
            started.append(Daemon(folder / f"worker-{number}.log", *kind, *size, url))
        for worker in started:
            worker.said(_REGISTERED)
        yield Standalone(url, started)
    finally:
        for daemon in [*started, master]:
            daemon.kill()
