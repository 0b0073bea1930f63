"""What a leader looks at before it appends a producer's batch (``LogValidator.java``, and
``UnifiedLog.analyzeAndValidateRecords``)."""

from __future__ import annotations

import msgspec

from actors.config import LONG_MAX
from actors.log.batch import LogRecord, batch_size_bytes
from actors.node.errors import KafkaError
from krift.v1.records import RecordBatch

NO_TIMESTAMP = -1
AS_RETENTION = -2
"""A local limit of retention that is that of the whole log."""


class LogConfig(msgspec.Struct, frozen=True):
    """A topic's limits, as they are where nothing is configured. Timestamps: how far a record's may lie from the
    leader's clock. Retention: how much is kept, and for how long; -1: all of it, for ever; local: by the
    replicas themselves of what is copied to remote storage, -2: the same. Lag: how long, or how many
    bytes behind the log end, a full segment waits before it is copied; -1: as long as it is retained locally."""

    max_message_bytes: int = 1048588
    timestamp_before_max_ms: int = LONG_MAX
    timestamp_after_max_ms: int = 3600000
    segment_bytes: int = 1073741824
    segment_ms: int = 604800000
    retention_bytes: int = -1
    retention_ms: int = 604800000
    remote_copy_lag_ms: int = 0
    remote_copy_lag_bytes: int = -1
    local_retention_bytes: int = AS_RETENTION
    local_retention_ms: int = AS_RETENTION
    remote_storage: bool = False
    copies_disabled: bool = False

    @property
    def is_copied(self) -> bool:
        """Whether the log is tiered, and what is full is copied."""
        return self.remote_storage and not self.copies_disabled

    @property
    def own_retention_bytes(self) -> int:
        """How much a replica keeps."""
        return self._local_bytes if self.is_copied else self.retention_bytes

    @property
    def own_retention_ms(self) -> int:
        """For how long a replica keeps something."""
        return self._local_ms if self.is_copied else self.retention_ms

    @property
    def _local_bytes(self) -> int:
        local = self.local_retention_bytes
        return self.retention_bytes if local == AS_RETENTION else local

    @property
    def _local_ms(self) -> int:
        local = self.local_retention_ms
        return self.retention_ms if local == AS_RETENTION else local

    def is_due_for_copy(self, age_ms: int, bytes_behind: int) -> bool:
        """Whether a full segment of this age, with so many bytes behind it, may be copied
        (``RemoteLogManager.isEligibleForUpload``)."""
        lag_ms = self._local_ms if self.remote_copy_lag_ms < 0 else self.remote_copy_lag_ms
        lag_bytes = self._local_bytes if self.remote_copy_lag_bytes < 0 else self.remote_copy_lag_bytes
        if lag_ms == 0 or lag_bytes == 0:
            return True
        old = lag_ms > 0 and not 0 <= age_ms < lag_ms
        return old or 0 < lag_bytes <= bytes_behind


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
