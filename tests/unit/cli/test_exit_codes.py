"""The exit codes, each reached by what it stands for, and what --json prints with it."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import msgspec
import pytest

from actors.sim.world import World
from chaos.errors import RunError
from orchestrator import runner
from orchestrator.cli import run as run_command
from orchestrator.clusters.sim import SimCluster
from orchestrator.run_dir import Manifest
from orchestrator.verdict import Verdict
from tests.unit.cli.command import Ended, krift, scenario

IMPOSSIBLE = "expect: {violated: [H1]}\n"
UNTESTED = "expect: {held: [H1]}\n"
NEVER_STEADY = "budgets: {steady-state: 1ms}\n"


def verdicts(ended: Ended) -> list[Verdict]:
    """Stdout as it must be with --json: one verdict a line, and nothing else."""
    assert ended.out.endswith("\n") or not ended.out
    return [msgspec.json.decode(line, type=Verdict) for line in ended.out.splitlines()]


def run(directory: Path, more: str = "", *options: str) -> Ended:
    return krift("run", scenario(directory, more), "--out", directory / "runs", "--json", *options)


def manifest(directory: Path) -> Manifest:
    return msgspec.json.decode((directory / "runs" / "latest" / "manifest.json").read_bytes(), type=Manifest)


def test_0_what_is_expected_happened(tmp_path: Path) -> None:
    """Shows 0, of run and of the commands that look at the run later; talk goes to stderr."""
    ended = run(tmp_path)
    [verdict] = verdicts(ended)
    assert (ended.code, verdict.outcome, verdict.expected) == (0, "held", True)
    assert ended.err.startswith("krift 0.1.0: small: Nothing is broken.\n")
    assert re.search(r"^a page      krift report \S*small-sim-seed\S* --html$", ended.err, re.MULTILINE)
    latest = tmp_path / "runs" / "latest"
    for command in (["report"], ["check", "--engine", "in-process"]):
        again = krift(command[0], latest, *command[1:], "--json")
        assert again.code == 0
        assert verdicts(again) == [verdict]


def test_1_it_did_not(tmp_path: Path) -> None:
    """Shows 1 where a violation was expected and there was none."""
    ended = run(tmp_path, IMPOSSIBLE)
    [verdict] = verdicts(ended)
    assert (ended.code, verdict.expected) == (1, False)
    assert verdict.unexpected == ["H1 was to be violated and was not (vacuous, tested 0 times)"]
    assert krift("report", tmp_path / "runs" / "latest").code == 1


def test_2_the_input_is_wrong(tmp_path: Path) -> None:
    """Shows 2, with nothing on stdout and no run (``test_wrong_input`` has the rest)."""
    ended = run(tmp_path, "unknown-key: 1\n")
    assert (ended.code, ended.out) == (2, "")
    assert not (tmp_path / "runs").exists()


def test_3_it_cannot_be_told(tmp_path: Path) -> None:
    """Shows 3 where what was to hold was never tested."""
    ended = run(tmp_path, UNTESTED)
    [verdict] = verdicts(ended)
    assert (ended.code, verdict.outcome, verdict.unexpected) == (3, "inconclusive", [])
    assert krift("report", tmp_path / "runs" / "latest").code == 3


NO_EFFECT = {
    "never seen": (
        "{when: {seen: truncated, delay: 1s}, fault: {crash: broker-1}, for: 1s}",
        "fault f1 (crash) never began: its moment (when seen: truncated, 1s after that) did not come during the chaos",
    ),
    "nobody to hit": (
        "{when: {at: 100ms}, fault: {delay: {between: broker-1, and: broker-1, by: 5ms}}, for: 500ms}",
        "fault f1 (delay) did not take effect: it had no target",
    ),
}


def test_faults_that_need_not_find_anybody_share_a_note(tmp_path: Path) -> None:
    """Shows one note for all optional faults without a target, and one for all whose moment did not come."""
    never = "{when: {seen: truncated, delay: 1s}, fault: {crash: broker-1}, for: 1s, optional: true}"
    nobody = (
        "{when: {at: 100ms}, fault: {delay: {between: broker-1, and: broker-1, by: 5ms}}, for: 500ms, optional: true}"
    )
    ended = run(tmp_path, f"chaos: [{nobody}, {nobody}, {never}, {never}]\n")
    [verdict] = verdicts(ended)
    moment = "when seen: truncated, 1s after that"
    never_began = f"f3 (crash), {moment}; f4 (crash), {moment}"
    assert verdict.remarks == [
        "f1 (delay), f2 (delay) had no target: when their moments came, there was no node to hit",
        f"these never began, as their moments did not come during the chaos: {never_began}",
    ]


@pytest.mark.parametrize(("fault", "why"), NO_EFFECT.values(), ids=NO_EFFECT)
def test_3_a_fault_had_no_effect(fault: str, why: str, tmp_path: Path) -> None:
    """Shows 3 where a fault of the schedule broke nothing: what held was not put to that test."""
    ended = run(tmp_path, f"chaos: [{fault}]\n")
    [verdict] = verdicts(ended)
    assert (ended.code, verdict.outcome, verdict.undecided) == (3, "inconclusive", [why])


def test_4_the_run_could_not_be_carried_out(tmp_path: Path) -> None:
    """Shows 4 where the steady state was never reached, in run, report and check."""
    ended = run(tmp_path, NEVER_STEADY)
    assert ended.code == 4
    assert "could not be carried out: did not reach the steady state: starting: " in ended.err
    assert manifest(tmp_path).status == "did not reach the steady state"
    latest = tmp_path / "runs" / "latest"
    assert krift("report", latest).code == 4
    assert krift("check", latest, "--engine", "in-process").code == 4


def test_4_the_machine_has_no_part_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows 4 and one line for an error of a runtime, and for one of the operating system."""

    def fail(*_: object) -> None:
        raise RunError("the nodes did not start within 60 s")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", "/runs/x")

    monkeypatch.setattr(SimCluster, "run", fail)
    assert run(tmp_path).err.endswith("krift: the nodes did not start within 60 s\n")
    monkeypatch.setattr(SimCluster, "run", full)
    ended = run(tmp_path)
    assert (ended.code, ended.out) == (4, "")
    assert ended.err.endswith("krift: /runs/x: No space left on device\n")


