"""Produce with batches of a transaction, which its coordinator has to know of
(``ReplicaManager.handleProduceAppend``)."""

from __future__ import annotations

from actors.broker import produce as produces
from actors.broker.partition import find_partition
from actors.broker.produce import DelayedProduce
from actors.broker.transaction_verification import DelayedVerification, Operation, wait_to_ask_again
from actors.broker.turn import Turn
from actors.node.errors import KafkaError
from actors.node.purgatory import NEVER_MS
from krift.v1.records import RecordBatch

WITH_ABORTABLE, ADDS_PARTITIONS = 11, 12
"""First versions of Produce that know TRANSACTION_ABORTABLE, and that have partitions added to the transaction."""

AS_NOT_ENOUGH_REPLICAS = (
    KafkaError.NETWORK_EXCEPTION,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
)
"""Trouble with the coordinator: told as what every producer tries again without looking for another leader."""


class DelayedTransactionalProduce(DelayedVerification):
    """A Produce that is appended once its transaction is verified. ``began_ms``: when that began."""

    produce: DelayedProduce
    batches: list[RecordBatch]
    began_ms: int

    def on_verified(self, context: Turn) -> None:
        """Append what can be; or, as partitions are added and the former transaction is still being ended, ask again
        for a while."""
        busy = self.adds and KafkaError.CONCURRENT_TRANSACTIONS in self.errors.values()
        patience_ms = min(context.settings.transactions.retry_backoff_max_ms, context.net.request_timeout_ms)
        if busy and context.step.now_ms - self.began_ms < patience_ms:
            wait_to_ask_again(context, self)
            return
        for append in self.produce.appends:
            error = self.errors.get(append.tp, KafkaError.NONE)
            if "transactions-unverified" in context.step.defects:
                error = KafkaError.NONE
            if error and not append.error:
                append.error = _told_as(error, self.adds)
                partition, _ = find_partition(context, append.tp)
                append.decided = produces.told(context, partition, append)
        context.replicas.append_all(context, self.produce, self.batches, self.guards)

    def on_expiration(self, context: Turn) -> None:
        """The pause before the coordinator is asked again is over."""
        context.verification.begin(context, self, _sequences(self.produce, self.batches))


def _told_as(error: KafkaError, adds: bool) -> KafkaError:
    if error in AS_NOT_ENOUGH_REPLICAS or (error == KafkaError.CONCURRENT_TRANSACTIONS and not adds):
        return KafkaError.NOT_ENOUGH_REPLICAS
    return error


def operation_of(version: int) -> Operation:
    """What a producer understands that speaks this version of Produce."""
    if version >= ADDS_PARTITIONS:
        return "add-partition"
    return "generic-error" if version >= WITH_ABORTABLE else "default-error"


def _sequences(produce: DelayedProduce, batches: list[RecordBatch]) -> dict[str, int]:
    """The partitions that get a batch of a transaction, with its base sequence."""
    return {
        append.tp: batch.base_sequence
        for append, batch in zip(produce.appends, batches, strict=True)
        if _is_transactional(batch) and not append.error
    }


def _is_transactional(batch: RecordBatch) -> bool:
    return batch.is_transactional and batch.producer_id >= 0


def append_transactional(
    turn: Turn, transactional_id: str, produce: DelayedProduce, batches: list[RecordBatch]
) -> None:
    """Append a Produce once its transaction is verified, at once if there is nothing to verify."""
    producers = list(
        dict.fromkeys((each.producer_id, each.producer_epoch) for each in batches if _is_transactional(each))
    )
    if len(producers) > 1:
        for append in produce.appends:
            append.error = KafkaError.INVALID_PRODUCER_ID_MAPPING
        produces.answer(turn, produce)
        return
    operation = operation_of(produce.version)
    asks = operation == "add-partition" or turn.settings.transactions.partition_verification
    if not producers or not transactional_id or not asks:
        turn.replicas.append_all(turn, produce, batches, {})
        return
    [(producer_id, producer_epoch)] = producers
    delayed = DelayedTransactionalProduce(
        turn.verification.next_name(),
        NEVER_MS,
        transactional_id,
        producer_id,
        producer_epoch,
        operation,
        {},
        {},
        produce,
        batches,
        turn.step.now_ms,
    )
    turn.verification.begin(turn, delayed, _sequences(produce, batches))
