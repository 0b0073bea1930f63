"""What the parts of a broker share while it takes one step, and the settings that they read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from actors.broker.group_coordinator.group_config import GroupConfig, group_config_of
from actors.broker.remote_log.reader_config import ReaderConfig, reader_config_of
from actors.broker.remote_log.remote_log_config import RemoteLogConfig, remote_log_config_of
from actors.broker.transaction_coordinator.transaction_config import TransactionConfig, transaction_config_of
from actors.config import setting
from actors.features import (
    KAFKA_7408,
    KIP_232,
    KIP_1075,
    REELECTED_IN_PLACE,
    REFUSED_MARKER,
    SPINNING_CONSUMER,
    UNCOMMITTED_DUPLICATES,
)
from actors.log.log_validator import DEFAULT_LOG_CONFIG, LogConfig
from actors.node.messages import Api
from actors.node.spec import ClusterSpec, NodeSpec, node_name
from actors.node.step import Step
from actors.node.turn import NodeTurn

if TYPE_CHECKING:
    from actors.broker.broker_node import BrokerNode
    from actors.broker.request_channel import TakenRequest


class Settings(msgspec.Struct, frozen=True):
    """Configuration and features of a broker, resolved once at its start. Times are milliseconds."""

    node_id: int = -1
    cluster: ClusterSpec = ClusterSpec("", [], [])
    kip_207: str = "kafka"
    kip_232: str = "kafka"
    kip_1075: str = "kafka"
    kafka_7408: str = "off"
    refused_marker: str = "kafka"
    reelected_in_place: str = "kafka"
    spinning_consumer: str = "kafka"
    uncommitted_duplicates: str = "kafka"
    metadata_propagation: str = "log"
    unclean_leader_election: bool = False
    min_insync_replicas: int = 1
    log_config: LogConfig = DEFAULT_LOG_CONFIG
    groups: GroupConfig = GroupConfig()
    transactions: TransactionConfig = TransactionConfig()
    readers: ReaderConfig = ReaderConfig()
    remote_log: RemoteLogConfig = RemoteLogConfig()
    replica_lag_time_max_ms: int = 30000
    replica_fetch_wait_max_ms: int = 500
    replica_fetch_min_bytes: int = 1
    replica_fetch_max_bytes: int = 1048576
    replica_fetch_response_max_bytes: int = 10485760
    replica_fetch_backoff_ms: int = 1000
    replica_socket_timeout_ms: int = 30000
    hw_checkpoint_interval_ms: int = 5000
    log_initial_task_delay_ms: int = 30000
    log_retention_check_interval_ms: int = 300000
    log_start_checkpoint_interval_ms: int = 60000
    fetch_session_cache_slots: int = 1000
    heartbeat_interval_ms: int = 2000
    session_timeout_ms: int = 9000
    initial_registration_timeout_ms: int = 60000
    controlled_shutdown: bool = True
    reconnect_backoff_ms: int = 50


def settings_of(spec: NodeSpec) -> Settings:
    """The settings that a node's specification amounts to."""
    config: dict[str, Any] = spec.config
    return Settings(
        node_id=spec.node_id,
        cluster=spec.cluster,
        kip_207=spec.features["kip-207"],
        kip_232=spec.features.get(KIP_232, "kafka"),
        kip_1075=spec.features.get(KIP_1075, "kafka"),
        kafka_7408=spec.features.get(KAFKA_7408, "off"),
        refused_marker=spec.features.get(REFUSED_MARKER, "kafka"),
        reelected_in_place=spec.features.get(REELECTED_IN_PLACE, "kafka"),
        spinning_consumer=spec.features.get(SPINNING_CONSUMER, "kafka"),
        uncommitted_duplicates=spec.features.get(UNCOMMITTED_DUPLICATES, "kafka"),
        metadata_propagation=config["metadata.propagation"],
        unclean_leader_election=config["unclean.leader.election.enable"],
        min_insync_replicas=config["min.insync.replicas"],
        log_config=LogConfig(
            config["message.max.bytes"],
            config["log.message.timestamp.before.max.ms"],
            config["log.message.timestamp.after.max.ms"],
            setting(config, "log.segment.bytes"),
            setting(config, "log.roll.ms"),
            setting(config, "log.retention.bytes"),
            setting(config, "log.retention.ms"),
            setting(config, "log.remote.copy.lag.ms"),
            setting(config, "log.remote.copy.lag.bytes"),
            setting(config, "log.local.retention.bytes"),
            setting(config, "log.local.retention.ms"),
        ),
        groups=group_config_of(config),
        transactions=transaction_config_of(config),
        readers=reader_config_of(config),
        remote_log=remote_log_config_of(config, spec.cluster.remote_store),
        replica_lag_time_max_ms=config["replica.lag.time.max.ms"],
        replica_fetch_wait_max_ms=config["replica.fetch.wait.max.ms"],
        replica_fetch_min_bytes=config["replica.fetch.min.bytes"],
        replica_fetch_max_bytes=config["replica.fetch.max.bytes"],
        replica_fetch_response_max_bytes=config["replica.fetch.response.max.bytes"],
        replica_fetch_backoff_ms=config["replica.fetch.backoff.ms"],
        replica_socket_timeout_ms=config["replica.socket.timeout.ms"],
        hw_checkpoint_interval_ms=config["replica.high.watermark.checkpoint.interval.ms"],
        log_initial_task_delay_ms=setting(config, "log.initial.task.delay.ms"),
        log_retention_check_interval_ms=setting(config, "log.retention.check.interval.ms"),
        log_start_checkpoint_interval_ms=setting(config, "log.flush.start.offset.checkpoint.interval.ms"),
        fetch_session_cache_slots=config["max.incremental.fetch.session.cache.slots"],
        heartbeat_interval_ms=config["broker.heartbeat.interval.ms"],
        session_timeout_ms=config["broker.session.timeout.ms"],
        initial_registration_timeout_ms=config["initial.broker.registration.timeout.ms"],
        controlled_shutdown=config["controlled.shutdown.enable"],
        reconnect_backoff_ms=config["reconnect.backoff.ms"],
    )


class Turn(NodeTurn):
    """Handed down through a broker during one step: what all nodes have, and what the parts of a broker need of one
    another. broker_epoch: of this broker's registration, -1 before it. serving: the request that is handled now."""

    __slots__ = (
        "broker_epoch",
        "channel",
        "groups",
        "image",
        "logs",
        "producer_ids",
        "purgatory",
        "raft",
        "readers",
        "remote_log",
        "replicas",
        "serving",
        "settings",
        "transactions",
        "verification",
    )

    def __init__(self, step: Step, node: BrokerNode) -> None:
        super().__init__(step, node.files, node.net)
        self.raft = node.raft
        self.image = node.image
        self.channel = node.channel
        self.serving: TakenRequest | None = None
        self.settings = node.settings
        self.logs = node.logs
        self.replicas = node.replicas
        self.purgatory = node.purgatory
        self.groups = node.groups
        self.transactions = node.transactions
        self.verification = node.verification
        self.readers = node.readers
        self.remote_log = node.remote_log
        self.producer_ids = node.producer_ids
        self.broker_epoch = node.lifecycle.broker_epoch

    def reachable_controller(self, connection: str, api: Api) -> tuple[str, int] | None:
        """The active controller's node and the version of ``api`` to send it now; None while this broker knows no
        controller, is not connected to it, or shares no version with it."""
        leader = self.raft.controller_id
        if leader < 0 or not self.net.ready(self.step, node_name(leader), connection):
            return None
        version = self.net.version(node_name(leader), connection, api)
        return None if version is None else (node_name(leader), version)
