"""A process has no event after its end, whatever ends at that moment."""

from __future__ import annotations

from actors.trace.events import DiskRuleChange, NodeDown, Stamped
from chaos.scenario.loader import load_text
from chaos.scenario.resolve import resolve
from orchestrator.sim_run import run_in_sim

MENDED_AS_IT_DIES = """
schema: krift/v1
name: mended-as-it-dies
about: A disk is slow until its node is gone.
duration: 2s
cluster: {voters: 3, brokers: 1, topics: {orders: {replicas: [[1]]}}}
workload:
  - producer: {topic: orders, rate: 5/s}
  - consumer: {topic: orders}
chaos:
  - when: {at: 200ms}
    fault: {slow-disk: {nodes: controller-2, by: 5ms}}
    until: {seen: {node-down: {node: controller-2}}}
  - {when: {at: 500ms}, fault: {power-loss: {nodes: controller-2, at: after-write}}, for: 300ms}
"""


def test_a_disk_that_is_mended_when_its_node_dies() -> None:
    """Shows that a dead process does not tell of the end of the rule, and that the run is as expected (X4)."""
    seen: list[Stamped] = []
    run = run_in_sim(resolve(load_text(MENDED_AS_IT_DIES, "mended-as-it-dies.yaml"), "", 1, (), ()), [seen.append])
    assert run.verdict.expected
    mine = [event.body for event in seen if (event.node, event.incarnation) == ("controller-2", 0)]
    assert [body.phase for body in mine if isinstance(body, DiskRuleChange)] == ["start"]
    assert isinstance(mine[-1], NodeDown)
