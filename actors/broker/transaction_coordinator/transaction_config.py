"""What a broker's configuration says of transactions (``TransactionStateManagerConfig.java``,
``TransactionLogConfig.java``, ``AddPartitionsToTxnConfig.java``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


class TransactionConfig(msgspec.Struct, frozen=True):
    """Times are milliseconds. ``load_ms``: modelled time that loading a partition of the transaction log takes."""

    max_timeout_ms: int = 900000
    id_expiration_ms: int = 604800000
    abort_timed_out_interval_ms: int = 10000
    remove_expired_interval_ms: int = 3600000
    topic_num_partitions: int = 50
    topic_replication_factor: int = 3
    topic_min_isr: int = 2
    partition_verification: bool = True
    retry_backoff_ms: int = 20
    retry_backoff_max_ms: int = 100
    load_ms: int = 10


def transaction_config_of(config: Mapping[str, Any]) -> TransactionConfig:
    """The settings that a broker's configuration amounts to."""
    return TransactionConfig(
        max_timeout_ms=config["transaction.max.timeout.ms"],
        id_expiration_ms=config["transactional.id.expiration.ms"],
        abort_timed_out_interval_ms=config["transaction.abort.timed.out.transaction.cleanup.interval.ms"],
        remove_expired_interval_ms=config["transaction.remove.expired.transaction.cleanup.interval.ms"],
        topic_num_partitions=config["transaction.state.log.num.partitions"],
        topic_replication_factor=config["transaction.state.log.replication.factor"],
        topic_min_isr=config["transaction.state.log.min.isr"],
        partition_verification=config["transaction.partition.verification.enable"],
        retry_backoff_ms=config["add.partitions.to.txn.retry.backoff.ms"],
        retry_backoff_max_ms=config["add.partitions.to.txn.retry.backoff.max.ms"],
        load_ms=config["krift.group.load.ms"],
    )
