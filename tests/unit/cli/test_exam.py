"""The command ``krift exam``."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.unit.cli.command import krift
from tests.unit.exam.attempts import small


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
    ended = krift(
        "exam", "--defect", "epoch-reset", "--runs", "1", "--master", "none", "--json", "--quiet", "--out", tmp_path
    )
    assert ended.code == 1, ended.err
    found = msgspec.json.decode(ended.out)
    assert (found["defects"], found["killed"], found["survivors"], found["oddities"]) == (1, 0, ["epoch-reset"], 0)


def test_unknown_names_are_told() -> None:
    """Shows 2 with the nearest name, and that nothing is left to examine is a mistake, too."""
    ended = krift("exam", "--defect", "list-log-en", "--oddity", "acks-0-los")
    assert ended.code == 2
    assert "did you mean list-log-end?" in ended.err
    assert krift("exam", "--oddity", "acks-0-los").err.strip().endswith("did you mean acks-0-loss?")
    assert krift("exam", "--defects-only", "--oddities-only").code == 2
