"""Topics that are deleted, created again under their names, and given more partitions, under load."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors.node.spec import is_recreated
from actors.trace.events import AdminReturn, LogAppend, PartAssume, PartRemove, PollReturn, SendReturn, Stamped
from chaos.scenario.loader import load_file
from chaos.scenario.resolve import resolve
from orchestrator.sim_run import run_in_sim
from tests.scenario.test_library_in_sim import play

SCENARIOS = Path(__file__).parent / "topics"

MADE_ANEW, COME_AND_GO = "made-anew-under-load", "come-and-go"
FURTHER = [("log", COME_AND_GO, 1), ("push", MADE_ANEW, 1), ("log", COME_AND_GO, 3), ("push", COME_AND_GO, 3)]


@pytest.mark.parametrize(
    ("propagation", "name", "seed"),
    [
        *[("log", MADE_ANEW, 1), ("push", COME_AND_GO, 1)],
        *(pytest.param(*each, marks=pytest.mark.further) for each in FURTHER),
    ],
)
def test_every_check_holds(propagation: str, name: str, seed: int) -> None:
    """Shows that no check objects to topics that come and go, whoever crashes meanwhile."""
    settings = [f"config.metadata.propagation={propagation}"]
    run = run_in_sim(resolve(load_file(SCENARIOS / f"{name}.yaml"), "", seed, settings))
    assert (run.status, run.verdict.unexpected) == ("completed", [])
    assert {each.status for each in run.verdict.invariants} <= {"held", "excused", "vacuous"}


def _of(trace: list[Stamped], kind: type) -> list[Stamped]:
    return [event for event in trace if type(event.body) is kind]


def test_clients_go_on_with_the_new_topic() -> None:
    """Shows what happens on the way: the partitions end; others begin, in logs of their own that begin at 0; and the
    idempotent producer and the consumer go on with them, without a word to their applications."""
    trace = play(resolve(load_file(SCENARIOS / "made-anew-under-load.yaml"), "", 1)).result.trace
    assert [event.body.results for event in _of(trace, AdminReturn)] == [{"orders": "NONE"}] * 3
    assert sorted(event.body.tp for event in _of(trace, PartRemove)) == ["orders-0", "orders-1"]
    removed_us = max(event.wall for event in _of(trace, PartRemove))
    assumed = [event.body for event in _of(trace, PartAssume) if is_recreated(event.body.tp)]
    assert {body.tp.partition("@")[0] for body in assumed} == {"orders-0", "orders-1", "orders-2"}
    first = {}
    for event in _of(trace, LogAppend):
        if is_recreated(event.body.tp):
            first.setdefault((event.node, event.body.tp), event.body.base)
    assert len(first) == 6 and set(first.values()) == {0}
    sent = [event for event in _of(trace, SendReturn) if event.node == "producer-1" and event.wall > removed_us]
    acked = [event for event in sent if is_recreated(event.body.tp) and event.body.outcome == "ok"]
    assert len(acked) > 500
    uids = {event.body.uid for event in acked}
    assert {event.body.uid for event in sent if event.body.outcome != "ok"} <= uids, "what the former topic refused"
    read = [event for event in _of(trace, PollReturn) if is_recreated(event.body.tp)]
    assert {record.uid for event in read for record in event.body.records} == uids
