"""Topics and partitions as the metadata log tells them (``ReplicationControlManager``, ``PartitionRegistration``)."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from actors.node.spec import topic_partition
from krift.v1.records_pb2 import PartitionChangeRecord, PartitionRecord, TopicRecord

NO_LEADER = -1
LEADER_UNCHANGED = -2
RECOVERED = 0
RECOVERING = 1


class PartitionRegistration(msgspec.Struct, frozen=True):
    """State of a partition. ``leader_recovery_state``: RECOVERING since an unclean election, until its leader has
    said so."""

    topic: str
    topic_id: str
    partition: int
    replicas: list[int]
    isr: list[int]
    leader: int
    leader_epoch: int
    partition_epoch: int
    leader_recovery_state: int = RECOVERED

    @property
    def tp(self) -> str:
        """``orders-0``."""
        return topic_partition(self.topic, self.partition)

    def merge(self, record: PartitionChangeRecord) -> PartitionRegistration:
        """The state after a change. Every change makes a new partition epoch; one that names a leader, even the same
        or none, a new leader epoch too."""
        names_leader = record.leader != LEADER_UNCHANGED
        recovery = record.leader_recovery_state
        return msgspec.structs.replace(
            self,
            isr=list(record.isr) or self.isr,
            leader=record.leader if names_leader else self.leader,
            leader_epoch=self.leader_epoch + 1 if names_leader else self.leader_epoch,
            partition_epoch=self.partition_epoch + 1,
            leader_recovery_state=self.leader_recovery_state if recovery == -1 else recovery,
        )


class TopicRegistration(msgspec.Struct):
    """A topic and its partitions, by index."""

    name: str
    topic_id: str
    partitions: dict[int, PartitionRegistration] = {}


class PartitionRegistry(msgspec.Struct):
    """All topics, by id."""

    topics: dict[str, TopicRegistration] = {}

    # ---- questions ---------------------------------------------------------------------------------------

    def all(self) -> Iterator[PartitionRegistration]:
        """Every partition, in the order of the log."""
        for topic in self.topics.values():
            yield from topic.partitions.values()

    def with_broker_in_isr(self, broker_id: int) -> list[PartitionRegistration]:
        """Partitions that a broker's loss concerns."""
        return [partition for partition in self.all() if broker_id in partition.isr]

    def without_leader(self) -> list[PartitionRegistration]:
        """Partitions that wait for an eligible replica."""
        return [partition for partition in self.all() if partition.leader == NO_LEADER]

    def has_leaderships(self, broker_id: int) -> bool:
        """Whether a broker leads anything."""
        return any(partition.leader == broker_id for partition in self.all())

    # ---- replaying ---------------------------------------------------------------------------------------

    def replay_topic(self, record: TopicRecord) -> None:
        """A topic without partitions yet."""
        self.topics[record.topic_id] = TopicRegistration(record.name, record.topic_id)

    def replay_partition(self, record: PartitionRecord) -> PartitionRegistration:
        """The whole state of a partition."""
        topic = self.topics[record.topic_id]
        topic.partitions[record.partition_id] = PartitionRegistration(
            topic.name,
            record.topic_id,
            record.partition_id,
            list(record.replicas),
            list(record.isr),
            record.leader,
            record.leader_epoch,
            record.partition_epoch,
            record.leader_recovery_state,
        )
        return topic.partitions[record.partition_id]

    def replay_change(self, record: PartitionChangeRecord) -> PartitionRegistration:
        """What differs from the state before."""
        partitions = self.topics[record.topic_id].partitions
        changed = partitions[record.partition_id] = partitions[record.partition_id].merge(record)
        return changed
