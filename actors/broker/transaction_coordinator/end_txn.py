"""Serving EndTxn, and ending transactions for other reasons (``TransactionCoordinator``: endTransaction,
endTransactionWithTV1)."""

from __future__ import annotations

import msgspec

from actors.broker.transaction_coordinator import replies
from actors.broker.transaction_coordinator.shard import TransactionShard
from actors.broker.transaction_coordinator.transaction_metadata import (
    LAST_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    TransactionMetadata,
    TxnTransitMetadata,
)
from actors.broker.transaction_coordinator.transaction_state import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    PREPARE_EPOCH_FENCE,
    PREPARED,
)
from actors.broker.transaction_coordinator.transitions import NOBODY, DelayedTransition, write, written
from actors.broker.turn import Turn
from actors.log.producer_state import TransactionVersion
from actors.node.errors import KafkaError
from actors.trace.transaction_events import TransactionStateName
from krift.v1.producer_ids import InitProducerIdRequest
from krift.v1.transactions import EndTxnRequest

WITH_EPOCH_BUMP = 5
"""First version of EndTxn that is of ``transaction.version`` 2."""

NONE, FENCED = KafkaError.NONE, KafkaError.PRODUCER_FENCED
BUSY, INVALID = KafkaError.CONCURRENT_TRANSACTIONS, KafkaError.INVALID_TXN_STATE
Outcome = KafkaError | TransactionStateName
"""What EndTxn is told at once, or the state that the transaction goes to."""

OUTCOMES: dict[tuple[TransactionStateName, bool], Outcome] = {
    (ONGOING, True): PREPARE_COMMIT,
    (ONGOING, False): PREPARE_ABORT,
    (COMPLETE_COMMIT, True): NONE,
    (COMPLETE_COMMIT, False): INVALID,
    (COMPLETE_ABORT, True): INVALID,
    (COMPLETE_ABORT, False): NONE,
    (PREPARE_COMMIT, True): BUSY,
    (PREPARE_COMMIT, False): INVALID,
    (PREPARE_ABORT, True): INVALID,
    (PREPARE_ABORT, False): BUSY,
    (EMPTY, True): INVALID,
    (EMPTY, False): INVALID,
}
"""State and whether it is to be committed -> what comes of it, before ``transaction.version`` 2."""

OUTCOMES_OF_THE_NEXT: dict[tuple[TransactionStateName, bool], Outcome] = {
    (COMPLETE_COMMIT, True): INVALID,
    (COMPLETE_COMMIT, False): PREPARE_ABORT,
    (COMPLETE_ABORT, True): INVALID,
    (COMPLETE_ABORT, False): PREPARE_ABORT,
    (EMPTY, True): INVALID,
    (EMPTY, False): PREPARE_ABORT,
}
"""The same under ``transaction.version`` 2 for who has the present epoch, as far as it differs: it does not try again,
but ends a transaction that has nothing in it."""


class Ending(msgspec.Struct, frozen=True):
    """What was asked for: by whom, with which producer id and epoch, and how it is to end. ``request``: a client's
    EndTxn, or the InitProducerId that has found a transaction open; None: its time-out is over. ``fences``: the
    producer is to learn that it lost the transaction."""

    connection: str
    request: EndTxnRequest | InitProducerIdRequest | None
    producer_id: int
    producer_epoch: int
    commit: bool
    version: TransactionVersion
    fences: bool = False

    @property
    def is_from_client(self) -> bool:
        """Whether its producer asks."""
        return isinstance(self.request, EndTxnRequest)


class DelayedEnd(DelayedTransition):
    """A transaction that is decided: answered, and its partitions told, once that is committed."""

    ending: Ending

    def finish(self, context: Turn, error: KafkaError) -> None:
        """Tell who asked, and then the partitions."""
        shard, unknown = context.transactions.find(context, self.transactional_id)
        metadata = None if shard is None else shard.transactions.get(self.transactional_id)
        if error or shard is None or metadata is None:
            mine = shard is not None and shard.epoch == self.coordinator_epoch
            if metadata is not None and mine and self.ending.fences and self.ending.version != 2:
                metadata.has_failed_epoch_fence = True
            _tell(context, self.ending, error or unknown or KafkaError.NOT_COORDINATOR)
            return
        found = _still_its(metadata, self.ending)
        if found:
            _tell(context, self.ending, found)
            return
        transit = metadata.prepare_complete(context.step.wall_ms)
        _tell(context, self.ending, KafkaError.NONE, transit)
        context.transactions.markers.add_txn_markers_to_send(context, shard, metadata, transit)


