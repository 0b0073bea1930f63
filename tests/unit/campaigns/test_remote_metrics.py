"""What comparisons measure of remote storage, on traces written by hand."""

from __future__ import annotations

import pytest

from actors.trace.events import AnyTraceEvent, CtlPhase, RequestHandled, Rpc, Stamped, TierTask
from actors.trace.reader_events import ReaderTaskPhase
from chaos.scenario.loader import load_text
from chaos.scenario.resolve import resolve
from orchestrator.metrics import Metrics, RunMetrics, rank, title, unit

SCENARIO = """
schema: krift/v1
name: small
cluster: {voters: 1, brokers: 1, topics: {orders: {replicas: [[1]]}}STORE}
duration: 10s
workload:
  - list-offsets: {topic: orders, every: 1s, timestamp: 0}
"""
CLIENT = "list-offsets-1"


class Written:
    """A trace of a chaos from 1 s to 11 s."""

    def __init__(self, store: str = ", remote-store: {}") -> None:
        self.metrics = RunMetrics(resolve(load_text(SCENARIO.replace("STORE", store))))
        self.put("driver", CtlPhase("chaos"), 1)

    def put(self, node: str, body: AnyTraceEvent, at: float = 2) -> None:
        self.metrics(Stamped("run", node, 0, 0, round(at * 1e6), 0, "", "", body))

    def asked(self, took_ms: int, api: str = "ListOffsets", node: str = CLIENT, outcome: str = "answered") -> None:
        self.put(node, Rpc(api, 11, "broker-1", "client", 1, outcome, [], 30000, took_ms))  # type: ignore[arg-type]

    def task(self, phase: ReaderTaskPhase, at: float, running: int, queued: int = 0) -> None:
        body = TierTask("orders-0", "remote-log-reader", 1, "list-offsets", phase, "c", 1, running, queued, 4, 10)
        self.put("broker-1", body, at)

    def measured(self) -> Metrics:
        self.put("driver", CtlPhase("healing"), 11)
        return self.metrics.metrics()


def test_the_requests_of_clients() -> None:
    """Shows how long requests took, and which had no answer in time; those of brokers do not count."""
    trace = Written()
    for took_ms in (1, 2, 90):
        trace.asked(took_ms)
    trace.asked(30000, outcome="timeout")
    trace.asked(500, "Fetch", "broker-2")
    found = trace.measured()
    assert [found[f"request.ListOffsets.{which}"] for which in ("p50", "p99", "max")] == [2, 30000, 30000]
    assert found["timeouts.ListOffsets"] == 1
    assert "request.Fetch.p50" not in found


def test_the_request_queue() -> None:
    """Shows that requests which found a free handler count as such in the quantiles of the queue time."""
    trace = Written()
    trace.put("broker-1", RequestHandled("Produce", "c", 1, 40, 0, "at-once", 99, 3, 8))
    found = trace.measured()
    assert (found["request-queue.p50"], found["request-queue.p99"], found["request-queue.max"]) == (0, 0, 40)


def test_the_readers() -> None:
    """Shows expiries, rejections, the longest queue, and the share of idle threads from the first read on."""
    trace = Written()
    trace.task("enqueue", 6, 0)
    trace.task("start", 6, 2)
    trace.task("reject", 7, 2, 10)
    trace.task("expire", 8.5, 2)
    trace.task("free", 8.5, 0)
    found = trace.measured()
    assert (found["expired.lookups"], found["rejected.reads"], found["task-queue.remote-log-reader"]) == (1, 1, 10)
    assert found["idle.remote-log-reader"] == pytest.approx(75)


def test_without_a_store_nothing_of_it_is_measured() -> None:
    """Shows that a comparison of clusters without remote storage has no rows about it."""
    trace = Written("")
    trace.asked(1)
    assert not [name for name in trace.measured() if rank(name)[1].startswith(("request", "timeouts", "expired"))]


def test_names_for_people() -> None:
    """Shows that each measure has a title and a unit."""
    found = Written().measured()
    assert title("request.Produce.p99") == "requests: Produce, p99"
    assert (unit("request-queue.p99"), unit("timeouts.Fetch"), unit("request.Fetch.max")) == ("ms", "", "ms")
    assert all(title(name) for name in found)
