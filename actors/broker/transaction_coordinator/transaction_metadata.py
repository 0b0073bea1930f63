"""A transactional id as its coordinator knows it, and what it is about to become (``TransactionMetadata.java``,
``TxnTransitMetadata.java``).

A change is prepared, written to the log, and completed once that is committed. In between the id has a pending state,
and most requests are told CONCURRENT_TRANSACTIONS."""

from __future__ import annotations

import msgspec

from actors.broker.transaction_coordinator.transaction_state import (
    AT_REST,
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    DEAD,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    PREPARE_EPOCH_FENCE,
    PREPARED,
    PREVIOUS,
)
from actors.log.producer_state import PRODUCER_EPOCH_MAX, TransactionVersion
from actors.trace.transaction_events import TransactionStateName

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
LAST_EPOCH = PRODUCER_EPOCH_MAX - 1
"""The last epoch that a producer may have: one more is kept for fencing it."""


def is_epoch_exhausted(producer_epoch: int) -> bool:
    """Whether a producer with this epoch needs another id."""
    return producer_epoch >= LAST_EPOCH


class TxnTransitMetadata(msgspec.Struct, frozen=True):
    """What a transactional id is about to become: fields as ``TransactionMetadata`` has them."""

    producer_id: int
    prev_producer_id: int
    next_producer_id: int
    producer_epoch: int
    last_producer_epoch: int
    txn_timeout_ms: int
    state: TransactionStateName
    partitions: list[str]
    start_ms: int
    last_update_ms: int
    client_version: TransactionVersion


