"""What happens to transactions and their ids by and by (``TransactionCoordinator.abortTimedOutTransactions``,
``TransactionStateManager.removeExpiredTransactionalIds``)."""

from __future__ import annotations

from typing import ClassVar

from actors.broker.coordinator_common import writes
from actors.broker.coordinator_common.writes import DelayedWrite
from actors.broker.transaction_coordinator import transaction_log
from actors.broker.transaction_coordinator.end_txn import abort_and_fence
from actors.broker.transaction_coordinator.shard import TransactionShard
from actors.broker.transaction_coordinator.transaction_metadata import TransactionMetadata
from actors.broker.transaction_coordinator.transaction_state import AT_REST, DEAD, ONGOING
from actors.broker.transaction_coordinator.transitions import ALL, TIMER, decide, written
from actors.broker.turn import Turn
from actors.node.errors import KafkaError
from actors.trace.events import TxnState

ABORT = "transactions/abort"
EXPIRE = "transactions/expire"


def schedule(turn: Turn) -> None:
    """Look for what is over by and by, from when this broker coordinates something on."""
    if len(turn.transactions.shards) == 1:
        turn.step.set_timer(ABORT, turn.settings.transactions.abort_timed_out_interval_ms)
        turn.step.set_timer(EXPIRE, turn.settings.transactions.remove_expired_interval_ms)


def abort_timed_out_transactions(turn: Turn) -> None:
    """Every transaction.abort.timed.out.transaction.cleanup.interval.ms: abort what is open for longer than its
    producer said, with another epoch, so that the producer is told."""
    shards = _loaded(turn)
    if turn.transactions.shards:
        turn.step.set_timer(ABORT, turn.settings.transactions.abort_timed_out_interval_ms)
    early = 2 if "timed-out-at-half" in turn.step.defects else 1
    longer = 2 if "timed-out-at-twice" in turn.step.defects else 1
    late = [
        (shard, metadata)
        for shard in shards
        for metadata in shard.transactions.values()
        if metadata.state == ONGOING
        and metadata.pending is None
        and metadata.start_ms + longer * metadata.txn_timeout_ms // early < turn.step.wall_ms
    ]
    for shard, metadata in late:
        if metadata.pending is None and "transactions-never-time-out" not in turn.step.defects:
            abort_and_fence(turn, shard, metadata)


def _loaded(turn: Turn) -> list[TransactionShard]:
    return [shard for shard in turn.transactions.shards.values() if not shard.loading]


# ---- expiry ------------------------------------------------------------------------------------------------


class DelayedRemoval(DelayedWrite):
    """Transactional ids (with their producer epochs) that are gone once their tombstones are committed."""

    coordinator_epoch: int
    expired: dict[str, int]
    base_offset: int

    timer: ClassVar[str] = TIMER

    def decide(self, context: Turn) -> KafkaError | None:
        """As the partition of the transaction log has it."""
        return decide(context, self.tp, self.end)

    def on_complete(self, context: Turn) -> None:
        """They are gone; or, if that could not be written, they stay."""
        shard = context.transactions.shards.get(self.tp)
        if shard is None or shard.loading or shard.epoch != self.coordinator_epoch:
            return
        for index, (transactional_id, producer_epoch) in enumerate(self.expired.items()):
            metadata = shard.transactions.get(transactional_id)
            if metadata is None:
                continue
            if not self.error and metadata.pending == DEAD and metadata.producer_epoch == producer_epoch:
                del shard.transactions[transactional_id]
                _record_dead(context, shard, metadata, self.base_offset + index)
            else:
                metadata.pending = None


def remove_expired_ids(turn: Turn) -> None:
    """Every transaction.remove.expired.transaction.cleanup.interval.ms: tombstones for ids that nobody has used for
    transactional.id.expiration.ms."""
    if turn.transactions.shards:
        turn.step.set_timer(EXPIRE, turn.settings.transactions.remove_expired_interval_ms)
    for shard in _loaded(turn):
        expired = [each for each in shard.transactions.values() if _is_expired(turn, each)]
        if expired:
            _remove(turn, shard, expired)


def _is_expired(turn: Turn, metadata: TransactionMetadata) -> bool:
    if metadata.pending is not None or metadata.state not in AT_REST:
        return False
    expiration_ms = turn.settings.transactions.id_expiration_ms
    if "ids-expire-at-once" in turn.step.defects:
        expiration_ms = -expiration_ms
    return metadata.last_update_ms <= turn.step.wall_ms - expiration_ms


def _remove(turn: Turn, shard: TransactionShard, expired: list[TransactionMetadata]) -> None:
    for metadata in expired:
        metadata.prepare_dead()
    uids = [turn.transactions.next_uid() for _ in expired]
    tombstones = [
        transaction_log.tombstone(metadata.transactional_id, turn.step.wall_ms, uid)
        for metadata, uid in zip(expired, uids, strict=True)
    ]
    result = writes.append(turn, shard.tp, writes.batch_of(tombstones), ALL)
    removal = DelayedRemoval(
        f"txn/expired@{uids[0]}",
        turn.step.now_ms + turn.net.request_timeout_ms,
        shard.tp,
        result.last_offset + 1,
        result.error,
        shard.epoch,
        {metadata.transactional_id: metadata.producer_epoch for metadata in expired},
        result.base_offset,
    )
    written(turn, removal)


def _record_dead(turn: Turn, shard: TransactionShard, metadata: TransactionMetadata, log_offset: int) -> None:
    turn.step.record(
        TxnState(
            shard.tp,
            metadata.transactional_id,
            metadata.producer_id,
            metadata.producer_epoch,
            metadata.state,
            DEAD,
            [],
            shard.epoch,
            log_offset,
            metadata.producer_id,
            metadata.producer_epoch,
        )
    )
