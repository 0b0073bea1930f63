"""What a partition remembers of idempotent producers (``ProducerStateManager.java``, ``ProducerAppendInfo.java``)."""

from __future__ import annotations

import msgspec

from actors.log.batch import Batch, add_sequence
from actors.node.errors import KafkaError

RETAINED_BATCHES = 5
"""Batches per producer that are recognized as duplicates."""


class BatchMetadata(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A batch that was appended: its sequences and offsets."""

    base_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int


class ProducerStateEntry(msgspec.Struct):
    """One producer id: its epoch and its last batches, oldest first."""

    producer_epoch: int
    batches: list[BatchMetadata] = []

    def last_sequence(self) -> int:
        """Sequence number of the last record, -1 if there is none."""
        return self.batches[-1].last_sequence if self.batches else -1


class ProducerStateManager(msgspec.Struct):
    """State by producer id. Derived from the log: rebuilt after every truncation and restart."""

    entries: dict[int, ProducerStateEntry] = {}

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

    def check(self, producer_id: int, producer_epoch: int, base_sequence: int) -> KafkaError:
        """Whether a leader may append a batch that is no duplicate; without state any sequence is accepted."""
        entry = self.entries.get(producer_id)
        if entry is None:
            return KafkaError.NONE
        if producer_epoch < entry.producer_epoch:
            return KafkaError.INVALID_PRODUCER_EPOCH
        if producer_epoch > entry.producer_epoch:
            return KafkaError.NONE if base_sequence == 0 else KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER
        last = entry.last_sequence()
        if last >= 0 and base_sequence != add_sequence(last, 1):
            return KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER
        return KafkaError.NONE

    def update(self, batch: Batch) -> None:
        """Take note of an appended batch; replication never rejects."""
        if batch.producer_id < 0 or batch.base_sequence < 0:
            return
        entry = self.entries.get(batch.producer_id)
        if entry is None or entry.producer_epoch != batch.producer_epoch:
            entry = self.entries[batch.producer_id] = ProducerStateEntry(batch.producer_epoch)
        entry.batches.append(
            BatchMetadata(batch.base_sequence, batch.last_sequence, batch.base_offset, batch.last_offset)
        )
        del entry.batches[:-RETAINED_BATCHES]

    def rebuild(self, batches: list[Batch]) -> None:
        """Forget everything and derive it from the log."""
        self.entries = {}
        for batch in batches:
            self.update(batch)
