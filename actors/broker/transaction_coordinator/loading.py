"""Taking up and giving up a partition of the transaction log (``TransactionCoordinator``: onElection, onResignation;
``TransactionStateManager``: loadTransactionsForTxnTopicPartition, removeTransactionsForTxnTopicPartition)."""

from __future__ import annotations

from actors.broker.coordinator_common.partitions import TRANSACTION_STATE_TOPIC
from actors.broker.partition import Partition
from actors.broker.transaction_coordinator import timeouts, transaction_log
from actors.broker.transaction_coordinator.shard import TransactionShard
from actors.broker.transaction_coordinator.transaction_state import ONGOING, PREPARE_ABORT, PREPARE_COMMIT, PREPARED
from actors.broker.turn import Turn
from actors.trace.events import TxnLoad, TxnLoaded

LOAD = "transactions/load/"


def on_leadership(turn: Turn, partition: Partition) -> None:
    """This broker won or lost the leadership of a partition, or leads in another epoch: then, too, it reads the log
    anew, as the coordinator epoch is another one."""
    if partition.topic != TRANSACTION_STATE_TOPIC:
        return
    shards = turn.transactions.shards
    shard = shards.get(partition.tp)
    if shard is not None:
        _unload(turn, shard, partition.log.end_offset)
    if partition.serves:
        shards[partition.tp] = TransactionShard(partition.tp, partition.leader_epoch)
        turn.step.set_timer(f"{LOAD}{partition.tp}", turn.settings.transactions.load_ms)
        timeouts.schedule(turn)


def load(turn: Turn, shard: TransactionShard) -> None:
    """Read the log, up to its end, and go on with what was decided and not completed."""
    log = turn.replicas.partitions[shard.tp].log
    end = log.high_watermark if "loaded-up-to-high-watermark" in turn.step.defects else log.end_offset
    for batch in log.batches:
        for record in [] if batch.is_control or batch.last_offset >= end else batch.records:
            transactional_id, metadata = transaction_log.read(record)
            shard.transactions.pop(transactional_id, None)
            if metadata is not None:
                shard.transactions[transactional_id] = metadata
                if "one-partition-read" in turn.step.defects:
                    del metadata.partitions[1:]
                if metadata.state == PREPARE_COMMIT and "decision-changed-at-load" in turn.step.defects:
                    metadata.state = PREPARE_ABORT
                if metadata.state == ONGOING and "timeouts-forgotten-at-load" in turn.step.defects:
                    metadata.start_ms = 1 << 60
    shard.loading = False
    _record_loaded(turn, shard, log.end_offset)
    if "markers-not-resumed" in turn.step.defects:
        return
    decided = [each for each in shard.transactions.values() if each.state in PREPARED]
    prepared = [(metadata, metadata.prepare_complete(turn.step.wall_ms)) for metadata in decided]
    for metadata, transit in prepared:
        turn.transactions.markers.add_txn_markers_to_send(turn, shard, metadata, transit)


def _record_loaded(turn: Turn, shard: TransactionShard, end: int) -> None:
    transactions = {
        transactional_id: TxnLoaded(
            *(each.state, each.producer_id, each.producer_epoch, list(each.partitions)),
            *(each.client_version, each.txn_timeout_ms, each.start_ms),
        )
        for transactional_id, each in shard.transactions.items()
    }
    turn.step.record(TxnLoad(shard.tp, shard.epoch, True, end, transactions))


def on_partitions_deleted(turn: Turn, names: list[str]) -> None:
    """Topics were removed: what this broker knew of theirs goes."""
    for tp in names:
        shard, partition = turn.transactions.shards.get(tp), turn.replicas.partitions.get(tp)
        now = turn.image.partitions.get(tp)
        key = "" if now is None else turn.image.key(now, turn.settings.cluster)
        if shard is not None and partition is not None and key != partition.key:
            _unload(turn, shard, partition.log.end_offset)


def _unload(turn: Turn, shard: TransactionShard, end: int) -> None:
    """Somebody else coordinates, or this broker in another epoch: nothing is remembered, and no marker sent."""
    del turn.transactions.shards[shard.tp]
    turn.step.cancel_timer(f"{LOAD}{shard.tp}")
    turn.transactions.markers.remove_markers_for(shard.tp)
    turn.step.record(TxnLoad(shard.tp, shard.epoch, False, end))
