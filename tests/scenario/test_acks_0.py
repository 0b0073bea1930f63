"""A producer that waits for no answer, and a leader that dies."""

from __future__ import annotations

from actors.trace.events import LogAppend, SendReturn
from chaos.scenario.loader import load_text
from chaos.scenario.resolve import resolve
from tests.scenario.test_library_in_sim import play

SCENARIO = """
schema: krift/v1
name: acks-0
about: The leader's process is killed; a producer with acks=0 goes on at the next leader.
duration: 7s
cluster:
  voters: 3
  brokers: 3
  topics:
    orders: {replicas: [[1, 2, 3]]}
  config: {broker.session.timeout.ms: 2000, broker.heartbeat.interval.ms: 400}
workload:
  - producer: {topic: orders, rate: 50/s, acks: 0, idempotent: false}
chaos:
  - when: {at: 500ms}
    fault: {crash: leader(orders-0)}
    for: 6s
expect: {held: [P1]}
"""


def test_a_producer_without_answers_finds_the_next_leader() -> None:
    """Shows that the end of its connection sends a producer with acks=0 to the new leader, as in Kafka: it loses what
    was under way to the old one, and no more."""
    trace = play(resolve(load_text(SCENARIO))).result.trace
    told = [event.body for event in trace if isinstance(event.body, SendReturn)]
    assert {body.outcome for body in told} == {"ok"}
    written = {
        uid
        for event in trace
        if isinstance(event.body, LogAppend) and event.body.role == "leader"
        for uid in event.body.uids
    }
    assert len(told) - 10 <= len({body.uid for body in told} & written) < len(told)
