"""Configuration of tiered storage at a broker (``RemoteLogManagerConfig.java``,
``TopicBasedRemoteLogMetadataManagerConfig.java``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

SYSTEM_ENABLE = "remote.log.storage.system.enable"
TASK_INTERVAL = "remote.log.manager.task.interval.ms"
FETCH_MAX_WAIT = "remote.fetch.max.wait.ms"
TOPIC_PARTITIONS = "rlmm.config.remote.log.metadata.topic.num.partitions"
TOPIC_REPLICATION = "rlmm.config.remote.log.metadata.topic.replication.factor"
TOPIC_RETENTION = "rlmm.config.remote.log.metadata.topic.retention.ms"
TOPIC_MIN_ISR = "rlmm.config.remote.log.metadata.topic.min.isr"
CONSUME_WAIT = "rlmm.config.remote.log.metadata.consume.wait.ms"


class RemoteLogConfig(msgspec.Struct, frozen=True):
    """The values that a broker starts with; times are milliseconds. ``enabled``: it has tiered storage at all."""

    enabled: bool = False
    task_interval_ms: int = 30000
    fetch_max_wait_ms: int = 500
    topic_num_partitions: int = 50
    topic_replication_factor: int = 3
    topic_retention_ms: int = -1
    topic_min_isr: int = 2
    consume_wait_ms: int = 120000


def remote_log_config_of(config: Mapping[str, Any], remote_store: bool) -> RemoteLogConfig:
    """From a broker's configuration; without a store there is no tiered storage."""
    return RemoteLogConfig(
        config[SYSTEM_ENABLE] and remote_store,
        config[TASK_INTERVAL],
        config[FETCH_MAX_WAIT],
        config[TOPIC_PARTITIONS],
        config[TOPIC_REPLICATION],
        config[TOPIC_RETENTION],
        config[TOPIC_MIN_ISR],
        config[CONSUME_WAIT],
    )