def _still_its(metadata: TransactionMetadata, ending: Ending) -> KafkaError:
    """Whether nothing else has become of the transaction, now that its end is written."""
    bumped = ending.producer_epoch + (1 if ending.version == 2 else 0)
    if metadata.producer_id != ending.producer_id:
        return KafkaError.INVALID_PRODUCER_ID_MAPPING
    if metadata.producer_epoch not in (ending.producer_epoch, bumped):
        return KafkaError.PRODUCER_FENCED
    if metadata.pending is not None:
        return KafkaError.CONCURRENT_TRANSACTIONS
    decided = PREPARE_COMMIT if ending.commit else PREPARE_ABORT
    return KafkaError.NONE if metadata.state == decided else KafkaError.INVALID_TXN_STATE


def _tell(turn: Turn, ending: Ending, error: KafkaError, transit: TxnTransitMetadata | None = None) -> None:
    """Answer who asked. An InitProducerId has to come again: CONCURRENT_TRANSACTIONS if all went well."""
    request = ending.request
    if isinstance(request, InitProducerIdRequest):
        replies.fail(turn, ending.connection, request, error or KafkaError.CONCURRENT_TRANSACTIONS)
    elif isinstance(request, EndTxnRequest):
        if error or transit is None:
            replies.fail(turn, ending.connection, request, error)
        else:
            told = (transit.producer_id, transit.producer_epoch)
            if "end-told-former-epoch" in turn.step.defects:
                told = (request.producer_id, request.producer_epoch)
            replies.ended(turn, ending.connection, request, *told)


# ---- the request -------------------------------------------------------------------------------------------


def end_txn(turn: Turn, connection: str, request: EndTxnRequest) -> None:
    """Decide a transaction: answered when the decision is committed, before the partitions hear of it."""
    if not request.transactional_id:
        replies.refuse(turn, connection, request, KafkaError.INVALID_REQUEST)
        return
    shard, error = turn.transactions.find(turn, request.transactional_id)
    metadata = None if shard is None else shard.transactions.get(request.transactional_id)
    if shard is None or metadata is None:
        if "end-refused-as-unknown" in turn.step.defects:
            error = KafkaError.NONE
        replies.refuse(turn, connection, request, error or KafkaError.INVALID_PRODUCER_ID_MAPPING)
        return
    version: TransactionVersion = 2 if request.header.api_version >= WITH_EPOCH_BUMP else 0
    commit = request.committed or "abort-ends-in-commit" in turn.step.defects
    epoch = request.producer_epoch
    if metadata.state == ONGOING and "older-end-taken" in turn.step.defects:
        epoch = max(epoch, metadata.producer_epoch)
    ending = Ending(connection, request, request.producer_id, epoch, commit, version)
    _end(turn, shard, metadata, ending)


def abort_and_fence(
    turn: Turn,
    shard: TransactionShard,
    metadata: TransactionMetadata,
    connection: str = "",
    request: InitProducerIdRequest | None = None,
) -> None:
    """Abort a transaction that is open, and raise the epoch: for an InitProducerId, which is told to come again, or as
    its time-out is over."""
    if "fence-raises-again" in turn.step.defects:
        metadata.has_failed_epoch_fence = False
    transit = metadata.prepare_fence_producer_epoch()
    version, epoch = turn.image.transaction_version, transit.producer_epoch
    if request is None and "timed-out-without-fence" in turn.step.defects:
        epoch = metadata.producer_epoch
    ending = Ending(connection, request, transit.producer_id, epoch, False, version, True)
    _end(turn, shard, metadata, ending)


