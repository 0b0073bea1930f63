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


class PendingOffset(msgspec.Struct, frozen=True):
    """What an open transaction is going to commit. ``record_offset``: of its record."""

    value: OffsetAndMetadata
    record_offset: int


class Offsets(msgspec.Struct):
    """All offsets of an offsets partition. ``written``: at its log end, which is what the next commit is judged by;
    ``committed``: at its high watermark, which is all that others are told; ``uncommitted``: the changes between.
    ``record_offsets``: group -> topic partition -> record that ``written`` is from. ``pending``: producer id of an open
    transaction -> group -> topic partition -> what it is going to commit, at the log end."""

    written: ByGroup = {}
    committed: ByGroup = {}
    uncommitted: list[OffsetChange] = []
    record_offsets: dict[str, dict[str, int]] = {}
    pending: dict[int, dict[str, dict[str, PendingOffset]]] = {}

    def write(self, change: OffsetChange) -> None:
        """Take in a record that was appended, or that is read at loading; the high watermark is not beyond it."""
        self._change(change, change.record_offset)
        if change.value is None:
            for by_group in self.pending.values():
                by_group.get(change.group, {}).pop(change.tp, None)

    def _change(self, change: OffsetChange, record_offset: int) -> None:
        _apply(self.written, change)
        self.uncommitted.append(change)
        of_group = self.record_offsets.setdefault(change.group, {})
        if change.value is not None:
            of_group[change.tp] = record_offset
        else:
            of_group.pop(change.tp, None)
        if not of_group:
            del self.record_offsets[change.group]

    # ---- transactions ------------------------------------------------------------------------------------

    def write_pending(
        self, producer_id: int, group: str, tp: str, value: OffsetAndMetadata, record_offset: int
    ) -> None:
        """Take in a record of a transaction, which has no effect before that is committed."""
        of_group = self.pending.setdefault(producer_id, {}).setdefault(group, {})
        of_group[tp] = PendingOffset(value, record_offset)

    def end_transaction(self, producer_id: int, commits: bool, marker_offset: int) -> None:
        """A marker at this offset ends a transaction. What it commits is as old as its record: what was committed after
        that stays (``OffsetMetadataManager.replayEndTransactionMarker``)."""
        for group, of_group in self.pending.pop(producer_id, {}).items():
            for tp, pending in of_group.items():
                newer = self.record_offsets.get(group, {}).get(tp, -1) > pending.record_offset
                if commits and not newer:
                    self._change(OffsetChange(marker_offset, group, tp, pending.value), pending.record_offset)

    def is_pending(self, group: str, tp: str) -> bool:
        """Whether an open transaction is going to commit something for the partition."""
        return any(tp in by_group.get(group, {}) for by_group in self.pending.values())

    def has_open_transaction(self, group: str) -> bool:
        """Whether an open transaction is going to commit something for the group."""
        return any(by_group.get(group) for by_group in self.pending.values())

    # ---- what is committed -------------------------------------------------------------------------------

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
