"""The message of a live run whose nodes did not start."""

from __future__ import annotations

import os

import pytest

from orchestrator.clusters.live_run import not_started


@pytest.mark.parametrize(
    ("load", "ending"),
    [(30.2, ": the machine is too busy, with a load of 30 on 2 cores"), (1.5, "")],
)
def test_a_busy_machine_is_named(monkeypatch: pytest.MonkeyPatch, load: float, ending: str) -> None:
    """Shows the nodes that are missing, and the load if it is higher than the cores can carry."""
    monkeypatch.setattr(os, "getloadavg", lambda: (load, load, load))
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    names = [f"broker-{number}" for number in range(1, 6)]
    assert not_started(names, 10) == (
        f"5 of 10 nodes did not start within 60 s (broker-1, broker-2, broker-3 and 2 more){ending}"
    )
