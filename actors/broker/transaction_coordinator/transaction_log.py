"""The records of ``__transaction_state`` (``TransactionLog.java``)."""

from __future__ import annotations

from actors.broker.transaction_coordinator.transaction_metadata import (
    NO_PRODUCER_ID,
    TransactionMetadata,
    TxnTransitMetadata,
)
from actors.broker.transaction_coordinator.transaction_state import EMPTY, IDS, STATES
from actors.log.producer_state import TransactionVersion
from actors.node.spec import split_topic_partition, topic_partition
from krift.v1.records import Record
from krift.v1.transactions import TransactionLogKey, TransactionLogValue, TxnTopicPartitions
from krift.v1.wire import from_bytes, to_bytes


def topics_of(partitions: list[str]) -> list[TxnTopicPartitions]:
    """Partitions by their topics, in the order in which they came."""
    topics: dict[str, TxnTopicPartitions] = {}
    for tp in partitions:
        name, index = split_topic_partition(tp)
        topics.setdefault(name, TxnTopicPartitions(name=name)).partitions.append(index)
    return list(topics.values())


def partitions_of(topics: list[TxnTopicPartitions]) -> list[str]:
    """Inverse of ``topics_of``."""
    return [topic_partition(topic.name, index) for topic in topics for index in topic.partitions]


def value_record(
    transactional_id: str, transit: TxnTransitMetadata, version: TransactionVersion, now_ms: int, uid: str
) -> Record:
    """What a transactional id is about to become. ``version``: ``transaction.version``: below 1 the log does not say by
    which the client goes, and has neither the former nor the next producer id (``TransactionLog.valueToBytes``)."""
    flexible = version >= 1
    assert transit.state != EMPTY or not transit.partitions, f"{transactional_id}: Empty with partitions"
    value = TransactionLogValue(
        producer_id=transit.producer_id,
        previous_producer_id=transit.prev_producer_id if flexible else NO_PRODUCER_ID,
        next_producer_id=transit.next_producer_id if flexible else NO_PRODUCER_ID,
        producer_epoch=transit.producer_epoch,
        transaction_timeout_ms=transit.txn_timeout_ms,
        transaction_status=IDS[transit.state],
        transaction_partitions=topics_of(transit.partitions),
        transaction_last_update_timestamp_ms=transit.last_update_ms,
        transaction_start_timestamp_ms=transit.start_ms,
        client_transaction_version=transit.client_version if flexible else 0,
    )
    return _record(transactional_id, to_bytes(value), now_ms, uid)


def tombstone(transactional_id: str, now_ms: int, uid: str) -> Record:
    """The transactional id is gone."""
    return _record(transactional_id, None, now_ms, uid)


def _record(transactional_id: str, value: bytes | None, now_ms: int, uid: str) -> Record:
    key = to_bytes(TransactionLogKey(transactional_id=transactional_id))
    return Record(timestamp_ms=now_ms, uid=uid, key=key, value=value)


def read(record: Record) -> tuple[str, TransactionMetadata | None]:
    """The transactional id that a record is of, and what it says; None: it is gone. Raises DecodeError for what is no
    such record."""
    transactional_id = from_bytes(TransactionLogKey, record.key or b"").transactional_id
    if record.value is None:
        return transactional_id, None
    value = from_bytes(TransactionLogValue, record.value)
    version = value.client_transaction_version
    return transactional_id, TransactionMetadata(
        transactional_id,
        value.producer_id,
        value.transaction_timeout_ms,
        prev_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        producer_epoch=value.producer_epoch,
        state=STATES[value.transaction_status],
        partitions=partitions_of(value.transaction_partitions),
        start_ms=value.transaction_start_timestamp_ms,
        last_update_ms=value.transaction_last_update_timestamp_ms,
        client_version=2 if version >= 2 else 1 if version == 1 else 0,
    )
