"""Writing to an offsets partition, and waiting until that is committed (``CoordinatorRuntime.java``,
``CoordinatorPartitionWriter.java``, ``CoordinatorOperationExceptionHelper.java``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from actors.broker.group_coordinator.offset_metadata import OffsetChange, offset_of
from actors.broker.group_coordinator.records import CoordinatorRecord
from actors.broker.group_coordinator.shard import Shard
from actors.broker.purgatory import COMMITTED
from actors.broker.turn import Turn
from actors.log.replica_log import AppendResult
from actors.node.error_responses import error_response
from actors.node.errors import KafkaError
from actors.node.messages import AnyRequest, AnyResponse, check_fields, request_version
from actors.node.purgatory import PREFIX, DelayedOperation, Key
from actors.node.spec import topic_partition
from krift.v1.groups import OffsetCommitValue
from krift.v1.records import RecordBatch

if TYPE_CHECKING:
    from actors.broker.group_coordinator.storing import DelayedAssignment, DelayedStaticMember

LEADER_ONLY = 1
"""The acks of a coordinator's append: it waits for the high watermark by itself."""
TIMER = f"{PREFIX}groups"

_AS: dict[KafkaError, KafkaError] = {
    KafkaError.UNKNOWN_TOPIC_OR_PARTITION: KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_ENOUGH_REPLICAS: KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.REQUEST_TIMED_OUT: KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_OR_FOLLOWER: KafkaError.NOT_COORDINATOR,
    KafkaError.KAFKA_STORAGE_ERROR: KafkaError.NOT_COORDINATOR,
    KafkaError.MESSAGE_TOO_LARGE: KafkaError.UNKNOWN_SERVER_ERROR,
}


def coordinator_error(error: KafkaError) -> KafkaError:
    """What clients are told of an error of the offsets partition."""
    return _AS.get(error, error)


class DelayedWrite(DelayedOperation):
    """Something that waits until the high watermark of ``tp`` is at ``end`` or above. ``error``: how that ended, as the
    partition has it; REQUEST_TIMED_OUT after offsets.commit.timeout.ms, though what was written stays in the log."""

    tp: str
    end: int
    error: KafkaError

    timer: ClassVar[str] = TIMER

    @property
    def keys(self) -> tuple[Key, ...]:
        """The offsets partition's high watermark, or its leadership, moves."""
        return ((COMMITTED, self.tp),)

    def try_complete(self, context: Turn, key: Key) -> bool:
        """Whether it is committed, or will not be by this coordinator."""
        decided = decide(context, self.tp, self.end)
        if decided is None:
            return False
        self.error = decided
        return True

    def on_expiration(self, context: Turn) -> None:
        """It took too long."""
        self.error = KafkaError.REQUEST_TIMED_OUT
        self.on_complete(context)


class DelayedAnswer(DelayedWrite):
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


def answer(turn: Turn, connection: str, request: AnyRequest, response: Any) -> None:
    """Answer a request of a group."""
    check_fields(response, request_version(request))
    turn.step.reply(connection, response)


def answer_error(turn: Turn, connection: str, request: AnyRequest, error: KafkaError) -> None:
    """Answer with an error of the partition or of the coordinator."""
    answer(turn, connection, request, error_response(request, coordinator_error(error)))


def append(turn: Turn, shard: Shard, records: list[CoordinatorRecord]) -> AppendResult:
    """Write records to the offsets partition, and take them in; ``published`` has to follow."""
    partition = turn.replicas.partitions[shard.tp]
    encoded = [record.encode(turn.step.wall_ms, turn.groups.next_uid()) for record in records]
    result = partition.append(turn, RecordBatch(records=encoded), LEADER_ONLY)
    if not result.error:
        for index, record in enumerate(records):
            replay_offset(shard, result.base_offset + index, record)
        shard.written = result.last_offset + 1
    return result


def published(turn: Turn, shard: Shard) -> None:
    """What was written can be replicated, or is committed already."""
    partition = turn.replicas.partitions[shard.tp]
    turn.replicas.appended(turn, partition)
    shard.offsets.advance(partition.log.high_watermark)


def replay_offset(shard: Shard, offset: int, record: CoordinatorRecord) -> None:
    """Take in a record at an offset, if it tells of a committed offset."""
    key = record.key.offset_commit
    if key is not None:
        tp = topic_partition(key.topic, key.partition)
        value = offset_of(record.value) if isinstance(record.value, OffsetCommitValue) else None
        shard.offsets.write(OffsetChange(offset, key.group, tp, value))


def wait(turn: Turn, operation: DelayedAnswer | DelayedAssignment | DelayedStaticMember) -> None:
    """Complete an operation if what it waits for is committed already; else let it wait."""
    decided = decide(turn, operation.tp, operation.end)
    if decided is None:
        turn.purgatory.park(turn.step, operation)
        return
    operation.error = decided
    operation.on_complete(turn)


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