def test_130_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows that a Ctrl-C in the second of five runs ends it between two steps, keeps its whole trace, judges it as
    inconclusive, sums up, and that a later check does not forget that it was interrupted."""
    begun = 0
    carry_out = World.run

    def interrupted(world: World, limit_us: int) -> object:
        nonlocal begun
        begun += 1
        if begun == 2:
            world.queue.at(1_000_000, lambda _: os.kill(os.getpid(), signal.SIGTERM), None)
        return carry_out(world, limit_us)

    monkeypatch.setattr(World, "run", interrupted)
    ended = run(tmp_path, "", "--seeds", "5", "--jobs", "1")
    first, second = verdicts(ended)
    assert ended.code == 130
    assert (first.expected, second.expected) == (True, False)
    assert "the run was interrupted" in second.undecided
    assert next(each.status for each in second.invariants if each.id == "X4") == "held"
    assert "2 of 5 runs: 1 as expected, 1 undecided\n" in ended.err
    assert "interrupted after 2 of 5 runs; the recorded events are kept\n" in ended.err
    assert manifest(tmp_path).status == "interrupted"
    again = krift("check", tmp_path / "runs" / "latest", "--engine", "in-process", "--json")
    assert (again.code, verdicts(again)) == (3, [second])


def test_130_between_two_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows that a Ctrl-C while no run goes on gives the summary of what came before."""
    report = run_command._report

    def interrupt(*arguments: object) -> None:
        report(*arguments)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    monkeypatch.setattr(run_command, "_report", interrupt)
    ended = run(tmp_path, "", "--seeds", "4", "--jobs", "1")
    assert (ended.code, len(verdicts(ended))) == (130, 1)
    assert "1 of 4 runs: 1 as expected\n" in ended.err


def test_several_runs_end_with_the_worst(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows that one run that could not be carried out outweighs those that went as expected."""
    codes = {1: 0, 2: 3, 3: 1, 4: 4}
    monkeypatch.setattr(runner, "exit_code", lambda verdict, _: codes[verdict.seed])
    ended = run(tmp_path, "", "--seeds", "4", "--jobs", "1")
    assert (ended.code, len(verdicts(ended))) == (4, 4)
    assert "1 as expected, 1 not as expected, 1 undecided, 1 not carried out\n" in ended.err


def test_of_many_runs_only_the_unexpected_are_kept(tmp_path: Path) -> None:
    """Shows --keep: of more than ten runs those that went as expected leave nothing but their verdicts."""
    assert len(verdicts(run(tmp_path, "", "--seeds", "11"))) == 11
    assert [path for path in (tmp_path / "runs").iterdir() if path.is_dir()] == []
    run(tmp_path, IMPOSSIBLE, "--seeds", "1-2", "--keep", "unexpected")
    kept = [path for path in (tmp_path / "runs").iterdir() if not path.is_symlink()]
    assert len(kept) == 2
    ended = krift("check", kept[0], "--engine", "in-process")
    assert (ended.code, "it has no trace: none was kept" in ended.err) == (2, True)
