"""A session that comes up beside other work, without one."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from chaos.errors import RunError
from orchestrator import runner
from orchestrator.engines.spark_ahead import SparkAhead

WAIT_S = 60


class Session:
    """Stands in for a session. done: what was asked of it, in order."""

    def __init__(self) -> None:
        self.done: list[str] = []

    @property
    def sparkContext(self) -> Session:
        return self

    def cancelAllJobs(self) -> None:
        self.done.append("cancelled")

    def stop(self) -> None:
        self.done.append("stopped")


def test_it_comes_up_beside_other_work() -> None:
    """Shows that begin waits for nothing, that session waits until it is there, and that it is warmed up afterwards,
    in the same thread."""
    go, warm = threading.Event(), threading.Event()
    made, threads = Session(), []

    def start() -> Any:
        assert go.wait(WAIT_S)
        threads.append(threading.current_thread())
        return made

    def warm_up(session: Any) -> None:
        assert session is made
        threads.append(threading.current_thread())
        warm.set()

    ahead = SparkAhead(nothing, start, warm_up)
    ahead.begin()
    ahead.go_on()
    go.set()
    assert ahead.session() is made
    assert warm.wait(WAIT_S)
    ahead.end()
    assert made.done[-1] == "stopped"
    assert threads[0] is threads[1] is not threading.current_thread()
    assert not threads[0].is_alive()


def nothing() -> None:
    """Nothing to prepare."""


def test_it_is_only_prepared_until_there_are_cores_for_it() -> None:
    """Shows that it is started when it is told to go on, and not before; that an end in between starts nothing; and
    that what shows in the preparation that it cannot come up is known at once."""
    prepared, started = threading.Event(), threading.Event()

    def start() -> Any:
        started.set()
        return Session()

    ahead = SparkAhead(prepared.set, start, lambda session: None)
    ahead.begin()
    assert prepared.wait(WAIT_S)
    assert not started.is_set()
    ahead.go_on()
    assert started.wait(WAIT_S)
    ahead.end()

    started.clear()
    ended = SparkAhead(nothing, start, lambda session: None)
    ended.begin()
    ended.end()
    assert not started.is_set()

    def no_java() -> None:
        raise RunError("no Java")

    failing = SparkAhead(no_java, start, lambda session: None)
    failing.begin()
    failing._thread.join(WAIT_S)
    assert failing.failed
    assert not started.is_set()
    failing.end()


def test_what_keeps_it_from_starting_is_told_to_who_asks() -> None:
    """Shows that a failure is known, raises nothing by itself, and that who asks for the session is told, by another
    attempt in the foreground; that may also succeed."""
    attempts = 0

    def start() -> Any:
        nonlocal attempts
        attempts += 1
        if attempts < 3:
            raise RunError(f"no Java, attempt {attempts}")
        return Session()

    ahead = SparkAhead(nothing, start, lambda session: None)
    ahead.begin()
    with pytest.raises(RunError, match="attempt 2"):
        ahead.session()
    assert ahead.failed
    assert isinstance(ahead.session(), Session)
    ahead.end()


def test_who_ends_it_early_waits_for_no_warm_up() -> None:
    """Shows that what still starts is stopped once it is up, without a warm-up; and that a warm-up that goes on has its
    jobs cancelled before the session is stopped."""
    asked, go, made = threading.Event(), threading.Event(), Session()

    def start() -> Any:
        asked.set()
        assert go.wait(WAIT_S)
        return made

    ahead = SparkAhead(nothing, start, lambda session: session.done.append("warm"))
    ahead.begin()
    ahead.go_on()
    assert asked.wait(WAIT_S)
    ending = threading.Thread(target=ahead.end)
    ending.start()
    while not ahead._over.is_set():
        ending.join(0)
    go.set()
    ending.join(WAIT_S)
    assert made.done == ["cancelled", "stopped"]

    begun, cancelled = threading.Event(), threading.Event()
    made.done.clear()
    made.cancelAllJobs = cancelled.set  # type: ignore[method-assign]

    def warm_up(session: Any) -> None:
        begun.set()
        assert cancelled.wait(WAIT_S)
        raise RuntimeError("its job was cancelled")

    ahead = SparkAhead(nothing, lambda: made, warm_up)  # type: ignore[arg-type, return-value]
    ahead.begin()
    ahead.go_on()
    assert begun.wait(WAIT_S)
    ahead.end()
    assert made.done == ["stopped"]


def test_one_that_never_began_is_ended_at_once() -> None:
    """Shows that an end without a beginning waits for nothing."""
    SparkAhead(nothing, lambda: pytest.fail("started"), lambda session: None).end()


def test_a_warm_up_has_something_to_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows that the trace of a warm-up has an event, with all columns: of an empty one no Python worker is started."""
    made: list[tuple[Any, Any]] = []

    class Spark:
        def createDataFrame(self, rows: Any, schema: Any) -> Any:
            made.append((rows, schema))

    monkeypatch.setattr("orchestrator.engines.batch.check_trace", lambda trace: [])
    runner.warm_up(Spark())  # type: ignore[arg-type]
    [([row], schema)] = made
    assert len(row) == len(schema.fields)
    assert row[schema.fieldNames().index("type")] == "ctl.phase"
