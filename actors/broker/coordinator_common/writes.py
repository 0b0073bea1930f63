"""Writing to a coordinator's partition, and answering once that is committed (``CoordinatorPartitionWriter.java``,
``CoordinatorOperationExceptionHelper.java``, ``TransactionStateManager.appendTransactionToLog``)."""

from __future__ import annotations

from typing import Any

from actors.broker.purgatory import COMMITTED
from actors.broker.turn import Turn
from actors.log.replica_log import AppendResult
from actors.node.error_responses import error_response
from actors.node.errors import KafkaError
from actors.node.messages import AnyRequest, check_fields, request_version
from actors.node.purgatory import DelayedOperation, Key
from krift.v1.records import Record, RecordBatch

_AS: dict[KafkaError, KafkaError] = {
    KafkaError.UNKNOWN_TOPIC_OR_PARTITION: KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_ENOUGH_REPLICAS: KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND: KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.REQUEST_TIMED_OUT: KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_OR_FOLLOWER: KafkaError.NOT_COORDINATOR,
    KafkaError.KAFKA_STORAGE_ERROR: KafkaError.NOT_COORDINATOR,
    KafkaError.MESSAGE_TOO_LARGE: KafkaError.UNKNOWN_SERVER_ERROR,
}


def coordinator_error(error: KafkaError) -> KafkaError:
    """What clients are told of an error of the coordinator's partition."""
    return _AS.get(error, error)


class DelayedWrite(DelayedOperation):
    """Something that waits until the high watermark of ``tp`` is at ``end`` or above. ``error``: how that ended, as the
    partition has it; REQUEST_TIMED_OUT if it took too long, though what was written stays in the log."""

    tp: str
    end: int
    error: KafkaError

    @property
    def keys(self) -> tuple[Key, ...]:
        """The partition's high watermark, or its leadership, moves."""
        return ((COMMITTED, self.tp),)

    def decide(self, context: Turn) -> KafkaError | None:
        """Whether it is committed, or will not be by this coordinator; None if that is open."""
        raise NotImplementedError

    def try_complete(self, context: Turn, key: Key) -> bool:
        """Look again."""
        decided = self.decide(context)
        if decided is None:
            return False
        self.error = decided
        return True

    def on_expiration(self, context: Turn) -> None:
        """It took too long."""
        self.error = KafkaError.REQUEST_TIMED_OUT
        self.on_complete(context)


def answer(turn: Turn, connection: str, request: AnyRequest, response: Any) -> None:
    """Answer a request of a coordinator's."""
    check_fields(response, request_version(request))
    turn.step.reply(connection, response)


def answer_error(turn: Turn, connection: str, request: AnyRequest, error: KafkaError) -> None:
    """Answer with an error of the partition or of the coordinator."""
    answer(turn, connection, request, error_response(request, coordinator_error(error)))


def append(turn: Turn, tp: str, batch: RecordBatch, acks: int) -> AppendResult:
    """Write a batch of the coordinator's to a partition that this broker leads. It cannot be replicated before
    ``ReplicaManager.appended`` is told, which has to follow."""
    return turn.replicas.partitions[tp].append(turn, batch, acks)


def batch_of(records: list[Record]) -> RecordBatch:
    """Records of the coordinator's own, without a producer."""
    return RecordBatch(records=records)


def wait(turn: Turn, operation: Any) -> None:
    """Complete a ``DelayedWrite`` if what it waits for is committed already; else let it wait."""
    decided = operation.decide(turn)
    if decided is None:
        turn.purgatory.park(turn.step, operation)
        return
    operation.error = decided
    operation.on_complete(turn)
