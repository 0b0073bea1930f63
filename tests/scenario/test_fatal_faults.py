"""A node that its fault handler ends stays down until the cluster heals, and is excused where a disk was lost."""

from __future__ import annotations

import pytest

from actors.trace.events import NodeDown, NodeUp, Stamped
from chaos.scenario.loader import load_text
from chaos.scenario.resolve import resolve
from orchestrator.sim_run import run_in_sim

WIPED = """
schema: krift/v1
name: wiped-leader
about: The quorum's leader loses its disk, and is back before the others miss it.
duration: 3s
cluster: {voters: 3, brokers: 1, topics: {orders: {replicas: [[1]]}}}
workload:
  - producer: {topic: orders, rate: 5/s}
  - consumer: {topic: orders}
chaos:
  - {when: {at: 200ms}, fault: {wipe: active-controller}, for: 300ms}
"""


def test_a_leader_without_its_disk_stops_when_it_hears_that_it_leads() -> None:
    """Shows that it comes back empty, stops itself, is away until the healing, and then follows the next leader; X3
    tells of it, and excuses it."""
    lives: list[Stamped] = []

    def look(event: Stamped) -> None:
        if isinstance(event.body, NodeUp | NodeDown) and event.node.startswith("controller-"):
            lives.append(event)

    run = run_in_sim(resolve(load_text(WIPED, "wiped-leader.yaml")), [look])
    (fatal,) = [event for event in lives if isinstance(event.body, NodeDown) and event.body.mode == "fatal"]
    assert fatal.body.detail.startswith("was told that 10")  # type: ignore[attr-defined]
    (back,) = [each for each in lives if each.node == fatal.node and each.incarnation > fatal.incarnation][:1]
    assert back.wall == run.zero_us + 3_000_000
    assert (run.status, run.verdict.unexpected, run.verdict.undecided) == ("completed", [], [])
    (bugs,) = [each for each in run.verdict.invariants if each.id == "X3"]
    assert bugs.excused == {"wiped": 1}


@pytest.mark.parametrize("defect", ["same-epoch-leader"])
def test_two_leaders_of_an_epoch_stop_whoever_hears_of_both(defect: str) -> None:
    """Shows that X3 is violated, beside what the two leaders violate."""
    loaded = load_text(WIPED.replace("wipe:", "crash:"), "two-leaders.yaml")
    run = run_in_sim(resolve(loaded, "", 1, (), (defect,)))
    assert {"Q1", "X3"} <= {each.id for each in run.verdict.invariants if each.status == "violated"}
