"""The script that shows that a change has changed no run."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from benchmarks import equality
from chaos.incidents import library as incidents
from chaos.nemesis import library as nemeses


def test_every_nemesis_and_every_incident_takes_part() -> None:
    """Shows that nothing which comes with Krift is left out, and that each has as many seeds as were asked for."""
    orders = list(equality.orders_of(seeds=2))
    assert {order.source for order in orders} == {*nemeses.names(), *incidents.shipped_names()}
    assert len([order for order in orders if order.source == "everything"]) == 2
    assert {order.variant for order in orders if order.source == "kip-207"} == {"off", "seed", "kafka"}


@pytest.mark.further
def test_the_same_code_does_the_same_runs_and_a_difference_is_told(tmp_path: Path) -> None:
    """Shows that runs which are done again are the same; and that one with another trace and another finding fails the
    comparison and says in what it differs."""
    file, runner = tmp_path / "before.json", CliRunner()
    asked = ["record", str(file), "--seeds", "1", "--jobs", "1", "--only", "kip-595-zombie-leader"]
    assert runner.invoke(equality.main, asked).exit_code == 0
    same = runner.invoke(equality.main, ["compare", str(file), "--jobs", "1"])
    assert (same.exit_code, same.output.splitlines()[-1]) == (0, f"3 runs, 3 the same as in {file}")

    recorded = msgspec.json.decode(file.read_bytes(), type=equality.Recorded)
    key = next(iter(recorded.runs))
    changed = msgspec.structs.replace(
        recorded.runs[key], trace="", findings={**recorded.runs[key].findings, "L1": "held"}
    )
    file.write_bytes(msgspec.json.encode(equality.Recorded({**recorded.runs, key: changed})))
    differs = runner.invoke(equality.main, ["compare", str(file), "--jobs", "1"])
    assert differs.exit_code == 1
    assert "another trace; L1: 'held' before, " in differs.output
    assert differs.output.endswith(f"3 runs, 2 the same as in {file}\n")


def test_a_name_that_means_nothing_is_refused(tmp_path: Path) -> None:
    """Shows that a misspelt nemesis is told with those that exist."""
    result = CliRunner().invoke(equality.main, ["record", str(tmp_path / "x"), "--only", "quorums"])
    assert result.exit_code == 2
    assert "no such nemesis or incident: quorums; one of clients, " in result.output


@pytest.mark.parametrize("field", ["scenario", "trace", "status", "faults"])
def test_all_that_a_run_is_known_by_is_compared(field: str) -> None:
    """Shows that another scenario, trace, end or fault is a difference."""
    known = equality.Known("a", "b", "c", "d", {})
    assert equality.differences(known, msgspec.structs.replace(known, **{field: "x"})) == [f"another {field}"]
