"""Producer ids: blocks from the controller, handed out one by one
(``transaction-coordinator/.../RPCProducerIdManager.java``)."""

from __future__ import annotations

import msgspec

from actors.broker.turn import Turn
from actors.node.component import Component
from actors.node.messages import Api
from actors.node.network_client import Ended
from krift.v1.producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse

CONNECTION = "controller"
PURPOSE = "producer-ids"
TIMER = "producer-ids-retry"
RETRY_MS = 50
PREFETCH_PERCENT = 90


class ProducerIdBlock(msgspec.Struct, frozen=True):
    """Ids [first, first + size)."""

    first: int
    size: int


class ProducerIdManager(msgspec.Struct):
    """The current block, and the next one if it was fetched ahead of need.

    While there is no id to give, InitProducerId is answered COORDINATOR_LOAD_IN_PROGRESS, as Kafka does: the producer
    tries again.
    """

    block: ProducerIdBlock = ProducerIdBlock(0, 0)
    following: ProducerIdBlock | None = None
    used: int = 0
    wanted: bool = False
    in_flight: bool = False
    backing_off: bool = False

    def generate(self) -> int | None:
        """A producer id that nobody has had, None while there is none."""
        if self.used == self.block.size and self.following is not None:
            self.block, self.following, self.used = self.following, None, 0
        if self.used == self.block.size:
            self.wanted = True
            return None
        producer_id = self.block.first + self.used
        self.used += 1
        if self.used * 100 >= self.block.size * PREFETCH_PERCENT and self.following is None:
            self.wanted = True
        return producer_id

    def poll(self, turn: Turn) -> None:
        """Ask for a block if one is wanted and the controller can be reached."""
        if not self.wanted or self.in_flight or self.backing_off or turn.broker_epoch < 0:
            return
        target = turn.reachable_controller(CONNECTION, Api.AllocateProducerIds)
        if target is None:
            return
        controller, version = target
        request = AllocateProducerIdsRequest(broker_id=turn.settings.node_id, broker_epoch=turn.broker_epoch)
        turn.net.send(turn.step, controller, CONNECTION, request, version, PURPOSE)
        self.in_flight = True

    def on_ended(self, turn: Turn, ended: Ended) -> None:
        """Take the block, or try again after a pause."""
        self.in_flight = False
        response: AllocateProducerIdsResponse | None = ended.response
        if response is None or response.error_code:
            self.backing_off = True
            turn.step.set_timer(TIMER, RETRY_MS)
            return
        self.wanted = False
        self.following = ProducerIdBlock(response.producer_id_start, response.producer_id_len)

    def on_timer(self) -> None:
        """The pause after a failure is over."""
        self.backing_off = False


COMPONENT: Component[ProducerIdManager, Turn] = Component(
    timers={TIMER: lambda manager, turn, _: manager.on_timer()},
    answers={PURPOSE: lambda manager, turn, ended, _: manager.on_ended(turn, ended)},
)
