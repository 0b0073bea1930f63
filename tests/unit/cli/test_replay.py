"""``krift replay`` of a sim run."""

from __future__ import annotations

import json
from pathlib import Path

from orchestrator.clusters.sim import STEPS_FILE
from orchestrator.run_dir import RunDir
from orchestrator.verdict import read_verdict
from tests.unit.cli.command import krift


def test_a_sim_run_is_the_same_again(run: Path) -> None:
    """Shows that all steps are taken again without a difference."""
    ended = krift("replay", run)
    assert ended.code == 0, ended.err
    assert "steps repeated, no difference" in ended.out


def test_a_replay_says_that_the_run_was_had_again(run: Path) -> None:
    """Shows X8 vacuous before a replay, held after it and for later checks, violated by another digest; in all forms of
    the verdict."""
    directory = RunDir(run)
    manifest = directory.read_manifest()
    manifest.repeated = ""
    directory.write_manifest(manifest)
    assert krift("check", run, "--engine", "in-process").code == 0

    def x8() -> tuple[str, int]:
        return next((each.status, each.tested) for each in read_verdict(directory).invariants if each.id == "X8")

    assert x8() == ("vacuous", 0)
    assert krift("replay", run).code == 0
    assert x8() == ("held", 1)
    assert krift("report", run, "--junit").out == directory.junit.read_text()
    assert krift("check", run, "--engine", "in-process").code == 0
    assert x8() == ("held", 1)
    manifest = directory.read_manifest()
    assert manifest.repeated == manifest.digest
    manifest.repeated = "0"
    directory.write_manifest(manifest)
    assert krift("check", run, "--engine", "in-process").code == 1
    assert x8() == ("violated", 1)


def test_the_state_at_a_moment(kept_run: Path) -> None:
    """Shows a node as it was at two moments of the virtual time."""
    states = []
    for moment in ("100", "800"):
        ended = krift("replay", kept_run, "--node", "broker-1", "--at", moment)
        assert ended.code == 0, ended.err
        states.append(json.loads(ended.out))
    assert states[0] != states[1]


def test_a_moment_since_time_0(kept_run: Path) -> None:
    """Shows that the report tells time 0, and that --at takes a moment of the scenario."""
    zero_ms = RunDir(kept_run).read_manifest().zero_ms
    assert f"time 0      {zero_ms} ms after the run's start; krift replay --at zero+MS" in krift("report", kept_run).out
    since_zero = krift("replay", kept_run, "--node", "broker-1", "--at", "zero+500")
    absolute = krift("replay", kept_run, "--node", "broker-1", "--at", str(zero_ms + 500))
    assert (since_zero.code, since_zero.out) == (0, absolute.out)


def test_a_moment_that_is_not_in_the_run(run: Path) -> None:
    """Shows what is told of a moment after the end, of time 0 where there was none, and of what is no moment."""
    directory = RunDir(run)
    late = krift("replay", run, "--node", "broker-1", "--at", "3600000")
    assert (late.code, late.out) == (2, "")
    assert "--at 3600000: the run had ended by then; expected 0 to " in late.err
    manifest = directory.read_manifest()
    manifest.zero_ms = -1
    directory.write_manifest(manifest)
    never = krift("replay", run, "--node", "broker-1", "--at", "zero+1")
    assert (never.code, never.out) == (2, "")
    assert "the run never reached its time 0" in never.err
    assert "expected milliseconds, such as 4500 or zero+4500" in krift("replay", run, "--at", "soon").err


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
    assert "the replay differs from the run: small-sim-seed3-" in ended.err


def test_an_interrupted_run_is_replayed_as_far_as_it_went(run: Path) -> None:
    """Shows that the replay of an interrupted run ends after its last step, and asks nothing of what comes later."""
    directory = RunDir(run)
    manifest = directory.read_manifest()
    manifest.status, manifest.digest = "interrupted", "another"
    directory.write_manifest(manifest)
    ended = krift("replay", run)
    assert ended.code == 0, ended.err
    assert "no difference; up to its interruption" in ended.out
