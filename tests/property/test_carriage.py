"""A run of the sim is the same however its messages travel; so no node changes a message that was sent."""

from __future__ import annotations

import pytest

from actors.sim.carriage import Carriage
from actors.sim.world import World
from actors.trace.events import RunMeta
from chaos.conductor import ScenarioConductor
from chaos.plan import Plan
from orchestrator.campaigns.order import SimOrder
from tests.harness.fingerprints import LIMIT_US

NEMESES = {"everything": 3, "quorum": 7, "upgrade": 2, "voters": 4}
"""Nemesis -> a seed."""


def fingerprint(plan: Plan, carriage: Carriage) -> tuple[str, bytes]:
    """Digests of the trace and of all steps, in which every message is."""
    meta = RunMeta(plan.scenario, plan.variant, "sim", plan.seed, plan.names, plan.profile())
    world = World(
        plan.nodes, ScenarioConductor(plan), plan.seed, "run", meta=meta, step_digests=True, carriage=carriage
    )
    result = world.run(LIMIT_US)
    assert not result.failures, result.failures
    assert result.step_digests is not None
    return result.digest, result.step_digests.to_bytes()


@pytest.mark.parametrize("name", NEMESES)
def test_a_run_is_the_same_however_messages_travel(name: str) -> None:
    """Shows that each step is the same, whether messages are shared, made to bytes and back, or watched, and that
    nobody changes one."""
    plan = SimOrder(name, "", NEMESES[name]).plan()
    shared = fingerprint(plan, "shared")
    assert fingerprint(plan, "wire") == shared
    assert fingerprint(plan, "watched") == shared
