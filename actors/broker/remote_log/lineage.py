"""Whether a copied segment belongs to a log: by the leader epochs of both (``RemoteLogManager``:
isRemoteSegmentWithinLeaderEpochs, buildFilteredLeaderEpochMap)."""

from __future__ import annotations

from collections.abc import Sequence

from actors.broker.remote_log.segment_metadata import SegmentMetadata
from actors.log.leader_epoch_cache import EpochEntry


def with_records(epochs: Sequence[EpochEntry]) -> list[EpochEntry]:
    """The epochs that have records: of those that begin at one offset the last."""
    last = {entry.start_offset: entry for entry in epochs}
    return [entry for entry in epochs if last[entry.start_offset] is entry]


def is_within(segment: SegmentMetadata, log_end: int, lineage: Sequence[EpochEntry]) -> bool:
    """Whether a segment's records are those of a log with this ``lineage``, which has the epochs with records alone.
    The segment may begin before the log, and in the middle of an epoch; it ends before the next epoch does."""
    epochs = with_records(segment.epochs)
    if not lineage or not epochs or not lineage[0].epoch <= epochs[-1].epoch <= lineage[-1].epoch:
        return False
    known = {entry.epoch: place for place, entry in enumerate(lineage)}
    shared = [entry for entry in epochs if entry.epoch >= lineage[0].epoch]
    for number, entry in enumerate(shared):
        place = known.get(entry.epoch)
        if place is None:
            return False
        if number == 0 and place > 0 and entry.start_offset < lineage[place].start_offset:
            return False
        following = lineage[place + 1] if place + 1 < len(lineage) else None
        if number < len(shared) - 1:
            if following != shared[number + 1]:
                return False
        elif following is not None and segment.end_offset >= following.start_offset:
            return False
    return segment.end_offset < log_end
