"""The segments of a log: where each begins, in which file it lies, and when it is full (``LogSegment.java``).

The first entry of a segment's file is its *header*, with what Kafka keeps in files beside it: the state of the
producers at its base offset (the producer snapshot), the leader epochs below, and the prefix hash there. A segment that
begins at 0 has none. Of the metadata log, which is one segment, a snapshot is what the header is for others.
"""

from __future__ import annotations

import re

import msgspec

from actors.log.batch import EMPTY_PREFIX_HASH, Batch
from actors.log.leader_epoch_cache import EpochEntry
from actors.log.log_validator import LogConfig
from actors.log.producer_state import ProducerStateEntry
from actors.node.codec import decode, encode

NO_TIMESTAMP = -1
_SEGMENT_FILE = re.compile(r"(?P<tp>.+)/(?P<base>\d{20})\.log")
_ONE_FILE = "/log"
"""What the file of a log that never rolls is called, after its partition: that of the metadata log."""


class LogBase(msgspec.Struct, frozen=True, array_like=True):
    """Where the batches of a log, or of a segment, begin: at ``offset``, with the prefix hash there and the leader
    epoch of the last record below (-1 none, or not known)."""

    offset: int = 0
    ph: int = EMPTY_PREFIX_HASH
    epoch: int = -1


class SegmentHeader(msgspec.Struct, frozen=True, array_like=True, tag="header"):
    """The first entry of the file of a segment that does not begin at 0."""

    base: LogBase
    producers: dict[int, ProducerStateEntry] = {}
    epochs: list[EpochEntry] = []


class LogSegment(msgspec.Struct):
    """A part of a log, from ``base`` to the base of the next segment. ``headed``: its file begins with a header.
    ``producers``: as they were at its base; ``epochs``: those of leaders that began below. ``rolling_ms``: timestamp of
    its first batch, from which on its age counts; ``touched_ms``: when it was made or last appended to, which counts
    where there are no timestamps. Timestamps: -1 none."""

    file: str
    base: LogBase = LogBase()
    headed: bool = False
    producers: dict[int, ProducerStateEntry] = {}
    size_bytes: int = 0
    rolling_ms: int = NO_TIMESTAMP
    max_timestamp_ms: int = NO_TIMESTAMP
    touched_ms: int = 0
    epochs: list[EpochEntry] = []

    @property
    def header(self) -> bytes:
        """Its header, as its file has it."""
        return encode(SegmentHeader(self.base, self.producers, self.epochs))

    @property
    def largest_timestamp_ms(self) -> int:
        """The greatest timestamp in it, which decides how long it is retained (``LogSegment.largestTimestamp``)."""
        return self.max_timestamp_ms if self.max_timestamp_ms >= 0 else self.touched_ms

    def must_roll(self, batch: Batch, size_bytes: int, now_ms: int, config: LogConfig) -> bool:
        """Whether a batch of this size belongs into the next segment (``LogSegment.shouldRoll``)."""
        if not self.size_bytes:
            return False
        if self.size_bytes > config.segment_bytes - size_bytes:
            return True
        newest_ms = max_timestamp_of(batch)
        waited_ms = newest_ms - self.rolling_ms if self.rolling_ms >= 0 else now_ms - self.touched_ms
        return waited_ms > config.segment_ms

    def add(self, batch: Batch, size_bytes: int, now_ms: int) -> None:
        """A batch was appended to it."""
        newest_ms = max_timestamp_of(batch)
        if not self.size_bytes:
            self.rolling_ms = newest_ms
        self.size_bytes += size_bytes
        self.max_timestamp_ms = max(self.max_timestamp_ms, newest_ms)
        self.touched_ms = now_ms

    def measure(self, batches: list[Batch]) -> None:
        """It holds these batches and no others from now on."""
        now_ms = self.touched_ms
        self.size_bytes, self.rolling_ms, self.max_timestamp_ms = 0, NO_TIMESTAMP, NO_TIMESTAMP
        for batch in batches:
            self.add(batch, batch.size_bytes, now_ms)


def max_timestamp_of(batch: Batch) -> int:
    """The greatest timestamp in a batch."""
    return max(record.timestamp_ms for record in batch.records)


def segment_file(tp: str, base_offset: int) -> str:
    """The file of a segment, named as in Kafka."""
    return f"{tp}/{base_offset:020d}.log"


def parse_segment_file(file: str) -> tuple[str, int] | None:
    """Partition and base offset of a segment's file; None: it is another file."""
    found = _SEGMENT_FILE.fullmatch(file)
    return None if found is None else (found["tp"], int(found["base"]))


def log_of_file(file: str) -> str | None:
    """The partition whose log has a file; None: no log has."""
    found = parse_segment_file(file)
    if found is not None:
        return found[0]
    return file.removesuffix(_ONE_FILE) if file.endswith(_ONE_FILE) else None


def read_header(entries: list[bytes], base_offset: int) -> SegmentHeader | None:
    """The header of a segment that begins at ``base_offset``, above 0; None where its file has none."""
    header = _header_of(entries[0]) if entries else None
    return header if header is not None and header.base.offset == base_offset else None


def is_header(entry: bytes) -> bool:
    """Whether an entry of a log's file is a segment's header."""
    return _header_of(entry) is not None


def _header_of(entry: bytes) -> SegmentHeader | None:
    try:
        header: SegmentHeader = decode(entry, SegmentHeader)
    except (msgspec.DecodeError, ValueError):
        return None
    return header


def first_offset_of(entry: bytes) -> int:
    """The offset of the first record in an entry of a log's file, or that a header stands before."""
    header = _header_of(entry)
    if header is not None:
        return header.base.offset
    batch: Batch = decode(entry, Batch)
    return batch.base_offset


def first_lost_offsets(lost: dict[str, bytes]) -> dict[str, int]:
    """Partition -> offset of the first lost record, from file -> first lost entry; files that are no logs apart."""
    first: dict[str, int] = {}
    for name, entry in lost.items():
        tp = log_of_file(name)
        if tp is not None:
            offset = first_offset_of(entry)
            first[tp] = min(offset, first.get(tp, offset))
    return first
