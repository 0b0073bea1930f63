"""Live runs on a Ray whose nodes are tasks of a Spark session, one on each executor (``ray.util.spark``).

The session that carries Ray also checks the traces. A Ray node takes an executor's cores for as long as it lives, so:

* with three cores or more to an executor it takes more than half of them, which puts no two on one executor, and Spark
  works beside it. Ray is up until the command ends;
* with fewer it takes all, and Spark could do nothing but wait. Ray is up during a run, and gone while it is checked.
"""

from __future__ import annotations

import io
import logging
import os
import re
import secrets
import shutil
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from actors.control import Conductor
from chaos.errors import RunError
from orchestrator.clusters.base import Progress, RunOrder, RunOutcome, Say, say_nothing
from orchestrator.clusters.local_ray import FACTORY, MATCHER, OBJECT_STORE_BYTES
from orchestrator.clusters.ray_address import ENVIRONMENT, ON_LOOPBACK, RayAddressCluster
from orchestrator.clusters.security import is_loopback
from orchestrator.interrupts import Interrupts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_MASTER = "local-cluster[2,3,1024]"
"""Two executors on this machine, with a core each left for Spark. Cores are no more than places for tasks."""

MASTER_EXPECTED = "local-cluster[EXECUTORS,CORES,MEGABYTES], spark://HOST:PORT or yarn: a Spark with executors"
_LOCAL = re.compile(r"local-cluster\[\s*(?P<executors>[1-9]\d{0,2})\s*,\s*(?P<cores>[1-9]\d{0,2})\s*,\s*\d{3,6}\s*\]")
_ELSEWHERE = re.compile(r"spark://\S+:\d{1,5}(,\S+:\d{1,5})*|yarn")

LOOPBACK_ALIAS = "127.0.0.2"
"""The loopback under an address that Ray lets be. A Ray node on Spark takes 127.0.0.1 for the host's own address, and
the head, which is on the loopback, does not listen there."""

_MEMORY_BYTES = 4 << 30
_HEAP_BYTES = 1 << 30
_GONE_S = 30.0
_LOOK_S = 0.1
_QUIET = {
    "RAY_LOGGER_LEVEL": "error",
    # Between two Ray nodes on one machine, so that their ports do not collide; ours are on different executors.
    "RAY_ON_SPARK_RAY_WORKER_NODE_STARTUP_INTERVAL": "2",
    "RAY_ON_SPARK_DRIVER_PHYSICAL_MEMORY_BYTES": str(_MEMORY_BYTES),
    "RAY_ON_SPARK_DRIVER_SHARED_MEMORY_BYTES": str(_HEAP_BYTES),
    "RAY_OBJECT_STORE_ALLOW_SLOW_STORAGE": "1",
}


def is_master(master: str) -> bool:
    """Whether it has executors that Ray nodes can run on."""
    return bool(_LOCAL.fullmatch(master) or _ELSEWHERE.fullmatch(master))


def is_elsewhere(master: str) -> bool:
    """Whether its executors may be on other machines."""
    if _LOCAL.fullmatch(master):
        return False
    hosts = [each.rpartition(":")[0].strip("[]") for each in master.removeprefix("spark://").split(",")]
    return master == "yarn" or not all(map(is_loopback, hosts))


def spark_for_ray(master: str) -> SparkSession:
    """A session on ``master`` whose executors can carry Ray nodes. What Ray reads from the environment is set first, as
    the JVM and its executors inherit it. Raises RunError like ``spark_session``."""
    from orchestrator.engines.spark_session import spark_session

    local = _LOCAL.fullmatch(master)
    where = ON_LOOPBACK if local else {"RAY_AUTH_MODE": "token"} if is_elsewhere(master) else {}
    for name, value in (ENVIRONMENT | _QUIET | where).items():
        os.environ.setdefault(name, value)
    # Ray looks its own program up on PATH, where that of an environment which is not activated is not.
    beside = str(Path(sys.executable).parent)
    if beside not in os.environ.get("PATH", "").split(os.pathsep):
        os.environ["PATH"] = os.pathsep.join([beside, os.environ.get("PATH", os.defpath)])
    # Of the executors, too: those of a Spark that was there have the PATH of its workers.
    settings = {"spark.executorEnv.PATH": os.environ["PATH"], **_token()}
    if local:
        # Ray would take its size from the machine's, once for each executor.
        sizes = {
            "RAY_ON_SPARK_WORKER_CPU_CORES": local["cores"],
            "RAY_ON_SPARK_WORKER_GPU_NUM": "0",
            "RAY_ON_SPARK_WORKER_PHYSICAL_MEMORY_BYTES": str(_MEMORY_BYTES),
            "RAY_ON_SPARK_WORKER_SHARED_MEMORY_BYTES": str(_HEAP_BYTES),
        }
        settings |= {f"spark.executorEnv.{name}": value for name, value in sizes.items()}
        settings["spark.task.maxFailures"] = "1"
    if not is_elsewhere(master):
        settings |= {"spark.driver.host": LOOPBACK_ALIAS, "spark.driver.bindAddress": LOOPBACK_ALIAS}
    return spark_session(master, more=settings)


