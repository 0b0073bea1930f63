"""How a local Ray is started, without one."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

from chaos.errors import RunError
from orchestrator.clusters.local_ray import LocalRayCluster


def failing(times: int, asked: list[str]) -> Callable[..., None]:
    """Ray's init, which gives up so often."""

    def init(**options: object) -> None:
        asked.append("init")
        if asked.count("init") <= times:
            raise Exception("The current node timed out during startup")

    return init


def test_ray_is_started_again_where_it_gave_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows that a Ray whose processes were too slow once is tidied up and started again."""
    asked: list[str] = []
    monkeypatch.setattr("ray.init", failing(1, asked))
    monkeypatch.setattr("ray.shutdown", lambda: asked.append("shutdown"))
    LocalRayCluster().__enter__()
    assert asked == ["init", "shutdown", "init"]


def test_ctrl_c_while_ray_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows that Ray is not cut short while it starts, which would leave processes of its behind: it comes up, or fails
    to, and goes again."""
    asked: list[str] = []
    monkeypatch.setattr("ray.shutdown", lambda: asked.append("shutdown"))
    for fails in (0, 1):
        start = failing(fails, asked)

        def interrupted(start: Callable[..., None] = start, **options: object) -> None:
            signal.raise_signal(signal.SIGINT)
            asked.append("signal heard")
            start(**options)

        monkeypatch.setattr("ray.init", interrupted)
        with pytest.raises(KeyboardInterrupt):
            LocalRayCluster().__enter__()
        assert asked == ["signal heard", "init", "shutdown"]
        asked.clear()


def test_a_ray_that_does_not_start_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows that after the second time a run cannot be carried out, with Ray's reason, and nothing is left of it."""
    asked: list[str] = []
    monkeypatch.setattr("ray.init", failing(2, asked))
    monkeypatch.setattr("ray.shutdown", lambda: asked.append("shutdown"))
    with pytest.raises(RunError, match="Ray did not start, twice: The current node timed out"):
        LocalRayCluster().__enter__()
    assert asked == ["init", "shutdown", "init", "shutdown"]
