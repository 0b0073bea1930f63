"""Nodes are killed at drawn moments in the sim: each comes back from its disk, and nothing acknowledged is lost."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from orchestrator.clusters.sim import SimCluster
from tests.integration.kills import KILLS_PER_RUN, Killed, assert_survived

SIM_SEEDS = range(1, int(os.environ.get("KRIFT_KILL_SEEDS", "2")) + 1)


@pytest.mark.parametrize("seed", SIM_SEEDS)
def test_kills_in_the_sim(seed: int, tmp_path: Path) -> None:
    """Shows that in the sim ten crashes at drawn moments lose nothing that was acknowledged, and no event."""
    assert_survived(Killed(SimCluster(), seed, KILLS_PER_RUN, tmp_path), KILLS_PER_RUN)