class TransactionMetadata(msgspec.Struct):
    """``prev_producer_id``: before the last change; ``next_producer_id``: with which the producer goes on once a
    transaction with the last epoch is completed. ``last_producer_epoch``: before the last one, where a retry may still
    name it. ``partitions``: in the transaction, or still to be told how it ended. Times are of the wall clock, -1 none.
    ``client_version``: by which the producer goes. ``pending``: what is being written. ``has_failed_epoch_fence``: the
    epoch was raised to fence the producer, which could not be written: it is not raised once more."""

    transactional_id: str
    producer_id: int
    txn_timeout_ms: int
    prev_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    state: TransactionStateName = EMPTY
    partitions: list[str] = []
    start_ms: int = -1
    last_update_ms: int = -1
    client_version: TransactionVersion = 0
    pending: TransactionStateName | None = None
    has_failed_epoch_fence: bool = False

    @property
    def is_epoch_exhausted(self) -> bool:
        """Whether its producer needs another id."""
        return is_epoch_exhausted(self.producer_epoch)

    # ---- what it may become ------------------------------------------------------------------------------

    def prepare_fence_producer_epoch(self) -> TxnTransitMetadata:
        """Its transaction is going to be aborted, and its producer fenced."""
        keeps = self.has_failed_epoch_fence or self.producer_epoch == PRODUCER_EPOCH_MAX
        return self._prepare(PREPARE_EPOCH_FENCE, producer_epoch=self.producer_epoch + (0 if keeps else 1))

    def prepare_increment_producer_epoch(
        self, txn_timeout_ms: int, expected_epoch: int | None, now_ms: int
    ) -> TxnTransitMetadata | None:
        """Its producer is initialized in the next epoch; in the present one if it says that it had the one before, so
        that it asks again. None: it is fenced."""
        assert not self.is_epoch_exhausted, f"{self.transactional_id} has no epoch left"
        bumped = self.producer_epoch + 1
        if expected_epoch is None:
            epoch, last = bumped, NO_PRODUCER_EPOCH
        elif self.producer_epoch in (NO_PRODUCER_EPOCH, expected_epoch):
            epoch, last = bumped, self.producer_epoch
        elif expected_epoch == self.last_producer_epoch:
            epoch, last = self.producer_epoch, self.last_producer_epoch
        else:
            return None
        return self._initialize(self.producer_id, epoch, last, txn_timeout_ms, now_ms)

    def prepare_producer_id_rotation(
        self, producer_id: int, txn_timeout_ms: int, now_ms: int, records_last_epoch: bool
    ) -> TxnTransitMetadata:
        """Its producer is initialized with another id, as the epochs of this one are used up."""
        last = self.producer_epoch if records_last_epoch else NO_PRODUCER_EPOCH
        return self._initialize(producer_id, 0, last, txn_timeout_ms, now_ms)

    def _initialize(self, producer_id: int, epoch: int, last: int, timeout_ms: int, now_ms: int) -> TxnTransitMetadata:
        return self._prepare(
            EMPTY,
            producer_id=producer_id,
            producer_epoch=epoch,
            last_producer_epoch=last,
            txn_timeout_ms=timeout_ms,
            partitions=[],
            start_ms=-1,
            last_update_ms=now_ms,
        )

    def prepare_add_partitions(
        self, partitions: list[str], now_ms: int, client_version: TransactionVersion
    ) -> TxnTransitMetadata:
        """More partitions are in its transaction, which begins with the first."""
        return self._prepare(
            ONGOING,
            partitions=list(dict.fromkeys([*self.partitions, *partitions])),
            start_ms=now_ms if self.state in AT_REST else self.start_ms,
            last_update_ms=now_ms,
            client_version=client_version,
        )

    def prepare_abort_or_commit(
        self,
        state: TransactionStateName,
        client_version: TransactionVersion,
        next_producer_id: int,
        now_ms: int,
        no_partition_added: bool,
    ) -> TxnTransitMetadata:
        """Its transaction is decided; under ``transaction.version`` 2 with the next epoch."""
        epoch, last = self.producer_epoch, self.last_producer_epoch
        if client_version == 2:
            last = self.producer_epoch
            stuck = self.producer_epoch == PRODUCER_EPOCH_MAX and state == PREPARE_ABORT
            epoch = self.producer_epoch + (0 if stuck else 1)
        return self._prepare(
            state,
            producer_epoch=epoch,
            last_producer_epoch=last,
            start_ms=now_ms if no_partition_added else self.start_ms,
            next_producer_id=next_producer_id,
            last_update_ms=now_ms,
            client_version=client_version,
        )

    def prepare_complete(self, now_ms: int) -> TxnTransitMetadata:
        """Every partition has been told."""
        self.has_failed_epoch_fence = False
        rotates = self.client_version == 2 and self.next_producer_id != NO_PRODUCER_ID
        return self._prepare(
            COMPLETE_COMMIT if self.state == PREPARE_COMMIT else COMPLETE_ABORT,
            producer_id=self.next_producer_id if rotates else self.producer_id,
            producer_epoch=0 if rotates else self.producer_epoch,
            next_producer_id=NO_PRODUCER_ID,
            partitions=[],
            last_update_ms=now_ms,
        )

    def prepare_dead(self) -> TxnTransitMetadata:
        """It expires."""
        return self._prepare(DEAD, partitions=[])

    def _prepare(
        self,
        state: TransactionStateName,
        *,
        producer_id: int | None = None,
        producer_epoch: int | None = None,
        last_producer_epoch: int | None = None,
        next_producer_id: int | None = None,
        txn_timeout_ms: int | None = None,
        partitions: list[str] | None = None,
        start_ms: int | None = None,
        last_update_ms: int | None = None,
        client_version: TransactionVersion | None = None,
    ) -> TxnTransitMetadata:
        """What is not given stays. AssertionError for a transition that there is not, or while another is pending."""
        assert self.pending is None, f"{self.transactional_id}: {state} while {self.pending} is pending"
        assert self.state in PREVIOUS[state], f"{self.transactional_id}: from {self.state} to {state}"
        transit = TxnTransitMetadata(
            self.producer_id if producer_id is None else producer_id,
            self.producer_id,
            self.next_producer_id if next_producer_id is None else next_producer_id,
            self.producer_epoch if producer_epoch is None else producer_epoch,
            self.last_producer_epoch if last_producer_epoch is None else last_producer_epoch,
            self.txn_timeout_ms if txn_timeout_ms is None else txn_timeout_ms,
            state,
            list(self.partitions) if partitions is None else partitions,
            self.start_ms if start_ms is None else start_ms,
            self.last_update_ms if last_update_ms is None else last_update_ms,
            self.client_version if client_version is None else client_version,
        )
        assert transit.producer_id >= 0, f"{self.transactional_id}: no producer id"
        assert state == DEAD or transit.producer_epoch >= 0, f"{self.transactional_id}: no producer epoch"
        self.pending = state
        return transit

    # ---- becoming it -------------------------------------------------------------------------------------

    def complete_transition_to(self, transit: TxnTransitMetadata) -> None:
        """What was prepared is committed. AssertionError if it is not what is pending, or cannot follow."""
        assert self.pending == transit.state, f"{self.transactional_id}: {transit.state}, pending is {self.pending}"
        assert self._may_follow(transit), f"{self.transactional_id}: {transit} does not follow {self}"
        self.producer_id, self.prev_producer_id = transit.producer_id, transit.prev_producer_id
        self.next_producer_id = transit.next_producer_id
        self.producer_epoch, self.last_producer_epoch = transit.producer_epoch, transit.last_producer_epoch
        self.txn_timeout_ms, self.partitions = transit.txn_timeout_ms, list(transit.partitions)
        self.start_ms, self.last_update_ms = transit.start_ms, transit.last_update_ms
        self.client_version = transit.client_version
        self.state, self.pending = transit.state, None

    def _may_follow(self, transit: TxnTransitMetadata) -> bool:
        same_timeout = self.txn_timeout_ms == transit.txn_timeout_ms
        if transit.state == EMPTY:
            bumped = transit.producer_epoch == self.producer_epoch + 1
            rotated = transit.producer_epoch == 0 and transit.producer_id != self.producer_id
            kept = transit.producer_epoch == self.producer_epoch
            return (kept or bumped or rotated) and not transit.partitions and transit.start_ms == -1
        if transit.state == ONGOING:
            return same_timeout and self._keeps_epoch(transit) and set(self.partitions) <= set(transit.partitions)
        if transit.state in PREPARED:
            same_partitions = set(self.partitions) == set(transit.partitions)
            empty_abort = transit.state == PREPARE_ABORT and transit.client_version == 2 and self.state in AT_REST
            same_start = self.start_ms == transit.start_ms or empty_abort
            return same_timeout and same_partitions and same_start and self._keeps_epoch(transit)
        completes = transit.state in (COMPLETE_COMMIT, COMPLETE_ABORT)
        return completes and same_timeout and transit.start_ms != -1 and self._keeps_epoch(transit)

    def _keeps_epoch(self, transit: TxnTransitMetadata) -> bool:
        """Whether producer id and epoch are the present ones, or what ``transaction.version`` 2 makes of them: the next
        epoch with a decision, another id with the completion after the last epoch."""
        if transit.client_version == 2:
            if transit.state in (COMPLETE_COMMIT, COMPLETE_ABORT) and transit.producer_epoch == 0:
                same_last = transit.last_producer_epoch == self.last_producer_epoch
                return same_last and transit.prev_producer_id == self.producer_id
            if transit.state in PREPARED:
                return transit.last_producer_epoch == self.producer_epoch and transit.producer_id == self.producer_id
        return (transit.producer_id, transit.producer_epoch) == (self.producer_id, self.producer_epoch)

    def remove_partition(self, tp: str) -> None:
        """A partition has been told how the transaction ended, or need not be. AssertionError unless it is decided."""
        assert self.state in PREPARED, f"{self.transactional_id}: {tp} is told while it is {self.state}"
        if tp in self.partitions:
            self.partitions.remove(tp)
