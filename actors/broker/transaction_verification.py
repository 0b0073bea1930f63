"""Asking a transaction's coordinator before its first batch is appended to a partition: whether the partition is in it,
or to add it (``AddPartitionsToTxnManager.java``, ``ReplicaManager.maybeSendPartitionsToTransactionCoordinator``)."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from actors.broker.coordinator_common.partitions import TRANSACTION_STATE_TOPIC, partition_for
from actors.broker.partition import find_partition
from actors.broker.reply_trace import trace_key
from actors.broker.turn import Turn
from actors.log.verification import UNVERIFIED
from actors.node.component import Component
from actors.node.errors import KafkaError
from actors.node.messages import Api
from actors.node.network_client import Ended
from actors.node.purgatory import DelayedOperation, Key
from actors.node.spec import node_name, split_topic_partition, topic_partition
from actors.trace.events import TxnGuard, TxnVerify
from krift.v1.transactions import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, TxnTopicPartitions

CONNECTION = "add-partitions"
PURPOSE = "transactions/verify/"
RETRY = "transactions/verify-again/"
BATCHED = 4
"""First version in which brokers ask. A coordinator that does not speak it is not asked, and the batch is appended."""

Operation = Literal["default-error", "generic-error", "add-partition"]
"""``TransactionSupportedOperation``: what the client understands: nothing new; TRANSACTION_ABORTABLE; that partitions
are added for it, which is ``transaction.version`` 2."""

Errors = dict[str, KafkaError]
"""Topic partition -> why it is not verified."""


class DelayedVerification(DelayedOperation):
    """A request whose transaction is being verified; under a name of its own, as it goes on whether its client is there
    or not. ``guards``: topic partition -> what its verification has begun with; ``errors``: of those that failed."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    operation: Operation
    guards: dict[str, int]
    errors: Errors

    @property
    def adds(self) -> bool:
        """Whether the partitions are added."""
        return self.operation == "add-partition"

    def try_complete(self, context: Turn, key: Key) -> bool:
        """Who asks the coordinator completes it by name."""
        return False

    def on_verified(self, context: Turn) -> None:
        """The coordinator has answered, or need not be asked. It is in the purgatory no longer."""
        raise NotImplementedError


class AddPartitionsToTxnManager(msgspec.Struct):
    """``asked``: broker -> transactional id -> name of the request that waits, to be sent; ``in_flight``: the same, of
    the call that a broker has not answered. ``names``: how many names were given."""

    asked: dict[int, dict[str, str]] = {}
    in_flight: dict[int, dict[str, str]] = {}
    names: int = 0

    def next_name(self) -> str:
        """For a request that waits."""
        self.names += 1
        return f"verify/{self.names}"

    def begin(self, turn: Turn, delayed: DelayedVerification, sequences: dict[str, int]) -> None:
        """Verify a transaction for some partitions (-> base sequence of the batch), as far as that is necessary."""
        delayed.guards, delayed.errors = {}, {}
        producer = (delayed.producer_id, delayed.producer_epoch)
        for tp, sequence in sequences.items():
            partition, error = find_partition(turn, tp)
            guard = UNVERIFIED
            if partition is not None:
                guard, error = partition.start_verification(producer, sequence, delayed.adds)
            if error:
                delayed.errors[tp] = error
            elif partition is not None and guard != UNVERIFIED:
                delayed.guards[tp] = guard
                turn.step.record(TxnGuard(partition.key, *producer, sequence, guard, delayed.adds))
        if delayed.guards:
            self._add_or_verify(turn, delayed)
        else:
            delayed.on_verified(turn)

    def _add_or_verify(self, turn: Turn, delayed: DelayedVerification) -> None:
        known = turn.image.partitions.get(partition_for(turn, TRANSACTION_STATE_TOPIC, delayed.transactional_id))
        if known is None or known.leader < 0 or not turn.image.is_alive(known.leader):
            _end(turn, delayed, dict.fromkeys(delayed.guards, KafkaError.COORDINATOR_NOT_AVAILABLE))
            return
        asked = self.asked.setdefault(known.leader, {})
        before = asked.get(delayed.transactional_id)
        if before is not None:
            other = _waiting(turn, before)
            if other.producer_epoch > delayed.producer_epoch:
                _end(turn, delayed, dict.fromkeys(delayed.guards, KafkaError.INVALID_PRODUCER_EPOCH))
                return
            newer = other.producer_epoch < delayed.producer_epoch
            error = KafkaError.INVALID_PRODUCER_EPOCH if newer else KafkaError.NETWORK_EXCEPTION
            del asked[delayed.transactional_id]
            _end_waiting(turn, before, error)
        _park(turn, delayed)
        asked[delayed.transactional_id] = delayed.connection

    # ---- asking ------------------------------------------------------------------------------------------

    def poll(self, turn: Turn) -> None:
        """Ask each broker that is to be asked and is not being asked; if it cannot be reached, that is the answer."""
        for broker in [broker for broker, asked in self.asked.items() if asked and broker not in self.in_flight]:
            peer = node_name(broker)
            if turn.net.ready(turn.step, peer, CONNECTION):
                self._send(turn, broker, self.asked.pop(broker))
            elif not turn.net.usable(peer, CONNECTION):
                for name in self.asked.pop(broker).values():
                    _end_waiting(turn, name, KafkaError.NETWORK_EXCEPTION)

    def _send(self, turn: Turn, broker: int, asked: dict[str, str]) -> None:
        peer = node_name(broker)
        version = turn.net.version(peer, CONNECTION, Api.AddPartitionsToTxn)
        if version is None or version < BATCHED:
            for name in asked.values():
                _end_waiting(turn, name, KafkaError.NONE)
            return
        request = AddPartitionsToTxnRequest()
        for name in asked.values():
            delayed = _waiting(turn, name)
            request.transactions.append(
                AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction(
                    transactional_id=delayed.transactional_id,
                    producer_id=delayed.producer_id,
                    producer_epoch=delayed.producer_epoch,
                    verify_only=not delayed.adds,
                    topics=_topics(delayed.guards),
                )
            )
        self.in_flight[broker] = asked
        turn.net.send(turn.step, peer, CONNECTION, request, version, f"{PURPOSE}{broker}")

    def on_ended(self, turn: Turn, ended: Ended, broker: int) -> None:
        """The coordinator has answered, or has not."""
        asked = self.in_flight.pop(broker)
        response: AddPartitionsToTxnResponse | None = ended.response
        if response is None or response.error_code:
            error = KafkaError.NETWORK_EXCEPTION if response is None else KafkaError(response.error_code)
            for name in asked.values():
                _end_waiting(turn, name, error)
            return
        for result in response.results_by_transaction:
            name = asked[result.transactional_id]
            delayed = _waiting(turn, name)
            turn.purgatory.remove(name)
            _end(turn, delayed, _unverified(delayed, result))

    def on_retry(self, turn: Turn, name: str) -> None:
        """The pause before a coordinator is asked again is over."""
        delayed = _waiting(turn, name)
        turn.purgatory.remove(name)
        delayed.on_expiration(turn)


