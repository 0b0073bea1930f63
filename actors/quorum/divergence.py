"""Where a fetcher's log parts from the leader's: what the leader tells it, and what it cuts off (KIP-595, Fetch).

As shipped (``kip-595.divergence: kafka``) the leader answers with the largest epoch that it has, not above the
fetcher's last one, and with the end of that epoch (``RaftLog.validateOffsetAndEpoch``, ``truncateToEndOffset``). As
first proposed (``seed``) it answers OFFSET_OUT_OF_RANGE and names that end alone, as the offset to go on from. Several
rounds may be needed until both logs meet; no rule cuts what both share.
"""

from __future__ import annotations

from actors.log.replica_log import ReplicaLog


def epoch_end_offset(log: ReplicaLog, epoch: int) -> tuple[int, int]:
    """As the log has it. Below its first epoch there is the snapshot that it begins with
    (``KafkaMetadataLog.endOffsetForEpoch``)."""
    found, end = log.epoch_end_offset(epoch)
    return (log.base.epoch, end) if found >= 0 and 0 < log.base.offset == end else (found, end)


def diverging_epoch(log: ReplicaLog, fetch_offset: int, last_fetched_epoch: int) -> tuple[int, int] | None:
    """Of the leader's ``log``: its largest epoch not above ``last_fetched_epoch``, and where that ends (exclusive);
    None if a log that ends at ``fetch_offset`` with a record of that epoch is a part of it."""
    if fetch_offset == 0:
        return None
    epoch, end = epoch_end_offset(log, last_fetched_epoch)
    if epoch < 0:
        epoch, end = max(log.last_epoch, 0), log.end_offset
    return (epoch, end) if epoch != last_fetched_epoch or end < fetch_offset else None


def cut_for_diverging_epoch(log: ReplicaLog, epoch: int, end_offset: int) -> int:
    """Where a fetcher cuts its ``log``, told the leader's ``epoch`` and that it ends at ``end_offset``."""
    if epoch == 0:
        return min(end_offset, log.end_offset)
    local_epoch, local_end = epoch_end_offset(log, epoch)
    if local_epoch < 0:
        local_epoch, local_end = max(log.last_epoch, 0), log.end_offset
    return min(local_end, end_offset) if local_epoch == epoch else local_end


def cut_for_next_offset(log: ReplicaLog, next_offset: int) -> int:
    """Where a fetcher cuts its ``log``, told the offset to go on from and no epoch.

    An offset at or beyond its log end leaves one reading only: the leader has no record of the fetcher's last epoch, or
    that epoch would end below. So all of it goes, which is what the proposal has the offset of the epoch before for.
    """
    if next_offset < log.end_offset:
        return next_offset
    return log.epochs.entries[-1].start_offset if log.epochs.entries else log.start_offset
