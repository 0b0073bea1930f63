"""Record batches as a replica keeps them, and their form on the wire."""

from __future__ import annotations

import struct
import zlib
from hashlib import blake2b

import msgspec

from krift.v1.records import Record, RecordBatch

EMPTY_PREFIX_HASH = 0
"""Prefix hash at offset 0."""

_BATCH_OVERHEAD_BYTES = 61
_RECORD_OVERHEAD_BYTES = 10
_HEAD = struct.Struct(">QiqiiB")
_TIMESTAMP = struct.Struct(">q")


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
            records=self.records,
        )


def add_sequence(sequence: int, increment: int) -> int:
    """Sequence numbers wrap from 2^31 - 1 to 0 (``DefaultRecordBatch.incrementSequence``)."""
    return (sequence + increment) & 0x7FFFFFFF


def batch_size_bytes(records: list[LogRecord]) -> int:
    """Size of a batch with these records."""
    size = _BATCH_OVERHEAD_BYTES
    for record in records:
        size += _RECORD_OVERHEAD_BYTES + len(record.key) + len(record.value)
    return size


def payload_digest(timestamp_ms: int, key: bytes, value: bytes) -> int:
    """What a record says, in 32 bits: equal for what an application sent and what another one got. For the trace."""
    return zlib.crc32(value, zlib.crc32(key, timestamp_ms & 0xFFFFFFFF))


def make_batch(
    previous_ph: int,
    base_offset: int,
    epoch: int,
    records: list[LogRecord],
    *,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    is_control: bool = False,
) -> Batch:
    """A batch that follows the boundary with prefix hash ``previous_ph``."""
    ph = extend_prefix_hash(previous_ph, epoch, records, producer_id, producer_epoch, base_sequence, is_control)
    last_offset = base_offset + len(records) - 1
    return Batch(base_offset, last_offset, epoch, producer_id, producer_epoch, base_sequence, is_control, records, ph)


def extend_prefix_hash(
    previous_ph: int,
    epoch: int,
    records: list[LogRecord],
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    is_control: bool,
) -> int:
    """Prefix hash behind a batch: 63 bits over the hash before it and everything in it."""
    digest = blake2b(
        _HEAD.pack(previous_ph, epoch, producer_id, producer_epoch, base_sequence, is_control), digest_size=8
    )
    for record in records:
        digest.update(_TIMESTAMP.pack(record.timestamp_ms))
        for part in (record.uid.encode(), record.key, record.value):
            digest.update(len(part).to_bytes(4, "big"))
            digest.update(part)
    return int.from_bytes(digest.digest(), "big") >> 1
