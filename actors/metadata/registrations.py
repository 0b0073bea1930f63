"""Brokers, topics and partitions as the metadata log has them (``BrokerRegistration.java``,
``PartitionRegistration.java``)."""

from __future__ import annotations

import msgspec

from actors.node.spec import topic_partition
from krift.v1.records import BrokerRegistrationChangeRecord, PartitionChangeRecord, PartitionRecord

NO_LEADER = -1
LEADER_UNCHANGED = -2
RECOVERED = 0
RECOVERING = 1
RECOVERY_UNCHANGED = -1

FENCE = 1
UNFENCE = -1


class BrokerRegistration(msgspec.Struct, frozen=True):
    """One broker. ``epoch``: broker epoch; ``offset``: of its registration record, which a broker must have replayed
    before it is unfenced. The latter is the greater one if a former incarnation had to be cleaned up after, or if the
    same incarnation has registered again."""

    id: int
    incarnation_id: str
    epoch: int
    fenced: bool
    in_controlled_shutdown: bool
    offset: int

    @property
    def active(self) -> bool:
        """Neither fenced nor shutting down: it may lead and be in an ISR."""
        return not self.fenced and not self.in_controlled_shutdown

    def merge(self, record: BrokerRegistrationChangeRecord) -> BrokerRegistration:
        """The registration after a change: fenced, unfenced, or about to shut down."""
        return msgspec.structs.replace(
            self,
            fenced=self.fenced if record.fenced == 0 else record.fenced == FENCE,
            in_controlled_shutdown=self.in_controlled_shutdown or record.in_controlled_shutdown == 1,
        )


class TopicRegistration(msgspec.Struct):
    """A topic and the indexes of its partitions."""

    name: str
    topic_id: str
    partitions: list[int] = []


class TopicRemoval(msgspec.Struct, frozen=True):
    """A topic that is no more, with the last states of its partitions."""

    name: str
    topic_id: str
    partitions: list[PartitionRegistration]


class PartitionRegistration(msgspec.Struct, frozen=True):
    """State of a partition. ``leader_recovery_state``: RECOVERING since an unclean election, until its leader has
    said so. ``elr``: eligible leader replicas (KIP-966), who left the ISR while it was below the least ISR and have
    all that is committed. ``last_known_elr``: the last leader, while the ISR is empty."""

    topic: str
    topic_id: str
    partition: int
    replicas: list[int]
    isr: list[int]
    leader: int
    leader_epoch: int
    partition_epoch: int
    leader_recovery_state: int = RECOVERED
    elr: list[int] = []
    last_known_elr: list[int] = []

    @property
    def tp(self) -> str:
        """``orders-0``."""
        return topic_partition(self.topic, self.partition)

    def merge(self, record: PartitionChangeRecord) -> PartitionRegistration:
        """The state after a change. Every change makes a new partition epoch; one that names a leader, even the same
        or none, a new leader epoch too."""
        names_leader = record.leader != LEADER_UNCHANGED
        recovery = record.leader_recovery_state
        elr, last = record.eligible_leader_replicas, record.last_known_elr
        return msgspec.structs.replace(
            self,
            isr=list(record.isr) if record.isr or record.isr_empty else self.isr,
            leader=record.leader if names_leader else self.leader,
            leader_epoch=self.leader_epoch + 1 if names_leader else self.leader_epoch,
            partition_epoch=self.partition_epoch + 1,
            leader_recovery_state=self.leader_recovery_state if recovery == RECOVERY_UNCHANGED else recovery,
            elr=self.elr if elr is None else list(elr.ids),
            last_known_elr=self.last_known_elr if last is None else list(last.ids),
        )


Changed = PartitionRegistration | BrokerRegistration | TopicRemoval
"""What a record of the metadata log may change."""


def partition_registration(topic: TopicRegistration, record: PartitionRecord) -> PartitionRegistration:
    """The whole state of a partition as a record has it."""
    return PartitionRegistration(
        topic.name,
        record.topic_id,
        record.partition_id,
        list(record.replicas),
        list(record.isr),
        record.leader,
        record.leader_epoch or 0,
        record.partition_epoch or 0,
        record.leader_recovery_state or RECOVERED,
        list(record.eligible_leader_replicas),
        list(record.last_known_elr),
    )


def partition_record(partition: PartitionRegistration) -> PartitionRecord:
    """Inverse of ``partition_registration``."""
    return PartitionRecord(
        topic_id=partition.topic_id,
        partition_id=partition.partition,
        replicas=partition.replicas,
        isr=partition.isr,
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        leader_recovery_state=partition.leader_recovery_state,
        eligible_leader_replicas=partition.elr,
        last_known_elr=partition.last_known_elr,
    )