def _topics(partitions: dict[str, int]) -> list[TxnTopicPartitions]:
    topics: dict[str, TxnTopicPartitions] = {}
    for tp in partitions:
        name, index = split_topic_partition(tp)
        topics.setdefault(name, TxnTopicPartitions(name=name)).partitions.append(index)
    return list(topics.values())


def _park(turn: Turn, delayed: Any) -> None:
    """Its classes are among those that may wait."""
    turn.purgatory.park(turn.step, delayed)


def _waiting(turn: Turn, name: str) -> DelayedVerification:
    found = turn.purgatory.parked[name]
    assert isinstance(found, DelayedVerification)
    return found


def _end_waiting(turn: Turn, name: str, error: KafkaError) -> None:
    """All partitions of a request failed alike, or none did."""
    delayed = _waiting(turn, name)
    turn.purgatory.remove(name)
    _end(turn, delayed, dict.fromkeys(delayed.guards, error) if error else {})


def _end(turn: Turn, delayed: DelayedVerification, errors: Errors) -> None:
    for tp in delayed.guards:
        partition, _ = find_partition(turn, tp)
        turn.step.record(
            TxnVerify(
                trace_key(turn, tp) if partition is None else partition.key,
                delayed.transactional_id,
                delayed.producer_id,
                delayed.producer_epoch,
                delayed.adds,
                int(errors.get(tp, KafkaError.NONE)),
            )
        )
    delayed.errors |= errors
    delayed.on_verified(turn)


def _unverified(delayed: DelayedVerification, result: AddPartitionsToTxnResponse.AddPartitionsToTxnResult) -> Errors:
    """What the coordinator says, as the producer is told: it knows a fenced epoch as an invalid one, and
    TRANSACTION_ABORTABLE from a certain version of its request on."""
    errors: Errors = {}
    for topic in result.topic_results:
        for partition in topic.results_by_partition:
            error = KafkaError(partition.partition_error_code)
            if error == KafkaError.PRODUCER_FENCED:
                error = KafkaError.INVALID_PRODUCER_EPOCH
            elif error == KafkaError.TRANSACTION_ABORTABLE and delayed.operation == "default-error":
                error = KafkaError.INVALID_TXN_STATE
            if error:
                errors[topic_partition(topic.name, partition.partition_index)] = error
    return errors


def wait_to_ask_again(turn: Turn, delayed: DelayedVerification) -> None:
    """The former transaction is still being ended: ask again after a pause, which ends with ``on_expiration``."""
    _park(turn, delayed)
    backoff_ms = turn.settings.transactions.retry_backoff_ms
    turn.step.set_timer(f"{RETRY}{delayed.connection}", backoff_ms)


COMPONENT: Component[AddPartitionsToTxnManager, Turn] = Component(
    timers={RETRY: lambda manager, turn, name: manager.on_retry(turn, name)},
    answers={PURPOSE: lambda manager, turn, ended, broker: manager.on_ended(turn, ended, int(broker))},
)
