"""How a Spark session is started and interrupted, without one."""

from __future__ import annotations

import logging
import signal
import socket
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from chaos.errors import RunError
from orchestrator.cli.main import _silence_libraries
from orchestrator.engines import spark_session as module


class Session:
    """Stands in for a session. Like Spark's it takes Ctrl-C for itself when it is made."""

    applicationId = "app"

    def __init__(self, interrupted: bool) -> None:
        self.stopped = False
        if interrupted:
            signal.raise_signal(signal.SIGINT)
        signal.signal(signal.SIGINT, self.take)

    def take(self, *_: object) -> None:
        raise AssertionError("Spark's own handler is not to be heard")

    @property
    def sparkContext(self) -> Session:
        return self

    def setLogLevel(self, level: str) -> None:
        pass

    def stop(self) -> None:
        self.stopped = True


class Builder:
    """Stands in for Spark's."""

    def __init__(self, interrupted: bool) -> None:
        self.interrupted = interrupted
        self.made: list[Session] = []

    def appName(self, name: str) -> Builder:
        return self

    def master(self, url: str) -> Builder:
        return self

    def config(self, key: str, value: str) -> Builder:
        return self

    def getOrCreate(self) -> Session:
        self.made.append(Session(self.interrupted))
        return self.made[-1]


@pytest.fixture
def handler() -> Iterator[object]:
    """The handler that is there before."""
    before = signal.getsignal(signal.SIGINT)
    yield before
    signal.signal(signal.SIGINT, before)


def start(monkeypatch: pytest.MonkeyPatch, interrupted: bool) -> Builder:
    builder = Builder(interrupted)
    monkeypatch.setattr(SparkSession, "builder", builder)
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setattr(module, "_launch_jvm", lambda *_: None)
    monkeypatch.setattr(module.atexit, "register", lambda *_: None)
    return builder


def test_ctrl_c_stays_with_the_command(monkeypatch: pytest.MonkeyPatch, handler: object) -> None:
    """Shows that the handler which Spark sets for itself, and which calls the JVM in the middle of whatever goes on, is
    gone when the session is there."""
    builder = start(monkeypatch, interrupted=False)
    assert module.spark_session() is builder.made[0]
    assert signal.getsignal(signal.SIGINT) is handler


def test_ctrl_c_while_spark_starts(monkeypatch: pytest.MonkeyPatch, handler: object) -> None:
    """Shows that it is heard when the session is there, which is stopped then."""
    builder = start(monkeypatch, interrupted=True)
    with pytest.raises(KeyboardInterrupt):
        module.spark_session()
    assert builder.made[0].stopped
    assert signal.getsignal(signal.SIGINT) is handler


def test_what_libraries_log_is_not_printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Shows that an exception which a library logs, as Spark's does with a Ctrl-C that comes during a call, prints no
    traceback: the same comes as an exception, and the command tells it in a line."""
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    _silence_libraries()
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt:
        logging.exception("KeyboardInterrupt while sending command.")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("given", "heap"), [(None, "2g"), ("6g", "6g")])
def test_the_heap_of_the_driver(given: str | None, heap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows that the driver's JVM has more than Spark's own default, unless the environment says otherwise."""
    monkeypatch.delenv("SPARK_DRIVER_MEMORY", raising=False)
    if given is not None:
        monkeypatch.setenv("SPARK_DRIVER_MEMORY", given)
    assert module._settings("local[2]", 4)["spark.driver.memory"] == heap


@pytest.mark.parametrize("master", ["spark://127.0.0.1:1", "spark://127.0.0.1:1,127.0.0.1:2"])
def test_a_master_that_is_not_there_is_one_clear_error(master: str) -> None:
    """Shows that no JVM is started for a standalone master that nobody listens at: Spark would try for a minute."""
    with pytest.raises(RunError) as told:
        module.spark_session(master)
    assert str(told.value) == f"no Spark master at {master}: Connection refused; is it up, and is this its address?"


def test_one_of_several_masters_suffices() -> None:
    """Shows that masters that stand by for another are not looked for once one is there."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        module._reach(f"spark://127.0.0.1:1,127.0.0.1:{server.getsockname()[1]}")


def test_a_command_that_spark_submit_started_has_its_master(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows that neither a master nor what the JVM was started with is set a second time."""
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    module._reach("spark://127.0.0.1:1")
    assert module.submitted()
    assert not module._settings(module.LOCAL, 4).keys() & {
        "spark.driver.memory",
        "spark.driver.host",
        "spark.ui.enabled",
    }
