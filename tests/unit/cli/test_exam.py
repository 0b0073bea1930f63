"""The command ``krift exam``."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from junitparser import Failure, JUnitXml, Skipped

from actors.defects.catalogue import DEFECTS
from chaos.oddities import library
from orchestrator.invariants.registry import INVARIANTS
from tests.unit.cli.command import krift
from tests.unit.exam.attempts import quiet, small


def test_an_oddity_is_examined(tmp_path: Path) -> None:
    """Shows the table on stdout, the document in a file, and 0."""
    path = tmp_path / "exam.md"
    ended = krift("exam", "--oddity", "last-member-stays", "--oddity-seeds", "1", "--master", "none", "--write", path)
    assert ended.code == 0, ended.err
    assert "last-member-stays  1 of 1" in ended.out
    assert "false alarms 0" in ended.out
    assert "| `last-member-stays` | 1 of 1 |" in path.read_text(encoding="utf-8")


def test_a_survivor_ends_it_with_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows 1, the survivor's name in the object for programs, and no oddity where only a defect was asked for."""
    monkeypatch.setattr("orchestrator.cli.exam.schedule", small)
    asked = ["--defect", "epoch-reset", "--runs", "1", "--under", "meant", "--master", "none"]
    ended = krift("exam", *asked, "--json", "--quiet", "--out", tmp_path)
    assert ended.code == 1, ended.err
    found = msgspec.json.decode(ended.out)
    assert (found["defects"], found["killed"], found["survivors"], found["oddities"]) == (1, 0, ["epoch-reset"], 0)
    assert (found["killed_under_everything"], found["survivors_of_everything"]) == (None, None)


def test_there_are_two_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows what became of a defect under the nemesis meant for it and of the same one under `everything`, as lines,
    as columns and as numbers; that either can be asked for alone; and that the second one fails nobody."""
    monkeypatch.setattr("orchestrator.cli.exam.schedule", small)
    monkeypatch.setattr("orchestrator.cli.exam.any_schedule", quiet)
    path = tmp_path / "exam.md"
    asked = ["exam", "--defect", "list-behind", "--runs", "1", "--everything-runs", "2", "--master", "none"]
    both = krift(*asked, "--write", path)
    assert both.code == 0, both.err
    killed = "killed by the invariant meant for them"
    assert f"defects      1 of 1 {killed} (100 %), under the nemesis meant for them" in both.out
    assert f"everything   0 of 1 {killed} (0 %), within 2 runs of that nemesis\n  not by it: list-behind" in both.out
    assert f"| `list-behind` | H6 {INVARIANTS['H6'].title} | 1 of 1 | 1 |" in path.read_text(encoding="utf-8")
    assert "| none of 2 |" in path.read_text(encoding="utf-8")
    alone = krift(*asked, "--under", "everything", "--json")
    assert alone.code == 0, alone.err
    found = msgspec.json.decode(alone.out)
    assert (found["killed"], found["survivors"]) == (None, None)
    assert (found["killed_under_everything"], found["survivors_of_everything"]) == (0, ["list-behind"])


def test_unknown_names_are_told() -> None:
    """Shows 2 with the nearest name, and that nothing is left to examine is a mistake, too."""
    ended = krift("exam", "--defect", "list-log-en", "--oddity", "acks-0-los")
    assert ended.code == 2
    assert "did you mean list-log-end?" in ended.err
    assert krift("exam", "--oddity", "acks-0-los").err.endswith(
        "did you mean acks-0-loss? Expected a name that krift exam --list prints\n"
    )
    assert krift("exam", "--defects-only", "--oddities-only").code == 2


def test_the_list_that_a_hint_names() -> None:
    """Shows each defect and each oddity on a line with its purpose, which is where an unknown name is sent, and that
    nothing runs."""
    ended = krift("exam", "--list")
    assert ended.code == 0, ended.err
    assert "list-log-end  (H1) " in ended.out
    assert "acks-0-loss  (oddity) " in ended.out
    assert len(ended.out.splitlines()) == len(DEFECTS) + len(library.names())


@pytest.mark.parametrize(
    "asked", [["--defect", "epoch-reset", "--oddities-only"], ["--oddity", "acks-1-loss", "--defects-only"]], ids=str
)
def test_an_exam_of_nothing_is_refused(asked: list[str]) -> None:
    """Shows that options which leave no run to do are a mistake, not an exam that was passed."""
    ended = krift("exam", *asked, "--master", "none")
    assert (ended.code, ended.out) == (2, "")
    assert f"{asked[2]} leaves out everything that {asked[0]} names: nothing is left to examine" in ended.err


def test_an_exam_for_builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows the files of --junit and --summary: a survivor of the nemesis meant for it is a failure, one that
    everything missed is skipped, and the exam is said not to have passed."""
    monkeypatch.setattr("orchestrator.cli.exam.schedule", small)
    monkeypatch.setattr("orchestrator.cli.exam.any_schedule", quiet)
    file, page = tmp_path / "it.xml", tmp_path / "page.md"
    asked = ["--defect", "epoch-reset", "--runs", "1", "--everything-runs", "1", "--master", "none", "--quiet"]
    assert krift("exam", *asked, "--junit", file, "--summary", page).code == 1
    suites = {suite.name: list(suite) for suite in JUnitXml.fromfile(str(file))}
    assert list(suites) == ["exam: defects", "exam: everything", "exam: false alarms"]
    [meant], [missed] = suites["exam: defects"], suites["exam: everything"]
    assert (meant.name, missed.name) == ("epoch-reset", "epoch-reset")
    assert isinstance(meant.result[0], Failure)
    assert isinstance(missed.result[0], Skipped)
    assert [case.name for case in suites["exam: false alarms"]] == ["the exam"]
    told = page.read_text(encoding="utf-8")
    assert told.startswith("### Krift exam: NOT passed\n")
    assert "<details><summary>defects</summary>" in told


def test_an_oddity_that_occurs_passes(tmp_path: Path) -> None:
    """Shows the suite of the oddities."""
    file, page = tmp_path / "it.xml", tmp_path / "page.md"
    asked = ["--oddity", "last-member-stays", "--oddity-seeds", "1", "--master", "none", "--quiet"]
    assert krift("exam", *asked, "--junit", file, "--summary", page).code == 0
    oddities, alarms = JUnitXml.fromfile(str(file))
    [case] = oddities
    assert (case.name, case.result, alarms.failures) == ("last-member-stays", [], 0)
    assert page.read_text(encoding="utf-8").startswith("### Krift exam: passed\n")
