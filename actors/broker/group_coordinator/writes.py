"""Writing to an offsets partition, and waiting until that is committed (``CoordinatorRuntime.java``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from actors.broker.coordinator_common import writes
from actors.broker.coordinator_common.writes import answer, answer_error, wait
from actors.broker.group_coordinator.offset_metadata import OffsetChange, offset_of
from actors.broker.group_coordinator.records import CoordinatorRecord
from actors.broker.group_coordinator.shard import Shard
from actors.broker.turn import Turn
from actors.log.replica_log import AppendResult
from actors.node.errors import KafkaError
from actors.node.messages import AnyRequest, AnyResponse
from actors.node.purgatory import PREFIX
from actors.node.spec import topic_partition
from krift.v1.groups import OffsetCommitValue
from krift.v1.records import Record

if TYPE_CHECKING:
    from actors.broker.group_coordinator.storing import DelayedAssignment, DelayedStaticMember

LEADER_ONLY = 1
"""The acks of a group coordinator's append: it waits for the high watermark by itself."""
TIMER = f"{PREFIX}groups"


class DelayedGroupWrite(writes.DelayedWrite):
    """Something that waits for what a group coordinator wrote, for offsets.commit.timeout.ms at most."""

    timer: ClassVar[str] = TIMER

    def decide(self, context: Turn) -> KafkaError | None:
        """As the offsets partition has it."""
        return decide(context, self.tp, self.end)


class DelayedAnswer(DelayedGroupWrite):
    """A request that is answered once what was written for it, or before it, is committed."""

    request: AnyRequest
    response: AnyResponse

    def on_complete(self, context: Turn) -> None:
        """Answer."""
        if self.error:
            answer_error(context, self.connection, self.request, self.error)
        else:
            answer(context, self.connection, self.request, self.response)


def decide(turn: Turn, tp: str, end: int) -> KafkaError | None:
    """Whether everything below ``end`` of an offsets partition is committed: NONE, NOT_LEADER_OR_FOLLOWER if this
    broker no longer coordinates it, None if that is open."""
    if tp not in turn.groups.shards:
        return KafkaError.NOT_LEADER_OR_FOLLOWER
    if "commit-before-hw" in turn.step.defects:
        return KafkaError.NONE
    return KafkaError.NONE if turn.replicas.partitions[tp].log.high_watermark >= end else None


def append(turn: Turn, shard: Shard, records: list[CoordinatorRecord]) -> AppendResult:
    """Write records to the offsets partition, and take them in; ``published`` has to follow."""
    result = writes.append(turn, shard.tp, writes.batch_of(encode(turn, records)), LEADER_ONLY)
    if not result.error:
        for index, record in enumerate(records):
            replay_offset(shard, result.base_offset + index, record)
        shard.written = result.last_offset + 1
    return result


def encode(turn: Turn, records: list[CoordinatorRecord]) -> list[Record]:
    """Records as the log has them, each with a name of its own."""
    return [record.encode(turn.step.wall_ms, turn.groups.next_uid()) for record in records]


def published(turn: Turn, shard: Shard) -> None:
    """What was written can be replicated, or is committed already."""
    partition = turn.replicas.partitions[shard.tp]
    turn.replicas.appended(turn, partition)
    shard.offsets.advance(partition.log.high_watermark)


def replay_offset(shard: Shard, offset: int, record: CoordinatorRecord, producer_id: int = -1) -> None:
    """Take in a record at an offset, if it tells of a committed offset. ``producer_id``: of a transaction, -1 none."""
    key = record.key.offset_commit
    if key is not None:
        tp = topic_partition(key.topic, key.partition)
        value = offset_of(record.value) if isinstance(record.value, OffsetCommitValue) else None
        if producer_id >= 0 and value is not None:
            shard.offsets.write_pending(producer_id, key.group, tp, value, offset)
        else:
            shard.offsets.write(OffsetChange(offset, key.group, tp, value))


def deadline_ms(turn: Turn) -> int:
    """Until when something that begins to wait now may do so."""
    return turn.step.now_ms + turn.settings.groups.offsets_commit_timeout_ms


def answer_when_committed(turn: Turn, shard: Shard, connection: str, request: AnyRequest, response: Any) -> None:
    """Answer once everything that the coordinator has written to the partition is committed, at once if it is."""
    operation = DelayedAnswer(
        connection, deadline_ms(turn), shard.tp, shard.written, KafkaError.NONE, request, response
    )
    wait(turn, operation)


def stored(turn: Turn, shard: Shard, operation: DelayedAnswer | DelayedAssignment | DelayedStaticMember) -> None:
    """Let something wait for what was just written, which failed if ``error`` says so."""
    if operation.error:
        operation.on_complete(turn)
        return
    published(turn, shard)
    wait(turn, operation)
