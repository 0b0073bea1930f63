"""An application that copies a topic to another one: it consumes in a group and produces what it was given
(``MirrorMaker.scala`` of Kafka 3)."""

from __future__ import annotations

import msgspec

from actors.client import consumer, group_consumer, sending
from actors.client.client_base import components
from actors.client.fetcher import Delivery
from actors.client.group_consumer import GroupConsumerNode
from actors.client.sender import Sender
from actors.client.sending import new_sender, send_record
from actors.node.errors import KafkaError
from actors.node.network_client import Ended
from actors.node.spec import split_topic_partition, topic_partition
from actors.node.step import Step
from actors.trace.client_events import CommitHow

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
            send_record(self, step, tp, self.copied, copy_of=record.uid)
            self.copied += 1


MirrorNode.components = components(group_consumer.COMPONENT)
MirrorNode.components.add(consumer.COMPONENT, lambda node: node)
MirrorNode.components.add(sending.COMPONENT, lambda node: node)
