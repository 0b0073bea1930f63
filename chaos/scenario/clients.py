"""What a client is told: its configuration and its workload."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from actors.config import Scope, default_config
from actors.node.spec import ClusterSpec, Role
from chaos.scenario.model import Client, Consumer, ListOffsets, Producer, Transactional
from chaos.scenario.switch_checks import CLIENT_SCOPES, GROUP_SCOPES, MIRROR_SCOPES

COMMIT_EVERY_US = 1_000_000
"""Between two commits by hand where nothing is said."""


def client_scopes(kind: str, client: Client) -> tuple[Scope, ...]:
    """Which configuration keys a client reads."""
    if not isinstance(client, Consumer) or client.group is None:
        return CLIENT_SCOPES[kind]
    return GROUP_SCOPES if client.copy_to is None else MIRROR_SCOPES


def client_config(kind: str, client: Client, own: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration of a client: defaults, its config, the keys it gives by their short names, and above all
    ``own``, what ``nodes`` has for it. As in Kafka, idempotence that nobody asked for goes off by itself where acks
    is not all."""
    scopes: tuple[Scope, ...] = client_scopes(kind, client)
    given = {**client.config, **_short_names(client), **own}
    config = {key: value for scope in scopes for key, value in default_config(scope).items()} | given
    if "acks" in config:
        config["acks"] = str(config["acks"])
        if "enable.idempotence" not in given and config["acks"] != "all":
            config["enable.idempotence"] = False
    if isinstance(client, Consumer) and client.commits != "auto" and "enable.auto.commit" not in given:
        config["enable.auto.commit"] = False
    return config


def _short_names(client: Client) -> dict[str, Any]:
    """What a client gives by a short name, under Kafka's key."""
    named: dict[str, Any] = {}
    if isinstance(client, Producer):
        named = {"acks": client.acks, "enable.idempotence": client.idempotent}
    elif isinstance(client, Consumer):
        usual = "read_committed" if client.transactional is not None else None
        named = {"isolation.level": client.isolation or usual}
    return {key: value for key, value in named.items() if value is not None}


def _group_workload(client: Consumer) -> dict[str, Any]:
    """What a member of a group has beside that."""
    return {
        "group": client.group,
        "commit": client.commits,
        "commit_every_ms": max(1, (COMMIT_EVERY_US if client.commit_every is None else client.commit_every) // 1_000),
        "stall_every_ms": 0 if client.stall is None else max(1, client.stall.every // 1_000),
        "stall_ms": 0 if client.stall is None else max(1, client.stall.lasts // 1_000),
        "absent_every_ms": 0 if client.absence is None else max(1, client.absence.every // 1_000),
        "absent_ms": 0 if client.absence is None else max(1, client.absence.lasts // 1_000),
    }


def _transactions(given: Transactional) -> dict[str, Any]:
    """What an application has that sends in transactions."""
    transfers = {"transfers": True} if given.transfers else {}
    return {
        **transfers,
        "transaction_records": given.records,
        "aborts_percent": given.aborts,
        "hold_every_ms": 0 if given.stay is None else max(1, given.stay.every // 1_000),
        "hold_ms": 0 if given.stay is None else max(1, given.stay.lasts // 1_000),
        "hold_after": 0 if given.stay is None or given.stay.after is None else given.stay.after,
        "last_hold_ms": 0 if given.last_stay is None else max(1, given.last_stay // 1_000),
    }


def client_role(kind: str, client: Client) -> Role:
    """The role of a client of a kind of the workload."""
    match client:
        case Producer():
            return "producer" if client.transactional is None else "transactional-producer"
        case Consumer() if client.group is None:
            return "consumer"
        case Consumer() if client.copy_to is None:
            return "group-consumer"
        case Consumer():
            return "mirror" if client.transactional is None else "processor"
    assert isinstance(client, ListOffsets), kind
    return "list-offsets"


def client_workload(client: Client, cluster: ClusterSpec) -> dict[str, Any]:
    """The workload of a client's ``NodeSpec``: topic, partitions, and what its kind needs."""
    topic = next(topic for topic in cluster.topics if topic.name == client.topic)
    partitions = list(range(len(topic.replicas))) if client.partitions is None else list(client.partitions)
    workload: dict[str, Any] = {"topic": client.topic, "partitions": partitions}
    if isinstance(client, Producer | Consumer) and client.transactional is not None:
        workload |= _transactions(client.transactional)
    if isinstance(client, Producer):
        workload["rate"] = client.rate
    elif isinstance(client, Consumer):
        workload["seek"] = -1 if client.seek is None else client.seek
        workload["rewind_every_ms"] = 0 if client.rewind is None else max(1, client.rewind.every // 1_000)
        workload["rewind_by_ms"] = 0 if client.rewind is None else client.rewind.by // 1_000
        if client.group is not None:
            workload |= _group_workload(client)
        if client.copy_to is not None:
            copies = next(topic for topic in cluster.topics if topic.name == client.copy_to)
            workload |= {"copy_to": client.copy_to, "copy_partitions": len(copies.replicas)}
        if client.external_offsets is not None:
            workload["external_every_ms"] = max(1, client.external_offsets.every // 1_000)
            workload["external_wait_ms"] = max(1, client.external_offsets.wait // 1_000)
    elif isinstance(client, ListOffsets):
        workload["every_ms"] = client.every // 1_000
        workload["timestamp"] = client.timestamp
        workload |= {} if client.ago is None else {"ago_ms": client.ago // 1_000}
        workload |= {} if client.client == "admin" else {"client": client.client}
        workload |= {"together": True} if client.together else {}
        workload["isolation"] = 1 if client.isolation == "read_committed" else 0
        workload["replica_id"] = -1 if client.replica_id is None else client.replica_id
    return workload
