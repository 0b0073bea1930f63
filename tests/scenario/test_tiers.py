"""Tiered storage from end to end: segments go to the remote store, and expire there, whatever the store does."""

from __future__ import annotations

from collections import Counter

from actors.trace.events import Stamped, StoreObject, TierSegment
from chaos.scenario.loader import load_text
from chaos.scenario.resolve import resolve
from orchestrator.sim_run import run_in_sim

SCENARIO = """
schema: krift/v1
name: tiers
about: The store fails and the leader crashes while segments are copied.
duration: 9s
cluster:
  voters: 1
  brokers: 3
  remote-store: {}
  topics:
    orders:
      replicas: [[1, 2, 3]]
      config: {remote.storage.enable: true, segment.ms: 400, retention.bytes: 20000}
  config:
    remote.log.manager.task.interval.ms: 300
    rlmm.config.remote.log.metadata.topic.num.partitions: 1
    request.timeout.ms: 2000
    broker.session.timeout.ms: 1500
    broker.heartbeat.interval.ms: 300
workload:
  - producer: {topic: orders, rate: 40/s}
  - consumer: {topic: orders}
chaos:
  - {when: {at: 1s}, fault: {half-copied: {chance: 60%}}, for: 2s}
  - {when: {at: 4s}, fault: {crash: leader(orders-0)}, for: 2s}
"""


def test_segments_are_copied_and_expire() -> None:
    """Shows that copies are finished in order by two leaders, that those which break off are deleted, that others
    expire, and that three brokers learn of each state."""
    told: list[TierSegment] = []
    objects: Counter[str] = Counter()
    leaders: list[str] = []

    def look(event: Stamped) -> None:
        body = event.body
        if isinstance(body, TierSegment):
            told.append(body)
            if body.phase == "copied" and event.node not in leaders:
                leaders.append(event.node)
        elif isinstance(body, StoreObject):
            objects[body.segment] += 1 if body.phase == "stored" else -1

    run = run_in_sim(resolve(load_text(SCENARIO, "tiers.yaml")), [look])
    assert run.verdict.outcome == "held", run.detail
    phases = Counter(each.phase for each in told)
    assert phases["copied"] > 5
    assert phases["copy-failed"] > 0
    assert phases["deleted"] > 0
    assert phases["refused"] == 0
    assert len(leaders) == 2
    for each in told:
        if each.phase == "copying":
            assert each.end < min(each.high_watermark, each.last_stable_offset)
    ended = {each.segment for each in told if each.phase == "deleted"}
    assert ended
    assert not any(objects[segment] for segment in ended)
    known = Counter((each.segment, each.state) for each in told if each.phase == "known")
    assert 3 in known.values()
