"""Records waiting to be sent, batched per partition (``producer/internals/RecordAccumulator.java``,
``ProducerBatch.java``)."""

from __future__ import annotations

import msgspec

from actors.log.batch import LogRecord, add_sequence, batch_size_bytes
from actors.node.backoff import backoff_range
from actors.node.step import Step
from krift.v1.records import RecordBatch

NO_SEQUENCE = -1

LINGER = "linger/"
RETRY = "retry/"
DELIVERY = "delivery"


class ProducerBatch(msgspec.Struct):
    """Records of one partition that are sent together.

    attempts: how often it was put back to be sent again. closed: it takes no more records. pausing: its pause
    before the next attempt has not ended. leader_epoch: of the leader it was last sent to. on_wire: a request with
    it has not ended. undecided: some attempt ended so that the records may have been written. done: the application
    was told, or its records are in other batches now. split_from, first: of a part of a batch that was too large, that
    batch's id and the place of the first record in it. key: what the trace calls the partition that its records were
    sent to.
    """

    id: int
    tp: str
    created_ms: int
    records: list[LogRecord] = []
    bytes: int = 61
    attempts: int = 0
    closed: bool = False
    pausing: bool = False
    leader_epoch: int = -1
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = NO_SEQUENCE
    sequence_reset: bool = False
    on_wire: bool = False
    undecided: bool = False
    done: bool = False
    split_from: int = 0
    first: int = 0
    key: str = ""

    @property
    def place(self) -> tuple[int, int]:
        """Its place among all batches of the producer, in the order in which their records were sent."""
        return (self.split_from or self.id, self.first)

    @property
    def has_sequence(self) -> bool:
        """Whether it was given its place in the producer's sequence."""
        return self.base_sequence != NO_SEQUENCE

    @property
    def next_sequence(self) -> int:
        """Sequence number after its last record."""
        return add_sequence(self.base_sequence, len(self.records))

    def to_message(self, transactional: bool = False) -> RecordBatch:
        """The batch as it travels to a leader."""
        if not self.has_sequence:
            return RecordBatch(records=list(self.records))
        return RecordBatch(
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=self.base_sequence,
            is_transactional=transactional,
            records=list(self.records),
        )


