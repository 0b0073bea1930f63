"""What a partition remembers of producers with an id, and of their transactions (``ProducerStateManager.java``,
``ProducerStateEntry.java``, ``ProducerAppendInfo.java``)."""

from __future__ import annotations

from typing import Literal

import msgspec

from actors.log.batch import Batch, add_sequence
from actors.log.control_records import ControlRecordType, EndTxnMarker, marker_of
from actors.log.verification import UNVERIFIED, VerificationStateEntry
from actors.node.errors import KafkaError

RETAINED_BATCHES = 5
"""Batches per producer that are recognized as duplicates."""
PRODUCER_EPOCH_MAX = 0x7FFF
"""With it alone the last marker of a producer id may be written again under transaction.version 2."""

NONE_OPEN = -1
"""First offset of a producer's transaction where none is open."""

TransactionVersion = Literal[0, 1, 2]
"""The value of the feature ``transaction.version``: 2 raises the producer epoch with each transaction (KIP-890)."""


class BatchMetadata(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A batch that was appended: its sequences and offsets."""

    base_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int


class ProducerStateEntry(msgspec.Struct):
    """One producer id: its epoch and its last batches, oldest first. coordinator_epoch: of the last marker, -1 none.
    current_txn_first_offset: where its open transaction begins here, ``NONE_OPEN``. last_timestamp_ms: the greatest in
    its last batch, or that of its last marker, -1 none."""

    producer_epoch: int
    batches: list[BatchMetadata] = []
    coordinator_epoch: int = -1
    current_txn_first_offset: int = NONE_OPEN
    last_timestamp_ms: int = -1

    def last_sequence(self) -> int:
        """Sequence number of the last record, -1 if there is none."""
        return self.batches[-1].last_sequence if self.batches else -1

    def take_epoch(self, producer_epoch: int) -> None:
        """In another epoch the producer begins its sequence anew; an open transaction goes on."""
        if producer_epoch != self.producer_epoch:
            self.producer_epoch, self.batches = producer_epoch, []


class CompletedTxn(msgspec.Struct, frozen=True, gc=False):
    """A transaction that a marker has ended here: its first record, and the marker's offset."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


class ProducerStateManager(msgspec.Struct):
    """State by producer id. Derived from the log: rebuilt after every truncation and restart.

    ongoing: first offset of an open transaction -> its producer id. unreplicated: first offset of one that was ended ->
    offset of its marker, as long as that is not below the high watermark. verifications: of the leader alone, producer
    id -> what is asked of its coordinator; guards: how many there have been.
    """

    entries: dict[int, ProducerStateEntry] = {}
    ongoing: dict[int, int] = {}
    unreplicated: dict[int, int] = {}
    verifications: dict[int, VerificationStateEntry] = {}
    guards: int = 0

    # ---- what may be appended ------------------------------------------------------------------------------

    def find_duplicate(
        self, producer_id: int, producer_epoch: int, base_sequence: int, count: int
    ) -> BatchMetadata | None:
        """The remembered batch with exactly this epoch and range of sequences."""
        entry = self.entries.get(producer_id)
        if entry is None or entry.producer_epoch != producer_epoch:
            return None
        last_sequence = add_sequence(base_sequence, count - 1)
        for batch in entry.batches:
            if batch.base_sequence == base_sequence and batch.last_sequence == last_sequence:
                return batch
        return None

    def check(
        self,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        is_transactional: bool = False,
    ) -> KafkaError:
        """Whether a leader may append a batch that is no duplicate. Without state any sequence is accepted, but for a
        transaction's first batch under ``transaction.version`` 2; while a transaction is verified, none above the
        lowest that was seen (``ProducerAppendInfo.checkSequence``)."""
        entry, verified = self.entries.get(producer_id), self.verifications.get(producer_id)
        if entry is not None and producer_epoch < entry.producer_epoch:
            return KafkaError.INVALID_PRODUCER_EPOCH
        if verified is not None:
            begins_late = verified.supports_epoch_bump and base_sequence != 0
            unknown = entry is None or not entry.batches
            if (begins_late and unknown) or base_sequence > verified.lowest_sequence:
                return KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER
        if entry is None:
            return KafkaError.NONE
        if producer_epoch > entry.producer_epoch:
            if base_sequence != 0:
                return KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER
        elif base_sequence != add_sequence(entry.last_sequence(), 1):
            return KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER
        if entry.current_txn_first_offset != NONE_OPEN and not is_transactional:
            return KafkaError.INVALID_TXN_STATE
        return KafkaError.NONE

    def has_ongoing_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        """Whether a transaction is open that the producer began in this epoch."""
        entry = self.entries.get(producer_id)
        if entry is None or entry.current_txn_first_offset == NONE_OPEN:
            return False
        return entry.producer_epoch == producer_epoch

    def start_verification(
        self, producer_id: int, producer_epoch: int, sequence: int, supports_epoch_bump: bool
    ) -> tuple[int, KafkaError]:
        """Begin to ask the coordinator for a transaction, or go on with it: its guard, ``UNVERIFIED`` where it is open
        already; INVALID_PRODUCER_EPOCH for a former epoch (``UnifiedLog.maybeStartTransactionVerification``)."""
        entry = self.entries.get(producer_id)
        if entry is not None and producer_epoch < entry.producer_epoch:
            return UNVERIFIED, KafkaError.INVALID_PRODUCER_EPOCH
        if self.has_ongoing_transaction(producer_id, producer_epoch):
            return UNVERIFIED, KafkaError.NONE
        known = self.verifications.get(producer_id)
        if known is None:
            self.guards += 1
            known = VerificationStateEntry(self.guards, sequence, producer_epoch, supports_epoch_bump)
            self.verifications[producer_id] = known
        known.take(sequence, producer_epoch)
        return known.guard, KafkaError.NONE

    def check_verified(self, producer_id: int, producer_epoch: int, guard: int) -> KafkaError:
        """Whether a batch is of a transaction that is open here, or that the coordinator knows by what the guard began:
        another batch or a marker that came since has made it void."""
        if self.has_ongoing_transaction(producer_id, producer_epoch):
            return KafkaError.NONE
        entry, known = self.entries.get(producer_id), self.verifications.get(producer_id)
        if entry is not None and producer_epoch < entry.producer_epoch:
            return KafkaError.INVALID_PRODUCER_EPOCH
        valid = known is not None and guard != UNVERIFIED and known.guard == guard
        return KafkaError.NONE if valid else KafkaError.INVALID_TXN_STATE

    def _end_verification(self, batch: Batch) -> None:
        """A transaction has begun, or ended: what was asked before counts no longer, unless a marker ends the one
        before it (``UnifiedLog.updateProducers``)."""
        known = self.verifications.get(batch.producer_id)
        if known is None:
            return
        is_next = known.supports_epoch_bump and batch.is_control and batch.producer_epoch == known.epoch
        if not is_next:
            del self.verifications[batch.producer_id]

    def check_marker(
        self, producer_id: int, producer_epoch: int, coordinator_epoch: int, version: TransactionVersion = 0
    ) -> KafkaError:
        """Whether a leader may append a marker. Under ``transaction.version`` 2 it comes with a higher epoch than the
        transaction had, or again after it has ended it."""
        entry = self.entries.get(producer_id)
        if entry is None:
            return KafkaError.NONE
        if version == 2:
            again = producer_epoch == entry.producer_epoch and (
                entry.current_txn_first_offset == NONE_OPEN or producer_epoch == PRODUCER_EPOCH_MAX
            )
            if producer_epoch <= entry.producer_epoch and not again:
                return KafkaError.INVALID_PRODUCER_EPOCH
        elif producer_epoch < entry.producer_epoch:
            return KafkaError.INVALID_PRODUCER_EPOCH
        if coordinator_epoch < entry.coordinator_epoch:
            return KafkaError.TRANSACTION_COORDINATOR_FENCED
        return KafkaError.NONE

    # ---- what was appended ---------------------------------------------------------------------------------

    def update(self, batch: Batch) -> CompletedTxn | None:
        """Take note of an appended batch; replication never rejects. Returns the transaction that it has ended."""
        if batch.producer_id < 0:
            return None
        if batch.is_transactional and self.verifications:
            self._end_verification(batch)
        if batch.is_control:
            marker = marker_of(batch.records)
            return None if marker is None else self._end(batch, marker)
        if batch.base_sequence < 0 and not batch.is_transactional:
            return None
        entry = self._entry(batch)
        entry.last_timestamp_ms = max(record.timestamp_ms for record in batch.records)
        if batch.base_sequence >= 0:
            entry.batches.append(
                BatchMetadata(batch.base_sequence, batch.last_sequence, batch.base_offset, batch.last_offset)
            )
            del entry.batches[:-RETAINED_BATCHES]
        if batch.is_transactional and entry.current_txn_first_offset == NONE_OPEN:
            entry.current_txn_first_offset = batch.base_offset
            self.ongoing[batch.base_offset] = batch.producer_id
        return None

    def _entry(self, batch: Batch) -> ProducerStateEntry:
        entry = self.entries.get(batch.producer_id)
        if entry is None:
            entry = self.entries[batch.producer_id] = ProducerStateEntry(batch.producer_epoch)
        entry.take_epoch(batch.producer_epoch)
        return entry

    def _end(self, batch: Batch, marker: EndTxnMarker) -> CompletedTxn | None:
        entry = self._entry(batch)
        first, entry.last_timestamp_ms = entry.current_txn_first_offset, batch.records[0].timestamp_ms
        entry.coordinator_epoch, entry.current_txn_first_offset = marker.coordinator_epoch, NONE_OPEN
        if first == NONE_OPEN:
            return None
        del self.ongoing[first]
        self.unreplicated[first] = batch.base_offset
        return CompletedTxn(batch.producer_id, first, batch.base_offset, marker.type == ControlRecordType.ABORT)

    def snapshot(self) -> dict[int, ProducerStateEntry]:
        """A copy of the entries that later batches do not reach (``ProducerStateManager.takeSnapshot``)."""
        return {
            producer_id: msgspec.structs.replace(entry, batches=list(entry.batches))
            for producer_id, entry in self.entries.items()
        }

    def restore(self, snapshot: dict[int, ProducerStateEntry]) -> None:
        """Forget everything but what a snapshot has (``ProducerStateManager.loadFromSnapshot``)."""
        self.entries = snapshot
        self.entries, self.unreplicated = self.snapshot(), {}
        self.ongoing = {
            entry.current_txn_first_offset: producer_id
            for producer_id, entry in self.entries.items()
            if entry.current_txn_first_offset != NONE_OPEN
        }

    def rebuild(
        self, batches: list[Batch], high_watermark: int = 0, snapshot: dict[int, ProducerStateEntry] | None = None
    ) -> None:
        """Forget everything and derive it from the log: from what a snapshot has, and the batches after that."""
        self.restore(snapshot or {})
        for batch in batches:
            self.update(batch)
        self.advance(high_watermark)

    # ---- how far committed transactions reach --------------------------------------------------------------

    def advance(self, high_watermark: int) -> None:
        """Markers below the high watermark are replicated."""
        if self.unreplicated:
            self.unreplicated = {
                first: marker for first, marker in self.unreplicated.items() if marker >= high_watermark
            }

    @property
    def first_undecided_offset(self) -> int | None:
        """Where the oldest transaction begins that no marker has ended, None if there is none."""
        return min(self.ongoing, default=None)

    @property
    def first_unstable_offset(self) -> int | None:
        """The same, with those whose markers are not replicated."""
        return min((*self.ongoing, *self.unreplicated), default=None) if self.ongoing or self.unreplicated else None

    def stable_offset_after(self, completed: CompletedTxn) -> int:
        """The last stable offset once what ended ``completed`` is replicated: where the oldest open transaction begins,
        or behind the marker."""
        oldest = self.first_undecided_offset
        return completed.last_offset + 1 if oldest is None else oldest
