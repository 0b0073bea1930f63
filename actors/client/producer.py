"""A producing application: records at a steady rate (``KafkaProducer.java``)."""

from __future__ import annotations

from typing import Any

import msgspec

from actors.client import record_accumulator, sender, transaction_manager
from actors.client.client_base import ClientNode, components
from actors.client.record_accumulator import RecordAccumulator
from actors.client.sender import ACKS_ALL, Sender, send_operation
from actors.client.transaction_manager import TransactionManager
from actors.client.workload import Rate
from actors.log.batch import LogRecord, payload_digest
from actors.node.component import Component
from actors.node.step import Step
from actors.trace.events import SendInvoke

_NEXT = "send"


class ProducerNode(ClientNode):
    """Sends records with uid ``<name>:<n>``, which is their value, too, round robin over its partitions.

    Workload: topic, partitions, rate (records per second). Later incarnations use ``<name>#<incarnation>:<n>``, as
    uids are unique in the run. While the topic is unknown the application waits inside its first send, as it does in
    ``KafkaProducer.waitOnMetadata``. "stop" sends what is left without lingering and is completed when every send
    has returned: {"sent": records, "acked": records that returned ok}.
    """

    sender: Sender = msgspec.field(default_factory=Sender)
    rate: Rate = msgspec.field(default_factory=Rate)
    partitions: list[str] = msgspec.field(default_factory=list)
    sent: int = 0
    due: bool = False

    def _configure(self, step: Step) -> None:
        self.sender = new_sender(self.spec.config)
        self.partitions = self.workload_partitions()

    def _begin(self, step: Step) -> None:
        self.rate.begin(step.now_ms, self.spec.workload["rate"])
        self.due = self.rate.per_1000_s > 0

    def _end(self, step: Step) -> None:
        step.cancel_timer(_NEXT)
        self.due = False

    def _work(self, step: Step) -> None:
        if self.due:
            if all(self.metadata.knows(tp) for tp in self.partitions):
                self._send_due(step)
            else:
                self.rate.rebase(step.now_ms)
                self.metadata.request_update()
        self.sender.poll(step, self.net, self.metadata, flush=bool(self.stopping))

    def _send_due(self, step: Step) -> None:
        for _ in range(self.rate.take(step.now_ms)):
            self._send_record(step)
        step.set_timer(_NEXT, max(1, self.rate.next_due_ms() - step.now_ms))
        self.due = False

    def _send_record(self, step: Step) -> None:
        tp = self.partitions[self.sent % len(self.partitions)]
        name = self.spec.name if not self.incarnation else f"{self.spec.name}#{self.incarnation}"
        uid = f"{name}:{self.sent}"
        self.sent += 1
        record = LogRecord(step.wall_ms, uid, value=uid.encode())
        key = self.metadata.key(tp)
        step.record(
            SendInvoke(
                send_operation(uid, key),
                key,
                uid,
                self.sender.acks,
                self.sender.idempotent,
                payload_digest(record),
            )
        )
        self.sender.accumulator.append(step, tp, record, key)

    def on_next(self) -> None:
        """The next records are due."""
        self.due = not self.stopping

    def _stopped(self, step: Step) -> dict[str, int] | None:
        if self.sender.accumulator.has_open():
            return None
        return {"sent": self.sent, "acked": self.sender.acked}


def new_sender(config: dict[str, Any]) -> Sender:
    """What sends records as a producer's configuration says."""
    acks = ACKS_ALL if config["acks"] == "all" else int(config["acks"])
    idempotent = config["enable.idempotence"] and acks == ACKS_ALL
    backoff = config["retry.backoff.ms"], config["retry.backoff.max.ms"]
    return Sender(
        RecordAccumulator(config["batch.size"], config["linger.ms"], config["delivery.timeout.ms"], *backoff),
        TransactionManager(idempotent, *backoff),
        acks,
        idempotent,
        config["max.in.flight.requests.per.connection"],
        retries=config["retries"],
        request_timeout_ms=config["request.timeout.ms"],
    )


ProducerNode.components = components(
    Component[ProducerNode, Step](
        timers={
            _NEXT: lambda node, step, _: node.on_next(),
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
