"""Runs that have not come to their end, and what other commands make of them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest

from actors.trace.events import Stamped
from chaos.conductor import ScenarioConductor
from chaos.errors import RunError
from chaos.scenario.loader import load_file
from chaos.scenario.resolve import resolve
from orchestrator.checked import Checked
from orchestrator.cli import check
from orchestrator.cli.replay import Moment
from orchestrator.clusters.base import Progress, RunOutcome
from orchestrator.clusters.sim import SimCluster
from orchestrator.driving import held, is_held
from orchestrator.invariants.folds.fold import Finding
from orchestrator.run_dir import Manifest, RunDir
from orchestrator.runner import _note, check_in_process
from orchestrator.trace.read import read_events
from orchestrator.trace.write import TraceWriter
from orchestrator.verdict import Verdict, read_verdict
from tests.unit.cli.command import krift, scenario
from tests.unit.cli.test_check_streaming import write_logs

STREAMING = ("--engine", "streaming", "--json")
ALARMS = ("C1", "X4")


def unfinished(run: Path) -> RunDir:
    """A live run that has not come to its end."""
    write_logs(run, list(read_events(run)))
    return with_status(run, "running")


def with_status(run: Path, status: str, detail: str = "") -> RunDir:
    directory = RunDir(run)
    manifest = directory.read_manifest()
    manifest.status, manifest.detail = status, detail
    directory.write_manifest(manifest)
    return directory


@pytest.fixture
def alarms(run: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Has Spark find two invariants violated, as it does where the last chunk of a killed process is missing, and do
    something else meanwhile."""
    directory = RunDir(run)
    found = check_in_process(directory, resolve(load_file(directory.scenario)))
    finding = Finding("C1", "orders-0", "violated", "a record is gone", ["broker-1/0/7"])
    results = [msgspec.structs.replace(each) for each in found.results]
    for each in (each for each in results if each.id in ALARMS):
        each.status, each.violated, each.violations = "violated", 1, [finding]
    checked: Checked = msgspec.structs.replace(found, results=results)

    def meanwhile(do: Callable[[], object]) -> None:
        def stand_in(*_: object) -> Checked:
            do()
            return checked

        monkeypatch.setattr(check, "_check_with_spark", stand_in)

    meanwhile(lambda: None)
    return meanwhile


def decoded(out: str) -> Verdict:
    return msgspec.json.decode(out, type=Verdict)


def test_a_run_that_goes_on_is_inconclusive_and_keeps_its_verdict(run: Path, alarms: object) -> None:
    """Shows that what seems violated in a run that goes on is not said to be, and that nothing is written."""
    directory = unfinished(run)
    own = {path.name: path.read_bytes() for path in (directory.verdict, directory.junit)}
    with held(run):
        ended = krift("check", run, *STREAMING)
    verdict = decoded(ended.out)
    assert (ended.code, verdict.outcome, verdict.unexpected) == (3, "inconclusive", [])
    assert {each.id for each in verdict.invariants if each.status == "inconclusive"} >= {*ALARMS}
    assert next(each for each in verdict.invariants if each.id == "C1").violations, "what was found so far is shown"
    assert "the run had not ended when it was checked" in verdict.undecided
    assert "this verdict is not kept" in ended.err
    assert own == {path.name: path.read_bytes() for path in (directory.verdict, directory.junit)}


def test_a_run_that_ends_while_it_is_checked_keeps_its_verdict(
    run: Path, alarms: Callable[[Callable[[], object]], None]
) -> None:
    """Shows that a check which began while the run went on is not the last to write its verdict."""
    directory = unfinished(run)
    written = directory.verdict.read_bytes()
    directory.verdict.unlink()
    alarms(lambda: (directory.verdict.write_bytes(written), with_status(run, "completed")))
    with held(run):
        assert krift("check", run, *STREAMING).code == 3
    assert directory.verdict.read_bytes() == written


def test_a_killed_run_is_inconclusive_and_its_check_is_kept(run: Path, alarms: object) -> None:
    """Shows that of a run whose driver was killed the check is the only verdict, which ``report`` shows."""
    directory = unfinished(run)
    directory.verdict.unlink()
    ended = krift("check", run, *STREAMING)
    verdict = decoded(ended.out)
    assert (ended.code, verdict.outcome) == (3, "inconclusive")
    assert "the run did not end: its driver was killed" in verdict.undecided
    assert read_verdict(directory) == verdict
    assert krift("report", run).code == 3


def test_what_was_not_collected_is_not_the_whole(run: Path, alarms: object) -> None:
    """Shows the same for a run whose collection was given up: its manifest says interrupted, and it has no trace."""
    directory = unfinished(run)
    with_status(run, "interrupted", "before its trace was collected")
    ended = krift("check", run, *STREAMING)
    assert ended.code == 3
    why = "its trace was never collected: its run was interrupted, before its trace was collected"
    assert why in read_verdict(directory).undecided


