"""How far a log has been copied, by its own leader epochs (``RemoteLogManager``: findHighestRemoteOffset,
findLogStartOffset)."""

from __future__ import annotations

from actors.broker.remote_log.segment_metadata_cache import SegmentMetadataCache
from actors.log.replica_log import ReplicaLog


def find_highest_remote_offset(cache: SegmentMetadataCache, log: ReplicaLog) -> int:
    """The last offset that was copied, -1 if none was: of the newest leader epoch of the log of which anything was.
    What another leader copied of that epoch beyond its end here is not in this log."""
    for entry in reversed(log.epochs.entries):
        highest = cache.highest.get(entry.epoch)
        if highest is not None:
            _, end = log.epoch_end_offset(entry.epoch)
            return min(highest, end - 1)
    return -1


def find_log_start_offset(cache: SegmentMetadataCache, log: ReplicaLog) -> int:
    """Where the log begins: with the first segment of its earliest leader epoch that has one, or locally."""
    for entry in log.epochs.entries:
        segments = cache.of_epoch(entry.epoch)
        if segments:
            return segments[0].start_offset
    return log.local_start_offset
