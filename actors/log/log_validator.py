"""What a leader looks at before it appends a producer's batch (``LogValidator.java``, and
``UnifiedLog.analyzeAndValidateRecords``)."""

from __future__ import annotations

import msgspec

from actors.config import LONG_MAX
from actors.log.batch import LogRecord, batch_size_bytes
from actors.node.errors import KafkaError
from krift.v1.records import RecordBatch

NO_TIMESTAMP = -1


class LogConfig(msgspec.Struct, frozen=True):
    """A topic's limits, as they are where nothing is configured. Timestamps: how far a record's may lie from the
    leader's clock. Retention: how much is kept, and for how long; -1: all of it, for ever."""

    max_message_bytes: int = 1048588
    timestamp_before_max_ms: int = LONG_MAX
    timestamp_after_max_ms: int = 3600000
    segment_bytes: int = 1073741824
    segment_ms: int = 604800000
    retention_bytes: int = -1
    retention_ms: int = 604800000


DEFAULT_LOG_CONFIG = LogConfig()


def validate_batch(batch: RecordBatch, records: list[LogRecord], now_ms: int, config: LogConfig) -> KafkaError:
    """Why a producer's batch cannot be taken, if anything stands against it; sequence numbers apart."""
    if batch.base_offset or not records:
        return KafkaError.INVALID_RECORD
    if batch_size_bytes(records) > config.max_message_bytes:
        return KafkaError.MESSAGE_TOO_LARGE
    if batch.is_control or (batch.producer_id >= 0 and batch.base_sequence < 0):
        return KafkaError.INVALID_RECORD
    if invalid_timestamps(records, now_ms, config):
        return KafkaError.INVALID_TIMESTAMP
    if batch_size_bytes(records) > config.segment_bytes:
        return KafkaError.RECORD_LIST_TOO_LARGE
    return KafkaError.NONE


def invalid_timestamps(records: list[LogRecord], now_ms: int, config: LogConfig) -> list[int]:
    """The records whose timestamp is out of range, by their place in the batch."""
    low, high = now_ms - config.timestamp_before_max_ms, now_ms + config.timestamp_after_max_ms
    return [
        index
        for index, record in enumerate(records)
        if not low <= record.timestamp_ms <= high and record.timestamp_ms != NO_TIMESTAMP
    ]
