"""Sends batches to the leaders and decides what an answer means (``producer/internals/Sender.java``)."""

from __future__ import annotations

import msgspec

from actors.client.client_base import DATA
from actors.client.metadata_cache import STALE_LEADER, Leader, MetadataCache, refusal
from actors.client.record_accumulator import ProducerBatch, RecordAccumulator
from actors.client.transaction_manager import TransactionManager
from actors.client.transactions.requests import BEFORE_TRANSACTION_V2
from actors.log.batch import payload_digest
from actors.node.errors import KafkaError, traits
from actors.node.messages import Api
from actors.node.network_client import Ended, NetworkClient
from actors.node.spec import split_topic_partition, topic_partition
from actors.node.step import Step
from actors.trace.events import ACKS_ALL, ErrorSeen, Outcome, SendInvoke, SendReturn
from krift.v1.produce import ProduceRequest, ProduceResponse

PURPOSE = "produce"

_TOPIC_ID_VERSION = 13


class Sender(msgspec.Struct):
    """See the module. ``requests``: call -> ids of the batches in it. ``acked``, ``failed``: records told so far.
    ``connection``: to each broker that it sends to. ``number``: of the transaction that its records are in, for the
    trace."""

    accumulator: RecordAccumulator = msgspec.field(default_factory=RecordAccumulator)
    transactions: TransactionManager = msgspec.field(default_factory=TransactionManager)
    acks: int = ACKS_ALL
    idempotent: bool = True
    max_in_flight: int = 5
    connection: str = DATA
    retries: int = 2147483647
    request_timeout_ms: int = 30000
    requests: dict[int, list[int]] = {}
    number: int = 0
    acked: int = 0
    failed: int = 0

    # ---- sending ------------------------------------------------------------------------------------------

    def poll(
        self,
        step: Step,
        net: NetworkClient,
        metadata: MetadataCache,
        flush: bool,
    ) -> None:
        """Send every batch that is ready to a broker that takes it; ``flush``: linger no longer."""
        self.transactions.poll(step, net, metadata, self.accumulator.batches)
        busy = self.transactions.transactional and self._transact(step, net, metadata)
        if self.transactions.fatal:
            self.give_up_all(step, self.transactions.fatal)
            return
        if busy:
            return
        flush = flush or self.transactions.transaction.completing
        by_broker: dict[str, dict[str, Leader]] = {}
        for tp, queue in self.accumulator.queues.items():
            if not queue:
                continue
            leader = metadata.leader_for(tp)
            if leader is None:
                metadata.request_update()
            else:
                name = leader.name
                if "one-produce-for-all" in step.defects:
                    name = next(iter(by_broker), name)
                by_broker.setdefault(name, {})[tp] = leader
        for peer, leaders in by_broker.items():
            while any(self._sendable(step, tp, leader, flush) is not None for tp, leader in leaders.items()):
                if not net.ready(step, peer, self.connection) or self._is_full(step, net, peer):
                    break
                self._send(step, net, metadata, peer, self._drain(step, leaders))

    def _transact(self, step: Step, net: NetworkClient, metadata: MetadataCache) -> bool:
        """Ask coordinators for what transactions need. True: no records are sent now. As in Kafka, whose sender waits
        until it has the answer, they and requests to coordinators are never under way at a time, but for those that
        were sent before."""
        transaction = self.transactions.transaction
        while not transaction.call and not self.transactions.fatal:
            if transaction.waiting is None:
                if transaction.state in ("ABORTABLE_ERROR", "ABORTING_TRANSACTION"):
                    self._abort_undrained(step, transaction.error)
                incomplete = self.accumulator.has_open() and "end-overtakes-sends" not in step.defects
                if not transaction.take_next(self.transactions, incomplete):
                    return False
            if not transaction.send(step, net, metadata, self.transactions, self.connection, self.max_in_flight):
                break
        return True

    def _abort_undrained(self, step: Step, error: int) -> None:
        """Records that never left go nowhere, as the transaction is to be aborted: for an error, or as the application
        wants it (``TransactionAbortedException``, which has no code: nobody was asked)."""
        for batch in self.accumulator.undrained():
            self._give_up(step, batch, error or KafkaError.OPERATION_NOT_ATTEMPTED)

    def on_transactional(self, step: Step, ended: Ended) -> None:
        """A coordinator has answered, or has not."""
        self.transactions.transaction.on_ended(step, self.transactions, ended)

    def _is_full(self, step: Step, net: NetworkClient, peer: str) -> bool:
        """Whether a broker must answer first. With acks=0 it never will: for Kafka's client such a request is over as
        soon as it is sent, and the call that is still open here only tells of a connection that broke."""
        full = self.acks != 0 and net.pending(peer, self.connection) >= self.max_in_flight
        return full and "in-flight-unlimited" not in step.defects

    def _drain(self, step: Step, leaders: dict[str, Leader]) -> list[ProducerBatch]:
        """Batches of a request to one broker (RecordAccumulator.java drainBatchesForOneNode): once one of its
        partitions is ready, those that still linger come along."""
        batches: list[ProducerBatch] = []
        for tp, leader in leaders.items():
            batch = self._sendable(step, tp, leader, flush=True)
            if batch is not None:
                self.accumulator.take_head(tp)
                batch.leader_epoch = leader.epoch
                if self.idempotent and not batch.has_sequence and "batches-unnumbered" not in step.defects:
                    self.transactions.assign(batch, 1 if "sequence-from-one" in step.defects else 0)
                batches.append(batch)
        return batches

    def _sendable(
        self,
        step: Step,
        tp: str,
        leader: Leader,
        flush: bool,
    ) -> ProducerBatch | None:
        batch = self.accumulator.ready_head(step, tp, leader.epoch, flush)
        if batch is None or (self.idempotent and not self.transactions.may_send(batch)):
            return None
        if self.max_in_flight == 1 and "unmuted-partition" not in step.defects and self._muted(tp):
            return None
        return batch

    def _muted(self, tp: str) -> bool:
        """With one request per connection order is kept also across a change of leader: one batch at a time."""
        ids = (number for request in self.requests.values() for number in request)
        return any(self.accumulator.batches[number].tp == tp for number in ids if number in self.accumulator.batches)

    def _send(
        self,
        step: Step,
        net: NetworkClient,
        metadata: MetadataCache,
        peer: str,
        batches: list[ProducerBatch],
    ) -> None:
        version = net.version(peer, self.connection, Api.Produce)
        topics = {split_topic_partition(batch.tp)[0] for batch in batches}
        if version is not None and any(topic not in metadata.topic_ids for topic in topics):
            version = min(version, _TOPIC_ID_VERSION - 1)
        transactional = self.transactions.transactional
        if version is not None and transactional and not self.transactions.transaction.v2:
            version = min(version, BEFORE_TRANSACTION_V2[Api.Produce])
        if version is None:
            for batch in batches:
                self._fail(step, batch, KafkaError.UNSUPPORTED_VERSION, peer, -1, True)
            return
        request = ProduceRequest(acks=self.acks, timeout_ms=self.request_timeout_ms)
        if transactional:
            request.transactional_id = self.transactions.transaction.id
        data: dict[str, ProduceRequest.TopicProduceData] = {}
        for batch in batches:
            topic, index = split_topic_partition(batch.tp)
            if topic not in data:
                data[topic] = ProduceRequest.TopicProduceData()
                request.topic_data.append(data[topic])
                if version >= _TOPIC_ID_VERSION:
                    data[topic].topic_id = metadata.topic_ids[topic]
                else:
                    data[topic].name = topic
            self._redirect(step, batch, metadata.key(batch.tp), version)
            records = batch.to_message(transactional)
            if "reused-buffer" in step.defects and batch.attempts:
                overwritten = msgspec.structs.replace(records.records[0], value=b"what another batch wrote there")
                records.records[0] = overwritten
            data[topic].partition_data.append(ProduceRequest.PartitionProduceData(index=index, records=records))
            batch.on_wire = True
        call = net.send(step, peer, self.connection, request, version, PURPOSE)
        self.requests[call] = [batch.id for batch in batches]
        if self.acks == 0:
            for batch in batches:  # no answer will come: handing it to the connection is success
                self._succeed(step, batch, -1, peer, version)

    def _redirect(self, step: Step, batch: ProducerBatch, key: str, version: int) -> None:
        """The topic was created anew since the records were sent: for the trace these are sends to another topic, and
        those to the former one have ended, if nothing can bring them there any more: a request by name goes to whatever
        topic of that name its broker has. The application does not notice (KIP-516)."""
        if key == batch.key:
            return
        former, batch.key = batch.key, key
        in_doubt = batch.attempts > 0 or version < _TOPIC_ID_VERSION
        unknown = KafkaError.UNKNOWN_TOPIC_ID
        for record in batch.records:
            operation = send_operation(record.uid, former)
            outcome: Outcome = "unknown" if in_doubt else "fail"
            step.record(SendReturn(operation, outcome, unknown, former, record.uid, self.acks, self.idempotent))
            operation = send_operation(record.uid, key)
            digest = payload_digest(record)
            sent = SendInvoke(operation, key, record.uid, self.acks, self.idempotent, digest)
            if self.transactions.transactional:
                sent = msgspec.structs.replace(
                    sent, transactional_id=self.transactions.transaction.id, transaction=self.number
                )
            step.record(sent)

    # ---- answers ------------------------------------------------------------------------------------------

    def on_ended(
        self,
        step: Step,
        metadata: MetadataCache,
        ended: Ended,
    ) -> None:
        """Take the end of a Produce call."""
        answers = {} if ended.response is None else _answers(ended.response, metadata)
        lost = {"timeout": KafkaError.REQUEST_TIMED_OUT, "disconnect": KafkaError.NETWORK_EXCEPTION}
        if ended.reason is not None:
            step.record(ErrorSeen("", Api.Produce.name, ended.version, lost[ended.reason], ended.peer))
        for number in self.requests.pop(ended.call, []):
            batch = self.accumulator.batches[number]
            batch.on_wire = False
            if self.acks != 0:
                answer = answers.get(batch.tp)
                if ended.reason is not None:
                    error: int = lost[ended.reason]
                else:
                    error = answer.error_code if answer is not None else KafkaError.UNKNOWN_SERVER_ERROR
                self._complete(step, metadata, batch, error, answer, ended)
                if answer is not None and answer.current_leader is not None:
                    if error in STALE_LEADER and "produce-keeps-leader" not in step.defects:
                        endpoints = list(ended.response.node_endpoints)
                        metadata.update_leadership(step, ended.peer, batch.tp, answer.current_leader, endpoints)
            self.accumulator.forget_if_over(batch)

    def _complete(
        self,
        step: Step,
        metadata: MetadataCache,
        batch: ProducerBatch,
        error: int,
        answer: ProduceResponse.PartitionProduceResponse | None,
        ended: Ended,
    ) -> None:
        behaviour = traits(error)
        batch.undecided = batch.undecided or not behaviour.definite
        if not error:
            offset = answer.base_offset if answer is not None else -1
            self._succeed(step, batch, offset, ended.peer, ended.version, ended.call)
        elif error == KafkaError.MESSAGE_TOO_LARGE and len(batch.records) > 1 and not batch.done:
            _record_refusal(step, batch, ended, error, answer)
            parts = self.accumulator.split(batch)
            if self.idempotent:
                self.transactions.on_split(batch, parts)
        elif self._can_retry(step, batch, error, answer.log_start_offset if answer is not None else -1):
            if ended.reason is None:
                _record_refusal(step, batch, ended, error, answer)
            self.accumulator.put_back(step, batch, self.idempotent)
        elif error == KafkaError.DUPLICATE_SEQUENCE_NUMBER:
            # written before, but the broker no longer remembers where: a success without an offset
            self._succeed(step, batch, -1, ended.peer, ended.version)
        else:
            adjust = batch.attempts < self.retries
            self._fail(step, batch, error, ended.peer, ended.version, adjust)
        if behaviour.invalid_metadata and "produce-keeps-leader" not in step.defects:
            metadata.request_update()

    def _can_retry(
        self,
        step: Step,
        batch: ProducerBatch,
        error: int,
        log_start_offset: int,
    ) -> bool:
        often = batch.attempts >= self.retries and "retries-unlimited" not in step.defects
        if batch.done or often or "first-refusal-is-final" in step.defects:
            return False
        if step.now_ms - batch.created_ms >= self.accumulator.delivery_timeout_ms:
            return False
        if not self.idempotent:
            return traits(error).retriable
        if "bump-at-any-error" in step.defects:
            self.transactions.request_bump(batch.tp)
        return self.transactions.can_retry(batch, error, log_start_offset, self.accumulator.batches)

    # ---- outcomes -----------------------------------------------------------------------------------------

    def on_delivery_timeout(self, step: Step) -> None:
        """delivery.timeout.ms is over for some batches: they are given up, whether they were sent or not. If one was
        sent again and again, nobody knows whether its sequence was used."""
        for batch in self.accumulator.expired(step):
            raises = "expiry-raises-epoch" in step.defects
            self._fail(step, batch, KafkaError.REQUEST_TIMED_OUT, "", -1, adjust=raises)
            mistake = "failed-sends-forgotten" if self.transactions.transactional else "unresolved-forgotten"
            forgotten = mistake in step.defects
            if self.idempotent and batch.has_sequence and batch.attempts and not forgotten:
                self.transactions.mark_unresolved(batch)

    def give_up_all(self, step: Step, error: int) -> None:
        """The producer is closed at once, or is of no use any more (``abortBatches``): nobody learns any more what
        becomes of what is under way."""
        for batch in [batch for batch in self.accumulator.batches.values() if not batch.done]:
            batch.undecided = batch.undecided or batch.on_wire
            self._give_up(step, batch, error)

    def _succeed(
        self,
        step: Step,
        batch: ProducerBatch,
        offset: int,
        broker: str,
        version: int,
        call: int = -1,
    ) -> None:
        if self.idempotent:
            self.transactions.on_completed(batch, offset)
        if not batch.done:
            self.acked += len(batch.records)
            self._tell(step, batch, "ok", 0, offset, broker, version, call)
            self.accumulator.finish(batch)

    def _fail(
        self,
        step: Step,
        batch: ProducerBatch,
        error: int,
        broker: str,
        version: int,
        adjust: bool,
    ) -> None:
        if batch.done:
            # It was given up before. What became of its last attempt says nothing of its sequence that could be
            # acted on: numbering those behind it anew would write twice what a leader has.
            return
        if self.transactions.transactional and "failed-sends-forgotten" in step.defects:
            self.transactions.forget(batch)
        elif self.idempotent:
            self.transactions.on_failed(batch, error, adjust, self.accumulator.batches)
        self._give_up(step, batch, error, broker, version)

    def _give_up(self, step: Step, batch: ProducerBatch, error: int, broker: str = "", version: int = -1) -> None:
        never_sent = self.transactions.transactional and not batch.has_sequence
        definite = (traits(error).definite or never_sent) and not batch.undecided
        self.failed += len(batch.records)
        self._tell(step, batch, "fail" if definite else "unknown", error, -1, broker, version)
        self.accumulator.finish(batch)

    def _tell(
        self,
        step: Step,
        batch: ProducerBatch,
        outcome: Outcome,
        error: int,
        offset: int,
        broker: str,
        version: int,
        call: int = -1,
    ) -> None:
        for index, record in enumerate(batch.records):
            step.record(
                SendReturn(
                    send_operation(record.uid, batch.key),
                    outcome,
                    error,
                    batch.key,
                    record.uid,
                    self.acks,
                    self.idempotent,
                    offset=offset + index if offset >= 0 else -1,
                    broker=broker,
                    version=version,
                    correlation_id=call,
                )
            )


def _record_refusal(
    step: Step,
    batch: ProducerBatch,
    ended: Ended,
    error: int,
    answer: ProduceResponse.PartitionProduceResponse | None,
) -> None:
    """A leader refused a batch, which is not given up."""
    hint = answer.current_leader if answer is not None else None
    step.record(refusal(batch.tp, Api.Produce, ended, error, hint, batch.records[0].uid))


def send_operation(uid: str, key: str) -> str:
    """Name of the operation that sends a record to the partition that the trace calls ``key``."""
    _, at, topic_id = key.partition("@")
    return f"send/{uid}{at}{topic_id}"


def _answers(response: ProduceResponse, metadata: MetadataCache) -> dict[str, ProduceResponse.PartitionProduceResponse]:
    answers: dict[str, ProduceResponse.PartitionProduceResponse] = {}
    for topic in response.responses:
        name = topic.name or metadata.topic_name(topic.topic_id)
        for partition in topic.partition_responses:
            answers[topic_partition(name, partition.index)] = partition
    return answers
