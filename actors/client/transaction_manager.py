"""Producer id, epoch and sequence numbers of an idempotent or transactional producer
(``producer/internals/TransactionManager.java``,
``TxnPartitionMap.java``)."""

from __future__ import annotations

import msgspec

from actors.client.least_loaded_node import LeastLoadedNode
from actors.client.metadata_cache import CONNECTION, MetadataCache
from actors.client.record_accumulator import ProducerBatch
from actors.client.transactions.reactions import FATAL_FOR_BATCHES
from actors.client.transactions.transaction import Transaction
from actors.log.batch import add_sequence
from actors.node.backoff import backoff_range
from actors.node.errors import KafkaError, traits
from actors.node.messages import Api
from actors.node.network_client import Ended, NetworkClient
from actors.node.step import Step
from actors.trace.events import ErrorSeen
from krift.v1.producer_ids import InitProducerIdRequest

PURPOSE = "init-producer-id"
RETRY_TIMER = "init-producer-id/retry"
CHOICE = "init-producer-id/node"

MAX_EPOCH = 32767
_INT_MAX = 2147483647
_NONE_ACKED = -1


class PartitionSequences(msgspec.Struct):
    """Sequence state of one partition, under one producer id and epoch. ``in_flight``: ids of the batches that have
    a sequence and no outcome yet, on the wire or queued to be sent again, in the order of their sequence."""

    producer_id: int = -1
    epoch: int = -1
    next_sequence: int = 0
    last_acked: int = _NONE_ACKED
    last_acked_offset: int = -1
    in_flight: list[int] = []


