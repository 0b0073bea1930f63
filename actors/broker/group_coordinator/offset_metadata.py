"""Committed offsets: as they were written, and as they are committed (``OffsetMetadataManager.java``'s Offsets,
``OffsetAndMetadata.java``, ``SnapshotRegistry.java``)."""

from __future__ import annotations

import msgspec

from actors.trace.group_events import Entry
from krift.v1.groups import OffsetCommitValue

INVALID_OFFSET = -1


class OffsetAndMetadata(msgspec.Struct, frozen=True):
    """What is stored for a partition. ``expire_timestamp_ms``: -1: as the broker is configured. ``metadata_epoch``: of
    KIP-232 as first proposed, -1 none."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_timestamp_ms: int = 0
    expire_timestamp_ms: int = -1
    topic_id: str = ""
    metadata_epoch: int = -1

    @property
    def entry(self) -> Entry:
        """As the trace tells it."""
        return [self.offset, self.leader_epoch, self.metadata_epoch]

    def to_value(self) -> OffsetCommitValue:
        """The value of its record."""
        return OffsetCommitValue(
            offset=self.offset,
            leader_epoch=self.leader_epoch,
            metadata=self.metadata,
            commit_timestamp=self.commit_timestamp_ms,
            expire_timestamp=self.expire_timestamp_ms,
            topic_id=self.topic_id,
            metadata_epoch=self.metadata_epoch,
        )


def offset_of(value: OffsetCommitValue) -> OffsetAndMetadata:
    """Inverse of ``to_value``."""
    return OffsetAndMetadata(
        value.offset,
        value.leader_epoch,
        value.metadata,
        value.commit_timestamp,
        value.expire_timestamp,
        value.topic_id,
        value.metadata_epoch,
    )


class OffsetChange(msgspec.Struct, frozen=True):
    """A record of an offsets partition, at ``record_offset``; no value: a tombstone."""

    record_offset: int
    group: str
    tp: str
    value: OffsetAndMetadata | None


ByGroup = dict[str, dict[str, OffsetAndMetadata]]
"""Group -> topic partition -> what is stored, in the order in which it first was."""


class Offsets(msgspec.Struct):
    """All offsets of an offsets partition. ``written``: at its log end, which is what the next commit is judged by;
    ``committed``: at its high watermark, which is all that others are told; ``uncommitted``: the changes between."""

    written: ByGroup = {}
    committed: ByGroup = {}
    uncommitted: list[OffsetChange] = []

    def write(self, change: OffsetChange) -> None:
        """Take in a record that was appended, or that is read at loading; the high watermark is not beyond it."""
        _apply(self.written, change)
        self.uncommitted.append(change)

    def advance(self, high_watermark: int) -> None:
        """What lies below the high watermark is committed."""
        count = 0
        for change in self.uncommitted:
            if change.record_offset >= high_watermark:
                break
            _apply(self.committed, change)
            count += 1
        del self.uncommitted[:count]


def _apply(offsets: ByGroup, change: OffsetChange) -> None:
    if change.value is not None:
        offsets.setdefault(change.group, {})[change.tp] = change.value
        return
    of_group = offsets.get(change.group)
    if of_group is not None:
        of_group.pop(change.tp, None)
        if not of_group:
            del offsets[change.group]