def _token() -> dict[str, str]:
    """Let Ray ask for a token, made for this command, where it is to ask for one; what the executors must know of it.
    Spark shows no setting that has "token" in its name."""
    if os.environ.get("RAY_AUTH_MODE") != "token":
        return {}
    os.environ.pop("RAY_AUTH_TOKEN_PATH", None)
    os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
    return {f"spark.executorEnv.{name}": os.environ[name] for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN")}


class RayOnSparkCluster(RayAddressCluster):
    """Ray on the executors of a session, which is asked for when Ray comes up. One at a time in a process."""

    def __init__(
        self,
        spark: Callable[[], SparkSession],
        factory: str = FACTORY,
        matcher: str = MATCHER,
        tls: str | None = None,
        insecure: bool = False,
    ) -> None:
        super().__init__("", factory, matcher, tls, insecure)
        self._spark = spark
        self._room = False
        self._stdout: TextIO | None = None
        self._folder: Path | None = None

    def __enter__(self) -> RayOnSparkCluster:
        self._stdout, sys.stdout = sys.stdout, _Mine(sys.stdout)
        try:
            self._bring_up()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        try:
            self._take_down()
        finally:
            if self._stdout is not None:
                sys.stdout, self._stdout = self._stdout, None

    def run(
        self, order: RunOrder, conductor: Conductor, progress: Progress | None = None, say: Say = say_nothing
    ) -> RunOutcome:
        """See ``orchestrator.clusters.base.Cluster.run``. Afterwards Spark has cores to check the trace with."""
        if not self._address:
            say("starting Ray on the executors again, which takes half a minute")
            self._bring_up()
        try:
            return super().run(order, conductor, progress, say)
        finally:
            if not self._room:
                self._take_down()

    def _bring_up(self) -> None:
        """Start Ray and join it. An interrupt waits until it is up, and takes it down again: interrupted earlier, Ray's
        head would stay."""
        spark = self._spark()
        executors, cores = _shape(spark)
        self._room = cores > 2
        with Interrupts() as interrupts:
            self._address = self._start_on(spark, executors, cores // 2 + 1 if self._room else cores)
            super().__enter__()
        if interrupts.asked:
            self._take_down()
            raise KeyboardInterrupt

    def _start_on(self, spark: SparkSession, nodes: int, cores: int) -> str:
        """Start a Ray of so many nodes besides its head; its address."""
        from ray.util.spark import setup_ray_cluster

        for name in ("ray", "ray.util.spark"):
            logging.getLogger(name).setLevel(logging.ERROR)
        # It warns of every job that ends, and they only end because they are told to.
        logging.getLogger("ray.autoscaler._private.spark.spark_job_server").disabled = True
        # By threads in which Ray starts its jobs; what they should inherit is the tags of a session, which has none.
        warnings.filterwarnings("ignore", "Spark session is not provided", UserWarning)
        # Short: below it are sockets, whose paths have an end at 107 characters.
        self._folder = Path(tempfile.mkdtemp(prefix="kr-", dir="/tmp"))
        local = _LOCAL.fullmatch(spark.sparkContext.master or "") is not None
        handler = signal.getsignal(signal.SIGTERM)
        try:
            address, _ = setup_ray_cluster(
                max_worker_nodes=nodes,
                num_cpus_worker_node=cores,
                num_gpus_worker_node=0,
                memory_worker_node=_HEAP_BYTES,
                object_store_memory_worker_node=OBJECT_STORE_BYTES,
                memory_head_node=_HEAP_BYTES,
                object_store_memory_head_node=OBJECT_STORE_BYTES,
                head_node_options={"include_dashboard": False},
                worker_node_options={"node_ip_address": LOOPBACK_ALIAS} if local else {},
                ray_temp_root_dir=str(self._folder),
            )
        except (RuntimeError, ValueError, OSError) as error:
            cause = error.__cause__ or error
            said = next((line for line in reversed(str(cause).splitlines()) if line.strip()), type(cause).__name__)
            raise RunError(f"Ray did not come up on the executors of {spark.sparkContext.master}: {said}") from error
        finally:
            signal.signal(signal.SIGTERM, handler)
        return str(address)

    def _take_down(self) -> None:
        """End Ray, and return when its processes on this machine are gone."""
        import ray

        self._address = ""
        with Interrupts() as interrupts:
            ray.shutdown()
            _shut_down()
            if self._folder is not None:
                _until_gone(self._folder)
                shutil.rmtree(self._folder, ignore_errors=True)
                self._folder = None
        if interrupts.asked:
            raise KeyboardInterrupt


def _shape(spark: SparkSession) -> tuple[int, int]:
    """How many executors a session has, and how many cores each."""
    context = spark.sparkContext
    local = _LOCAL.fullmatch(context.master or "")
    if local is not None:
        return int(local["executors"]), int(local["cores"])
    context.parallelize([0], 1).count()  # the first task starts when there is an executor
    known: Any = context._jsc.sc().statusTracker().getExecutorInfos()
    return max(1, len(known) - 1), int(context.getConf().get("spark.executor.cores") or 1)


def _shut_down() -> None:
    from ray.util.spark import shutdown_ray_cluster

    try:
        shutdown_ray_cluster()
    except RuntimeError:
        return  # there is none: it did not come up


def _until_gone(folder: Path) -> None:
    """Wait until the last Ray node of this machine has ended: it removes what they kept in the folder."""
    deadline = time.monotonic() + _GONE_S
    while any(each.is_dir() for each in folder.iterdir()) and time.monotonic() < deadline:
        time.sleep(_LOOK_S)


class _Mine(io.TextIOBase):
    """Stdout for the main thread alone. Ray copies what its head prints to stdout, from a thread of its own; results
    are all that belongs there."""

    def __init__(self, stdout: TextIO) -> None:
        self._stdout = stdout

    def write(self, text: str) -> int:
        if threading.current_thread() is threading.main_thread():
            return self._stdout.write(text)
        return len(text)

    def flush(self) -> None:
        self._stdout.flush()

    def fileno(self) -> int:
        return self._stdout.fileno()

    def isatty(self) -> bool:
        return self._stdout.isatty()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._stdout.encoding
