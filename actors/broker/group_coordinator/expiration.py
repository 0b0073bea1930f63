"""Offsets that nobody needs any more, and groups without them (``GroupCoordinatorShard.cleanupGroupMetadata``,
``OffsetExpirationConditionImpl.java``)."""

from __future__ import annotations

from actors.broker.group_coordinator import records, writes
from actors.broker.group_coordinator.group import ClassicGroup
from actors.broker.group_coordinator.group_state import DEAD, EMPTY, STABLE
from actors.broker.group_coordinator.offset_metadata import OffsetAndMetadata
from actors.broker.group_coordinator.rebalance import cancel_timers
from actors.broker.group_coordinator.shard import Shard
from actors.broker.group_coordinator.tracing import transition
from actors.broker.turn import Turn
from actors.node.spec import split_topic_partition
from actors.trace.events import GROUP_EXPIRED, GrpCommit

EXPIRE = "groups/expire/"


def schedule(turn: Turn, shard: Shard) -> None:
    """Look for what expired once more, later."""
    turn.step.set_timer(f"{EXPIRE}{shard.tp}", turn.settings.groups.offsets_retention_check_interval_ms)


def clean_up(turn: Turn, shard: Shard) -> None:
    """Every offsets.retention.check.interval.ms: tombstones for offsets that expired, and for groups that have neither
    members nor offsets."""
    expired: list[tuple[ClassicGroup, str]] = []
    emptied: list[ClassicGroup] = []
    for group in shard.groups.values():
        stored = shard.offsets.written.get(group.group_id, {})
        gone = [tp for tp, value in stored.items() if _is_expired(turn, shard, group, tp, value)]
        expired += [(group, tp) for tp in gone]
        open_transaction = shard.offsets.has_open_transaction(group.group_id)
        if len(gone) == len(stored) and group.state == EMPTY and not open_transaction:
            emptied.append(group)
    tombstones = [records.offset_commit(group.group_id, tp, None) for group, tp in expired]
    tombstones += [records.group_tombstone(group.group_id) for group in emptied]
    if tombstones:
        result = writes.append(turn, shard, tombstones)
        if not result.error:
            for index, (group, tp) in enumerate(expired):
                _record(turn, shard, group.group_id, tp, result.base_offset + index)
            for group in emptied:
                transition(turn, shard, group, DEAD, GROUP_EXPIRED)
                cancel_timers(turn, group)
                del shard.groups[group.group_id]
            writes.published(turn, shard)
    schedule(turn, shard)


def forget_partitions(turn: Turn, shard: Shard, removed: dict[str, list[str]]) -> None:
    """Tombstones for what is committed for partitions that are no more: by the ids of their topics, where these were
    told (``OffsetMetadataManager.onTopicsDeleted``)."""

    def is_gone(tp: str, value: OffsetAndMetadata) -> bool:
        return tp in removed and (not value.topic_id or value.topic_id in removed[tp])

    stored = shard.offsets.written.items()
    gone = [(group, tp) for group, of_group in stored for tp, value in of_group.items() if is_gone(tp, value)]
    for by_group in shard.offsets.pending.values():
        waiting = [(group, tp, each.value) for group, of_group in by_group.items() for tp, each in of_group.items()]
        gone += [(group, tp) for group, tp, value in waiting if is_gone(tp, value)]
    if not gone or "removed-topics-remembered" in turn.step.defects:
        return
    result = writes.append(turn, shard, [records.offset_commit(group, tp, None) for group, tp in gone])
    if result.error:
        return
    for index, (group, tp) in enumerate(gone):
        _record(turn, shard, group, tp, result.base_offset + index)
    writes.published(turn, shard)


def _is_expired(turn: Turn, shard: Shard, group: ClassicGroup, tp: str, value: OffsetAndMetadata) -> bool:
    """Of a group with members only what they do not read expires; of one without, everything, and its time counts from
    when the last member left. What an open transaction is going to replace stays."""
    since_ms = _counted_from(group, value)
    reads = group.is_subscribed(split_topic_partition(tp)[0]) and "positions-expire-in-use" not in turn.step.defects
    waits = shard.offsets.is_pending(group.group_id, tp) and "pending-positions-expire" not in turn.step.defects
    if since_ms is None or reads or waits:
        return False
    if value.expire_timestamp_ms >= 0:
        return turn.step.wall_ms >= value.expire_timestamp_ms
    return turn.step.wall_ms - since_ms >= turn.settings.groups.offsets_retention_ms


def _counted_from(group: ClassicGroup, value: OffsetAndMetadata) -> int | None:
    if group.protocol_type is None:
        return value.commit_timestamp_ms
    if group.state == EMPTY:
        return value.commit_timestamp_ms if group.state_timestamp_ms < 0 else group.state_timestamp_ms
    if group.uses_consumer_protocol and group.subscribed_topics is not None and group.state == STABLE:
        return value.commit_timestamp_ms
    return None


def _record(turn: Turn, shard: Shard, group_id: str, tp: str, log_offset: int) -> None:
    turn.step.record(GrpCommit(tp, group_id, shard.tp, shard.epoch, "", -1, -1, log_offset=log_offset))
