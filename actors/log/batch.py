"""Record batches as a replica keeps them, and their form on the wire."""

from __future__ import annotations

import struct
import zlib
from hashlib import blake2b

import msgspec

from krift.v1.records import Record, RecordBatch

EMPTY_PREFIX_HASH = 0
"""Prefix hash at offset 0."""
UNKNOWN_PREFIX_HASH = -1
"""Prefix hash in a log that begins somewhere else, until it is told the one there."""

_BATCH_OVERHEAD_BYTES = 61
_RECORD_OVERHEAD_BYTES = 10
_HEADER_OVERHEAD_BYTES = 2
_HEAD = struct.Struct(">QiqiiB")
_RECORD = struct.Struct(">qi")
_NULL = b"\xff\xff\xff\xff"

CREATE_TIME = 0
"""Timestamp type of a batch: its producer gave the timestamps."""
LOG_APPEND_TIME = 1
"""Its leader did."""

LogRecord = Record
"""One record, in a log as on its way: it is never changed, so that all who have it may have the same one."""


class Batch(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A batch in a log: offsets [base_offset, last_offset], leader epoch ``epoch``.

    ``ph``: prefix hash at last_offset + 1, a hash over everything below that boundary. Comparing two prefixes is
    comparing two such numbers. It is ghost data too: each replica computes it from what it holds.
    """

    base_offset: int
    last_offset: int
    epoch: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    is_control: bool
    is_transactional: bool
    timestamp_type: int
    records: list[Record]
    ph: int

    @property
    def end_offset(self) -> int:
        """Exclusive end."""
        return self.last_offset + 1

    @property
    def last_sequence(self) -> int:
        """Sequence number of the last record, -1 without a producer id."""
        if self.base_sequence < 0:
            return -1
        return add_sequence(self.base_sequence, len(self.records) - 1)

    @property
    def size_bytes(self) -> int:
        """Size that fetch limits count: Kafka's overheads plus keys and values."""
        return batch_size_bytes(self.records)

    def to_message(self) -> RecordBatch:
        """The batch as it travels."""
        return RecordBatch(
            base_offset=self.base_offset,
            partition_leader_epoch=self.epoch,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=self.base_sequence,
            is_control=self.is_control,
            is_transactional=self.is_transactional,
            records=self.records,
            timestamp_type=self.timestamp_type,
        )


def add_sequence(sequence: int, increment: int) -> int:
    """Sequence numbers wrap from 2^31 - 1 to 0 (``DefaultRecordBatch.incrementSequence``)."""
    return (sequence + increment) & 0x7FFFFFFF


def batch_size_bytes(records: list[LogRecord]) -> int:
    """Size of a batch with these records."""
    size = _BATCH_OVERHEAD_BYTES
    for record in records:
        size += _RECORD_OVERHEAD_BYTES + len(record.key or b"") + len(record.value or b"")
        for header in record.headers:
            size += _HEADER_OVERHEAD_BYTES + len(header.key.encode()) + len(header.value or b"")
    return size


def payload_digest(record: LogRecord) -> int:
    """What a record says, in 32 bits: equal for what an application sent and what another one got. For the trace."""
    return zlib.crc32(_said(record), record.timestamp_ms & 0xFFFFFFFF)


def payload(record: LogRecord) -> bytes:
    """What a metadata or control record says, which always has a value."""
    assert record.value is not None
    return record.value


def make_batch(
    previous_ph: int, base_offset: int, epoch: int, records: list[LogRecord], *, is_control: bool = False
) -> Batch:
    """A batch of a leader's own records, that follows the boundary with prefix hash ``previous_ph``."""
    return take_batch(previous_ph, base_offset, epoch, RecordBatch(is_control=is_control, records=records))


def take_batch(previous_ph: int, base_offset: int, epoch: int, batch: RecordBatch) -> Batch:
    """What a log makes of a batch that somebody sent: all that it says, at an offset and in a leader epoch."""
    return Batch(
        base_offset,
        base_offset + len(batch.records) - 1,
        epoch,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        batch.is_control,
        batch.is_transactional,
        batch.timestamp_type,
        batch.records,
        extend_prefix_hash(previous_ph, epoch, batch),
    )


def extend_prefix_hash(previous_ph: int, epoch: int, batch: RecordBatch) -> int:
    """Prefix hash behind a batch in a leader epoch: 63 bits over the hash before it and everything in it."""
    if previous_ph == UNKNOWN_PREFIX_HASH:
        return UNKNOWN_PREFIX_HASH
    attributes = batch.timestamp_type << 3 | batch.is_transactional << 4 | batch.is_control << 5  # as in Kafka's batch
    digest = blake2b(
        _HEAD.pack(previous_ph, epoch, batch.producer_id, batch.producer_epoch, batch.base_sequence, attributes),
        digest_size=8,
    )
    for record in batch.records:
        head = _RECORD.pack(record.timestamp_ms, len(record.headers))
        digest.update(head + _sized(record.uid.encode()) + _said(record))
    return int.from_bytes(digest.digest(), "big") >> 1


def _said(record: LogRecord) -> bytes:
    """Key, value and headers, each behind its length: null is another value than an empty one."""
    said = _sized(record.key) + _sized(record.value)
    for header in record.headers:
        said += _sized(header.key.encode()) + _sized(header.value)
    return said


def _sized(part: bytes | None) -> bytes:
    return _NULL if part is None else len(part).to_bytes(4, "big") + part
