"""``krift replay`` of a sim run."""

from __future__ import annotations

import json
from pathlib import Path

from orchestrator.clusters.sim import STEPS_FILE
from orchestrator.run_dir import RunDir
from tests.unit.cli.command import krift


def test_a_sim_run_is_the_same_again(kept_run: Path) -> None:
    """Shows that all steps are taken again without a difference."""
    ended = krift("replay", kept_run)
    assert ended.code == 0, ended.err
    assert "steps taken again, no difference" in ended.out


def test_the_state_at_a_moment(kept_run: Path) -> None:
    """Shows a node as it was at two moments of the virtual time."""
    states = []
    for moment in ("500", "1500"):
        ended = krift("replay", kept_run, "--node", "broker-1", "--at", moment)
        assert ended.code == 0, ended.err
        states.append(json.loads(ended.out))
    assert states[0] != states[1]


def test_damaged_digests_are_no_difference(run: Path) -> None:
    """Shows that a changed byte or a missing one in the digests of the steps is refused as damage, exit code 2."""
    path = run / STEPS_FILE
    whole = path.read_bytes()
    changed = bytearray(whole)
    changed[-1] ^= 1
    for data in (bytes(changed), whole[:-1], whole + b"\0"):
        path.write_bytes(data)
        ended = krift("replay", run)
        assert ended.code == 2
        assert f"{path}: not the digests of a run's steps: damaged, or cut short" in ended.err


def test_another_scenario_is_a_difference(run: Path) -> None:
    """Shows that a run which is not the recorded one is told by its first step that differs, exit code 4."""
    directory = RunDir(run)
    text = directory.scenario.read_text(encoding="utf-8")
    directory.scenario.write_text(text.replace("seed: 3\n", "seed: 4\n"), encoding="utf-8")
    ended = krift("replay", run)
    assert ended.code == 4
    assert "of the replay differs from the run" in ended.err


def test_an_interrupted_run_is_replayed_as_far_as_it_went(run: Path) -> None:
    """Shows that the replay of an interrupted run ends after its last step, and asks nothing of what comes later."""
    directory = RunDir(run)
    manifest = directory.read_manifest()
    manifest.status, manifest.digest = "interrupted", "another"
    directory.write_manifest(manifest)
    ended = krift("replay", run)
    assert ended.code == 0, ended.err
    assert "no difference; up to its interruption" in ended.out
