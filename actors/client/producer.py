"""A producing application: records at a steady rate (``KafkaProducer.java``)."""

from __future__ import annotations

import msgspec

from actors.client import sending
from actors.client.client_base import ClientNode, components
from actors.client.sender import Sender
from actors.client.sending import new_sender, send_record
from actors.client.workload import Rate
from actors.node.component import Component
from actors.node.step import Step

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
        send_record(self, step, self.partitions[self.sent % len(self.partitions)], self.sent)
        self.sent += 1

    def on_next(self) -> None:
        """The next records are due."""
        self.due = not self.stopping

    def _stopped(self, step: Step) -> dict[str, int] | None:
        if self.sender.accumulator.has_open():
            return None
        return {"sent": self.sent, "acked": self.sender.acked}


ProducerNode.components = components(
    Component[ProducerNode, Step](timers={_NEXT: lambda node, step, _: node.on_next()}),
)
ProducerNode.components.add(sending.COMPONENT, lambda node: node)
