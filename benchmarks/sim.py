"""The sim: how much faster than the wall clock, and how many messages a second beside a loop that only carries them."""

from __future__ import annotations

import heapq
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from actors.sim.world import World
from actors.trace.events import RunMeta
from benchmarks.figures import Figure, Goal, alternate
from chaos.conductor import ScenarioConductor
from chaos.incidents import library
from chaos.plan import Plan
from chaos.scenario.resolve import resolve
from krift.v1.fetch import FetchRequest, FetchResponse
from krift.v1.records import Record, RecordBatch
from krift.v1.wire import to_protobuf
from orchestrator.clusters.base import RunOrder
from orchestrator.clusters.sim import SimCluster
from orchestrator.engines.in_process import InProcessEngine

LOOP_MESSAGES = 200_000
"""Messages of one round of the loop."""

PENDING = 100
"""Entries in the loop's heap: about what a small cluster has under way."""


class Ran(msgspec.Struct, frozen=True):
    """One run. Times in seconds; ``cpu_s`` of this process, which is all on one core. messages: 0 not counted."""

    virtual_s: float
    wall_s: float
    cpu_s: float
    messages: int


def baseline(duration_s: float) -> Plan:
    """The library's scenario without faults, for ``duration_s`` virtual seconds after its warming up."""
    return resolve(library.load("baseline"), settings=[f"duration={int(duration_s * 1000)}ms"])


def run_checked(plan: Plan) -> Ran:
    """With the trace kept in memory and every invariant on. Raises AssertionError unless all went as it must."""
    engine = InProcessEngine()
    ran = _run(plan, engine)
    broken = [each.id for each in engine.results() if each.status in ("violated", "inconclusive")]
    assert not broken, f"the baseline broke {broken}: a figure for it means nothing"
    return ran


def run_unchecked(plan: Plan) -> Ran:
    """With neither: only the trace's digest is made."""
    return _run(plan, None)


def _run(plan: Plan, engine: InProcessEngine | None) -> Ran:
    conductor = ScenarioConductor(plan)
    meta = RunMeta(plan.scenario, plan.variant, "sim", plan.seed, plan.names, plan.profile())
    observer = None if engine is None else engine.take
    world = World(plan.nodes, conductor, plan.seed, "benchmark", observer, record=engine is not None, meta=meta)
    wall, cpu = time.perf_counter(), time.process_time()
    result = world.run(10**12)
    wall_s, cpu_s = time.perf_counter() - wall, time.process_time() - cpu
    assert result.finished and conductor.status == "completed", conductor.status
    return Ran(result.end_us / 1e6, wall_s, cpu_s, result.messages)


def run_kept(plan: Plan) -> Ran:
    """As ``krift run`` does it: checks on, trace in Parquet files, a digest of every step for ``krift replay``."""
    engine, conductor, cluster = InProcessEngine(), ScenarioConductor(plan), SimCluster(keep=True)
    cluster.observer = engine.take
    with tempfile.TemporaryDirectory() as folder:
        wall, cpu = time.perf_counter(), time.process_time()
        outcome = cluster.run(RunOrder("benchmark", plan, Path(folder)), conductor)
        engine.results()
        wall_s, cpu_s = time.perf_counter() - wall, time.process_time() - cpu
    assert outcome.status == "completed" and conductor.status == "completed", outcome.detail
    return Ran(outcome.duration_us / 1e6, wall_s, cpu_s, 0)


def loop_messages_per_s(count: int = LOOP_MESSAGES) -> float:
    """Messages a second that a heap and protobuf allow: per message one entry in and one out, encoded and parsed.

    Half are a consumer's Fetch, half its answer with one record, which is most of what the baseline sends.
    """
    examples = (to_protobuf(example_request()), to_protobuf(example_response()))
    examples[1].header.correlation_id = 1000
    kinds = (type(examples[0]), type(examples[1]))
    heap: list[tuple[int, int, int, bytes]] = []
    began = time.process_time()
    for number in range(count):
        which = number & 1
        payload = examples[which].SerializeToString()
        heapq.heappush(heap, (number + number * 7919 % 600, number, which, payload))
        if number >= PENDING:
            _, _, which, payload = heapq.heappop(heap)
            kinds[which].FromString(payload)
    return count / (time.process_time() - began)


def example_request() -> FetchRequest:
    """A consumer's Fetch of one partition."""
    request = FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=52_428_800)
    request.header.api_key, request.header.api_version = 1, 18
    request.header.client_id, request.header.correlation_id = "consumer-1", 1000
    topic = FetchRequest.FetchTopic(topic_id="AAAAAAAAAAAAAAAAAAAAAQ")
    request.topics.append(topic)
    topic.partitions.append(
        FetchRequest.FetchPartition(
            partition=1, current_leader_epoch=3, fetch_offset=1000, partition_max_bytes=1_048_576
        )
    )
    return request


def example_response() -> FetchResponse:
    """Its answer: one batch of one record."""
    record = Record(timestamp_ms=10_000, uid="producer-1/0/1000", key=b"", value=b"producer-1/0/1000")
    batch = RecordBatch(base_offset=1000, partition_leader_epoch=3, producer_id=1, base_sequence=1000, records=[record])
    response = FetchResponse()
    topic = FetchResponse.FetchableTopicResponse(topic_id="AAAAAAAAAAAAAAAAAAAAAQ")
    response.responses.append(topic)
    topic.partitions.append(
        FetchResponse.PartitionData(partition_index=1, high_watermark=1001, last_stable_offset=1001, records=[batch])
    )
    return response


def figures(rounds: int, seconds: float) -> list[Figure]:
    """``seconds``: virtual ones per run, the cluster's start apart."""
    plan = baseline(seconds)
    run_checked(plan)  # imports and caches, once
    checked: list[Ran] = []
    unchecked: list[Ran] = []
    checked_rates, checked_loop = alternate(_rate_of(run_checked, plan, checked), loop_messages_per_s, rounds)
    bare_rates, bare_loop = alternate(_rate_of(run_unchecked, plan, unchecked), loop_messages_per_s, rounds)
    kept = [run_kept(plan) for _ in range(rounds)]
    loop, goal = "empty heap-and-protobuf loop", Goal("least", 20, 40)
    return [
        _speed("sim: virtual over wall time", [ran.virtual_s / ran.wall_s for ran in checked], "wall clock", goal),
        _speed("sim: virtual over CPU time", [ran.virtual_s / ran.cpu_s for ran in checked], "CPU clock", goal),
        _speed("  without checks", [ran.virtual_s / ran.cpu_s for ran in unchecked], "CPU clock"),
        _speed("  with all that krift run keeps", [ran.virtual_s / ran.cpu_s for ran in kept], "CPU clock"),
        Figure("sim: messages", "messages/s", checked_rates, loop, checked_loop, Goal("least", 0.1, 0.25)),
        Figure("  without checks", "messages/s", bare_rates, loop, bare_loop),
    ]


def _rate_of(run: Callable[[Plan], Ran], plan: Plan, runs: list[Ran]) -> Callable[[], float]:
    """Runs the plan, notes the run, and returns its messages a second of CPU time."""

    def rate() -> float:
        runs.append(run(plan))
        return runs[-1].messages / runs[-1].cpu_s

    return rate


def _speed(name: str, values: list[float], clock: str, goal: Goal | None = None) -> Figure:
    return Figure(name, "s/s", values, clock, [1.0] * len(values), goal)
