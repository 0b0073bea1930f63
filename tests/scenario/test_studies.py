"""The scenarios of docs/studies show what the studies say that they show."""

from __future__ import annotations

import pytest

from chaos.scenario.resolve import resolve
from chaos.sources import find
from orchestrator.metrics import Metrics, RunMetrics
from orchestrator.sim_run import run_in_sim
from tests.architecture.sources import ROOT


def measured(study: str, feature: str, min_isr: int) -> Metrics:
    """One run of a scenario of the studies."""
    settings = [f"features.kip-207={feature}", f"config.min.insync.replicas={min_isr}"]
    plan = resolve(find(str(ROOT / "docs" / "studies" / f"{study}.yaml")).loaded(None), settings=settings)
    metrics = RunMetrics(plan)
    run = run_in_sim(plan, [metrics])
    assert (run.exit_code, run.status) == (0, "completed"), run.verdict.unexpected
    return metrics.metrics()


@pytest.mark.parametrize(("min_isr", "least_s", "most_s"), [(1, 3, 7), (2, 12, 15)])
def test_below_min_isr_the_refusal_lasts(min_isr: int, least_s: float, most_s: float) -> None:
    """Shows that a leader alone in its ISR refuses until the slow follower has left the ISR where one replica may
    commit, and for as long as the cut lasts where two must; nobody is told less than before."""
    found = measured("shrunken-isr", "kafka", min_isr)
    assert least_s < found["longest-refusal.latest-prober"] < most_s
    assert (found["backward.answers"], found["refused.earliest-prober"]) == (0, 0)


def test_no_refusal_makes_up_for_an_unclean_election() -> None:
    """Shows that after an unclean election clients are told hundreds of records less, refusals or not."""
    found = measured("unclean-leader", "kafka", 1)
    assert found["elections.unclean"] == 1
    assert found["backward.depth"] > 100
    assert found["records.lost"] > 100
    assert found["refusals"] == 0
