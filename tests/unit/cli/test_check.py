"""``krift check``: the engine that is chosen for a trace of this size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orchestrator.cli import check
from orchestrator.runner import check_in_process
from tests.unit.cli.command import krift


@pytest.fixture
def without_spark(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The engines that wanted a Spark session; they judge in this process instead."""
    wanted: list[str] = []

    def judged(directory: Any, plan: Any, engine: str, *_: Any) -> Any:
        wanted.append(engine)
        return check_in_process(directory, plan)

    monkeypatch.setattr(check, "_check_with_spark", judged)
    return wanted


def test_a_small_run_is_judged_in_this_process(run: Path, without_spark: list[str]) -> None:
    """Shows that a small run does not wait for a Spark session, and that none is spoken of."""
    ended = krift("check", run)
    assert (ended.code, without_spark) == (0, [])
    assert ended.err == f"checking {run.resolve()}\n"


def test_a_large_run_says_that_it_takes_spark(
    run: Path, without_spark: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shows that a run above the limit goes to Spark, and that the command says so before it waits."""
    monkeypatch.setattr(check, "IN_PROCESS_EVENTS", 10)
    ended = krift("check", run)
    assert (ended.code, without_spark) == (0, ["spark"])
    assert " events in Spark, which takes a while to start\n" in ended.err
