"""The benchmark of campaigns, without Spark."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest

from benchmarks import campaign
from tests.unit.campaigns.here import Here
from tests.unit.cli.command import scenario


def test_both_sides_do_the_same_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Shows a figure for a second core and one for a second executor, in runs a minute, each beside its yardstick; and
    that both sides of each do as many runs of the same seeds."""
    here, done = Here(), []
    do = campaign.carry_out

    def carry_out(order: campaign.SimOrder, code: str = "") -> object:
        done.append(order.seed)
        return do(order, code)

    monkeypatch.setattr(campaign, "carry_out", carry_out)
    monkeypatch.setattr(campaign, "spread", lambda *some, per_task: here.spread(*some, per_task=per_task, tick=list))
    monkeypatch.setattr(campaign, "_session", lambda master, cores: nullcontext())
    monkeypatch.setattr(campaign, "SOURCES", {"small": (str(scenario(tmp_path)), "")})
    found = campaign.figures(rounds=1, seconds=0.01)
    assert [(each.name, each.unit) for each in found] == [
        ("campaign: small, local[2]", "runs/min"),
        ("campaign: small, two executors", "runs/min"),
    ]
    assert all(each.values[0] > 0 and each.beside[0] > 0 for each in found)
    assert done[4:] == [1, 2, 3, 4] * 4
