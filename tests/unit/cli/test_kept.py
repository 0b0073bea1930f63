"""Where a run is kept, and how to go on from there."""

from __future__ import annotations

from pathlib import Path

from tests.unit.cli.command import krift

OFF = ("run", "kip-207", "--variant", "off", "--seed", "7", "--quiet")


def labels(text: str) -> list[str]:
    """What the last lines are about."""
    return [line.partition("  ")[0] for line in text.rstrip().splitlines()[-4:]]


def test_stdout_says_where_a_run_is_kept(tmp_path: Path) -> None:
    """Shows the directory, the page, the command that does it again and that of the variant with the remedy on stdout,
    where the report is; --json keeps stdout to itself. A run of all variants has the remedy in it."""
    told = krift(*OFF, "--out", tmp_path)
    assert labels(told.out) == ["kept in", "a page", "again", "the remedy"]
    assert told.out.rstrip().endswith("krift run kip-207 --runtime sim --variant seed --seed 7")
    assert "kept in" not in told.err
    as_json = krift(*OFF, "--out", tmp_path, "--json")
    assert as_json.out.count("\n") == 1 and labels(as_json.err)[-1] == "the remedy"
    every = krift("run", "kip-207", "--variant", "off", "--variant", "seed", "--seed", "7", "--out", tmp_path)
    assert "again       " in every.out and "the remedy" not in every.out
