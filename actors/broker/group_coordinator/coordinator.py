"""The group coordinator as a part of its broker: what it has, ids, timers (``GroupCoordinatorService.java``)."""

from __future__ import annotations

import msgspec

from actors.broker.coordinator_common.partitions import GROUP_METADATA_TOPIC, partition_for
from actors.broker.group_coordinator import expiration, loading, rebalance
from actors.broker.group_coordinator.group import ClassicGroup
from actors.broker.group_coordinator.shard import Shard
from actors.broker.turn import Turn
from actors.node.component import Component
from actors.node.errors import KafkaError


class GroupCoordinator(msgspec.Struct):
    """The offsets partitions that this broker leads. ``life``: names its incarnation among all; ``ids``: how many ids
    it has given in it."""

    shards: dict[str, Shard] = {}
    life: str = ""
    ids: int = 0

    def start(self, life: str) -> None:
        """``life``: node and incarnation, with a slash between them."""
        self.life = life.replace("/", ".")

    def find(self, turn: Turn, group_id: str) -> tuple[Shard | None, KafkaError]:
        """The offsets partition of a group: NOT_COORDINATOR if another broker leads it, COORDINATOR_LOAD_IN_PROGRESS
        while its log is being read."""
        shard = self.shards.get(partition_for(turn, GROUP_METADATA_TOPIC, group_id))
        if shard is None:
            return None, KafkaError.NOT_COORDINATOR
        if shard.loading:
            return None, KafkaError.COORDINATOR_LOAD_IN_PROGRESS
        return shard, KafkaError.NONE

    def next_member_id(self, prefix: str) -> str:
        """A new member id, for a client id or an instance id: unique for ever, without a slash. Kafka has a random UUID
        in place of the broker's life and a count."""
        self.ids += 1
        return f"{prefix.replace('/', '_')}-{self.life}.{self.ids}"

    def next_uid(self) -> str:
        """A name for a record that the coordinator writes, unique for ever."""
        self.ids += 1
        return f"{self.life}.{self.ids}"

    # ---- timers ------------------------------------------------------------------------------------------

    def on_load_timer(self, turn: Turn, tp: str) -> None:
        """The time that loading takes is over."""
        loading.load(turn, self.shards[tp])

    def on_expire_timer(self, turn: Turn, tp: str) -> None:
        """It is time to look for offsets that expired."""
        expiration.clean_up(turn, self.shards[tp])

    def on_join_timer(self, turn: Turn, group_id: str) -> None:
        """A group has waited long enough for its members to join."""
        for shard, group in self._known(group_id):
            rebalance.on_join_timer(turn, shard, group)

    def on_sync_timer(self, turn: Turn, group_id: str) -> None:
        """A group has waited long enough for its members to sync."""
        for shard, group in self._known(group_id):
            rebalance.on_sync_timer(turn, shard, group)

    def on_session_timer(self, turn: Turn, argument: str) -> None:
        """Nothing was heard of a member for long enough."""
        group_id, _, member_id = argument.rpartition("/")
        for shard, group in self._known(group_id):
            rebalance.on_session_timer(turn, shard, group, member_id)

    def _known(self, group_id: str) -> list[tuple[Shard, ClassicGroup]]:
        """The group, wherever it is: one at most, as the timers of a group end with it."""
        return [(shard, shard.groups[group_id]) for shard in self.shards.values() if group_id in shard.groups]


COMPONENT: Component[GroupCoordinator, Turn] = Component(
    timers={
        loading.LOAD: lambda groups, turn, tp: groups.on_load_timer(turn, tp),
        expiration.EXPIRE: lambda groups, turn, tp: groups.on_expire_timer(turn, tp),
        rebalance.JOIN: lambda groups, turn, group_id: groups.on_join_timer(turn, group_id),
        rebalance.SYNC: lambda groups, turn, group_id: groups.on_sync_timer(turn, group_id),
        rebalance.SESSION: lambda groups, turn, argument: groups.on_session_timer(turn, argument),
    }
)
