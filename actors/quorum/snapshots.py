"""Snapshots of the metadata log: made, kept, cleaned, and read (``KafkaMetadataLog``, ``SnapshotGenerator.java``).

A snapshot stands for all records below its end, which is a batch boundary that was committed. It is the file
``<end>-<epoch>.checkpoint``, and exists once that is durable: until then it is *freezing*.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import Literal

import msgspec

from actors.log.batch import Batch
from actors.log.segments import LogBase
from actors.node.codec import decode, encode
from actors.node.events import DiskImage
from actors.node.spec import METADATA_PARTITION

CHECKPOINT_SUFFIX = ".checkpoint"
"""What the name of a snapshot's file ends with."""
_FILE = re.compile(re.escape(METADATA_PARTITION) + r"/(\d{20})-(\d{10})" + re.escape(CHECKPOINT_SUFFIX))


class SnapshotId(msgspec.Struct, frozen=True, order=True, array_like=True):
    """Exclusive end of what a snapshot stands for, and the epoch of the last record in it. Of two that members of one
    quorum have, the one with the higher end has no lower epoch."""

    end: int
    epoch: int

    @property
    def file(self) -> str:
        """Where it is kept."""
        return f"{METADATA_PARTITION}/{self.end:020}-{self.epoch:010}{CHECKPOINT_SUFFIX}"


class Snapshot(msgspec.Struct, frozen=True):
    """What a snapshot holds. control: the quorum's own records, serialized (``ControlRecord``); records: what makes the
    state, serialized (``MetadataRecord``). last_contained_ms: timestamp of the last record that it stands for. ph,
    digest: prefix hash at its end and hash over all records below, ghost data."""

    end: int
    epoch: int
    last_contained_ms: int
    ph: int
    digest: int
    control: list[bytes]
    records: list[bytes]

    @property
    def id(self) -> SnapshotId:
        """Its name."""
        return SnapshotId(self.end, self.epoch)

    @property
    def state(self) -> int:
        """Hash over its records, whatever their order: who replayed the log has another one than who loaded a snapshot,
        and the same state. Never 0."""
        hashed = blake2b(digest_size=8)
        for kind, records in (b"c", self.control), (b"r", self.records):
            for record in sorted(records):
                hashed.update(kind + len(record).to_bytes(8, "big") + record)
        return (int.from_bytes(hashed.digest(), "big") >> 1) or 1

    @property
    def base(self) -> LogBase:
        """What a log has that begins where this ends."""
        return LogBase(self.end, self.ph, self.epoch)


def read_snapshot(content: bytes) -> Snapshot:
    """What ``write_snapshot`` made. Raises msgspec.DecodeError or ValidationError for another content."""
    snapshot: Snapshot = decode(content, Snapshot)
    return snapshot


def write_snapshot(snapshot: Snapshot) -> bytes:
    """The file's content."""
    return encode(snapshot)


class StoredSnapshot(msgspec.Struct, frozen=True):
    """A snapshot that is on the disk, as its bytes: leaders serve them as they are."""

    id: SnapshotId
    content: bytes


class Freezing(msgspec.Struct, frozen=True):
    """A snapshot whose Sync is open: of write ``number`` of its file. op: made by this node, or fetched from the leader
    of quorum epoch ``epoch``."""

    stored: StoredSnapshot
    number: int
    op: Literal["create", "fetch"]
    epoch: int


class Download(msgspec.Struct):
    """A snapshot that a follower fetches in quorum epoch ``epoch``, and what it has of it."""

    id: SnapshotId
    epoch: int
    content: bytes = b""


class Snapshots(msgspec.Struct):
    """All of one member. stored: by ascending end. bytes_since, since_ms: what was applied since the last one was made
    or loaded, and when that was, in node time. cleaning: the timer of the cleaner runs."""

    stored: list[StoredSnapshot] = []
    freezing: list[Freezing] = []
    download: Download | None = None
    bytes_since: int = 0
    since_ms: int = 0
    cleaning: bool = False

    @property
    def earliest(self) -> SnapshotId | None:
        """The oldest one there is."""
        return self.stored[0].id if self.stored else None

    @property
    def latest(self) -> SnapshotId | None:
        """The newest one there is."""
        return self.stored[-1].id if self.stored else None

    def find(self, snapshot_id: SnapshotId) -> StoredSnapshot | None:
        """The snapshot of this name."""
        return next((stored for stored in self.stored if stored.id == snapshot_id), None)

    def read_latest(self) -> Snapshot | None:
        """What the newest one holds."""
        return read_snapshot(self.stored[-1].content) if self.stored else None

    def add(self, stored: StoredSnapshot) -> None:
        """Keep one that is durable."""
        self.stored = sorted([*self.stored, stored], key=lambda each: each.id)

    def note_applied(self, batches: list[Batch]) -> int:
        """Count towards the next one; returns the bytes of the batches."""
        size = sum(batch.size_bytes for batch in batches)
        self.bytes_since += size
        return size

    def start_counting(self, now_ms: int) -> None:
        """One was made or loaded."""
        self.bytes_since, self.since_ms = 0, now_ms


def load_snapshots(disk: DiskImage) -> tuple[list[StoredSnapshot], list[str]]:
    """The snapshots on a disk, oldest first, and the files of those that a loss of power left empty."""
    found: list[StoredSnapshot] = []
    broken: list[str] = []
    for file in sorted(disk):
        match = _FILE.fullmatch(file)
        if match is None:
            continue
        if disk[file]:
            found.append(StoredSnapshot(SnapshotId(int(match[1]), int(match[2])), disk[file][0]))
        else:
            broken.append(file)
    return sorted(found, key=lambda each: each.id), broken
