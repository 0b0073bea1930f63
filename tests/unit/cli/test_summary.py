"""``--summary`` of runs: Markdown that is added to a page."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors.defects.catalogue import DEFECTS
from orchestrator.report import summary
from tests.unit.cli.command import krift, scenario


def test_runs_as_expected_are_rows(tmp_path: Path) -> None:
    """Shows the number of runs, a row for each, no story, and that a second command adds its part."""
    page = tmp_path / "page.md"
    asked = (scenario(tmp_path), "--out", tmp_path / "runs", "--quiet", "--summary", page)
    assert krift("run", *asked, "--seeds", "1-2").code == 0
    told = page.read_text(encoding="utf-8")
    assert told.startswith("### Krift: 2 runs, 2 as expected\n\n| run | outcome | result |\n")
    assert "| small, sim, seed 2 | held, as expected | nothing violated |\n" in told
    assert "<details>" not in told
    assert krift("check", tmp_path / "runs" / "latest", "--engine", "in-process", "--summary", page).code == 0
    assert page.read_text(encoding="utf-8").startswith(f"{told}### Krift: 1 run, 1 as expected\n")


def test_what_is_not_as_expected_is_told(tmp_path: Path) -> None:
    """Shows the story of a run that failed, in a fold, with the command that does it again."""
    page = tmp_path / "page.md"
    asked = (scenario(tmp_path), "--out", tmp_path / "runs", "--quiet", "--summary", page)
    assert krift("run", *asked, "--defect", "consumer-mislabel").code == 1
    told = page.read_text(encoding="utf-8")
    catcher = DEFECTS["consumer-mislabel"].caught_by
    assert told.startswith("### Krift: 1 run, 1 not as expected\n")
    outcome = f"violated: the planted defect was caught by {catcher}, as planned"
    assert f"<details><summary>small, sim, seed 3: {outcome}</summary>" in told
    assert "--seed 3 --defect consumer-mislabel\n```\n\n</details>" in told
    assert "\x1b" not in told


def test_a_page_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows that of many runs those that failed come first, and that rows and stories that are left out are counted."""
    monkeypatch.setattr(summary, "ROWS_MAX", 2)
    monkeypatch.setattr(summary, "STORIES_MAX", 1)
    page = tmp_path / "page.md"
    asked = (scenario(tmp_path), "--out", tmp_path / "runs", "--quiet", "--summary", page)
    assert krift("run", *asked, "--defect", "consumer-mislabel", "--seeds", "1-3").code == 1
    told = page.read_text(encoding="utf-8")
    assert "\nand 1 run more\n" in told
    assert told.count("<details>") == 1
    assert "2 other runs, not shown here" in told


def test_nothing_of_a_run_leaves_its_cell(tmp_path: Path) -> None:
    """Shows that words of a scenario file make neither columns nor tags, nor end the block that they are in."""
    page = tmp_path / "page.md"
    more = "must-happen: [offset-not-available]\n"
    file = scenario(tmp_path, more)
    file.write_text(file.read_text().replace("Nothing is broken.", '"a | b ``` <b>c</b>"'))
    assert krift("run", file, "--out", tmp_path / "runs", "--quiet", "--summary", page).code == 3
    told = page.read_text(encoding="utf-8")
    assert "````text\n" in told
    row = next(line for line in told.splitlines() if line.startswith("| small"))
    assert row.count("|") == 4
