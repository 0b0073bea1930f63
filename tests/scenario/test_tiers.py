"""Tiered storage from end to end: segments go to the remote store, and expire there, whatever the store does."""

from __future__ import annotations

from collections import Counter

from actors.broker.remote_log.remote_log_metadata import CONSUMER
from actors.node.errors import KafkaError
from actors.trace.events import ListReturn, LogLocalStart, LogStart, PollReturn, Rpc, Stamped, StoreObject, TierSegment
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


LOCAL = """
schema: krift/v1
name: local
about: Replicas drop what is copied, and consumers go back to it.
duration: 9s
cluster:
  voters: 1
  brokers: 3
  remote-store: {}
  topics:
    orders:
      replicas: [[1, 2, 3]]
      config: {remote.storage.enable: true, segment.ms: 400, local.retention.ms: 800, min.insync.replicas: 2}
  config:
    remote.log.manager.task.interval.ms: 300
    rlmm.config.remote.log.metadata.topic.num.partitions: 1
    request.timeout.ms: 2000
    broker.session.timeout.ms: 1500
    broker.heartbeat.interval.ms: 300
    log.retention.check.interval.ms: 500
    log.initial.task.delay.ms: 300
    log.flush.start.offset.checkpoint.interval.ms: 500
workload:
  - producer: {topic: orders, rate: 40/s, acks: all, idempotent: true}
  - consumer: {topic: orders, rewind: {every: 1s, by: 4s}}
  - list-offsets: {topic: orders, every: 100ms, timestamp: earliest}
  - list-offsets: {topic: orders, every: 100ms, timestamp: 0}
chaos:
  - {when: {at: 4s}, fault: {crash: leader(orders-0)}, for: 2s}
expect: {held: [C1, C3, P4, P22, H4, R10]}
"""


def test_a_log_begins_below_what_replicas_have() -> None:
    """Shows that three replicas drop what is copied, and none of them moves its log start, not even one that is started
    again; that clients are told of offset 0 all the time, as the earliest and as the first record; and that a consumer
    reads again from below what the leader has."""
    local: dict[str, int] = {}
    starts: list[tuple[str, int]] = []
    earliest: set[int] = set()
    below: list[int] = []

    def look(event: Stamped) -> None:
        body = event.body
        if isinstance(body, LogLocalStart):
            local[event.node] = body.new
            assert body.log_start == 0
        elif isinstance(body, LogStart) and body.tp == "orders-0":
            starts.append((body.reason, body.new))
        elif isinstance(body, ListReturn) and body.outcome == "ok" and event.node.startswith("list-offsets"):
            earliest.add(body.offset)
        elif (
            isinstance(body, PollReturn)
            and body.outcome == "ok"
            and local
            and body.records
            and body.offset < min(local.values())
        ):
            below.append(body.offset)

    run = run_in_sim(resolve(load_text(LOCAL, "local.yaml")), [look])
    assert run.verdict.outcome == "held", run.detail
    assert len(local) == 3
    assert min(local.values()) > 100
    assert ("load", 0) in starts
    assert {start for reason, start in starts if reason == "remote"} == {0}
    assert {reason for reason, _ in starts} == {"load", "remote"}
    assert earliest - {-1} == {0}
    assert len(below) > 3


GONE = """
schema: krift/v1
name: gone
about: A broker is away until the metadata that it has not consumed are gone.
duration: 9s
cluster:
  voters: 1
  brokers: 3
  remote-store: {}
  topics:
    orders:
      replicas: [[1, 2, 3]]
      config: {remote.storage.enable: true, segment.ms: 400, retention.bytes: 4000}
  config:
    log.segment.bytes: 1000
    log.retention.bytes: 2000
    log.retention.check.interval.ms: 500
    log.initial.task.delay.ms: 300
    remote.log.manager.task.interval.ms: 300
    rlmm.config.remote.log.metadata.topic.num.partitions: 1
    broker.session.timeout.ms: 1500
    broker.heartbeat.interval.ms: 300
workload:
  - producer: {topic: orders, rate: 40/s}
chaos:
  - {when: {at: 1s}, fault: {crash: broker-3}, for: 5s}
expect: {held: [R10, R12, X10]}
"""


def test_metadata_that_retention_has_taken() -> None:
    """Shows that a broker that comes back, and finds the beginning of the metadata topic gone, asks once where that is
    now, and consumes from there on."""
    asked: list[int] = []
    known: list[str] = []

    def look(event: Stamped) -> None:
        body = event.body
        if event.node != "broker-3" or event.incarnation != 1:
            return
        if isinstance(body, Rpc) and body.connection == CONSUMER:
            asked.append(KafkaError.OFFSET_OUT_OF_RANGE in body.errors or body.api == "ListOffsets")
        elif isinstance(body, TierSegment) and body.phase == "known" and asked:
            known.append(body.segment)

    run = run_in_sim(resolve(load_text(GONE, "gone.yaml")), [look])
    assert run.verdict.outcome == "held", run.detail
    assert sum(asked) == 2
    assert len(known) > 3