class RecordAccumulator(msgspec.Struct):
    """Queues of batches per partition. ``batches``: every batch by id until nobody refers to it any more; queues,
    requests on the wire and the transaction manager name batches by their ids.

    lingers: head of a queue whose linger timer runs. delivery_armed: the timer of delivery.timeout.ms runs.
    """

    batch_size: int = 16384
    linger_ms: int = 5
    delivery_timeout_ms: int = 120000
    backoff_ms: int = 100
    backoff_max_ms: int = 1000
    request_timeout_ms: int = 30000
    batches: dict[int, ProducerBatch] = {}
    queues: dict[str, list[int]] = {}
    lingers: dict[str, int] = {}
    count: int = 0
    delivery_armed: bool = False

    def append(self, step: Step, tp: str, record: LogRecord, key: str) -> None:
        """Put a record into the last open batch of its partition, or into a new one. ``key``: of the partition in the
        trace."""
        queue = self.queues.setdefault(tp, [])
        size = batch_size_bytes([record]) - batch_size_bytes([])
        if queue:
            last = self.batches[queue[-1]]
            if not last.closed and last.bytes + size <= self.batch_size and last.key == key:
                last.records.append(record)
                last.bytes += size
                return
            last.closed = True
        self.count += 1
        batch = ProducerBatch(self.count, tp, step.now_ms, [record], key=key)
        batch.bytes += size
        self.batches[batch.id] = batch
        queue.append(batch.id)
        if not self.delivery_armed:
            self.delivery_armed = True
            step.set_timer(DELIVERY, self._lifetime_ms(step))

    def ready_head(self, step: Step, tp: str, leader_epoch: int, flush: bool) -> ProducerBatch | None:
        """The first batch of a partition if it may be sent now; starts the timer of what it waits for.

        It is ready when it is full, or another batch waits behind it, or it has waited linger.ms, or everything is
        being flushed. A batch that is tried again waits for its pause instead, unless there is a new leader.
        """
        queue = self.queues[tp]
        if not queue:
            return None
        batch = self.batches[queue[0]]
        if batch.attempts:
            new_leader = leader_epoch > batch.leader_epoch and "pause-outlasts-leader" not in step.defects
            return batch if new_leader or not batch.pausing else None
        due = batch.created_ms + self.linger_ms
        if flush or batch.closed or len(queue) > 1 or batch.bytes >= self.batch_size or due <= step.now_ms:
            return batch
        if self.lingers.get(tp) != batch.id:
            self.lingers[tp] = batch.id
            step.set_timer(LINGER + tp, due - step.now_ms)
        return None

    def take_head(self, tp: str) -> None:
        """Remove the first batch of a partition: it goes on the wire."""
        batch = self.batches[self.queues[tp].pop(0)]
        batch.closed = True

    def put_back(self, step: Step, batch: ProducerBatch, in_sequence: bool) -> None:
        """Queue a batch again after a failure: in front, or where its sequence puts it.

        Batches that were in flight to several leaders fail in any order; among those that have a sequence the lower
        one must go first.
        """
        low, high = backoff_range(self.backoff_ms, self.backoff_max_ms, batch.attempts)
        if "batches-retried-at-once" in step.defects:
            low = high = 0
        batch.attempts += 1
        batch.pausing = True
        if "retry-forgotten" not in step.defects:
            step.set_timer(f"{RETRY}{batch.id}", low, high)
        queue = self.queues[batch.tp]
        at = 0
        while in_sequence and at < len(queue) and self._precedes(self.batches[queue[at]], batch):
            at += 1
        queue.insert(at, batch.id)

    def _precedes(self, queued: ProducerBatch, batch: ProducerBatch) -> bool:
        """Whether a queued batch has its place in the sequence before another. Ids rise in the order in which
        batches were made, which is the order of their sequence numbers, even where those wrap or start anew."""
        return queued.has_sequence and queued.place < batch.place

    def split(self, batch: ProducerBatch) -> list[ProducerBatch]:
        """Put the records of a batch that is too large for its topic into smaller ones, queued as if never tried: of
        batch.size at most, or half of what did not go through as a part (KAFKA-8350)."""
        sizes = [batch_size_bytes([record]) - batch_size_bytes([]) for record in batch.records]
        target = self.batch_size
        if batch.split_from:
            target = max(max(sizes) + batch_size_bytes([]), batch.bytes // 2)
        parts: list[ProducerBatch] = []
        for index, (record, size) in enumerate(zip(batch.records, sizes, strict=True)):
            if not parts or parts[-1].bytes + size > target:
                parts.append(self._part_of(batch, index))
            parts[-1].records.append(record)
            parts[-1].bytes += size
        batch.done = True
        queue = self.queues[batch.tp]
        at = sum(1 for number in queue if self._precedes(self.batches[number], batch))
        queue[at:at] = [part.id for part in parts]
        return parts

    def _part_of(self, batch: ProducerBatch, index: int) -> ProducerBatch:
        self.count += 1
        part = ProducerBatch(
            self.count, batch.tp, batch.created_ms, closed=True, undecided=batch.undecided, key=batch.key
        )
        part.split_from, part.first = batch.split_from or batch.id, batch.first + index
        part.leader_epoch = batch.leader_epoch
        if batch.has_sequence:
            part.producer_id, part.producer_epoch = batch.producer_id, batch.producer_epoch
            part.base_sequence = add_sequence(batch.base_sequence, index)
            part.sequence_reset = batch.sequence_reset
        self.batches[part.id] = part
        return part

    def expired(self, step: Step) -> list[ProducerBatch]:
        """The timer of delivery.timeout.ms fired: batches that are neither done nor in time, oldest first."""
        open_batches = [batch for batch in self.batches.values() if not batch.done]
        due = {batch.id: batch.created_ms + self._lifetime_ms(step) for batch in open_batches}
        left = [at for at in due.values() if at > step.now_ms]
        self.delivery_armed = bool(left)
        if left:
            step.set_timer(DELIVERY, min(left) - step.now_ms)
        late = [batch for batch in open_batches if due[batch.id] <= step.now_ms]
        if "no-delivery-timeout" in step.defects:
            late = []
        return sorted(late, key=lambda batch: batch.id)

    def _lifetime_ms(self, step: Step) -> int:
        """How long a batch is kept that nobody acknowledges."""
        return self.request_timeout_ms if "batches-expire-with-requests" in step.defects else self.delivery_timeout_ms

    def finish(self, batch: ProducerBatch) -> None:
        """The application was told about a batch: it leaves its queue, and is forgotten once off the wire."""
        batch.done = True
        queue = self.queues[batch.tp]
        if batch.id in queue:
            queue.remove(batch.id)
        self.forget_if_over(batch)

    def forget_if_over(self, batch: ProducerBatch) -> None:
        """Forget a batch that is done and on no wire."""
        if batch.done and not batch.on_wire:
            self.batches.pop(batch.id, None)

    def undrained(self) -> list[ProducerBatch]:
        """Batches that were never sent: they have no place in the sequence yet."""
        return [batch for batch in self.batches.values() if not batch.done and not batch.has_sequence]

    def has_open(self) -> bool:
        """Whether some batch was not reported to the application."""
        return any(not batch.done for batch in self.batches.values())

    def on_linger(self, tp: str) -> None:
        """A batch of ``tp`` has waited for others as long as it may."""
        self.lingers.pop(tp, None)

    def on_retry(self, number: int) -> None:
        """The pause of a batch is over."""
        batch = self.batches.get(number)
        if batch is not None:
            batch.pausing = False
