"""Writing what a transactional id is about to become, and becoming it once that is committed
(``TransactionStateManager.appendTransactionToLog``)."""

from __future__ import annotations

from typing import ClassVar

from actors.broker.coordinator_common import writes
from actors.broker.coordinator_common.writes import DelayedWrite, coordinator_error
from actors.broker.transaction_coordinator import transaction_log
from actors.broker.transaction_coordinator.shard import TransactionShard
from actors.broker.transaction_coordinator.transaction_metadata import TransactionMetadata, TxnTransitMetadata
from actors.broker.turn import Turn
from actors.node.errors import KafkaError
from actors.node.purgatory import PREFIX
from actors.trace.events import TxnState, TxnTakenBack

ALL = -1
"""The acks of the transaction log."""
TIMER = f"{PREFIX}transactions"
Producer = tuple[int, int]
"""A producer id and an epoch of it."""
NOBODY: Producer = (-1, -1)


class DelayedTransition(DelayedWrite):
    """A transactional id that is about to become ``transit``. ``coordinator_epoch``: of who wrote that;
    ``log_offset``: of the record; ``asked``: who asked for it in a transaction; ``timed_out``: it is aborted as its
    timeout is over. Afterwards it goes on by its class, whether it has become that or not."""

    transactional_id: str
    coordinator_epoch: int
    transit: TxnTransitMetadata
    log_offset: int
    asked: Producer
    timed_out: bool

    timer: ClassVar[str] = TIMER

    def decide(self, context: Turn) -> KafkaError | None:
        """As the partition of the transaction log has it: acks=all."""
        return decide(context, self.tp, self.end)

    def on_complete(self, context: Turn) -> None:
        """It is committed, or failed."""
        error = coordinator_error(self.error)
        shard, unknown = context.transactions.find(context, self.transactional_id)
        metadata = None if shard is None else shard.transactions.get(self.transactional_id)
        mine = shard is not None and shard.epoch == self.coordinator_epoch
        if error:
            if metadata is not None and mine and not self.retries(error):
                self._take_back(context, metadata)
            self.finish(context, error)
        elif shard is None or metadata is None or not mine:
            self.finish(context, unknown or KafkaError.NOT_COORDINATOR)
        else:
            self._become(context, shard, metadata)
            self.finish(context, KafkaError.NONE)

    def _become(self, context: Turn, shard: TransactionShard, metadata: TransactionMetadata) -> None:
        """Complete the transition, and record that: every change of a transactional id's state comes through here."""
        before, former = metadata.state, (metadata.producer_id, metadata.producer_epoch)
        metadata.complete_transition_to(self.transit)
        context.step.record(
            TxnState(
                shard.tp,
                metadata.transactional_id,
                metadata.producer_id,
                metadata.producer_epoch,
                before,
                metadata.state,
                list(metadata.partitions),
                shard.epoch,
                self.log_offset,
                *former,
                metadata.client_version,
                metadata.txn_timeout_ms,
                metadata.start_ms,
                *self.asked,
                metadata.last_update_ms,
                self.timed_out,
            )
        )

    def _take_back(self, context: Turn, metadata: TransactionMetadata) -> None:
        metadata.pending = None
        if self.log_offset >= 0:
            context.step.record(
                TxnTakenBack(
                    self.tp,
                    self.transactional_id,
                    self.transit.producer_id,
                    self.transit.producer_epoch,
                    self.transit.state,
                    self.coordinator_epoch,
                    self.log_offset,
                    self.error,
                )
            )

    def retries(self, error: KafkaError) -> bool:
        """Whether the same is written again after this error, so that it stays pending."""
        return False

    def finish(self, context: Turn, error: KafkaError) -> None:
        """Go on: what it was for has happened, or has failed with a coordinator's error."""
        raise NotImplementedError


def decide(turn: Turn, tp: str, end: int) -> KafkaError | None:
    """Whether everything below ``end`` of a partition of the transaction log is committed, None if that is open."""
    partition = turn.replicas.partitions.get(tp)
    if partition is None:
        return KafkaError.NOT_LEADER_OR_FOLLOWER
    if "transaction-before-hw" in turn.step.defects and partition.is_leader:
        return KafkaError.NONE
    done, error = partition.has_reached(end)
    return error if done else None


Where = tuple[str, int, str, int, KafkaError, str, int, TxnTransitMetadata, int, Producer, bool]
"""The first fields of a ``DelayedTransition``."""


def write(
    turn: Turn,
    shard: TransactionShard,
    transactional_id: str,
    transit: TxnTransitMetadata,
    asked: Producer = NOBODY,
    timed_out: bool = False,
) -> Where:
    """Append what a transactional id is about to become, with acks=all; ``written`` has to follow, with an operation
    that begins with these fields. It waits as long as the transaction may take. ``asked``: with which producer id and
    epoch a transaction was added to, or ended; ``timed_out``: it is aborted as its timeout is over."""
    now_ms, version = turn.step.wall_ms, turn.image.transaction_version
    if "client-version-not-logged" in turn.step.defects:
        version = 0
    uid = turn.transactions.next_uid()
    record = transaction_log.value_record(transactional_id, transit, version, now_ms, uid)
    result = writes.append(turn, shard.tp, writes.batch_of([record]), ALL)
    deadline_ms = turn.step.now_ms + transit.txn_timeout_ms
    name = f"txn/{transactional_id}@{uid}"
    end, error, offset = result.last_offset + 1, result.error, result.base_offset
    return name, deadline_ms, shard.tp, end, error, transactional_id, shard.epoch, transit, offset, asked, timed_out


def written(turn: Turn, operation: DelayedWrite) -> None:
    """Let something wait for what was just written, which failed if ``error`` says so."""
    if operation.error:
        operation.on_complete(turn)
        return
    turn.replicas.appended(turn, turn.replicas.partitions[operation.tp])
    writes.wait(turn, operation)
