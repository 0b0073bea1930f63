"""Serving OffsetCommit (``KafkaApis.handleOffsetCommitRequest``, ``OffsetMetadataManager.commitOffset``).

With ``kip-232: seed`` a partition's offset comes with the epoch of the metadata that the consumer accepted last, and is
refused if the stored one came with a higher epoch (KIP-232 as first proposed, Proposed Changes 3)."""

from __future__ import annotations

import msgspec

from actors.broker.coordinator_common.refusals import record_refusal_of_member
from actors.broker.coordinator_common.writes import answer, coordinator_error
from actors.broker.group_coordinator import records, writes
from actors.broker.group_coordinator.group import ClassicGroup
from actors.broker.group_coordinator.group_state import (
    COMPLETING_REBALANCE,
    DEAD,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
)
from actors.broker.group_coordinator.offset_metadata import OffsetAndMetadata
from actors.broker.group_coordinator.rebalance import reschedule_heartbeat
from actors.broker.group_coordinator.shard import Shard
from actors.broker.turn import Turn
from actors.node.errors import KafkaError
from actors.node.messages import Api
from actors.node.spec import topic_partition
from actors.trace.events import GrpCommit
from krift.v1.groups import OffsetCommitRequest, OffsetCommitResponse
from krift.v1.transactions import TxnOffsetCommitResponse

WITH_METADATA_EPOCH = 4
GROUP_ID_NOT_FOUND_FROM = 9
WITH_TOPIC_IDS = 10


class Commit(msgspec.Struct):
    """One partition of an OffsetCommit, or of a TxnOffsetCommit. ``tp`` "": its topic is unknown. ``value``: what is to
    be stored."""

    tp: str
    value: OffsetAndMetadata
    answer: (
        OffsetCommitResponse.OffsetCommitResponsePartition | TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition
    )


def offset_commit(turn: Turn, connection: str, request: OffsetCommitRequest) -> None:
    """Store positions, and answer when they are committed."""
    response, commits = _parse(turn, request)
    if not commits:
        answer(turn, connection, request, response)
        return
    shard, error = turn.groups.find(turn, request.group_id)
    if shard is None:
        record_refusal_of_member(turn, Api.OffsetCommit, request.group_id, request, error)
        fail(commits, error)
        answer(turn, connection, request, response)
        return
    error = _validate(turn, shard, request)
    if error:
        fail(commits, error)
        for commit in commits:
            _record(turn, shard, request, commit)
        answer(turn, connection, request, response)
        return
    _commit(turn, shard, request, commits)
    writes.answer_when_committed(turn, shard, connection, request, response)


def fail(commits: list[Commit], error: KafkaError) -> None:
    """Refuse all of them."""
    for commit in commits:
        commit.answer.error_code = error


# ---- the request -------------------------------------------------------------------------------------------


def _parse(turn: Turn, request: OffsetCommitRequest) -> tuple[OffsetCommitResponse, list[Commit]]:
    """The answer, with what is unknown refused, and the partitions that the coordinator is asked for."""
    response = OffsetCommitResponse()
    commits: list[Commit] = []
    by_id = request.header.api_version >= WITH_TOPIC_IDS
    for topic in request.topics:
        found = turn.image.topics.get(topic.topic_id) if by_id else None
        name = topic.name if not by_id else "" if found is None else found.name
        answer = OffsetCommitResponse.OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id)
        response.topics.append(answer)
        for partition in topic.partitions:
            told = OffsetCommitResponse.OffsetCommitResponsePartition(partition_index=partition.partition_index)
            answer.partitions.append(told)
            tp = topic_partition(name, partition.partition_index)
            if by_id and found is None:
                told.error_code = KafkaError.UNKNOWN_TOPIC_ID
            elif tp not in turn.image.partitions:
                told.error_code = KafkaError.UNKNOWN_TOPIC_OR_PARTITION
            else:
                commits.append(Commit(tp, _value(turn, request, topic.topic_id, partition), told))
    return response, commits


def _value(
    turn: Turn, request: OffsetCommitRequest, topic_id: str, asked: OffsetCommitRequest.OffsetCommitRequestPartition
) -> OffsetAndMetadata:
    now_ms = turn.step.wall_ms
    return OffsetAndMetadata(
        asked.committed_offset + (1000 if "commit-of-more" in turn.step.defects else 0),
        asked.committed_leader_epoch if "commit-epoch-unstored" not in turn.step.defects else -1,
        asked.committed_metadata or "",
        now_ms,
        -1 if request.retention_time_ms == -1 else now_ms + request.retention_time_ms,
        topic_id,
        asked.metadata_epoch if turn.settings.kip_232 == "seed" else -1,
    )


# ---- who may commit ----------------------------------------------------------------------------------------


