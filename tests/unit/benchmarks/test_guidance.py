"""The study of guidance, on runs that are made up."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from actors.defects.catalogue import DEFECTS
from benchmarks import guidance
from chaos.plan import Plan

NAME = "double-vote"
CAUGHT_BY = DEFECTS[NAME].caught_by


@pytest.fixture
def carried_out(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Runs are made up: each covers something new, and those with a seed that 20 divides find the defect. The seeds
    of all runs that were carried out."""
    seeds: list[int] = []
    numbers = count()

    def run_in_sim(plan: Plan, observers: object, stop_at: str) -> SimpleNamespace:
        assert (plan.defects, stop_at) == ([NAME], CAUGHT_BY)
        seeds.append(plan.seed)
        return SimpleNamespace(first_unknown={CAUGHT_BY: 5} if plan.seed % 20 == 0 else {}, end_us=7)

    monkeypatch.setattr(guidance, "run_in_sim", run_in_sim)
    monkeypatch.setattr(guidance, "Coverage", lambda: SimpleNamespace(points=lambda: [f"run/{next(numbers)}"]))
    return seeds


def invoke(*arguments: str) -> str:
    result = CliRunner().invoke(guidance.main, ["--nemesis", "quorum", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_a_study_goes_on_where_it_was_broken_off(
    tmp_path: Path, carried_out: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shows that screening tells what is rare; that both ways share the fresh draws, on seeds that the screening did
    not use; that no run is carried out twice; and what the table says."""
    monkeypatch.setattr(guidance, "BUDGET", 12)
    file = str(tmp_path / "runs.jsonl")
    assert invoke("screen", file, "--defect", NAME) == f"{NAME}: 0 of 10, rare\n"
    assert carried_out == list(range(1, 11))
    invoke("study", file)
    by_chance, mutated = carried_out[10:22], carried_out[22:]
    assert by_chance == list(range(11, 23))
    assert 0 < len(mutated) < 12
    invoke("study", file)
    assert len(carried_out) == 22 + len(mutated)
    rows = invoke("table", file).splitlines()
    assert rows[2].startswith(f"| `{NAME}` | {CAUGHT_BY} | 0 of 10 | 1 | 1 of 12, 10 | ")
    assert rows[4] == "- pairs of campaigns: 1, of 12 runs each way"
    assert rows[5].startswith("- campaigns that found the defect: 1 by chance, ")
    assert "| 1 | run 10 | " in invoke("table", file, "--first")


def test_a_defect_that_is_found_often_is_laid_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows that the screening of a defect ends when it is not rare, and that no campaign follows."""
    found = SimpleNamespace(first_unknown={CAUGHT_BY: 5}, end_us=7)
    monkeypatch.setattr(guidance, "run_in_sim", lambda *_, **__: found)
    file = str(tmp_path / "runs.jsonl")
    assert invoke("screen", file, "--defect", NAME) == f"{NAME}: 3 of 3\n"
    assert invoke("study", file) == ""
