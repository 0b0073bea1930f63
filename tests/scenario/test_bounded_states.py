"""That what a check remembers of a run does not grow with its length."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from actors.trace.events import Stamped
from chaos.conductor import ScenarioConductor
from chaos.scenario.loader import load_text
from chaos.scenario.resolve import resolve
from orchestrator.clusters.base import RunOrder
from orchestrator.clusters.sim import SimCluster
from orchestrator.engines.in_process import InProcessEngine
from orchestrator.invariants.folds.mirror_fold import MirrorState
from tests.harness.short_memory import short_memory

LENGTH_S = 100
TIMES = 4
CALM_S = 12
"""So long before a state is measured nothing is broken, so that everybody does what they do all the time."""
FACTOR = 1.1
BYTES = 1024
"""How much the operations that are under way at that moment make a difference."""

FAULTS = (
    'crash: "leader(orders-0)"',
    'partition: {isolate: "followers(orders-0)[0]"}',
    "crash: active-controller",
    'pause: "leader(orders-1)"',
    "crash: consumer-2",
    'partition: {isolate: "coordinator(billing)"}',
    "crash: producer-2",
    "delay: {between: broker-1, and: broker-2, by: 50ms}",
    "slow-disk: {nodes: broker-2, by: 50ms}",
)
SCENARIO = """
schema: krift/v1
name: everybody
about: Clients of all kinds, and faults of many kinds all the time.
seed: 3
duration: {seconds}s
cluster:
  voters: 3
  brokers: 3
  topics:
    orders: {{replicas: [[1, 2, 3], [2, 3, 1]]}}
    copies: {{replicas: [[3, 1, 2]]}}
  config: {{offsets.topic.num.partitions: 1, transaction.state.log.num.partitions: 1}}
workload:
  - producer: {{topic: orders, rate: 5/s}}
  - producer: {{topic: orders, rate: 10/s, transactional: {{records: 2, aborts: 20}}}}
  - consumer: {{topic: orders}}
  - consumer: {{topic: orders, rewind: {{every: 2s, by: 500ms}}}}
  - consumer: {{topic: copies, isolation: read_committed}}
  - consumer: {{topic: orders, group: billing, count: 2, commit: auto}}
  - consumer: {{topic: orders, group: mirror, copy-to: copies, transactional: {{}}, commit: sync}}
  - list-offsets: {{topic: orders, every: 500ms, timestamp: latest}}
  - list-offsets: {{topic: orders, every: 500ms, timestamp: max-timestamp}}
chaos:
"""


def scenario() -> str:
    """The whole scenario, with a fault every three seconds but for the calm."""
    moments = [LENGTH_S, TIMES * LENGTH_S]
    begins = [at for at in range(3, moments[-1], 3) if not any(end - CALM_S < at < end + 2 for end in moments)]
    lines = [
        f"  - {{when: {{at: {at}s}}, fault: {{{FAULTS[number % len(FAULTS)]}}}, for: 1500ms, optional: true}}"
        for number, at in enumerate(begins)
    ]
    return SCENARIO.format(seconds=moments[-1] + 5) + "\n".join(lines) + "\n"


def sizes(engine: InProcessEngine) -> dict[str, int]:
    """Of the state of each invariant, over all keys, and of the mirrors that they share: bytes, encoded."""
    found: dict[str, int] = {}
    for name, state in parts(engine):
        found[name] = found.get(name, 0) + len(msgspec.msgpack.encode(state))
    return found


def parts(engine: InProcessEngine) -> Iterator[tuple[str, msgspec.Struct]]:
    """The states of all keys."""
    for cell in engine.cells():
        if isinstance(cell.state, MirrorState):
            yield f"mirror of {cell.fold.name}", cell.state.mirror
            yield from zip((each.id for each in cell.fold.invariants), cell.state.parts, strict=True)
        else:
            yield cell.fold.name, cell.state


@pytest.mark.long
def test_states_stop_growing() -> None:
    """Shows for every invariant that its state after four times the length of a run is at most 1.1 times as large, if
    the bounds of what it remembers are so low that both lengths reach them; and that no check takes what it has
    forgotten for a violation."""
    plan = resolve(load_text(scenario(), "everybody.yaml"))
    conductor, cluster, engine = ScenarioConductor(plan), SimCluster(keep=False), InProcessEngine()
    measured: list[dict[str, int]] = []

    def take(event: Stamped) -> None:
        engine.take(event)
        due_us = [LENGTH_S, TIMES * LENGTH_S][len(measured)] * 1_000_000
        if conductor.zero_us is not None and event.wall - conductor.zero_us >= due_us:
            measured.append(sizes(engine))
            if len(measured) == 2:
                cluster.observer = None
                cluster.stop()

    cluster.observer = lambda event: take(event) if len(measured) < 2 else None
    with short_memory():
        cluster.run(RunOrder("everybody", plan, Path()), conductor)
        unknown = dict(engine.violated_unknown)
    short, long = measured
    grown = {name: (short.get(name, 0), size) for name, size in long.items()}
    grown = {name: pair for name, pair in grown.items() if pair[1] > FACTOR * pair[0] + BYTES}
    assert not grown
    assert not unknown