class TransactionManager(msgspec.Struct):
    """See the module. ``fatal``: error code after which nothing can be sent, 0 none.

    unresolved: partition -> sequence after the last batch that expired with an unknown outcome; nothing new is sent
    there until what is in flight has told. rewrite: partitions whose gap asks for a new epoch. transaction: its
    transactions, if it has a transactional id; it gets its id and its epochs by those, then.
    """

    enabled: bool = False
    backoff_ms: int = 100
    backoff_max_ms: int = 1000
    producer_id: int = -1
    epoch: int = -1
    fatal: int = 0
    node: LeastLoadedNode = msgspec.field(default_factory=lambda: LeastLoadedNode(CHOICE, CONNECTION))
    call: int = 0
    failures: int = 0
    waiting: bool = False
    partitions: dict[str, PartitionSequences] = {}
    unresolved: dict[str, int] = {}
    rewrite: list[str] = []
    bump_required: bool = False
    transaction: Transaction = msgspec.field(default_factory=Transaction)

    @property
    def transactional(self) -> bool:
        """Whether it has a transactional id."""
        return bool(self.transaction.id)

    # ---- producer id --------------------------------------------------------------------------------------

    def poll(self, step: Step, net: NetworkClient, metadata: MetadataCache, batches: dict[int, ProducerBatch]) -> None:
        """Resolve what can be resolved, raise the epoch if needed, get a producer id if there is none."""
        if not self.enabled or self.fatal:
            return
        self._resolve()
        if self.transactional:
            return
        if self.bump_required:
            self._bump_epoch(batches)
        if self.producer_id >= 0 or self.call or self.waiting:
            return
        peer = self.node.ready(step, net, metadata.brokers or metadata.bootstrap)
        if peer is None:
            return
        version = net.version(peer, CONNECTION, Api.InitProducerId)
        self.node.release()
        if version is None:
            self.fatal = KafkaError.UNSUPPORTED_VERSION
            return
        request = InitProducerIdRequest(transaction_timeout_ms=_INT_MAX)
        self.call = net.send(step, peer, CONNECTION, request, version, PURPOSE)

    def on_ended(self, step: Step, ended: Ended) -> None:
        """Take the end of InitProducerId."""
        self.call = 0
        response = ended.response
        error = KafkaError.NETWORK_EXCEPTION if response is None else response.error_code
        if not error:
            self.failures = 0
            self.producer_id = response.producer_id
            self.epoch = response.producer_epoch
        elif traits(error).retriable:
            step.record(ErrorSeen("", Api.InitProducerId.name, ended.version, error, ended.peer))
            self.waiting = True
            step.set_timer(RETRY_TIMER, *backoff_range(self.backoff_ms, self.backoff_max_ms, self.failures))
            self.failures += 1
        else:
            self.fatal = error

    def on_retry(self) -> None:
        """A producer id may be asked for again."""
        self.waiting = False

    # ---- sequences of batches to be sent ------------------------------------------------------------------

    def may_send(self, batch: ProducerBatch) -> bool:
        """Whether the first batch of a partition may be sent now (RecordAccumulator.java
        shouldStopDrainBatchesForPartition).

        A new batch waits while the partition still has batches of an older epoch in flight, or while it is unknown
        what became of an expired one. A batch that is tried again goes only when it is the first one in flight: so
        after a failure at most one batch of the partition is on the wire until it has succeeded.
        """
        if self.producer_id < 0 or (self.transactional and batch.tp not in self.transaction.added):
            return False
        entry = self.partitions.get(batch.tp)
        if batch.has_sequence:
            return entry is None or not entry.in_flight or entry.in_flight[0] == batch.id
        if batch.tp in self.unresolved:
            return False
        return entry is None or not entry.in_flight or not self._stale(entry)

    def assign(self, batch: ProducerBatch, first: int = 0) -> None:
        """Give a batch that is sent for the first time its place in the sequence, which begins with ``first``."""
        entry = self.partitions.setdefault(batch.tp, PartitionSequences(self.producer_id, self.epoch, first))
        if self._stale(entry):
            # nothing is in flight here (may_send): the partition starts at 0 in the new epoch
            entry.producer_id, entry.epoch = self.producer_id, self.epoch
            entry.next_sequence, entry.last_acked = 0, _NONE_ACKED
        batch.producer_id, batch.producer_epoch = entry.producer_id, entry.epoch
        batch.base_sequence = entry.next_sequence
        entry.next_sequence = batch.next_sequence
        entry.in_flight.append(batch.id)

    def _stale(self, entry: PartitionSequences) -> bool:
        return (entry.producer_id, entry.epoch) != (self.producer_id, self.epoch)

    # ---- outcomes of batches ------------------------------------------------------------------------------

    def can_retry(
        self, batch: ProducerBatch, error: int, log_start_offset: int, batches: dict[int, ProducerBatch]
    ) -> bool:
        """Whether a refused batch may be sent again; asks for a new epoch where the sequence has a gap.

        OUT_OF_ORDER_SEQUENCE_NUMBER is no gap as long as an earlier batch is still undecided: that batch failed, and
        so must those behind it. It is one for the batch right after the last acknowledged one. UNKNOWN_PRODUCER_ID
        means that the leader has forgotten this producer; it counts from a broker that knows its log's start, and
        once: what was numbered anew meanwhile just goes again. A transactional producer raises no epoch in the middle
        of a transaction: the batch fails, and the transaction with it, unless the leader has removed all it knew with
        the log's beginning.
        """
        if error == KafkaError.UNKNOWN_PRODUCER_ID:
            if self.transactional:
                return self._can_begin_anew(batch, log_start_offset, batches)
            if log_start_offset >= 0 and not batch.sequence_reset:
                self.request_bump(batch.tp)
            return True
        if error != KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER:
            return traits(error).retriable
        resolved = batch.tp not in self.unresolved
        if resolved and (batch.sequence_reset or not self._follows_acked(batch.tp, batch.base_sequence)):
            return True
        if self.transactional:
            return False
        if resolved or batch.base_sequence == self.unresolved[batch.tp]:
            self.request_bump(batch.tp)
        return True

    def on_completed(self, batch: ProducerBatch, offset: int) -> None:
        """A batch was acknowledged; ``offset``: where it begins, -1 not told."""
        entry = self.partitions.get(batch.tp)
        if entry is None:
            return  # of a transaction that is over
        last = add_sequence(batch.base_sequence, len(batch.records) - 1)
        entry.last_acked = max(entry.last_acked, last)
        if offset >= 0:
            entry.last_acked_offset = max(entry.last_acked_offset, offset + len(batch.records) - 1)
        self.forget(batch)

    def on_split(self, batch: ProducerBatch, parts: list[ProducerBatch]) -> None:
        """A batch is to go in parts, which have their places in the sequence already."""
        in_flight = self.partitions[batch.tp].in_flight
        at = in_flight.index(batch.id)
        in_flight[at : at + 1] = [part.id for part in parts]

    def on_failed(self, batch: ProducerBatch, error: int, adjust: bool, batches: dict[int, ProducerBatch]) -> None:
        """A batch failed for good. ``adjust``: its sequence was certainly not used up, so that it leaves a gap."""
        if self.transactional:
            self._fail_transaction(batch, error, adjust, batches)
            return
        self.forget(batch)
        if error in FATAL_FOR_BATCHES:
            self.fatal = error
        elif batch.has_sequence and (adjust or error == KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER):
            self.request_bump(batch.tp)

    def mark_unresolved(self, batch: ProducerBatch) -> None:
        """A batch that was sent expired: nobody knows whether its sequence was used."""
        self.unresolved[batch.tp] = max(self.unresolved.get(batch.tp, 0), batch.next_sequence)

    def forget(self, batch: ProducerBatch) -> None:
        """A batch is not under way any more."""
        entry = self.partitions.get(batch.tp)
        if entry is not None and batch.id in entry.in_flight:
            entry.in_flight.remove(batch.id)

    def _follows_acked(self, tp: str, sequence: int) -> bool:
        entry = self.partitions.get(tp)
        return sequence - (_NONE_ACKED if entry is None else entry.last_acked) == 1

    # ---- transactions -------------------------------------------------------------------------------------

    def reset_sequences(self) -> None:
        """The producer goes on under another epoch: all partitions begin at 0 again."""
        self.partitions, self.unresolved = {}, {}

    def _can_begin_anew(self, batch: ProducerBatch, log_start_offset: int, batches: dict[int, ProducerBatch]) -> bool:
        """After UNKNOWN_PRODUCER_ID: whether the leader has forgotten the producer with the beginning of its log."""
        entry = self.partitions.get(batch.tp)
        if log_start_offset < 0 or batch.sequence_reset:
            return True
        if entry is not None and entry.last_acked_offset < log_start_offset:
            self._restart(batch.tp, batches)
            return True
        return False

    def _fail_transaction(
        self, batch: ProducerBatch, error: int, adjust: bool, batches: dict[int, ProducerBatch]
    ) -> None:
        self.transaction.on_batch_failed(self, error)
        self.forget(batch)
        entry = self.partitions.get(batch.tp)
        if self.fatal or entry is None:
            return
        if error == KafkaError.UNKNOWN_PRODUCER_ID:
            del self.partitions[batch.tp]
            self.unresolved.pop(batch.tp, None)
        elif adjust and batch.has_sequence:
            # Its place in the sequence is taken by those behind it.
            count = len(batch.records)
            entry.next_sequence -= count
            for number in entry.in_flight:
                other = batches[number]
                if other.base_sequence >= batch.base_sequence:
                    other.base_sequence -= count
                    other.sequence_reset = True

    # ---- new epochs ---------------------------------------------------------------------------------------

    def request_bump(self, tp: str) -> None:
        """Raise the epoch at the next occasion, and number anew what a partition has in flight."""
        self.bump_required = True
        if tp not in self.rewrite:
            self.rewrite.append(tp)

    def _resolve(self) -> None:
        """Where nothing is in flight any more, either all that was expired had been written, or there is a gap."""
        for tp in list(self.unresolved):
            entry = self.partitions[tp]
            if not entry.in_flight:
                if not self._follows_acked(tp, entry.next_sequence):
                    if self.transactional:
                        self.transaction.abortable_if_possible(self, KafkaError.UNKNOWN_SERVER_ERROR)
                    else:
                        self.request_bump(tp)
                del self.unresolved[tp]

    def _bump_epoch(self, batches: dict[int, ProducerBatch]) -> None:
        """Raise the epoch by itself (an idempotent producer needs no broker for it) and number what is in flight in
        the partitions with a gap from 0; the others go on in their old epoch until nothing is in flight there."""
        if self.epoch == MAX_EPOCH:
            self.producer_id, self.epoch = -1, -1
        elif self.producer_id >= 0:
            self.epoch += 1
        for tp in self.rewrite:
            self._restart(tp, batches)
            self.unresolved.pop(tp, None)
        self.rewrite = []
        self.bump_required = False

    def _restart(self, tp: str, batches: dict[int, ProducerBatch]) -> None:
        """Number what a partition has in flight from 0."""
        entry = self.partitions[tp]
        entry.producer_id, entry.epoch = self.producer_id, self.epoch
        sequence = 0
        for number in entry.in_flight:
            batch = batches[number]
            batch.producer_id, batch.producer_epoch = self.producer_id, self.epoch
            batch.base_sequence = sequence
            batch.sequence_reset = True
            sequence = batch.next_sequence
        entry.next_sequence, entry.last_acked = sequence, _NONE_ACKED
