"""Serving TxnOffsetCommit: offsets that are committed with a transaction (``KafkaApis.handleTxnOffsetCommitRequest``,
``OffsetMetadataManager.commitTransactionalOffset``)."""

from __future__ import annotations

from actors.broker.coordinator_common.partitions import GROUP_METADATA_TOPIC, partition_for
from actors.broker.coordinator_common.refusals import record_refusal_of_member
from actors.broker.coordinator_common.writes import answer, coordinator_error
from actors.broker.group_coordinator import records, writes
from actors.broker.group_coordinator.group import ClassicGroup
from actors.broker.group_coordinator.group_state import DEAD, EMPTY
from actors.broker.group_coordinator.offset_commit import Commit, fail, simple_group
from actors.broker.group_coordinator.offset_metadata import OffsetAndMetadata, OffsetChange
from actors.broker.group_coordinator.shard import Shard
from actors.broker.transaction_verification import DelayedVerification, Operation
from actors.broker.turn import Turn
from actors.log.verification import UNVERIFIED
from actors.node.errors import KafkaError
from actors.node.messages import Api
from actors.node.purgatory import NEVER_MS
from actors.node.spec import topic_partition
from actors.trace.events import GrpCommit
from krift.v1.records import RecordBatch
from krift.v1.transactions import TxnOffsetCommitRequest, TxnOffsetCommitResponse

WITH_ABORTABLE, ADDS_PARTITIONS = 4, 5
LOADING_TOLD_FROM = 2
NO_SEQUENCE = -1


class DelayedTxnOffsetCommit(DelayedVerification):
    """A TxnOffsetCommit that is written once its transaction is verified. ``tp``: the offsets partition."""

    reply_to: str
    request: TxnOffsetCommitRequest
    tp: str

    def on_verified(self, context: Turn) -> None:
        """Write, or tell what stands against it."""
        error = self.errors.get(self.tp, KafkaError.NONE)
        if error == KafkaError.NETWORK_EXCEPTION:
            error = KafkaError.COORDINATOR_LOAD_IN_PROGRESS
        if error:
            _refuse(context, self.reply_to, self.request, coordinator_error(error))
            return
        _commit(context, self.reply_to, self.request, self.guards.get(self.tp, UNVERIFIED))


def txn_offset_commit(turn: Turn, connection: str, request: TxnOffsetCommitRequest) -> None:
    """Store positions that take effect when their transaction is committed; answered when they are committed
    themselves."""
    _, commits = _parse(turn, request)
    if not commits:
        answer(turn, connection, request, _parse(turn, request)[0])
        return
    if not request.group_id:
        _refuse(turn, connection, request, KafkaError.INVALID_GROUP_ID)
        return
    operation = _operation(request.header.api_version)
    tp = partition_for(turn, GROUP_METADATA_TOPIC, request.group_id)
    if operation != "add-partition" and not turn.settings.transactions.partition_verification:
        _commit(turn, connection, request, UNVERIFIED)
        return
    delayed = DelayedTxnOffsetCommit(
        turn.verification.next_name(),
        NEVER_MS,
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        operation,
        {},
        {},
        connection,
        request,
        tp,
    )
    turn.verification.begin(turn, delayed, {tp: NO_SEQUENCE})


def _operation(version: int) -> Operation:
    if version >= ADDS_PARTITIONS:
        return "add-partition"
    return "generic-error" if version >= WITH_ABORTABLE else "default-error"


def _parse(turn: Turn, request: TxnOffsetCommitRequest) -> tuple[TxnOffsetCommitResponse, list[Commit]]:
    """The answer, with what is unknown refused, and the partitions that the coordinator is asked for."""
    response = TxnOffsetCommitResponse()
    commits: list[Commit] = []
    for topic in request.topics:
        answers = TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic(name=topic.name)
        response.topics.append(answers)
        for asked in topic.partitions:
            told = TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition(partition_index=asked.partition_index)
            answers.partitions.append(told)
            tp = topic_partition(topic.name, asked.partition_index)
            if tp not in turn.image.partitions:
                told.error_code = KafkaError.UNKNOWN_TOPIC_OR_PARTITION
                continue
            leader_epoch = -1 if "txn-epoch-unstored" in turn.step.defects else asked.committed_leader_epoch
            value = OffsetAndMetadata(
                asked.committed_offset, leader_epoch, asked.committed_metadata or "", turn.step.wall_ms
            )
            commits.append(Commit(tp, value, told))
    return response, commits


