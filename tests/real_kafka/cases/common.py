"""What several sections say and wait for."""

from __future__ import annotations

from typing import Any

from tests.real_kafka.cluster import Cluster, Connection, count_records, wait
from tests.real_kafka.requests import elect, error, partition_of


def produced_text(data: Any) -> str:
    """``0 NONE base=5``."""
    return f"{error(data.error_code)} base={data.base_offset}"


def leader_text(connection: Connection, topic: str) -> str:
    """What Metadata says of a topic's first partition."""
    data = partition_of(connection, topic)
    isr, offline = sorted(data.isr_nodes), sorted(data.offline_replicas)
    return f"leader={data.leader_id} epoch={data.leader_epoch} isr={isr} offline={offline} err={int(data.error_code)}"


def records_text(data: Any) -> str:
    """``0 NONE records=3``, with where a log diverges if it does."""
    diverging = f"diverging=({data.diverging_epoch.epoch},{data.diverging_epoch.end_offset})"
    return f"{error(data.error_code)} {diverging} records={count_records(data.records)}"


def is_full(connection: Connection, topic: str, replicas: int = 3) -> bool:
    """Whether a topic is led and all of its replicas are in sync."""
    data = partition_of(connection, topic)
    return len(data.isr_nodes) == replicas and data.leader_id > 0


def leads(cluster: Cluster, node: int, topic: str, *brokers: int) -> bool:
    """Wait until these brokers say that a node leads a topic."""
    connections = [cluster.connect(broker) for broker in brokers]
    return wait(cluster, lambda: all(partition_of(each, topic).leader_id == node for each in connections))


def prefer(cluster: Cluster, *topics: str) -> None:
    """Let the preferred replicas lead, and let that sink in."""
    elect(cluster.connect(2), 0, {topic: [0] for topic in topics})
    cluster.sleep(1000)
