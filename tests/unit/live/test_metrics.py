"""The metrics of a live broker, as Prometheus reads them."""

from __future__ import annotations

from pathlib import Path
from urllib.request import urlopen

from actors.live.metrics import METRICS_FILE, METRICS_PORT, BrokerMetrics, serve_metrics
from actors.node.errors import KafkaError
from actors.trace.events import (
    DeletionPhase,
    ReaderTaskPhase,
    RecordsDelete,
    ReplyPartition,
    RequestHandled,
    RpcPark,
    RpcReply,
    TierTask,
)


def _task(number: int, phase: ReaderTaskPhase, running: int, queued: int, tp: str = "my-orders-0") -> TierTask:
    return TierTask(tp, "remote-log-reader", number, "list-offsets", phase, "c", 1, running, queued, 4, 10)


def _value(metrics: BrokerMetrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


def test_the_metrics_follow_the_events() -> None:
    """Shows expiries in sum and by partition, the queue and the idle threads of the pool, and the purgatory's size."""
    metrics = BrokerMetrics()
    for body in (
        RpcPark("ListOffsets", 11, "client", "c", 1, 0, 30000, ["my-orders-0"], []),
        _task(1, "enqueue", 0, 0),
        _task(1, "start", 1, 0),
        _task(2, "enqueue", 1, 3, "my-orders-1"),
        _task(1, "expire", 1, 3),
        _task(2, "expire", 1, 3, "my-orders-1"),
    ):
        metrics.take(body)
    expires = "kafka_server_DelayedRemoteListOffsetsMetrics_ExpiresPerSec"
    assert _value(metrics, f"{expires}_total") == 2
    assert _value(metrics, f"{expires}_partition_total", topic="my-orders", partition="1") == 1
    pool = "kafka_log_remote_RemoteStorageThreadPool_RemoteLogReader"
    assert (_value(metrics, f"{pool}TaskQueueSize"), _value(metrics, f"{pool}AvgIdlePercent")) == (3, 0.75)
    size = "kafka_server_DelayedOperationPurgatory_PurgatorySize"
    assert _value(metrics, size, delayedOperation="RemoteListOffsets") == 1
    told = [ReplyPartition("my-orders-0", KafkaError.REQUEST_TIMED_OUT)]
    metrics.take(RpcReply("ListOffsets", 11, "client", "c", 1, -1, 0, 0, told))
    assert _value(metrics, size, delayedOperation="RemoteListOffsets") == 0


def test_deletions_that_wait_are_counted() -> None:
    """Shows that a DeleteRecords is in its purgatory as long as one of its partitions waits, and how many partitions
    expired."""
    metrics = BrokerMetrics()

    def sizes(*told: tuple[DeletionPhase, str, KafkaError]) -> list[float | None]:
        found = []
        for phase, tp, error in told:
            metrics.take(RecordsDelete(tp, phase, "c", 1, 5, 5, 3, int(error), 0, [2]))
            found.append(_value(metrics, size, delayedOperation="DeleteRecords"))
        return found

    size = "kafka_server_DelayedOperationPurgatory_PurgatorySize"
    ok, late = KafkaError.NONE, KafkaError.REQUEST_TIMED_OUT
    begun = sizes(("begin", "orders-0", ok), ("begin", "orders-1", ok))
    assert begun + sizes(("end", "orders-1", ok), ("end", "orders-0", late)) == [1, 1, 1, 0]
    assert sizes(("end", "orders-2", KafkaError.NOT_LEADER_OR_FOLLOWER)) == [0]
    assert _value(metrics, "kafka_server_DelayedDeleteRecordsMetrics_ExpiresPerSec_total") == 1


def test_the_times_of_requests() -> None:
    """Shows how long requests of an API waited for a handler, and kept it."""
    metrics = BrokerMetrics()
    for queue_ms in (0, 40):
        metrics.take(RequestHandled("Produce", "c", 1, queue_ms, 2, "at-once", 0, 0, 0))
    name = "kafka_network_RequestMetrics_RequestQueueTimeMs"
    assert _value(metrics, f"{name}_sum", request="Produce") == 40
    assert _value(metrics, f"{name}_bucket", request="Produce", le="10.0") == 1


def test_they_are_read_over_the_loopback(tmp_path: Path) -> None:
    """Shows that a free port is taken for 0 and told in a file, that Prometheus' text is there, and that nothing is
    served without a port."""
    assert serve_metrics({}, tmp_path) is None
    assert serve_metrics({METRICS_PORT: 0}, tmp_path) is not None
    port = int((tmp_path / METRICS_FILE).read_text())
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    assert "kafka_log_remote_RemoteStorageThreadPool_RemoteLogReaderTaskQueueSize 0.0" in text
