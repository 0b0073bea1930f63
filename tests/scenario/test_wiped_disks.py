"""Wiped disks in whole runs: what a broker and a voter may do that come back with nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors.trace.events import BrokerReg, NodeUp, PartChange, QPersist, Stamped
from chaos.conductor import ScenarioConductor
from chaos.scenario.loader import load_text
from chaos.scenario.resolve import resolve
from orchestrator.clusters.base import RunOrder
from orchestrator.clusters.sim import SimCluster
from orchestrator.engines.in_process import InProcessEngine
from orchestrator.invariants.folds.conclusion import InvariantResult

SCENARIO = """
schema: krift/v1
name: wiped
duration: 9s
cluster:
  topics:
    orders: {replicas: [[1, 2, 3]], config: {min.insync.replicas: 2}}
  config: {broker.session.timeout.ms: 2000, broker.heartbeat.interval.ms: 300}
workload:
  - producer: {topic: orders, rate: 50/s, acks: all}
  - consumer: {topic: orders}
chaos:
"""


def run(chaos: str, seed: int) -> tuple[list[Stamped], dict[str, InvariantResult]]:
    """A run with these lines of chaos, and what the invariants say of it."""
    plan = resolve(load_text(SCENARIO + chaos), seed=seed)
    conductor, engine, trace = ScenarioConductor(plan), InProcessEngine(), []
    cluster = SimCluster(keep=False)

    def take(event: Stamped) -> None:
        engine.feed(event)
        trace.append(event)

    cluster.observer = take
    outcome = cluster.run(RunOrder("wiped", plan, Path()), conductor)
    assert (outcome.status, conductor.status) == ("completed", "completed")
    return trace, {result.id: result for result in engine.results()}


@pytest.mark.parametrize("seed", [1, 2])
def test_a_wiped_broker_earns_its_place_in_the_isr_again(seed: int) -> None:
    """Shows that it registers as another incarnation, which the controller calls unclean, is out of the ISR before that
    takes effect, and is back once it has fetched everything; nothing that was committed is lost."""
    trace, results = run("  - {when: {at: 1s}, fault: {wipe: broker-2}, for: 500ms}\n", seed)
    wiped = next(n for n, event in enumerate(trace) if isinstance(event.body, NodeUp) and event.body.wiped)
    later = [event.body for event in trace[wiped:]]
    registered = next(
        n for n, body in enumerate(later) if isinstance(body, BrokerReg) and body.broker == 2 and body.unclean
    )
    changes = [(n, body) for n, body in enumerate(later) if isinstance(body, PartChange)]
    assert any(n < registered and 2 not in body.isr for n, body in changes)
    assert not any(n < registered and 2 in body.isr for n, body in changes)
    assert changes[-1][1].isr == [1, 3, 2]
    assert changes[-1][1].cause == "alter-isr"
    assert [name for name, result in results.items() if result.status == "violated"] == []
    assert results["C1"].status == "held"


def test_a_wiped_voter_is_excused_for_what_it_forgot() -> None:
    """Shows a voter that comes back, cut off, with nothing: it stores an epoch below the one that its disk had, which
    Q3 excuses and counts, as nobody can know better at kraft.version 0. The other two keep what was committed."""
    chaos = (
        "  - {when: {at: 1s}, fault: {partition: {isolate: controller-3}}, for: 6s}\n"
        "  - {when: {at: 1s}, fault: {wipe: controller-3}, for: 500ms}\n"
    )
    trace, results = run(chaos, 1)
    directories = [e.body.directory_id for e in trace if e.node == "controller-3" and isinstance(e.body, NodeUp)]
    assert len(set(directories)) == 2
    epochs = [e.body.epoch for e in trace if e.node == "controller-3" and isinstance(e.body, QPersist)]
    assert epochs != sorted(epochs)
    assert results["Q3"].excused == {"wiped": 1}
    assert [name for name, result in results.items() if result.status == "violated"] == []
