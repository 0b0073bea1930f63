"""Processes of nodes are killed at drawn moments: each comes back from its disk, and nothing acknowledged is lost."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from actors.trace.events import NodeDown, NodeUp, OpReturn, Stamped
from orchestrator.clusters.sim import SimCluster
from tests.integration.conftest import LiveKills
from tests.integration.kills import FEW_KILLS, Killed

KILLS = int(os.environ.get("KRIFT_KILLS", str(FEW_KILLS)))
"""How many nodes are killed live, over all runs; KRIFT_KILLS=30 for the long way."""
KILLS_PER_RUN = 10
SIM_SEEDS = range(1, int(os.environ.get("KRIFT_KILL_SEEDS", "10")) + 1)


def assert_survived(run: Killed, kills: int) -> None:
    """The run completed as expected, and every victim was dead, came back, and lost no event."""
    assert (run.outcome.status, run.conductor.status) == ("completed", "completed"), run.conductor.detail
    assert run.verdict.expected, (run.verdict.unexpected, run.verdict.undecided)
    judged = {each.id: (each.status, each.tested > 0) for each in run.verdict.invariants}
    assert {name: judged[name] for name in run.plan.expect.held} == dict.fromkeys(run.plan.expect.held, ("held", True))
    assert_acknowledged_is_read(run.trace)
    assert len(run.victims) == kills
    for node in run.plan.names:
        assert_lives_of(run, node, run.victims.count(node))


def assert_acknowledged_is_read(trace: Sequence[Stamped]) -> None:
    """Whoever reads the topic to its end finds each acknowledged record, at the offset that the producer was told."""
    returned = [event.body for event in trace if isinstance(event.body, OpReturn) and event.body.outcome == "ok"]
    acknowledged = {(body.tp, body.offset, body.uid) for body in returned if body.kind == "send"}
    read = {(body.tp, record.offset, record.uid) for body in returned for record in body.records}
    assert acknowledged
    assert not acknowledged - read


def assert_lives_of(run: Killed, node: str, kills: int) -> None:
    """``kills`` incarnations that end in a crash, one after another, and one that ends with the run."""
    for incarnation in range(kills + 1):
        events = run.events(node, incarnation)
        assert [event.seq for event in events] == list(range(len(events)))
        first, last = events[0].body, events[-1].body
        assert isinstance(first, NodeUp)
        assert isinstance(last, NodeDown)
        assert last.mode == ("crash" if incarnation < kills else "end")
    assert not run.events(node, kills + 1)


def split(kills: int) -> Sequence[int]:
    """How many kills there are in each run."""
    return [min(KILLS_PER_RUN, kills - done) for done in range(0, kills, KILLS_PER_RUN)]


@pytest.mark.parametrize("seed", SIM_SEEDS)
def test_kills_in_the_sim(seed: int, tmp_path: Path) -> None:
    """Shows that in the sim ten crashes at drawn moments lose nothing that was acknowledged, and no event."""
    assert_survived(Killed(SimCluster(), seed, KILLS_PER_RUN, tmp_path), KILLS_PER_RUN)


@pytest.mark.ray
@pytest.mark.timeout(400)
@pytest.mark.parametrize(("seed", "kills"), list(enumerate(split(KILLS), 1)))
def test_kills_of_live_processes(seed: int, kills: int, live_kills: LiveKills) -> None:
    """Shows that processes killed with SIGKILL at drawn moments come back from disk as the next incarnation, that
    nothing acknowledged is lost, and that the trace of each is whole up to its kill."""
    assert_survived(live_kills(seed, kills), kills)
