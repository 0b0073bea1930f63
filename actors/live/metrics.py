"""A broker's metrics for Prometheus, under the names that Kafka's have there (its MBeans, as the JMX exporter writes
them), made of the events that the node records. They are served on 127.0.0.1 and nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server

from actors.config import setting
from actors.node.errors import KafkaError
from actors.trace.events import (
    AnyTraceEvent,
    RecordsDelete,
    RequestHandled,
    RpcPark,
    RpcReply,
    TierTask,
    TraceEvent,
)

METRICS_PORT = "krift.metrics.port"
OFF = -1
"""Port of who serves none."""
METRICS_FILE = "metrics-port"
"""In the folder of the node's logs: the port that it has."""
LOOPBACK = "127.0.0.1"
POOLS = {"remote-log-reader": "RemoteLogReader", "remote-log-offset-reader": "RemoteLogOffsetReader"}
"""Pool -> the beginning of the names of its metrics (``RemoteStorageThreadPool``)."""
BUCKETS_MS = (0, 1, 5, 10, 50, 100, 500, 1000, 5000, 10000, 30000)


def serve_metrics(config: Mapping[str, Any], logs: Path) -> BrokerMetrics | None:
    """The metrics of a node, served if its configuration says so; ``logs``: the folder where the port is told."""
    port = setting(config, METRICS_PORT)
    if port == OFF:
        return None
    metrics = BrokerMetrics()
    logs.mkdir(parents=True, exist_ok=True)
    (logs / METRICS_FILE).write_text(f"{metrics.serve(port)}\n")
    return metrics


class BrokerMetrics:
    """The metrics of one incarnation."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._expires = Counter(
            "kafka_server_DelayedRemoteListOffsetsMetrics_ExpiresPerSec",
            "Look-ups in remote storage whose time was over.",
            registry=self.registry,
        )
        self._expires_of = Counter(
            "kafka_server_DelayedRemoteListOffsetsMetrics_ExpiresPerSec_partition",
            "The same of each partition.",
            ("topic", "partition"),
            registry=self.registry,
        )
        self._expired_deletions = Counter(
            "kafka_server_DelayedDeleteRecordsMetrics_ExpiresPerSec",
            "Partitions of DeleteRecords whose replicas did not begin later in time.",
            registry=self.registry,
        )
        self._purgatory = Gauge(
            "kafka_server_DelayedOperationPurgatory_PurgatorySize",
            "Requests that wait in a purgatory.",
            ("delayedOperation",),
            registry=self.registry,
        )
        self._pools = {name: self._pool(prefix) for name, prefix in POOLS.items()}
        self._times = {
            name: Histogram(
                f"kafka_network_RequestMetrics_{name}",
                about,
                ("request",),
                registry=self.registry,
                buckets=BUCKETS_MS,
            )
            for name, about in (
                ("RequestQueueTimeMs", "For how long requests waited for a request handler."),
                ("LocalTimeMs", "For how long request handlers had them."),
            )
        }
        self._parked: set[str] = set()
        self._deleting: dict[str, set[str]] = {}
        for name in ("RemoteListOffsets", "DeleteRecords"):
            self._purgatory.labels(name).set(0)
        self._by_type: dict[type[TraceEvent], Callable[[Any], None]] = {
            TierTask: self._task,
            RpcPark: self._park,
            RpcReply: self._reply,
            RequestHandled: self._handled,
            RecordsDelete: self._delete,
        }

    def _pool(self, prefix: str) -> tuple[Gauge, Gauge]:
        """Length of a pool's queue, and the share of its threads that are idle."""
        names = (f"{prefix}TaskQueueSize", f"{prefix}AvgIdlePercent")
        about = ("Reads that wait for a thread.", "Share of the threads that have nothing to do.")
        queue, idle = (
            Gauge(f"kafka_log_remote_RemoteStorageThreadPool_{name}", text, registry=self.registry)
            for name, text in zip(names, about, strict=True)
        )
        idle.set(1)
        return queue, idle

    def take(self, body: AnyTraceEvent) -> None:
        """The node recorded an event."""
        take = self._by_type.get(type(body))
        if take is not None:
            take(body)

    def serve(self, port: int) -> int:
        """Answer Prometheus, at any free port if ``port`` is 0; returns the port. Raises OSError."""
        server, _ = start_http_server(port, LOOPBACK, self.registry)
        return int(server.server_address[1])

    def _task(self, body: TierTask) -> None:
        if body.phase == "expire":
            topic, _, partition = body.tp.partition("@")[0].rpartition("-")
            self._expires.inc()
            self._expires_of.labels(topic, partition).inc()
        if body.pool in self._pools:
            queue, idle = self._pools[body.pool]
            queue.set(body.queued)
            idle.set(max(0.0, 1 - body.running / body.threads))

    def _park(self, body: RpcPark) -> None:
        if not body.held:
            self._parked.add(body.connection)
        self._purgatory.labels("RemoteListOffsets").set(len(self._parked))

    def _reply(self, body: RpcReply) -> None:
        self._parked.discard(body.connection)
        self._purgatory.labels("RemoteListOffsets").set(len(self._parked))

    def _delete(self, body: RecordsDelete) -> None:
        """A request waits as long as one of its partitions does."""
        waiting = self._deleting.setdefault(body.connection, set())
        if body.phase == "begin":
            waiting.add(body.tp)
        else:
            waiting.discard(body.tp)
            self._expired_deletions.inc(body.error == KafkaError.REQUEST_TIMED_OUT)
        if not waiting:
            del self._deleting[body.connection]
        self._purgatory.labels("DeleteRecords").set(len(self._deleting))

    def _handled(self, body: RequestHandled) -> None:
        self._times["RequestQueueTimeMs"].labels(body.api).observe(body.queue_ms)
        self._times["LocalTimeMs"].labels(body.api).observe(body.handler_ms)
