"""The one Spark session of a command: loopback only, quiet, sized for a laptop unless a master says otherwise."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import DEVNULL, Popen, TimeoutExpired
from typing import TYPE_CHECKING

import orchestrator
from chaos.errors import RunError
from orchestrator.interrupts import Interrupts
from orchestrator.reach import why_not_reached

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = "krift"
LOCAL = "local[2]"
SHUFFLE_PARTITIONS = 4
LOOPBACK = "127.0.0.1"
STANDALONE = "spark://"
END_S = 10.0
DRIVER_MEMORY = "2g"
"""Heap of the driver's JVM, at most: on a local master it sorts what is shuffled, too. With Spark's own 1g a JVM that
checked five million events as a stream was seen to end by itself, and another one's old generation to be full.
SPARK_DRIVER_MEMORY of the environment has precedence."""
NO_MORE: Mapping[str, str] = {}
QUICK: Mapping[str, str] = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    " -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
}
"""For a session that is wanted soon and for little: a JVM that compiles plainly takes half of the CPU time to come up
and to get through its first jobs, and a sixth less if it does not verify the bytecode of Spark's own 14,000 classes.
Jobs of minutes would take longer."""


def spark_session(
    master: str = LOCAL,
    shuffle_partitions: int = SHUFFLE_PARTITIONS,
    more: Mapping[str, str] = NO_MORE,
    heard: bool = False,
) -> SparkSession:
    """The running session, or a new one on ``master``, with ``more`` settings. The command that asks for it stops it at
    its end. ``heard``: what the JVM says goes where this process's errors go, as for one that nobody watches.

    On a local master everything binds to 127.0.0.1, there is no web interface, and Python workers import Krift from
    where this process did. A command that spark-submit started runs where spark-submit was told to. Raises RunError
    if no JVM comes up.
    """
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    if running is not None:
        return running
    _reach(master)
    settings = {**_settings(master, shuffle_partitions), **more}
    builder = SparkSession.builder.appName(NAME)
    if not submitted():
        builder = builder.master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        # Spark would leave a JVM behind, for good, if it were interrupted while it waits for it.
        with _handler_kept(), Interrupts() as interrupts:
            try:
                _launch_jvm(master, settings, heard)
                session = builder.getOrCreate()
                if master.startswith("local-cluster"):
                    atexit.register(_clear_work, session.sparkContext.applicationId)
            finally:
                _see_it_end()
    except PySparkRuntimeError as error:
        raise RunError(_no_jvm(error)) from None
    if interrupts.asked:
        session.stop()
        raise KeyboardInterrupt
    session.sparkContext.setLogLevel("ERROR")
    return session


def submitted() -> bool:
    """Whether spark-submit started this process. Its JVM is there already, with the master it was given."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def launch_ahead(more: Mapping[str, str] = NO_MORE) -> None:
    """Start the JVM of a local session to come, with the settings that it will have, if there is none. Raises RunError
    if none comes up."""
    from pyspark.errors import PySparkRuntimeError

    try:
        _launch_jvm(LOCAL, {**_settings(LOCAL, SHUFFLE_PARTITIONS), **more}, heard=False)
    except PySparkRuntimeError as error:
        raise RunError(_no_jvm(error)) from None
    finally:
        _see_it_end()


def _reach(master: str) -> None:
    """Raise RunError unless something listens at the address of a standalone master, or of one of several: Spark would
    go on trying for a minute, and then say so in the JVM's words."""
    if submitted() or not master.startswith(STANDALONE):
        return
    said = ""
    for place in master.removeprefix(STANDALONE).split(","):
        host, _, port = place.rpartition(":")
        said = why_not_reached(host.strip("[]"), int(port))
        if not said:
            return
    raise RunError(f"no Spark master at {master}: {said}; is it up, and is this its address?")


def _see_it_end() -> None:
    """Have the JVM ended with this process."""
    atexit.unregister(end_jvm)
    atexit.register(end_jvm)


def end_jvm() -> None:
    """End this process's JVM, if it has one, and wait until it is gone: left to itself it ends a moment after the
    process does. A later session starts another one."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    if gateway is None:
        return
    if SparkContext._active_spark_context is not None:
        SparkContext._active_spark_context.stop()
    process: Popen[bytes] | None = gateway.proc
    if process is None:  # spark-submit's own, which ends after this process
        return
    gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = None
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(END_S)
    except TimeoutExpired:
        process.kill()


def _clear_work(application: str) -> None:
    """Remove what the executors of a local cluster leave where Spark is installed: their working directories."""
    from pyspark.find_spark_home import _find_spark_home

    work = Path(_find_spark_home()) / "work"
    shutil.rmtree(work / application, ignore_errors=True)
    with suppress(OSError):  # not there, or somebody else's are in it
        work.rmdir()


def _no_jvm(error: Exception) -> str:
    home = os.environ.get("JAVA_HOME")
    java = f"JAVA_HOME is {home}" if home else f"java on PATH is {shutil.which('java') or 'not there'}"
    said = str(error).partition("\n")[0].rstrip(".")
    return f"Spark did not start: it needs Java 17 or newer, and {java} (Spark says: {said})"


@contextmanager
def _handler_kept() -> Iterator[None]:
    """A session that starts takes Ctrl-C for itself, to ask the JVM to cancel its jobs in the middle of whatever goes
    on. Here it stays with the command, which stops the session."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread() and before is not None:
            signal.signal(signal.SIGINT, before)


def _launch_jvm(master: str, settings: Mapping[str, str], heard: bool) -> None:
    """Start the JVM of this process, if there is none, with its stderr closed unless it is to be ``heard``: it greets
    with warnings that no setting can turn off, and what goes wrong in it comes back as an exception anyway, unless that
    is its own end. This process's own stays open."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if SparkContext._gateway is None:
        conf = SparkConf().setAppName(NAME).setAll(list(settings.items()))
        if not submitted():
            conf.setMaster(master)
        # Spark's own module has no types.
        gateway = launch_gateway(conf, {} if heard else {"stderr": DEVNULL})  # type: ignore[no-untyped-call]
        SparkContext._ensure_initialized(gateway=gateway, conf=conf)


def _settings(master: str, shuffle_partitions: int) -> dict[str, str]:
    settings = {
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(shuffle_partitions),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.adaptive.coalescePartitions.enabled": "false",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "4096",
    }
    if submitted():
        return settings
    settings |= {
        "spark.ui.enabled": "false",
        "spark.driver.memory": os.environ.get("SPARK_DRIVER_MEMORY", DRIVER_MEMORY),
    }
    if master.startswith("local"):
        root = str(Path(orchestrator.__file__).resolve().parents[1])
        known = os.environ.get("PYTHONPATH", "")
        settings |= {
            "spark.driver.host": LOOPBACK,
            "spark.driver.bindAddress": LOOPBACK,
            "spark.executorEnv.PYTHONPATH": f"{root}{os.pathsep}{known}" if known else root,
        }
    return settings
