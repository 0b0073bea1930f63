"""The objects that a copied segment consists of in the remote store, and what is in each
(``RemoteStorageManager.java``, ``LogSegmentData.java``)."""

from __future__ import annotations

import msgspec

from actors.log.batch import Batch
from actors.node.codec import decode

LOG = "LOG"
OFFSET = "OFFSET"
TIMESTAMP = "TIMESTAMP"
TRANSACTION = "TRANSACTION"
PRODUCER_SNAPSHOT = "PRODUCER_SNAPSHOT"
LEADER_EPOCH = "LEADER_EPOCH"

OBJECTS = (LOG, OFFSET, TIMESTAMP, TRANSACTION, PRODUCER_SNAPSHOT, LEADER_EPOCH)
"""In the order in which they are copied."""

_LENGTH_BYTES = 4


class IndexEntry(msgspec.Struct, frozen=True, array_like=True):
    """Where a batch is: by ``key``, its base offset or the greatest timestamp up to its end, and ``position``, the
    place of its first byte in the log data. Kafka's indexes are sparse; here each batch has an entry."""

    key: int
    position: int


def read_batches(data: bytes) -> list[Batch]:
    """The whole batches in a piece of log data that begins with one."""
    found, at = list[Batch](), 0
    while at + _LENGTH_BYTES <= len(data):
        end = at + _LENGTH_BYTES + int.from_bytes(data[at : at + _LENGTH_BYTES], "big")
        if end > len(data):
            break
        found.append(decode(data[at + _LENGTH_BYTES : end], Batch))
        at = end
    return found


def read_index(data: bytes) -> list[IndexEntry]:
    """An index of offsets or of timestamps."""
    found: list[IndexEntry] = decode(data, list[IndexEntry])
    return found


def position_of_timestamp(index: list[IndexEntry], timestamp_ms: int) -> int | None:
    """Where the first batch begins up to whose end there is a record that is at least so new; None: there is none."""
    return next((entry.position for entry in index if entry.key >= timestamp_ms), None)
