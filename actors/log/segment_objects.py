"""The objects that a copied segment consists of in the remote store, and what is in each
(``RemoteStorageManager.java``, ``LogSegmentData.java``)."""

from __future__ import annotations

import msgspec

from actors.log.batch import Batch
from actors.log.leader_epoch_cache import EpochEntry
from actors.log.segments import SegmentHeader, max_timestamp_of
from actors.log.transaction_index import AbortedTxn
from actors.node.codec import decode, encode

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


def objects_of(
    batches: list[Batch], aborted: list[AbortedTxn], following: SegmentHeader, epochs: list[EpochEntry]
) -> dict[str, bytes]:
    """The objects of a segment. ``following``: what the next segment begins with, the state of the producers there;
    ``epochs``: the leader epochs of the log up to there. Without aborted transactions there is no index of them."""
    data, offsets, timestamps, newest_ms = bytearray(), list[IndexEntry](), list[IndexEntry](), -1
    for batch in batches:
        newest_ms = max(newest_ms, max_timestamp_of(batch))
        offsets.append(IndexEntry(batch.base_offset, len(data)))
        timestamps.append(IndexEntry(newest_ms, len(data)))
        entry = encode(batch)
        data += len(entry).to_bytes(_LENGTH_BYTES, "big") + entry
    found = {LOG: bytes(data), OFFSET: encode(offsets), TIMESTAMP: encode(timestamps)}
    if aborted:
        found[TRANSACTION] = encode(aborted)
    return {**found, PRODUCER_SNAPSHOT: encode(following), LEADER_EPOCH: encode(epochs)}


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


def read_transactions(data: bytes) -> list[AbortedTxn]:
    """An index of aborted transactions."""
    found: list[AbortedTxn] = decode(data, list[AbortedTxn])
    return found


def read_header(data: bytes) -> SegmentHeader:
    """A producer snapshot: what a log begins with behind the segment."""
    found: SegmentHeader = decode(data, SegmentHeader)
    return found


def read_epochs(data: bytes) -> list[EpochEntry]:
    """The leader epochs of the log up to the end of the segment."""
    found: list[EpochEntry] = decode(data, list[EpochEntry])
    return found


def position_of_timestamp(index: list[IndexEntry], timestamp_ms: int) -> int | None:
    """Where the first batch begins up to whose end there is a record that is at least so new; None: there is none."""
    return next((entry.position for entry in index if entry.key >= timestamp_ms), None)