def _validate(turn: Turn, shard: Shard, request: OffsetCommitRequest) -> KafkaError:
    """Whether the group takes commits of the member. A group that is not there is made for who has no generation."""
    group = shard.groups.get(request.group_id)
    generation = request.generation_id_or_member_epoch
    if group is None:
        if generation >= 0:
            found = request.header.api_version >= GROUP_ID_NOT_FOUND_FROM
            return KafkaError.GROUP_ID_NOT_FOUND if found else KafkaError.ILLEGAL_GENERATION
        group = shard.groups[request.group_id] = simple_group(request.group_id, shard.written + 1)
        group.state_timestamp_ms = turn.step.wall_ms
    error = _validate_member(turn, group, request)
    if not error and group.state == PREPARING_REBALANCE and "commits-refused-in-rebalance" in turn.step.defects:
        return KafkaError.REBALANCE_IN_PROGRESS
    if error == KafkaError.UNKNOWN_MEMBER_ID and "strangers-commit" in turn.step.defects:
        return KafkaError.NONE
    if not error and group.state in (STABLE, PREPARING_REBALANCE):
        reschedule_heartbeat(turn, group, group.members[request.member_id])
    return error


def simple_group(group_id: str, seen_at: int) -> ClassicGroup:
    """A group that has no members, of consumers that assign partitions to themselves."""
    return ClassicGroup(group_id, seen_at=seen_at)


def _validate_member(turn: Turn, group: ClassicGroup, request: OffsetCommitRequest) -> KafkaError:
    generation = request.generation_id_or_member_epoch
    if group.state == DEAD:
        return KafkaError.COORDINATOR_NOT_AVAILABLE
    if generation < 0 and group.state == EMPTY:
        return KafkaError.NONE
    if generation >= 0 or request.member_id or request.group_instance_id is not None:
        error = group.validate_member(request.member_id, request.group_instance_id, turn.step.defects)
        if error:
            return error
        if generation != group.generation:
            return KafkaError.ILLEGAL_GENERATION
    elif group.state != EMPTY:
        return KafkaError.UNKNOWN_MEMBER_ID
    # Between two generations the former owners may commit; after the new one was formed nobody may who has not synced.
    return KafkaError.REBALANCE_IN_PROGRESS if group.state == COMPLETING_REBALANCE else KafkaError.NONE


# ---- storing -----------------------------------------------------------------------------------------------


def _commit(turn: Turn, shard: Shard, request: OffsetCommitRequest, commits: list[Commit]) -> None:
    for commit in commits:
        commit.answer.error_code = _refusal(turn, shard, request, commit)
    accepted = [commit for commit in commits if not commit.answer.error_code]
    written = [records.offset_commit(request.group_id, commit.tp, commit.value) for commit in accepted]
    if "commit-unwritten" in turn.step.defects:
        written = []
    base_offset = -1
    if written:
        result = writes.append(turn, shard, written)
        base_offset = result.base_offset
        if result.error:
            fail(accepted, coordinator_error(result.error))
    for commit in commits:
        log_offset = -1
        if base_offset >= 0 and not commit.answer.error_code:
            log_offset = base_offset + accepted.index(commit)
        _record(turn, shard, request, commit, log_offset)
    if base_offset >= 0:
        writes.published(turn, shard)


def _refusal(turn: Turn, shard: Shard, request: OffsetCommitRequest, commit: Commit) -> KafkaError:
    if len(commit.value.metadata) > turn.settings.groups.offset_metadata_max_bytes:
        return KafkaError.OFFSET_METADATA_TOO_LARGE
    stored = shard.offsets.written.get(request.group_id, {}).get(commit.tp)
    if turn.settings.kip_232 != "seed" or stored is None or request.header.api_version < WITH_METADATA_EPOCH:
        return KafkaError.NONE
    if commit.value.metadata_epoch < stored.metadata_epoch:
        return KafkaError.INVALID_METADATA_EPOCH
    if commit.value.metadata_epoch == stored.metadata_epoch and "equal-metadata-refused" in turn.step.defects:
        return KafkaError.INVALID_METADATA_EPOCH
    return KafkaError.NONE


def _record(turn: Turn, shard: Shard, request: OffsetCommitRequest, commit: Commit, log_offset: int = -1) -> None:
    turn.step.record(
        GrpCommit(
            commit.tp,
            request.group_id,
            shard.tp,
            shard.epoch,
            request.member_id,
            request.generation_id_or_member_epoch,
            commit.value.offset,
            commit.value.leader_epoch,
            commit.value.metadata_epoch,
            int(commit.answer.error_code),
            log_offset,
            version=request.header.api_version,
            expires_ms=commit.value.expire_timestamp_ms,
        )
    )
