"""Asking the controller for ISR changes: one AlterPartition in flight per broker, one pending change per partition
(``server/.../partition/DefaultAlterPartitionManager.java``)."""

from __future__ import annotations

import msgspec

from actors.broker.turn import Turn
from actors.node.component import Component
from actors.node.errors import KafkaError
from actors.node.messages import Api
from actors.node.network_client import Ended
from krift.v1.controller import AlterPartitionRequest, AlterPartitionResponse

CONNECTION = "controller"
PURPOSE = "alter-partition"
RETRY_TIMER = "alter-partition-retry"
RETRY_MS = 50

REVERT = (KafkaError.OPERATION_NOT_ATTEMPTED, KafkaError.INELIGIBLE_REPLICA)
"""The change was certainly not made: back to the committed ISR."""
WAIT_FOR_METADATA = (
    KafkaError.UNKNOWN_TOPIC_OR_PARTITION,
    KafkaError.UNKNOWN_TOPIC_ID,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.INVALID_UPDATE_VERSION,
    KafkaError.INVALID_REQUEST,
    KafkaError.NEW_LEADER_ELECTED,
)
"""This broker is behind, or nobody knows what was made: the change stays pending until the metadata log tells.
Any other error: propose the same again."""


class AlterItem(msgspec.Struct, frozen=True):
    """A proposal that is queued or in flight."""

    tp: str
    topic_id: str
    index: int
    proposal: int
    leader_epoch: int
    partition_epoch: int
    members: dict[int, int]


class AlterOutcome(msgspec.Struct, frozen=True):
    """What the controller said about one proposal; the fields behind ``error`` count without one."""

    tp: str
    proposal: int
    error: KafkaError
    leader_epoch: int = -1
    isr: list[int] = []
    partition_epoch: int = -1


class AlterPartitionManager(msgspec.Struct):
    """Proposals by partition. ``in_flight``: the numbers of those that were sent, by partition."""

    items: dict[str, AlterItem] = {}
    in_flight: dict[str, int] = {}
    backing_off: bool = False
    proposals: int = 0

    def next_proposal(self) -> int:
        """A number for a proposal, unique within the incarnation."""
        self.proposals += 1
        return self.proposals

    def is_queued(self, tp: str) -> bool:
        """Whether a proposal for ``tp`` is still on its way; no other is taken meanwhile."""
        return tp in self.items

    def submit(self, item: AlterItem) -> None:
        """Queue a proposal; it goes out with the next request."""
        self.items[item.tp] = item

    def forget(self, tp: str) -> None:
        """The partition is no more: nothing is asked for it any longer, and no answer to it counts."""
        self.items.pop(tp, None)

    def poll(self, turn: Turn) -> None:
        """Send what is queued, if nothing is in flight and the controller can be reached."""
        if not self.items or self.in_flight or self.backing_off or turn.broker_epoch < 0:
            return
        target = turn.reachable_controller(CONNECTION, Api.AlterPartition)
        if target is None:
            return
        controller, version = target
        request = AlterPartitionRequest(broker_id=turn.settings.node_id, broker_epoch=turn.broker_epoch)
        topics: dict[str, AlterPartitionRequest.TopicData] = {}
        for item in self.items.values():
            if item.topic_id not in topics:
                topics[item.topic_id] = AlterPartitionRequest.TopicData(topic_id=item.topic_id)
                request.topics.append(topics[item.topic_id])
            data = AlterPartitionRequest.PartitionData(
                partition_index=item.index, leader_epoch=item.leader_epoch, partition_epoch=item.partition_epoch
            )
            topics[item.topic_id].partitions.append(data)
            if version >= 3:
                for broker_id, known_epoch in item.members.items():
                    epoch = -1 if "isr-without-epochs" in turn.step.defects else known_epoch
                    data.new_isr_with_epochs.append(
                        AlterPartitionRequest.BrokerState(broker_id=broker_id, broker_epoch=epoch)
                    )
            else:
                data.new_isr.extend(item.members)
            self.in_flight[item.tp] = item.proposal
        turn.net.send(turn.step, controller, CONNECTION, request, version, PURPOSE)

    def on_ended(self, turn: Turn, ended: Ended) -> list[AlterOutcome]:
        """Take the end of the request; what was not answered is sent again."""
        sent, self.in_flight = self.in_flight, {}
        if ended.response is None:
            if "isr-answer-awaited" in turn.step.defects:
                self.in_flight = sent
            return []
        response: AlterPartitionResponse = ended.response
        if response.error_code:
            self.backing_off = True
            turn.step.set_timer(RETRY_TIMER, RETRY_MS)
            return []
        outcomes: list[AlterOutcome] = []
        for topic in response.topics:
            for data in topic.partitions:
                item = self._answered(topic.topic_id, data.partition_index)
                if item is None or sent.get(item.tp) != item.proposal:
                    continue
                del self.items[item.tp]
                outcomes.append(
                    AlterOutcome(
                        item.tp,
                        item.proposal,
                        KafkaError(data.error_code),
                        data.leader_epoch,
                        list(data.isr),
                        data.partition_epoch,
                    )
                )
        return outcomes

    def _answered(self, topic_id: str, index: int) -> AlterItem | None:
        for item in self.items.values():
            if item.topic_id == topic_id and item.index == index:
                return item
        return None

    def on_timer(self) -> None:
        """The pause after a failed request is over."""
        self.backing_off = False


COMPONENT: Component[AlterPartitionManager, Turn] = Component(
    timers={RETRY_TIMER: lambda manager, turn, _: manager.on_timer()}
)
"""What became of its proposals is the replica manager's to take."""
