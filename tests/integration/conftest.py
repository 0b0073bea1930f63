"""Live runs that several tests look at, carried out once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.integration.kills import Killed

LiveKills = Callable[[int, int], Killed]
"""From a seed and a number of kills to the run with them."""


@pytest.fixture(scope="session")
def live_kills(tmp_path_factory: pytest.TempPathFactory) -> LiveKills:
    """Live runs of scenarios of kills; their directories are not to be changed."""
    from orchestrator.clusters.local_ray import LocalRayCluster

    done: dict[tuple[int, int], Killed] = {}

    def run(seed: int, kills: int) -> Killed:
        if (seed, kills) not in done:
            done[seed, kills] = Killed(LocalRayCluster(), seed, kills, tmp_path_factory.mktemp("kills"))
        return done[seed, kills]

    return run
