"""A producing application whose records go in transactions (``KafkaProducer.java``)."""

from __future__ import annotations

import msgspec
from msgspec import UNSET

from actors.client import sending
from actors.client.client_base import components
from actors.client.producer import ProducerNode
from actors.client.transactions import session
from actors.client.transactions.session import TransactionalSession
from actors.node.component import Component
from actors.node.step import Step

_NEXT = "send"
_ROUNDS = 8
"""More than an application can do at once: begin, send, be told, abort, close."""


class TransactionalProducerNode(ProducerNode):
    """Sends records as ``ProducerNode`` does, so many to a transaction, and commits or aborts each.

    Workload, beside the producer's: transaction_records (records of a transaction), aborts_percent (share of the
    transactions that it aborts of its own will), hold_every_ms and hold_ms (so often it stays in a transaction for so
    long; 0: never), hold_after (when it has sent that many of its records; 0: before it ends it), last_hold_ms (so long
    it stays in one that is open when it is to stop), transfers (may be left out: each transaction moves amounts between
    accounts, which are the partitions: what a record takes, the next one adds; a transfer by half is aborted). An error
    that it is told of in a transaction makes it abort;
    after one that leaves it no producer it closes that and makes a new one a second later. What it would have
    sent while it waited for its producer is not made up for beyond a second.

    "stop" commits what is open, or closes a producer that waits for its id, and is completed with {"sent", "acked",
    "committed", "aborted", "closed"}: records, records that returned ok, transactions that it ended so, and producers
    that it had to close.
    """

    session: TransactionalSession = msgspec.field(default_factory=TransactionalSession)
    in_transaction: int = 0
    to_end: bool = False

    def _configure(self, step: Step) -> None:
        super()._configure(step)
        self.session = TransactionalSession(self.spec.config["transactional.id"] or self.spec.name)
        self.sender = self.session.new_sender(self)

    def _begin(self, step: Step) -> None:
        super()._begin(step)
        self.session.begin_work(step, self.spec.workload)
        self.session.open_producer(step, self)

    def _work(self, step: Step) -> None:
        for _ in range(_ROUNDS):
            self._act(step)
            self.sender.poll(step, self.net, self.metadata, flush=bool(self.stopping))
            if not self.session.poll(step, self):
                return
        raise AssertionError(f"{self.spec.name} does not come to rest in phase {self.session.phase}")

    def _act(self, step: Step) -> None:
        phase = self.session.phase
        if phase == "open" and (self.to_end or self.stopping) and not self.session.holding:
            self._end_transaction(step)
        elif phase in ("ready", "open") and self.due and not self.session.holding:
            if all(self.metadata.knows(tp) for tp in self.partitions):
                self._send_due(step)
            else:
                self.rate.rebase(step.now_ms)
                self.metadata.request_update()

    def _send_due(self, step: Step) -> None:
        """As many records as are due, up to the end of a transaction, which the application waits for."""
        due = self.rate.take(step.now_ms)
        for sent in range(due):
            if self.session.phase == "ready":
                self.session.begin(step, self)
                self.in_transaction = 0
            if self.session.told_of_error(self):
                self._end_transaction(step)
                self.rate.give_back(due - sent)
                return
            self._send_record(step)
            records = self.spec.workload["transaction_records"]
            self.to_end = self.in_transaction == records
            stays = self.session.stays(step, self.in_transaction, records)
            if self.to_end and not stays:
                self._end_transaction(step)
            if stays or self.in_transaction == records:
                self.rate.give_back(due - sent - 1)
                return
        step.set_timer(_NEXT, max(1, self.rate.next_due_ms() - step.now_ms))
        self.due = False

    def _send_record(self, step: Step) -> None:
        tp = self.partitions[self.sent % len(self.partitions)]
        self.session.send(step, self, tp, self.sent, amount=self._amount() if self._transfers else UNSET)
        self.sent += 1
        self.in_transaction += 1

    @property
    def _transfers(self) -> bool:
        return bool(self.spec.workload.get("transfers"))

    def _amount(self) -> int:
        """Of the next record: records go in pairs, and a last one that is alone moves nothing."""
        pair, second = divmod(self.in_transaction, 2)
        if not second and self.in_transaction == self.spec.workload["transaction_records"] - 1:
            return 0
        return pair + 1 if second else -pair - 1

    def _end_transaction(self, step: Step) -> None:
        """The next call tells it of an error, if there is one: then it aborts."""
        self.to_end = False
        told = self.session.told_of_error(self)
        whole = not self.in_transaction % 2 or self.in_transaction == self.spec.workload["transaction_records"]
        commits = not (self._transfers and not whole) if self.stopping else not self.session.means_to_abort
        self.session.end(step, self, commit=commits and not told)

    def _end(self, step: Step) -> None:
        super()._end(step)
        self.session.end_work(step)
        if self.session.phase == "starting":
            self.session.give_up_init(step, self)

    def _stopped(self, step: Step) -> dict[str, int] | None:
        if self.session.phase not in ("ready", "closed"):
            return None
        ended = {"committed": self.session.commits, "aborted": self.session.aborts, "closed": self.session.closes}
        return {"sent": self.sent, "acked": self.session.acked + self.sender.acked, **ended}


TransactionalProducerNode.components = components(
    Component[TransactionalProducerNode, Step](
        timers={
            _NEXT: lambda node, step, _: node.on_next(),
        }
    ),
)
TransactionalProducerNode.components.add(sending.COMPONENT, lambda node: node)
TransactionalProducerNode.components.add(session.COMPONENT, lambda node: node)
