"""An application that reads, processes and writes exactly once: it consumes in a group, and what it sends goes in one
transaction with the positions up to which it has read (KIP-447, ``KafkaProducer.java`` sendOffsetsToTransaction)."""

from __future__ import annotations

from typing import Any

import msgspec

from actors.client import consumer, group_consumer, sending
from actors.client.client_base import components
from actors.client.fetcher import Delivery
from actors.client.group_consumer import GroupConsumerNode
from actors.client.mirror import PRODUCER
from actors.client.sender import Sender
from actors.client.transactions import session
from actors.client.transactions.requests import GroupMetadata
from actors.client.transactions.session import TransactionalSession
from actors.node.network_client import Ended
from actors.node.spec import split_topic_partition, topic_partition
from actors.node.step import Step
from actors.trace.client_events import CommitHow
from actors.trace.group_events import Entry

_ROUNDS = 12
"""More than an application can do at once: take what came, send its positions, commit, abort, close."""


class ProcessorNode(GroupConsumerNode):
    """A member of a group that sends, for each record that it is given, one to another topic, as ``MirrorNode`` does;
    ``copy_of`` of its send.invoke has the uid of what it was made of.

    Workload: that of a mirror and of a transactional producer. A transaction begins with the first record that comes,
    and ends each commit_every_ms, or when it has transaction_records: the positions are sent to it, with who the member
    is in which generation, and it is committed. Where it is aborted, for an error, of the application's own will, or
    as the member lost a partition meanwhile, the application goes back to what the group has committed.
    A producer that is of no use any more is closed, and another one made a second later; the application does not
    poll before that has its id, as those before it are fenced by then.

    rebalanced: a partition was lost with records of it in the transaction. to_end: the transaction is to be ended.
    next_offsets: of each partition that it has records of in the transaction, the offset after those
    (``ConsumerRecords.nextOffsets``, KIP-1094). sent_offsets: its positions are in it. going_back: positions are to be
    taken from the group.
    """

    sender: Sender = msgspec.field(default_factory=Sender)
    session: TransactionalSession = msgspec.field(default_factory=TransactionalSession)
    copied: int = 0
    in_transaction: int = 0
    rebalanced: bool = False
    to_end: bool = False
    next_offsets: dict[str, Entry] = msgspec.field(default_factory=dict)
    sent_offsets: bool = False
    going_back: bool = False

    def _configure(self, step: Step) -> None:
        super()._configure(step)
        self.coordinator.beside = [self.spec.workload["copy_to"]]
        self.metadata.topics = [*self._topics(), *self.coordinator.beside]
        self.session = TransactionalSession(self.spec.config["transactional.id"] or self.spec.name)
        self.sender = self.session.new_sender(self)
        self.sender.connection = PRODUCER

    def _begin(self, step: Step) -> None:
        super()._begin(step)
        self.session.begin_work(step, self.spec.workload)
        self.session.open_producer(step, self)

    def _end(self, step: Step) -> None:
        super()._end(step)
        self.session.end_work(step)
        if self.session.phase == "closed":
            self.session.open_producer(step, self)  # it has still to read to the end

    # ---- what goes on -------------------------------------------------------------------------------------

    @property
    def blocked(self) -> bool:
        """The application is not in poll."""
        return self.session.phase not in ("ready", "open") or self.session.holding or super().blocked

    def _work(self, step: Step) -> None:
        for _ in range(_ROUNDS):
            self._act(step)
            super()._work(step)
            self.sender.poll(step, self.net, self.metadata, flush=False)
            if not self._take_result(step) and not self._wants_end(step):
                return
        raise AssertionError(f"{self.spec.name} does not come to rest in phase {self.session.phase}")

    def _wants_end(self, step: Step) -> bool:
        """Whether the transaction is to be ended, or goes on to be, now."""
        if self.session.phase != "open" or self.session.holding or self.stalled:
            return False
        return self.rebalanced or self.to_end or bool(self.stopping or self.closing)

    def _act(self, step: Step) -> None:
        """Take the next step to the end of the transaction."""
        if self.going_back and self.session.phase == "ready":
            self._return_to_committed(step)
        if not self._wants_end(step):
            return
        told = self.rebalanced or self.session.told_of_error(self) or bool(self.coordinator.fatal)
        if told or (self.session.means_to_abort and not self.stopping):
            self.session.end(step, self, commit=False)
        elif self.sent_offsets:
            self.session.end(step, self, commit=True)
        elif not self.session.stays(step, self.in_transaction, self.in_transaction):
            self._send_offsets(step)

    def _send_offsets(self, step: Step) -> None:
        # Who lost its place says so to nobody: as nobody it would be taken for an application without a group.
        generation, settings = self.coordinator.joined, self.coordinator.membership.settings
        # A position that is being validated is none of ``consumed``; its records are in the transaction all the same.
        offsets = {**self.next_offsets, **self.coordinator.consumed(step, self)[0]}
        self.sent_offsets = True
        if offsets and not ("positions-left-out" in step.defects and self.copied % 2):
            group = GroupMetadata(settings.group, generation.id, generation.member, settings.instance)
            self.session.send_offsets(step, self, offsets, group)

    def _take_result(self, step: Step) -> bool:
        """See what an operation came to; True if something changed."""
        before = self.session.phase
        if not self.session.poll(step, self):
            return False
        if before == "ending" and self.session.phase in ("ready", "closed"):
            self.going_back = self.session.phase == "closed" or not self.session.committing
            if "aborted-work-not-redone" in step.defects:
                self.going_back = False
            self.in_transaction = 0
            self.rebalanced = self.to_end = self.sent_offsets = False
            self.next_offsets = {}
        return True

    def _return_to_committed(self, step: Step) -> None:
        """What was read since the last commit is read again (``committed``, ``seek``)."""
        self.going_back = False
        for tp in list(self.positions):
            self.drop(step, tp)
            self.take(step, tp)

    def drop(self, step: Step, tp: str) -> None:
        """A partition is not its own any more."""
        self.rebalanced = self.rebalanced or self.session.phase == "open"
        super().drop(step, tp)

    def _commit_by_hand(self, step: Step, how: CommitHow) -> None:
        """It is time to commit: that is the transaction's to do."""
        self.to_end = self.session.phase == "open"

    def _close(self, step: Step) -> None:
        if self.closing == "begin":
            if self.session.phase in ("open", "offsets", "ending"):
                return
            self.closing = "commit"  # nothing is left to commit
        super()._close(step)

    def _stopped(self, step: Step) -> dict[str, Any] | None:
        if self.session.phase != "ready" or self.going_back:
            return None
        return super()._stopped(step)

    # ---- records ------------------------------------------------------------------------------------------

    def _poll_returns(self, step: Step, delivery: Delivery, ended: Ended) -> None:
        super()._poll_returns(step, delivery, ended)
        if self.session.phase == "ready":
            self.session.begin(step, self)
        self.next_offsets[delivery.tp] = self.coordinator.entry_of(step, self, self.positions[delivery.tp])
        _, index = split_topic_partition(delivery.tp)
        workload = self.spec.workload
        tp = topic_partition(workload["copy_to"], index % workload["copy_partitions"])
        for record in delivery.records:
            if self.session.told_of_error(self):
                self.to_end = True
                return
            self.session.send(step, self, tp, self.copied, made_of=record.uid)
            self.copied += 1
            self.in_transaction += 1
        self.to_end = self.to_end or self.in_transaction >= workload["transaction_records"]


ProcessorNode.components = components(group_consumer.COMPONENT)
ProcessorNode.components.add(consumer.COMPONENT, lambda node: node)
ProcessorNode.components.add(sending.COMPONENT, lambda node: node)
ProcessorNode.components.add(session.COMPONENT, lambda node: node)
