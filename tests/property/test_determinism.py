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
from tests.harness.fingerprints import Fingerprint

SEEDS = range(1, 1 + int(os.environ.get("KRIFT_SEEDS", "2")))
ROOT = Path(__file__).parents[2]


def run_all(directory: Path, hash_seed: str) -> dict[int, Fingerprint]:
    """Every seed in a process of its own hashes."""
    directory.mkdir()
    subprocess.run(
        [sys.executable, "-m", "tests.harness.fingerprints", str(directory), *map(str, SEEDS)],
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
        cwd=ROOT,
        check=True,
    )
    return {seed: msgspec.json.decode((directory / f"{seed}.json").read_bytes(), type=Fingerprint) for seed in SEEDS}


@pytest.mark.timeout(60 + 10 * len(SEEDS))
def test_a_seed_is_the_same_run_whatever_the_hashes(tmp_path: Path) -> None:
    """Shows that two processes with different hashes of strings take the same steps and leave the same trace for each
    seed, that seeds differ from one another, and which step differs first where this fails."""
    first, second = run_all(tmp_path / "1", "1"), run_all(tmp_path / "2", "2")
    for seed in SEEDS:
        one, other = first[seed], second[seed]
        assert one.hash_of_a_word != other.hash_of_a_word, "the processes hash alike: nothing was compared"
        steps = [StepDigests.from_bytes((tmp_path / name / f"{seed}.steps").read_bytes()) for name in ("1", "2")]
        difference = steps[0].first_difference(steps[1])
        assert difference is None, f"seed {seed}: {difference}"
        assert (one.digest, one.end_us, one.messages, one.violated) == (
            other.digest,
            other.end_us,
            other.messages,
            other.violated,
        ), seed
    assert len({found.digest for found in first.values()}) == len(SEEDS)


DRAWING = """
from chaos.nemesis.library import names
from orchestrator.campaigns.order import SimOrder
for name in names():
    for seed in (1, 2):
        print(SimOrder(name, seed=seed).plan().yaml())
"""


def test_a_nemesis_draws_the_same_whatever_the_hashes() -> None:
    """Shows that two processes with different hashes of strings draw the same scenarios for the same seeds."""
    drawn = {
        subprocess.run(
            [sys.executable, "-c", DRAWING],
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(drawn) == 1
    assert drawn != {b""}


@pytest.mark.parametrize("nemesis", library.names())
def test_a_drawn_scenario_is_the_same_run_whatever_the_hashes(nemesis: str) -> None:
    """Shows the trace of a run of each nemesis, digested where it ran and where strings have other hashes."""
    run = run_in_sim(SimOrder(nemesis, seed=3).plan())
    assert run.status == "completed"
    assert repeat(run.plan).digest == run.verdict.digest
