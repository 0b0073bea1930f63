"""A node that its fault handler ends stays down until the cluster heals, and is excused where a disk was lost."""

from __future__ import annotations

import re

from actors.trace.events import NodeDown, NodeUp, QRole, Stamped
from chaos.scenario.loader import load_text
from chaos.scenario.resolve import resolve
from orchestrator.sim_run import SimRun, run_in_sim

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

BROKER_AWAY = "  - {when: {at: 2s}, fault: {crash: broker-1}, for: 1s}\n"
"""With it the healing takes long enough to see what becomes of a controller that comes back in it."""


def lives_of(text: str, *defects: str) -> tuple[SimRun, list[Stamped]]:
    """A run, and what became of its controllers: starts, ends and roles."""
    lives: list[Stamped] = []

    def look(event: Stamped) -> None:
        if isinstance(event.body, NodeUp | NodeDown | QRole) and event.node.startswith("controller-"):
            lives.append(event)

    return run_in_sim(resolve(load_text(text, "wiped-leader.yaml"), "", 1, (), defects), [look]), lives


def fatal_ends(lives: list[Stamped]) -> list[tuple[Stamped, str]]:
    """The ends that nodes put to themselves, with the reasons that they gave."""
    return [
        (event, event.body.detail) for event in lives if isinstance(event.body, NodeDown) and event.body.mode == "fatal"
    ]


def test_a_leader_without_its_disk_stops_when_it_hears_that_it_leads() -> None:
    """Shows that it comes back empty, stops itself, is away until the healing, and then follows the next leader; X3
    tells of it, and excuses it."""
    run, lives = lives_of(WIPED + BROKER_AWAY)
    ((fatal, why),) = fatal_ends(lives)
    assert why == f"was told that 10{fatal.node[-1]} leads epoch 1, and knows that nobody leads 0"
    back, *after = [each for each in lives if each.node == fatal.node and each.incarnation > fatal.incarnation]
    assert (type(back.body), back.wall) == (NodeUp, run.zero_us + 3_000_000)
    last = [each.body for each in after if isinstance(each.body, QRole)][-1]
    assert (last.role, last.epoch, last.leader_id) == ("follower", 2, 101)
    assert (run.status, run.verdict.unexpected, run.verdict.undecided) == ("completed", [], [])
    (bugs,) = [each for each in run.verdict.invariants if each.id == "X3"]
    assert bugs.excused == {"wiped": 1}


def test_two_leaders_of_an_epoch_stop_whoever_hears_of_both() -> None:
    """Shows that one of two leaders of an epoch stops itself when it is told of the other, and says so; X3 is violated,
    beside what the two violate."""
    run, lives = lives_of(WIPED.replace("wipe:", "crash:"), "same-epoch-leader")
    ends = fatal_ends(lives)
    leaders = {
        (f"10{event.node[-1]}", event.body.epoch)
        for event in lives
        if isinstance(event.body, QRole) and event.body.role == "leader"
    }
    for _, why in ends:
        said = re.fullmatch(r"was told that (\d+) leads epoch 2, and knows that (\d+) leads 2", why)
        assert said is not None, why
        assert said[1] != said[2]
        assert {(said[1], 2), (said[2], 2)} <= leaders
    assert ends
    assert {"Q1", "X3"} <= {each.id for each in run.verdict.invariants if each.status == "violated"}
