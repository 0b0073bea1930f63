"""What is known of a copied segment, and the states that it goes through (``RemoteLogSegmentMetadata.java``,
``RemoteLogSegmentState.java``)."""

from __future__ import annotations

from enum import IntEnum

import msgspec

from actors.log.leader_epoch_cache import EpochEntry
from krift.v1.remote_storage import RemoteLeaderEpoch, RemoteLogSegmentId, RemoteLogSegmentMetadataRecord


class SegmentState(IntEnum):
    """As it travels. Only what is COPY_SEGMENT_FINISHED is read."""

    COPY_SEGMENT_STARTED = 0
    COPY_SEGMENT_FINISHED = 1
    DELETE_SEGMENT_STARTED = 2
    DELETE_SEGMENT_FINISHED = 3


_S = SegmentState
TRANSITIONS: dict[SegmentState | None, tuple[SegmentState, ...]] = {
    None: (_S.COPY_SEGMENT_STARTED,),
    _S.COPY_SEGMENT_STARTED: (_S.COPY_SEGMENT_STARTED, _S.COPY_SEGMENT_FINISHED, _S.DELETE_SEGMENT_STARTED),
    _S.COPY_SEGMENT_FINISHED: (_S.COPY_SEGMENT_FINISHED, _S.DELETE_SEGMENT_STARTED),
    _S.DELETE_SEGMENT_STARTED: (_S.DELETE_SEGMENT_STARTED, _S.DELETE_SEGMENT_FINISHED),
    _S.DELETE_SEGMENT_FINISHED: (_S.DELETE_SEGMENT_FINISHED,),
}
"""State, None before the first -> those that may follow. A copy that failed is deleted without having been finished;
whoever is not sure that a state was written writes it again."""


def is_valid_transition(source: SegmentState | None, target: SegmentState) -> bool:
    """``RemoteLogSegmentState.isValidTransition``."""
    return target in TRANSITIONS[source]


class SegmentMetadata(msgspec.Struct, frozen=True):
    """One copy of a segment. Offsets are inclusive. epochs: the leader epochs of its records, each with where it begins
    in the segment. broker_id: who copied it, or changed its state last."""

    id: RemoteLogSegmentId
    start_offset: int
    end_offset: int
    max_timestamp_ms: int
    broker_id: int
    event_timestamp_ms: int
    size_bytes: int
    epochs: tuple[EpochEntry, ...]
    state: SegmentState = SegmentState.COPY_SEGMENT_STARTED
    txn_index_empty: bool = True

    @property
    def key(self) -> str:
        """Its id, which nobody uses again."""
        return self.id.segment_id

    def has_epoch(self, epoch: int) -> bool:
        """Whether it has records of a leader epoch."""
        return any(entry.epoch == epoch for entry in self.epochs)

    def epoch_end(self, epoch: int) -> int:
        """The last offset of one of its epochs in it."""
        later = [entry.start_offset for entry in self.epochs if entry.epoch > epoch]
        return later[0] - 1 if later else self.end_offset

    def holds(self, epoch: int, offset: int) -> bool:
        """Whether it has the record of a leader epoch at an offset."""
        return self.has_epoch(epoch) and self.start_offset <= offset <= self.epoch_end(epoch)

    def to_record(self) -> RemoteLogSegmentMetadataRecord:
        """As the metadata topic has it."""
        return RemoteLogSegmentMetadataRecord(
            segment=self.id,
            start_offset=self.start_offset,
            end_offset=self.end_offset,
            max_timestamp_ms=self.max_timestamp_ms,
            broker_id=self.broker_id,
            event_timestamp_ms=self.event_timestamp_ms,
            segment_size_in_bytes=self.size_bytes,
            segment_leader_epochs=[
                RemoteLeaderEpoch(epoch=entry.epoch, start_offset=entry.start_offset) for entry in self.epochs
            ],
            remote_log_segment_state=int(self.state),
            txn_index_empty=self.txn_index_empty,
        )


def metadata_of(record: RemoteLogSegmentMetadataRecord) -> SegmentMetadata:
    """Inverse of ``SegmentMetadata.to_record``."""
    assert record.segment is not None, "a record names its segment"
    return SegmentMetadata(
        record.segment,
        record.start_offset,
        record.end_offset,
        record.max_timestamp_ms,
        record.broker_id,
        record.event_timestamp_ms,
        record.segment_size_in_bytes,
        tuple(EpochEntry(each.epoch, each.start_offset) for each in record.segment_leader_epochs),
        SegmentState(record.remote_log_segment_state),
        record.txn_index_empty,
    )
