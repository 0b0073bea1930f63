"""Whatever cluster, clients and faults are drawn, nothing is broken. ``KRIFT_SMOKE=300`` tries that many seeds."""

from __future__ import annotations

import os
from typing import get_args

import pytest

from actors.features import FEATURES
from chaos.plan import AnyFault
from chaos.scenario.loader import load_text
from chaos.scenario.resolve import resolve
from tests.harness.random_scenarios import RandomRun, random_scenario

SEEDS = (*range(1, 1 + int(os.environ.get("KRIFT_SMOKE", "6"))), 249, 257)
"""The last two have unclean elections on the heels of each other."""
DRAWN = range(1, 61)
PLANTED = 6
"""A seed in which a replica of the ISR follows a new leader."""


@pytest.mark.parametrize("seed", SEEDS)
def test_a_drawn_scenario_breaks_no_promise(seed: int) -> None:
    """Shows that under faults of all kinds that overlap, the cluster heals, clients finish, and all invariants hold."""
    run = RandomRun(seed)
    assert run.complaints == []
    assert run.seen["send ok"] > 0
    assert run.seen["poll ok"] > 0
    assert run.seen["list ok"] > 0


def test_a_drawn_scenario_gives_a_planted_bug_away() -> None:
    """Shows that the judgement can fail: a follower that truncates to its high watermark is noticed."""
    assert RandomRun(PLANTED, ("truncate-to-hw",)).complaints[0].startswith("P11 violated: broker-")


def test_everything_is_drawn_sooner_or_later() -> None:
    """Shows that all faults, all values of switches and all sizes of a quorum are among the scenarios of some seeds."""
    plans = [resolve(load_text(random_scenario(seed))) for seed in DRAWN]
    kinds = {type(scheduled.fault) for plan in plans for scheduled in plan.schedule}
    assert kinds == set(get_args(AnyFault))
    for feature in ("kip-207", "kip-996", "eligible.leader.replicas.version"):
        assert {plan.features[feature] for plan in plans} == set(FEATURES[feature].values)
    assert {sum(node.role == "controller" for node in plan.nodes) for plan in plans} == {3, 4, 5}
    assert {plan.config["unclean.leader.election.enable"] for plan in plans} == {False, True}
    assert {max(len(topic.replicas) for topic in plan.cluster.topics) for plan in plans} == {1, 2, 3}
