"""Serving InitProducerId (``TransactionCoordinator.handleInitProducerId``)."""

from __future__ import annotations

import msgspec

from actors.broker.transaction_coordinator import replies
from actors.broker.transaction_coordinator.end_txn import abort_and_fence
from actors.broker.transaction_coordinator.shard import TransactionShard
from actors.broker.transaction_coordinator.transaction_metadata import (
    NO_PRODUCER_EPOCH,
    TransactionMetadata,
    TxnTransitMetadata,
    is_epoch_exhausted,
)
from actors.broker.transaction_coordinator.transaction_state import AT_REST, ONGOING, PREPARED
from actors.broker.transaction_coordinator.transitions import DelayedTransition, write, written
from actors.broker.turn import Turn
from actors.node.errors import KafkaError
from krift.v1.producer_ids import InitProducerIdRequest


class DelayedInit(DelayedTransition):
    """An InitProducerId that is answered once its transactional id has the epoch that it is told; ``reply_to``: "" it
    was answered before."""

    reply_to: str
    request: InitProducerIdRequest

    def finish(self, context: Turn, error: KafkaError) -> None:
        """Answer."""
        if not self.reply_to:
            return
        if error:
            replies.fail(context, self.reply_to, self.request, error)
        else:
            transit = self.transit
            replies.initialized(context, self.reply_to, self.request, transit.producer_id, transit.producer_epoch)


def init_producer_id(turn: Turn, connection: str, request: InitProducerIdRequest) -> None:
    """Give a producer an id and an epoch; with a transactional id the next epoch, so that all others that have it are
    fenced, and what they left open is aborted first."""
    if (request.producer_id < 0) != (request.producer_epoch < 0) or request.transactional_id == "":
        replies.refuse(turn, connection, request, KafkaError.INVALID_REQUEST)
    elif request.transactional_id is None:
        producer_id = turn.producer_ids.generate()
        if producer_id is None:
            replies.refuse(turn, connection, request, KafkaError.COORDINATOR_LOAD_IN_PROGRESS)
        else:
            replies.initialized(turn, connection, request, producer_id, 0)
    elif not 0 < request.transaction_timeout_ms <= turn.settings.transactions.max_timeout_ms:
        replies.refuse(turn, connection, request, KafkaError.INVALID_TRANSACTION_TIMEOUT)
    else:
        shard, error = turn.transactions.find(turn, request.transactional_id)
        metadata = None if shard is None else _metadata(turn, shard, request, request.transactional_id)
        if shard is None or metadata is None:
            replies.refuse(turn, connection, request, error or KafkaError.COORDINATOR_LOAD_IN_PROGRESS)
        else:
            _initialize(turn, shard, metadata, connection, request)


def _metadata(
    turn: Turn, shard: TransactionShard, request: InitProducerIdRequest, transactional_id: str
) -> TransactionMetadata | None:
    """What is known of the id, from now on if it is new; None: there is no producer id for it yet."""
    known = shard.transactions.get(transactional_id)
    if known is not None:
        return known
    producer_id = turn.producer_ids.generate()
    if producer_id is None:
        return None
    timeout_ms, now_ms = request.transaction_timeout_ms, turn.step.wall_ms
    known = TransactionMetadata(transactional_id, producer_id, timeout_ms, last_update_ms=now_ms)
    shard.transactions[transactional_id] = known
    return known


def _initialize(
    turn: Turn, shard: TransactionShard, metadata: TransactionMetadata, connection: str, request: InitProducerIdRequest
) -> None:
    error = _refusal(metadata, request)
    if error:
        replies.refuse(turn, connection, request, error)
        return
    if metadata.state == ONGOING:
        abort_and_fence(turn, shard, metadata, connection, request)
        return
    transit = _transit(turn, metadata, request)
    if isinstance(transit, KafkaError):
        replies.refuse(turn, connection, request, transit)
        return
    asked = (request.producer_id, request.producer_epoch)
    place = write(turn, shard, metadata.transactional_id, transit, asked)
    if "init-told-before-commit" in turn.step.defects:
        replies.initialized(turn, connection, request, transit.producer_id, transit.producer_epoch)
        connection = ""
    written(turn, DelayedInit(*place, connection, request))


def _refusal(metadata: TransactionMetadata, request: InitProducerIdRequest) -> KafkaError:
    """A producer that says who it is has to be the present one, or the one before if it had used up its epochs and did
    not hear of its new id."""
    if metadata.pending is not None:
        return KafkaError.CONCURRENT_TRANSACTIONS
    was = request.producer_id == metadata.prev_producer_id and is_epoch_exhausted(request.producer_epoch)
    known = metadata.producer_epoch == NO_PRODUCER_EPOCH or request.producer_id == metadata.producer_id or was
    if request.producer_id >= 0 and not known:
        return KafkaError.PRODUCER_FENCED
    return KafkaError.CONCURRENT_TRANSACTIONS if metadata.state in PREPARED else KafkaError.NONE


def _transit(
    turn: Turn, metadata: TransactionMetadata, request: InitProducerIdRequest
) -> TxnTransitMetadata | KafkaError:
    assert metadata.state in AT_REST, f"{metadata.transactional_id} is {metadata.state}"
    expected = request.producer_epoch if request.producer_id >= 0 else None
    timeout_ms, now_ms = request.transaction_timeout_ms, turn.step.wall_ms
    if "timeout-unheeded" in turn.step.defects:
        timeout_ms = turn.settings.transactions.max_timeout_ms
    if "timeout-of-first-producer" in turn.step.defects:
        timeout_ms = metadata.txn_timeout_ms
    if metadata.is_epoch_exhausted and expected in (None, metadata.producer_epoch):
        producer_id = turn.producer_ids.generate()
        if producer_id is None:
            return KafkaError.COORDINATOR_LOAD_IN_PROGRESS
        return metadata.prepare_producer_id_rotation(producer_id, timeout_ms, now_ms, expected is not None)
    if metadata.is_epoch_exhausted:
        # Kafka: IllegalStateException, which the client is told of as an unknown error.
        return KafkaError.UNKNOWN_SERVER_ERROR
    if "repeated-init-fenced" in turn.step.defects and expected not in (None, metadata.producer_epoch):
        return KafkaError.PRODUCER_FENCED
    transit = metadata.prepare_increment_producer_epoch(timeout_ms, expected, now_ms)
    if transit is None and "former-raises-epoch" in turn.step.defects:
        transit = metadata.prepare_increment_producer_epoch(timeout_ms, None, now_ms)
    if transit is not None and metadata.producer_epoch >= 0 and "init-keeps-epoch" in turn.step.defects:
        transit = msgspec.structs.replace(transit, producer_epoch=metadata.producer_epoch)
    return transit or KafkaError.PRODUCER_FENCED