def _refuse(turn: Turn, connection: str, request: TxnOffsetCommitRequest, error: KafkaError) -> None:
    response, commits = _parse(turn, request)
    if error == KafkaError.COORDINATOR_LOAD_IN_PROGRESS and request.header.api_version < LOADING_TOLD_FROM:
        # Producers of then do not know that error (KAFKA-7296).
        error = KafkaError.COORDINATOR_NOT_AVAILABLE
    fail(commits, error)
    answer(turn, connection, request, response)


# ---- storing -----------------------------------------------------------------------------------------------


def _commit(turn: Turn, connection: str, request: TxnOffsetCommitRequest, guard: int) -> None:
    shard, error = turn.groups.find(turn, request.group_id)
    if shard is None:
        record_refusal_of_member(turn, Api.TxnOffsetCommit, request.group_id, request, error)
        _refuse(turn, connection, request, error)
        return
    response, commits = _parse(turn, request)
    error = _validate(turn, shard, request)
    if error:
        fail(commits, error)
        for commit in commits:
            _record(turn, shard, request, commit)
        answer(turn, connection, request, response)
        return
    _store(turn, shard, request, commits, guard)
    writes.answer_when_committed(turn, shard, connection, request, response)


def _validate(turn: Turn, shard: Shard, request: TxnOffsetCommitRequest) -> KafkaError:
    """Whether the group takes commits of the member, if the producer says who it is: old ones do not. A group that is
    not there is made for who has no generation."""
    group = shard.groups.get(request.group_id)
    if group is None:
        if request.generation_id >= 0:
            return KafkaError.ILLEGAL_GENERATION
        group = shard.groups[request.group_id] = simple_group(request.group_id, shard.written + 1)
        group.state_timestamp_ms = turn.step.wall_ms
    return _validate_member(turn, group, request)


def _validate_member(turn: Turn, group: ClassicGroup, request: TxnOffsetCommitRequest) -> KafkaError:
    if group.state == DEAD:
        return KafkaError.COORDINATOR_NOT_AVAILABLE
    if request.generation_id < 0 and group.state == EMPTY:
        return KafkaError.NONE
    if request.generation_id >= 0 or request.member_id or request.group_instance_id is not None:
        error = group.validate_member(request.member_id, request.group_instance_id, turn.step.defects)
        if error:
            return error
        if request.generation_id != group.generation:
            return KafkaError.ILLEGAL_GENERATION
    return KafkaError.NONE


def _store(turn: Turn, shard: Shard, request: TxnOffsetCommitRequest, commits: list[Commit], guard: int) -> None:
    limit = turn.settings.groups.offset_metadata_max_bytes
    for commit in commits:
        if len(commit.value.metadata) > limit:
            commit.answer.error_code = KafkaError.OFFSET_METADATA_TOO_LARGE
    accepted = [commit for commit in commits if not commit.answer.error_code]
    written = [records.offset_commit(request.group_id, commit.tp, commit.value) for commit in accepted]
    base_offset = -1
    if written:
        batch = RecordBatch(
            producer_id=request.producer_id,
            producer_epoch=request.producer_epoch,
            is_transactional=True,
            records=writes.encode(turn, written),
        )
        verified = turn.settings.transactions.partition_verification
        partition = turn.replicas.partitions[shard.tp]
        result = partition.append_transactional(turn, batch, guard if verified else None)
        base_offset = result.base_offset
        if result.error:
            fail(accepted, coordinator_error(result.error))
    for index, commit in enumerate(accepted if base_offset >= 0 else []):
        at = base_offset + index
        if "offsets-at-once" in turn.step.defects:
            shard.offsets.write(OffsetChange(at, request.group_id, commit.tp, commit.value))
        else:
            shard.offsets.write_pending(request.producer_id, request.group_id, commit.tp, commit.value, at)
        _record(turn, shard, request, commit, base_offset + index)
    for commit in commits:
        if commit.answer.error_code:
            _record(turn, shard, request, commit)
    if base_offset >= 0:
        shard.written = base_offset + len(written)
        writes.published(turn, shard)


def _record(turn: Turn, shard: Shard, request: TxnOffsetCommitRequest, commit: Commit, log_offset: int = -1) -> None:
    turn.step.record(
        GrpCommit(
            commit.tp,
            request.group_id,
            shard.tp,
            shard.epoch,
            request.member_id,
            request.generation_id,
            commit.value.offset,
            commit.value.leader_epoch,
            -1,
            int(commit.answer.error_code),
            log_offset,
            request.producer_id,
            request.producer_epoch,
            request.header.api_version,
        )
    )
