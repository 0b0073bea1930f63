"""One seed, one run: the same bytes in any process. ``KRIFT_SEEDS=50`` tries that many seeds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from actors.sim.digest import StepDigests
from chaos.nemesis import library
from orchestrator.campaigns.order import SimOrder
from orchestrator.repeats import repeat
from orchestrator.sim_run import run_in_sim
from tests.harness.fingerprints import DRAWN, Fingerprint

pytestmark = pytest.mark.unhurried

WHOLE = ("everything", "groups")
"""Nemeses that reach most parts of a cluster; what the others draw is further."""
SEEDS = range(1, 1 + int(os.environ.get("KRIFT_SEEDS", "2")))
ROOT = Path(__file__).parents[2]
ONE_PROCESS = pytest.mark.xdist_group("hashes")


@pytest.fixture(scope="session")
def left(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """What every seed leaves behind, and what nemeses draw, in two processes with different hashes of strings."""
    directories = []
    for hash_seed in ("1", "2"):
        directories.append(tmp_path_factory.mktemp(f"hashes-{hash_seed}-"))
        subprocess.run(
            [sys.executable, "-m", "tests.harness.fingerprints", str(directories[-1]), *map(str, SEEDS)],
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
            cwd=ROOT,
            check=True,
        )
    return directories


@ONE_PROCESS
def test_a_seed_is_the_same_run_whatever_the_hashes(left: list[Path]) -> None:
    """Shows that two processes with different hashes of strings take the same steps and leave the same trace for each
    seed, that seeds differ from one another, and which step differs first where this fails."""
    digests = set()
    for seed in SEEDS:
        one, other = (msgspec.json.decode((each / f"{seed}.json").read_bytes(), type=Fingerprint) for each in left)
        assert one.hash_of_a_word != other.hash_of_a_word, "the processes hash alike: nothing was compared"
        steps = [StepDigests.from_bytes((each / f"{seed}.steps").read_bytes()) for each in left]
        difference = steps[0].first_difference(steps[1])
        assert difference is None, f"seed {seed}: {difference}"
        assert (one.digest, one.end_us, one.messages, one.violated) == (
            other.digest,
            other.end_us,
            other.messages,
            other.violated,
        ), seed
        digests.add(one.digest)
    assert len(digests) == len(SEEDS)


@ONE_PROCESS
def test_a_nemesis_draws_the_same_whatever_the_hashes(left: list[Path]) -> None:
    """Shows that two processes with different hashes of strings draw the same scenarios for the same seeds."""
    one, other = ((each / DRAWN).read_text("utf-8") for each in left)
    assert one == other
    assert one


@pytest.mark.parametrize(
    "nemesis", [each if each in WHOLE else pytest.param(each, marks=pytest.mark.further) for each in library.names()]
)
def test_a_drawn_scenario_is_the_same_run_whatever_the_hashes(nemesis: str) -> None:
    """Shows the trace of a run of each nemesis, digested where it ran and where strings have other hashes."""
    run = run_in_sim(SimOrder(nemesis, seed=3).plan(), only=[])
    assert run.status == "completed"
    assert repeat(run.plan).digest == run.verdict.digest