def test_what_works_is_advised(run: Path) -> None:
    """Shows that report and check name what can be had of a run without trace and verdict: the logs of a live run can
    be checked as a stream, a sim run can be done again."""
    directory = unfinished(run)
    directory.verdict.unlink()
    again = directory.read_manifest().reproduce
    streaming = f"krift check {run} --engine streaming"
    for command in (["report"], ["check", "--engine", "in-process"], ["report", "--event", "broker-1/0/0"]):
        ended = krift(command[0], run, *command[1:])
        assert (ended.code, ended.out) == (2, "")
        assert "its run was killed before its end; expected " + streaming in ended.err, ended.err
        assert again in ended.err
        with held(run):
            ended = krift(command[0], run, *command[1:])
        assert "its run is still going on; expected " + streaming in ended.err, ended.err
        assert again not in ended.err
    shutil.rmtree(directory.logs)
    ended = krift("report", run)
    assert f"its run was killed before its end; expected a run that was kept; {again} does" in ended.err
    assert "krift check" not in ended.err


def test_an_interrupted_run_is_inconclusive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows that a violation which was expected, and could not come as the run was interrupted, is undecided: in the
    run's verdict, and so in report and check."""
    observed = SimCluster._sink

    def sink(cluster: SimCluster, writer: TraceWriter[Stamped], progress: Progress | None) -> Callable[[Stamped], None]:
        take = observed(cluster, writer, progress)

        def stop_early(event: Stamped) -> None:
            take(event)
            if writer.total == 500:
                cluster.stop()

        return stop_early

    monkeypatch.setattr(SimCluster, "_sink", sink)
    more = "expect: {violated: [H1]}\n"
    ended = krift("run", scenario(tmp_path, more), "--out", tmp_path / "runs", "--json")
    verdict = decoded(ended.out)
    assert (ended.code, verdict.outcome, verdict.unexpected) == (130, "inconclusive", [])
    assert "H1 was to be violated and was not (vacuous, tested 0 times)" in verdict.undecided
    latest = tmp_path / "runs" / "latest"
    assert krift("report", latest).code == 3
    assert krift("check", latest, "--engine", "in-process").code == 3
    # A replay that has the run again weighs X8 alone anew.
    assert krift("replay", latest).code == 0
    assert krift("report", latest).code == 3


def test_time_0_of_a_live_run_is_on_its_clock(run: Path) -> None:
    """Shows that zero+ means milliseconds since 1970 where nodes take their steps by that clock: in live runs."""
    directory = RunDir(run)
    conductor = ScenarioConductor(resolve(load_file(directory.scenario)))
    conductor.zero_us = 4_600_000
    manifest: Manifest = directory.read_manifest()
    outcome = RunOutcome("completed", "", ["here"], 9_000_000, 1, 0, {}, begun_ms=1_700_000_000_000)
    _note(manifest, outcome, conductor)
    assert manifest.zero_ms == 1_700_000_004_600
    assert Moment(400, since_zero=True).ms(manifest) == 1_700_000_005_000


def test_a_full_disk_is_told_with_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows that a run which could not be written names the file and ends with 4, that its directory says what became
    of it, and that the runs before it are summed up."""
    write, runs = pq.ParquetWriter.write_batch, 0

    def full(writer: pq.ParquetWriter, *rows: Any) -> None:
        nonlocal runs
        runs += 1
        write(writer, *rows)
        if runs == 3:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(pq.ParquetWriter, "write_batch", full)
    junit = tmp_path / "junit.xml"
    ended = krift(
        "run", scenario(tmp_path), "--out", tmp_path / "runs", "--seeds", "4", "--jobs", "1", "--junit", junit
    )
    latest = (tmp_path / "runs" / "latest").resolve()
    told = f"krift: {latest}/trace/part-00000.parquet: cannot be written: No space left on device; expected a disk"
    assert ended.code == 4
    assert told in ended.err
    assert "2 of 4 runs: 2 as expected" in ended.err
    assert junit.read_text().count("<testsuite ") == 2
    manifest = RunDir(latest).read_manifest()
    assert manifest.status == "not carried out"
    assert "No space left on device" in manifest.detail
    assert not list(latest.glob("trace*")), "half a trace is none"
    assert not is_held(latest)


def test_the_end_is_noted_where_no_file_can_be_made(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows that a manifest says how its run ended though the disk has no space for another one beside it."""
    directory = RunDir(run)
    manifest = with_status(run, "running", "x" * 200).read_manifest()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    manifest.status, manifest.detail = "not carried out", "no space"
    with pytest.raises(RunError, match=r"manifest\.json: cannot be written: No space left on device"):
        directory.write_manifest(manifest)
    directory.note_the_end(manifest)
    assert directory.read_manifest() == manifest
    assert not list(run.glob("*.tmp"))
