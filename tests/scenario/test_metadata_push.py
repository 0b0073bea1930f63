"""Metadata pushed to brokers as before KRaft (``metadata.propagation: push``)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from actors.trace.events import MetaView, Rpc, Stamped
from chaos.scenario.loader import load_text
from chaos.scenario.resolve import resolve
from tests.scenario.test_library_in_sim import assert_expected, play

SCENARIO = """
schema: krift/v1
name: push
about: Two leaders die, one after the other; clients are told of the next by what was pushed.
duration: 9s
cluster:
  voters: 3
  brokers: 3
  topics:
    orders: {replicas: [[1, 2, 3]]}
  config: {metadata.propagation: push, broker.session.timeout.ms: 2000, broker.heartbeat.interval.ms: 400}
workload:
  - producer: {topic: orders, rate: 50/s}
  - consumer: {topic: orders}
chaos:
  - when: {at: 500ms}
    fault: {crash: leader(orders-0)}
    for: 4s
  - when: {at: 5500ms}
    fault: {crash: leader(orders-0)}
    for: 3s
must-happen: [leader-elected, {rpc: {api: UpdateMetadata}}]
"""

FAIL_OVER = """
  - when: {at: 2s}
    fault: {crash: active-controller}
    for: 5s
"""


def pushes(trace: Sequence[Stamped]) -> dict[str, Rpc]:
    """UpdateMetadata that was answered: id of its event -> the exchange."""
    bodies = {event.id: event.body for event in trace}
    return {
        name: body
        for name, body in bodies.items()
        if isinstance(body, Rpc) and (body.api, body.outcome) == ("UpdateMetadata", "answered")
    }


@pytest.mark.parametrize("versions", ["0-8", "0-4", "5-6"])
def test_clients_follow_leaders_that_were_pushed(versions: str) -> None:
    """Shows that brokers which answer from pushes alone bring clients to every next leader, at old versions of the push
    as well, and that every broker was told."""
    plan = resolve(load_text(SCENARIO), settings=[f"versions.UpdateMetadata={versions}"])
    played = play(plan)
    assert_expected(plan, played)
    made = pushes(played.result.trace)
    assert {body.version for body in made.values()} == {int(versions[-1])}
    assert {body.dst for body in made.values()} == {"broker-1", "broker-2", "broker-3"}
    views = [event.body for event in played.result.trace if isinstance(event.body, MetaView)]
    assert {epoch for view in views for epoch in view.epochs.values()} >= {0, 1}


def test_the_next_controller_tells_everybody_everything() -> None:
    """Shows that a controller that takes over pushes to every broker that is up, under its own epoch."""
    text = SCENARIO.replace("must-happen:", f"{FAIL_OVER.strip(chr(10))}\nmust-happen:")
    plan = resolve(load_text(text))
    played = play(plan)
    assert_expected(plan, played)
    assert len({name.partition("/")[0] for name in pushes(played.result.trace)}) == 2
