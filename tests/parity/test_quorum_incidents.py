"""An incident of the quorum on real processes: what the sim shows of it happens there, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.scenario.resolve import resolve
from chaos.sources import find
from orchestrator.clusters.local_ray import LocalRayCluster
from tests.parity.judged import play


@pytest.mark.ray
def test_nobody_compares_the_logs(local_ray: LocalRayCluster, tmp_path: Path) -> None:
    """Shows that live, too, a voter that was cut off keeps its own records where the others have others (Q6)."""
    plan = resolve(find("kip-595-divergence").loaded(7), "off", seed=7, settings=["duration=8s"])
    run = play(local_ray, plan, tmp_path / "live")
    assert run.verdict.expected, [*run.verdict.unexpected, *run.verdict.undecided]
    assert run.statuses["Q6"] == "violated"
