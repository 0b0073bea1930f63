"""The records of ``__consumer_offsets`` (``GroupCoordinatorRecordHelpers.java``)."""

from __future__ import annotations

import msgspec

from actors.broker.group_coordinator.group import ClassicGroup, GroupMember
from actors.broker.group_coordinator.group_state import EMPTY, STABLE
from actors.broker.group_coordinator.offset_metadata import OffsetAndMetadata
from actors.node.spec import split_topic_partition
from krift.v1.groups import (
    CoordinatorRecordKey,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from krift.v1.records import Record
from krift.v1.wire import from_bytes, to_bytes


class CoordinatorRecord(msgspec.Struct, frozen=True):
    """A record before it has a timestamp; no value: a tombstone."""

    key: CoordinatorRecordKey
    value: OffsetCommitValue | GroupMetadataValue | None = None

    def encode(self, timestamp_ms: int, uid: str) -> Record:
        """As the log has it."""
        value = None if self.value is None else to_bytes(self.value)
        return Record(timestamp_ms=timestamp_ms, uid=uid, key=to_bytes(self.key), value=value)


def decode(record: Record) -> CoordinatorRecord:
    """Inverse of ``encode``. Raises DecodeError for what is no such record."""
    key = from_bytes(CoordinatorRecordKey, record.key or b"")
    if record.value is None:
        return CoordinatorRecord(key)
    if key.offset_commit is not None:
        return CoordinatorRecord(key, from_bytes(OffsetCommitValue, record.value))
    return CoordinatorRecord(key, from_bytes(GroupMetadataValue, record.value))


def offset_commit(group_id: str, tp: str, value: OffsetAndMetadata | None) -> CoordinatorRecord:
    """What a group has committed for a partition; None: nothing any more."""
    topic, partition = split_topic_partition(tp)
    key = CoordinatorRecordKey(offset_commit=OffsetCommitKey(group=group_id, topic=topic, partition=partition))
    return CoordinatorRecord(key, None if value is None else value.to_value())


def _group_key(group_id: str) -> CoordinatorRecordKey:
    return CoordinatorRecordKey(group_metadata=GroupMetadataKey(group=group_id))


def group_tombstone(group_id: str) -> CoordinatorRecord:
    """The group is gone."""
    return CoordinatorRecord(_group_key(group_id))


def empty_group_metadata(group: ClassicGroup) -> CoordinatorRecord:
    """A group that somebody asked for, and that has no generation yet."""
    value = GroupMetadataValue(current_state_timestamp=group.state_timestamp_ms)
    return CoordinatorRecord(_group_key(group.group_id), value)


def group_metadata(group: ClassicGroup, assignment: dict[str, bytes]) -> CoordinatorRecord:
    """A generation of a group, with what each member is assigned (member id -> bytes, of nobody: none)."""
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=group.protocol,
        leader=group.leader,
        current_state_timestamp=group.state_timestamp_ms,
        members=[
            GroupMetadataValue.MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.metadata(group.protocol or ""),
                assignment=assignment.get(member.member_id, b""),
            )
            for member in group.members.values()
        ],
    )
    return CoordinatorRecord(_group_key(group.group_id), value)


def group_of(group_id: str, value: GroupMetadataValue, seen_at: int) -> ClassicGroup:
    """The group that a record tells of: with members Stable, without Empty."""
    group = ClassicGroup(
        group_id,
        state=STABLE if value.members else EMPTY,
        generation=value.generation,
        protocol_type=value.protocol_type or None,
        protocol=value.protocol,
        leader=value.leader,
        state_timestamp_ms=value.current_state_timestamp,
        seen_at=seen_at,
    )
    for each in value.members:
        rebalance_timeout_ms = each.session_timeout if each.rebalance_timeout == -1 else each.rebalance_timeout
        member = GroupMember(
            each.member_id,
            each.group_instance_id,
            each.client_id,
            rebalance_timeout_ms,
            each.session_timeout,
            value.protocol_type,
            [(value.protocol or "", each.subscription)],
            each.assignment,
        )
        group.add(member)
    group.subscribed_topics = group.compute_subscribed_topics()
    return group
