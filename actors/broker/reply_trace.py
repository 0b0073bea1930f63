"""What the trace says of an answer: what was told about a partition, and what its broker knew then."""

from __future__ import annotations

from actors.broker.partition import Partition
from actors.broker.turn import Turn
from actors.node.errors import KafkaError
from actors.node.spec import split_topic_partition
from actors.trace.events import ReplyPartition


def trace_key(turn: Turn, tp: str) -> str:
    """What the trace calls a partition that this broker does not host: as its metadata has it; "" for one that it does
    not have, of a name that topics have had before."""
    known = turn.image.partitions.get(tp)
    if known is not None:
        return turn.image.key(known, turn.settings.cluster)
    removed = turn.image.removed
    return "" if removed and tp and split_topic_partition(tp)[0] in removed.values() else tp


def reply_partition(
    partition: Partition | None,
    tp: str,
    error: KafkaError,
    *,
    offset: int = -1,
    last_offset: int = -1,
    timestamp: int = -1,
    asked_epoch: int = -1,
    refused: tuple[int, int, int, int] = (-1, -1, -1, -1),
    found: tuple[int, int] = (-1, -1),
    appended: tuple[int, int] = (0, 0),
    limit: int = -1,
) -> ReplyPartition:
    """What was told about a partition, with what this broker knew. Where it has none, ``tp`` is all that is known."""
    tp = tp if partition is None else partition.key
    if partition is None or partition.role is None:
        isr, min_isr = appended
        return ReplyPartition(
            tp,
            int(error),
            offset,
            last_offset,
            timestamp,
            asked_epoch=asked_epoch,
            appended_isr=isr,
            append_min_isr=min_isr,
        )
    return ReplyPartition(
        tp,
        int(error),
        offset,
        last_offset,
        timestamp,
        partition.leader_epoch,
        partition.log.high_watermark,
        -1 if partition.recovering else partition.leader_epoch_start,
        partition.log.end_offset,
        len(partition.maximal_isr),
        partition.effective_min_isr if partition.is_leader else 0,
        asked_epoch,
        *refused,
        len(partition.isr) if partition.is_leader else 0,
        *found,
        *appended,
        limit,
    )
