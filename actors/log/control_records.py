"""The markers that end a transaction on a partition (``ControlRecordType.java``, ``EndTransactionMarker.java``)."""

from __future__ import annotations

import struct
from enum import IntEnum

import msgspec

from krift.v1.records import Record, RecordBatch

_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")
_VERSION = 0


class ControlRecordType(IntEnum):
    """What a control record says; those of transactions alone are told apart here."""

    ABORT = 0
    COMMIT = 1


class EndTxnMarker(msgspec.Struct, frozen=True, gc=False):
    """A marker: how the transaction ended, and the coordinator epoch of who says so."""

    type: ControlRecordType
    coordinator_epoch: int

    def to_batch(self, producer_id: int, producer_epoch: int, timestamp_ms: int, uid: str) -> RecordBatch:
        """The control batch with the marker: transactional, of the producer whose transaction it ends, without sequence
        (``MemoryRecords.withEndTransactionMarker``)."""
        key, value = _KEY.pack(_VERSION, self.type), _VALUE.pack(_VERSION, self.coordinator_epoch)
        return RecordBatch(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=-1,
            is_control=True,
            is_transactional=True,
            records=[Record(key=key, value=value, timestamp_ms=timestamp_ms, uid=uid)],
        )


def marker_of(records: list[Record]) -> EndTxnMarker | None:
    """The marker in a control batch, None if it holds another kind of control record (the quorum's)."""
    if not records or records[0].key is None or len(records[0].key) != _KEY.size:
        return None
    _, kind = _KEY.unpack(records[0].key)
    if kind not in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
        return None
    assert records[0].value is not None, "a marker has a value"
    _, coordinator_epoch = _VALUE.unpack(records[0].value)
    return EndTxnMarker(ControlRecordType(kind), coordinator_epoch)
