"""What a broker's configuration says of groups (``GroupCoordinatorConfig.java``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

MINUTE_MS = 60_000


class GroupConfig(msgspec.Struct, frozen=True):
    """Times are milliseconds. ``load_ms``: modelled time that loading an offsets partition takes."""

    min_session_timeout_ms: int = 6000
    max_session_timeout_ms: int = 1800000
    initial_rebalance_delay_ms: int = 3000
    max_size: int = 2147483647
    offset_metadata_max_bytes: int = 4096
    offsets_retention_ms: int = 10080 * MINUTE_MS
    offsets_retention_check_interval_ms: int = 600000
    offsets_commit_timeout_ms: int = 5000
    offsets_topic_num_partitions: int = 50
    offsets_topic_replication_factor: int = 3
    load_ms: int = 10


def offsets_retention_ms(config: Mapping[str, Any]) -> int:
    """How long positions are kept: Kafka says it in minutes, and runs may last seconds."""
    own: int = config["krift.offsets.retention.ms"]
    minutes: int = config["offsets.retention.minutes"]
    return own if own >= 0 else minutes * MINUTE_MS


def group_config_of(config: Mapping[str, Any]) -> GroupConfig:
    """The settings that a broker's configuration amounts to."""
    return GroupConfig(
        min_session_timeout_ms=config["group.min.session.timeout.ms"],
        max_session_timeout_ms=config["group.max.session.timeout.ms"],
        initial_rebalance_delay_ms=config["group.initial.rebalance.delay.ms"],
        max_size=config["group.max.size"],
        offset_metadata_max_bytes=config["offset.metadata.max.bytes"],
        offsets_retention_ms=offsets_retention_ms(config),
        offsets_retention_check_interval_ms=config["offsets.retention.check.interval.ms"],
        offsets_commit_timeout_ms=config["offsets.commit.timeout.ms"],
        offsets_topic_num_partitions=config["offsets.topic.num.partitions"],
        offsets_topic_replication_factor=config["offsets.topic.replication.factor"],
        load_ms=config["krift.group.load.ms"],
    )
