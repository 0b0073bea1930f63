"""An application that copies a topic to another one: it consumes in a group and produces what it was given
(``MirrorMaker.scala`` of Kafka 3)."""

from __future__ import annotations

import msgspec

from actors.client import consumer, group_consumer, record_accumulator, sender, transaction_manager
from actors.client.client_base import components
from actors.client.fetcher import Delivery
from actors.client.group_consumer import GroupConsumerNode
from actors.client.producer import new_sender
from actors.client.sender import Sender, send_operation
from actors.log.batch import LogRecord, payload_digest
from actors.node.component import Component
from actors.node.errors import KafkaError
from actors.node.network_client import Ended
from actors.node.spec import split_topic_partition, topic_partition
from actors.node.step import Step
from actors.trace.client_events import CommitHow
from actors.trace.events import SendInvoke

PRODUCER = "mirror"
"""Connection of the producing half: what it sends does not wait behind a Fetch."""


class MirrorNode(GroupConsumerNode):
    """A member of a group that sends each record that it is given to another topic, and commits positions by hand, once
    all that it sent was acknowledged (``maybeFlushAndCommitOffsets``). What it copied and had not committed when it
    lost its partition, or when its position was reset, it or the next owner copies once more.

    Workload, beside the member's: copy_to and copy_partitions (the other topic, and how many partitions it has).
    A copy has the source's uid as its value, and ``<name>:<n>`` as its own uid (in later incarnations
    ``<name>#<incarnation>:<n>``); ``copy_of`` of its send.invoke says what it is a copy of. Copies of a partition go to
    the one with the same number, as far as there are so many. Both halves share what the client knows of the cluster.
    Where a send fails for good it commits nothing more, and ends (``abort.on.send.failure``).

    flushing: it takes no more records before everything is acknowledged, and commits then.
    """

    sender: Sender = msgspec.field(default_factory=Sender)
    copied: int = 0
    flushing: bool = False

    def _configure(self, step: Step) -> None:
        super()._configure(step)
        self.coordinator.beside = [self.spec.workload["copy_to"]]
        self.metadata.topics = [*self._topics(), *self.coordinator.beside]
        self.sender = new_sender(self.spec.config)
        self.sender.connection = PRODUCER

    # ---- what goes on -------------------------------------------------------------------------------------

    @property
    def blocked(self) -> bool:
        """The application is not in poll."""
        return self.flushing or super().blocked

    def _work(self, step: Step) -> None:
        if self.sender.failed and not self.coordinator.fatal:
            self.coordinator.membership.fatal = self.sender.transactions.fatal or KafkaError.UNKNOWN_SERVER_ERROR
        if self.flushing and (self.coordinator.fatal or not self.sender.accumulator.has_open()):
            self._flushed(step)
        super()._work(step)
        self.sender.poll(step, self.net, self.metadata, flush=self.flushing or bool(self.closing or self.stopping))

    def _flushed(self, step: Step) -> None:
        self.flushing = False
        if self.coordinator.membership.state == "STABLE" and not self.coordinator.fatal:
            super()._commit_by_hand(step, "sync")
        if not self.blocked:
            self._take_held(step)

    def _commit_by_hand(self, step: Step, how: CommitHow) -> None:
        if self.sender.accumulator.has_open():
            self.flushing = True
        else:
            super()._commit_by_hand(step, how)

    def _close(self, step: Step) -> None:
        if self.closing == "begin" and self.sender.accumulator.has_open() and not self.coordinator.fatal:
            return  # producer.flush()
        super()._close(step)

    # ---- copies -------------------------------------------------------------------------------------------

    def _poll_returns(self, step: Step, delivery: Delivery, ended: Ended) -> None:
        super()._poll_returns(step, delivery, ended)
        _, index = split_topic_partition(delivery.tp)
        workload = self.spec.workload
        tp = topic_partition(workload["copy_to"], index % workload["copy_partitions"])
        for record in delivery.records:
            self._copy(step, tp, record.uid)

    def _copy(self, step: Step, tp: str, source: str) -> None:
        name = self.spec.name if not self.incarnation else f"{self.spec.name}#{self.incarnation}"
        uid = f"{name}:{self.copied}"
        self.copied += 1
        record = LogRecord(step.wall_ms, uid, value=source.encode())
        key, digest = self.metadata.key(tp), payload_digest(record)
        operation = send_operation(uid, key)
        step.record(SendInvoke(operation, key, uid, self.sender.acks, self.sender.idempotent, digest, source))
        self.sender.accumulator.append(step, tp, record, key)


MirrorNode.components = components(
    Component[MirrorNode, Step](
        timers={
            record_accumulator.DELIVERY: lambda node, step, _: node.sender.on_delivery_timeout(step),
            record_accumulator.LINGER: lambda node, step, tp: node.sender.accumulator.on_linger(tp),
            record_accumulator.RETRY: lambda node, step, number: node.sender.accumulator.on_retry(int(number)),
            transaction_manager.RETRY_TIMER: lambda node, step, _: node.sender.transactions.on_retry(),
        },
        answers={
            sender.PURPOSE: lambda node, step, ended, _: node.sender.on_ended(step, node.metadata, ended),
            transaction_manager.PURPOSE: lambda node, step, ended, _: node.sender.transactions.on_ended(step, ended),
        },
        choices={
            transaction_manager.CHOICE: lambda node, step, value, _: node.sender.transactions.node.on_chosen(
                node.net, value
            )
        },
    )
)
MirrorNode.components.add(group_consumer.COMPONENT, lambda node: node)
MirrorNode.components.add(consumer.COMPONENT, lambda node: node)
