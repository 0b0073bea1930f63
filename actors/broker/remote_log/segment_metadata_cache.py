"""The copied segments of one partition, as far as this broker has read the metadata topic
(``RemoteLogMetadataCache.java``, ``RemoteLogLeaderEpochState.java``)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from actors.broker.remote_log.lineage import is_within
from actors.broker.remote_log.segment_metadata import SegmentMetadata, SegmentState, is_valid_transition
from actors.log.leader_epoch_cache import EpochEntry
from krift.v1.remote_storage import RemoteLogSegmentMetadataUpdateRecord


class SegmentMetadataCache(msgspec.Struct):
    """segments: by id, but for those whose deletion is finished. highest: leader epoch -> the last offset of it that
    was ever copied; deletions leave it."""

    segments: dict[str, SegmentMetadata] = {}
    highest: dict[int, int] = {}

    # ---- taking in ---------------------------------------------------------------------------------------

    def add(self, metadata: SegmentMetadata) -> bool:
        """A copy begins; False: that is no legal state now, and nothing changes."""
        known = self.segments.get(metadata.key)
        if not is_valid_transition(None if known is None else known.state, metadata.state):
            return False
        self.segments[metadata.key] = metadata
        return True

    def update(self, record: RemoteLogSegmentMetadataUpdateRecord) -> bool:
        """A segment changes its state; False: it is not known, or that is no legal state now, and nothing changes."""
        segment = record.segment
        known = None if segment is None else self.segments.get(segment.segment_id)
        state = SegmentState(record.remote_log_segment_state)
        if known is None or not is_valid_transition(known.state, state):
            return False
        if state == SegmentState.DELETE_SEGMENT_FINISHED:
            del self.segments[known.key]
            return True
        self.segments[known.key] = msgspec.structs.replace(
            known, state=state, broker_id=record.broker_id, event_timestamp_ms=record.event_timestamp_ms
        )
        if state == SegmentState.COPY_SEGMENT_FINISHED:
            for entry in known.epochs:
                self.highest[entry.epoch] = max(self.highest.get(entry.epoch, -1), known.epoch_end(entry.epoch))
        return True

    # ---- questions ---------------------------------------------------------------------------------------

    def of_epoch(self, epoch: int) -> list[SegmentMetadata]:
        """Segments of whatever state with records of a leader epoch, by their start offsets."""
        return sorted((each for each in self.segments.values() if each.has_epoch(epoch)), key=_by_offset)

    def find(self, epoch: int, offset: int) -> SegmentMetadata | None:
        """A finished copy with the record of a leader epoch at an offset; of several the one that begins last."""
        found = [
            each
            for each in self.segments.values()
            if each.state == SegmentState.COPY_SEGMENT_FINISHED and each.holds(epoch, offset)
        ]
        return max(found, key=_by_offset, default=None)

    def finished_within(self, log_end: int, lineage: Sequence[EpochEntry]) -> list[SegmentMetadata]:
        """Finished copies that belong to a log, by their start offsets."""
        found = (each for each in self.segments.values() if each.state == SegmentState.COPY_SEGMENT_FINISHED)
        return sorted((each for each in found if is_within(each, log_end, lineage)), key=_by_offset)


def _by_offset(metadata: SegmentMetadata) -> tuple[int, int, str]:
    return (metadata.start_offset, metadata.end_offset, metadata.key)
