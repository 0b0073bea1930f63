"""The transaction coordinator as a part of its broker: what it has, ids, timers (``TransactionCoordinator.scala``,
``TransactionStateManager.scala``)."""

from __future__ import annotations

import msgspec

from actors.broker.coordinator_common.partitions import TRANSACTION_STATE_TOPIC, partition_for
from actors.broker.transaction_coordinator import loading, markers, timeouts
from actors.broker.transaction_coordinator.add_partitions import PendingAdd
from actors.broker.transaction_coordinator.markers import MarkerChannelManager
from actors.broker.transaction_coordinator.shard import TransactionShard
from actors.broker.turn import Turn
from actors.node.component import Component
from actors.node.errors import KafkaError
from actors.node.network_client import Ended


class TransactionCoordinator(msgspec.Struct):
    """The partitions of the transaction log that this broker leads, and the markers that it has to send. ``life``:
    names its incarnation among all; ``ids``: how many names it has given in it. ``adding``: AddPartitionsToTxn that
    are being served, by a number."""

    shards: dict[str, TransactionShard] = {}
    markers: MarkerChannelManager = msgspec.field(default_factory=MarkerChannelManager)
    adding: dict[str, PendingAdd] = {}
    life: str = ""
    ids: int = 0

    def start(self, life: str) -> None:
        """``life``: node and incarnation, with a slash between them."""
        self.life = life.replace("/", ".")

    def find(self, turn: Turn, transactional_id: str) -> tuple[TransactionShard | None, KafkaError]:
        """The partition of a transactional id: NOT_COORDINATOR if another broker leads it, COORDINATOR_LOAD_IN_PROGRESS
        while its log is being read."""
        shard = self.shards.get(partition_for(turn, TRANSACTION_STATE_TOPIC, transactional_id))
        if shard is None:
            return None, KafkaError.NOT_COORDINATOR
        if shard.loading:
            return None, KafkaError.COORDINATOR_LOAD_IN_PROGRESS
        return shard, KafkaError.NONE

    def next_uid(self) -> str:
        """A name for a record that the coordinator, or a leader that writes a marker, writes: unique for ever."""
        self.ids += 1
        return f"{self.life}.t{self.ids}"

    # ---- what comes ------------------------------------------------------------------------------------------

    def on_load_timer(self, turn: Turn, tp: str) -> None:
        """The time that loading takes is over."""
        loading.load(turn, self.shards[tp])

    def on_markers_ended(self, turn: Turn, ended: Ended, number: str) -> None:
        """A broker has answered a WriteTxnMarkers, or has not."""
        self.markers.on_ended(turn, ended, number)

    def on_marker_timer(self, turn: Turn) -> None:
        """The pause after a failure is over."""
        self.markers.on_timer(turn)


COMPONENT: Component[TransactionCoordinator, Turn] = Component(
    timers={
        loading.LOAD: lambda coordinator, turn, tp: coordinator.on_load_timer(turn, tp),
        timeouts.ABORT: lambda coordinator, turn, _: timeouts.abort_timed_out_transactions(turn),
        timeouts.EXPIRE: lambda coordinator, turn, _: timeouts.remove_expired_ids(turn),
        markers.RETRY: lambda coordinator, turn, _: coordinator.on_marker_timer(turn),
    },
    answers={
        markers.PURPOSE: lambda coordinator, turn, ended, number: coordinator.on_markers_ended(turn, ended, number)
    },
)
