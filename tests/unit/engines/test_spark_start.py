"""How a Spark session is started and interrupted, without one."""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

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
    monkeypatch.setattr(module, "_launch_jvm", lambda master, settings: None)
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