def _end(turn: Turn, shard: TransactionShard, metadata: TransactionMetadata, ending: Ending) -> None:
    outcome = _decide_by_epoch(metadata, ending) if ending.version == 2 else _decide(metadata, ending)
    if outcome == NONE and "end-again-fenced" in turn.step.defects:
        outcome = FENCED
    if outcome == NONE:
        request = ending.request
        assert isinstance(request, EndTxnRequest), "who fences finds a transaction open"
        replies.ended(turn, ending.connection, request, metadata.producer_id, metadata.producer_epoch)
        return
    if isinstance(outcome, KafkaError):
        if outcome == BUSY and metadata.state in PREPARED and "end-again-refused" in turn.step.defects:
            outcome = INVALID
        _refuse(turn, ending, outcome)
        return
    transit = _prepare(turn, metadata, ending, outcome)
    if transit is None:
        _refuse(turn, ending, KafkaError.COORDINATOR_LOAD_IN_PROGRESS)
        return
    request = ending.request
    asked = (request.producer_id, request.producer_epoch) if isinstance(request, EndTxnRequest) else NOBODY
    place = write(turn, shard, metadata.transactional_id, transit, asked, timed_out=request is None)
    if "end-answered-before-commit" in turn.step.defects:
        _tell(turn, ending, KafkaError.NONE, transit)
        ending = msgspec.structs.replace(ending, request=None)
    written(turn, DelayedEnd(*place, ending))


def _refuse(turn: Turn, ending: Ending, error: KafkaError) -> None:
    """What was asked for is not done. Nobody asked where a time-out is over."""
    if ending.request is not None:
        replies.refuse(turn, ending.connection, ending.request, error)


def _prepare(
    turn: Turn, metadata: TransactionMetadata, ending: Ending, state: TransactionStateName
) -> TxnTransitMetadata | None:
    """None: the producer needs another id, also where this end fences it, and there is none yet."""
    if ending.fences:
        metadata.pending = None
    next_producer_id = NO_PRODUCER_ID
    if ending.version == 2 and metadata.is_epoch_exhausted:
        found = turn.producer_ids.generate()
        if found is None:
            return None
        next_producer_id = found
    if ending.fences and ending.version != 2:
        # The epoch is raised at once, as it must not be raised again if this cannot be written.
        metadata.producer_epoch, metadata.last_producer_epoch = ending.producer_epoch, NO_PRODUCER_EPOCH
    version: TransactionVersion = 2 if ending.version == 2 else 0
    nothing_in_it = metadata.state != ONGOING
    now_ms, epoch = turn.step.wall_ms, metadata.producer_epoch
    transit = metadata.prepare_abort_or_commit(state, version, next_producer_id, now_ms, nothing_in_it)
    shares = "transactions-share-epoch" in turn.step.defects
    return msgspec.structs.replace(transit, producer_epoch=epoch) if shares else transit


# ---- what comes of it --------------------------------------------------------------------------------------


def _decide(metadata: TransactionMetadata, ending: Ending) -> Outcome:
    """Before ``transaction.version`` 2: a producer has one epoch for all its transactions."""
    if metadata.producer_id != ending.producer_id:
        return KafkaError.INVALID_PRODUCER_ID_MAPPING
    other = ending.producer_epoch != metadata.producer_epoch
    if (ending.is_from_client and other) or ending.producer_epoch < metadata.producer_epoch:
        return FENCED
    if metadata.pending not in (None, PREPARE_EPOCH_FENCE):
        return BUSY
    return OUTCOMES[metadata.state, ending.commit]


def _decide_by_epoch(metadata: TransactionMetadata, ending: Ending) -> Outcome:
    """Under ``transaction.version`` 2: the epoch says whether this transaction is meant, or the one before."""
    if metadata.pending not in (None, PREPARE_EPOCH_FENCE):
        return BUSY
    # The last epoch of the former id, if the present one is new; else the one before the present one.
    overflown = (
        not ending.fences
        and ending.producer_id == metadata.prev_producer_id
        and ending.producer_epoch == LAST_EPOCH
        and metadata.producer_epoch == 0
    )
    again = not ending.fences and metadata.producer_epoch == ending.producer_epoch + 1
    if metadata.producer_id != ending.producer_id and not overflown:
        return KafkaError.INVALID_PRODUCER_ID_MAPPING
    if not _is_valid_epoch(metadata, ending, again, overflown):
        return FENCED
    key = (metadata.state, ending.commit)
    return OUTCOMES[key] if again or overflown else OUTCOMES_OF_THE_NEXT.get(key, OUTCOMES[key])


def _is_valid_epoch(metadata: TransactionMetadata, ending: Ending, again: bool, overflown: bool) -> bool:
    same = ending.producer_epoch == metadata.producer_epoch
    if ending.fences:
        return ending.producer_epoch >= metadata.producer_epoch
    if metadata.state in PREPARED:
        return again
    if metadata.state in (COMPLETE_COMMIT, COMPLETE_ABORT):
        return again or overflown or same
    return same
