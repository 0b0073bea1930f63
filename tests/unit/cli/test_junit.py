"""JUnit XML: what of a verdict is a failure, an error, a skipped or a passed case."""

from __future__ import annotations

from pathlib import Path

import pytest
from junitparser import Error, Failure, JUnitXml, Skipped, TestCase

from orchestrator.run_dir import RunDir
from tests.unit.cli.command import krift, scenario

EXPECTS = """
expect: {held: [T2, H1], may: [P3]}
must-happen: [quorum-leader-elected, offset-not-available]
"""


def cases(text: str) -> dict[str, TestCase]:
    """First word of its name -> case; what must happen by its whole name."""
    (suite,) = JUnitXml.fromstring(text.encode())
    return {case.name if case.name.startswith("must") else case.name.split()[0]: case for case in suite}


def kinds(case: TestCase) -> list[type]:
    """What became of a case: nothing if it passed."""
    return [type(result) for result in case.result]


def test_what_is_as_expected_passes_and_what_is_not_tested_is_skipped(run: Path) -> None:
    """Shows the suite of a run that went as it should: no failure, and vacuous invariants skipped with the reason."""
    told = krift("report", run, "--junit")
    assert told.code == 0
    assert told.out == (run / "junit.xml").read_text()
    found = cases(told.out)
    assert {kind for case in found.values() for kind in kinds(case)} == {Skipped}
    assert "tested" in found["T2"].system_out
    assert found["H1"].result[0].message.startswith("vacuous: ")


def test_the_suite_is_placed_and_can_be_done_again(run: Path) -> None:
    """Shows the time that a run took, when it began, and the command that does it again."""
    directory = RunDir(run)
    manifest = directory.read_manifest()
    (suite,) = JUnitXml.fromstring(krift("report", run, "--junit").out.encode())
    assert suite.time == pytest.approx(manifest.duration, abs=0.01)
    assert suite.time > 0
    assert suite.timestamp == manifest.started[: len("2026-01-01T00:00:00")]
    assert {each.name: each.value for each in suite.properties()}["again"] == manifest.reproduce
    assert sum(case.time or 0 for case in suite) == pytest.approx(suite.time, abs=0.01)


def test_what_is_violated_is_a_failure_with_its_evidence(tmp_path: Path) -> None:
    """Shows a failure for the invariant that a defect violates, and that --junit of run writes every run."""
    file = tmp_path / "all.xml"
    arguments = ["--defect", "consumer-mislabel", "--seeds", "1-2"]
    ended = krift("run", scenario(tmp_path), "--out", tmp_path / "runs", "--quiet", "--junit", file, *arguments)
    suites = list(JUnitXml.fromfile(str(file)))
    assert len(suites) == 2
    assert ended.code == 1
    for suite in suites:
        failed = {case.name.split()[0]: case.result[0] for case in suite if kinds(case) == [Failure]}
        assert "C3 was violated" in failed["C3"].message
        assert "consumer-1/0/" in failed["C3"].text
        assert suite.failures == len(failed)


def test_what_could_not_be_decided_is_an_error(tmp_path: Path) -> None:
    """Shows errors for what had to hold and was not tested, and for what must happen and was not seen."""
    ended = krift("run", scenario(tmp_path, EXPECTS), "--out", tmp_path / "runs", "--quiet")
    assert ended.code == 3, ended.err
    found = cases((tmp_path / "runs" / "latest" / "junit.xml").read_text())
    assert kinds(found["H1"]) == [Error]
    assert kinds(found["must happen: offset-not-available"]) == [Error]
    assert kinds(found["must happen: quorum-leader-elected"]) == []
    assert kinds(found["T2"]) == []


def test_one_form_at_a_time(run: Path) -> None:
    """Shows that the forms of a report exclude each other."""
    ended = krift("report", run, "--junit", "--json")
    assert (ended.code, ended.out) == (2, "")
    assert "give one of them" in ended.err


@pytest.mark.parametrize("place", ["nowhere/all.xml", "."])
def test_a_file_that_cannot_be_written_is_found_before_anything_runs(place: str, tmp_path: Path) -> None:
    """Shows that hours of runs are not lost to a mistyped name."""
    ended = krift("run", scenario(tmp_path), "--out", tmp_path / "runs", "--junit", tmp_path / place)
    assert (ended.code, ended.out) == (2, "")
    assert "--junit" in ended.err
    assert not list((tmp_path / "runs").glob("small*"))
