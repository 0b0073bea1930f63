"""What the metadata log says, as a controller keeps it: committed or not, and with the questions of a controller."""

from __future__ import annotations

from collections.abc import Callable

from actors.controller.changes import Change
from actors.log.batch import Batch, payload
from actors.metadata.metadata_state import MetadataState
from actors.metadata.registrations import (
    NO_LEADER,
    RECOVERING,
    BrokerRegistration,
    PartitionRegistration,
    TopicRemoval,
)
from actors.node.spec import ClusterSpec
from actors.node.step import Step
from actors.trace.events import BrokerReg, ConfigChange, PartChange, PartRemove
from krift.v1.records import MetadataRecord
from krift.v1.wire import from_bytes


class ControllerState(MetadataState):
    """See ``MetadataState``."""

    # ---- questions ---------------------------------------------------------------------------------------

    def has_epoch(self, broker_id: int, broker_epoch: int) -> bool:
        """Whether ``broker_epoch`` is the epoch a broker is registered with; else the answer is STALE_BROKER_EPOCH."""
        broker = self.brokers.get(broker_id)
        return broker is not None and broker.epoch == broker_epoch

    def is_eligible_for_isr(self, broker_id: int, broker_epoch: int) -> bool:
        """Whether a broker may be in an ISR, with the epoch as the leader knows it (-1: it does not, KIP-903)."""
        if not self.is_active(broker_id):
            return False
        return broker_epoch == -1 or self.brokers[broker_id].epoch == broker_epoch

    def with_broker_in_isr(self, broker_id: int) -> list[PartitionRegistration]:
        """Partitions that a broker's loss concerns."""
        return [partition for partition in self.partitions.values() if broker_id in partition.isr]

    def with_broker_in_elr(self, broker_id: int) -> list[PartitionRegistration]:
        """Partitions that a broker may lead while their ISR is empty."""
        return [partition for partition in self.partitions.values() if broker_id in partition.elr]

    def without_leader(self) -> list[PartitionRegistration]:
        """Partitions that wait for an eligible replica."""
        return [partition for partition in self.partitions.values() if partition.leader == NO_LEADER]

    def has_leaderships(self, broker_id: int) -> bool:
        """Whether a broker leads anything."""
        return any(partition.leader == broker_id for partition in self.partitions.values())

    # ---- replaying ---------------------------------------------------------------------------------------

    def replay_batch(self, batch: Batch) -> None:
        """Replay a batch of the log; control batches are the quorum's own."""
        if batch.is_control:
            return
        for index, record in enumerate(batch.records):
            self.replay(from_bytes(MetadataRecord, payload(record)), batch.base_offset + index)

    def replay_own(
        self,
        step: Step,
        change: Change,
        offset: int,
        quorum_epoch: int,
        cluster: ClusterSpec,
        min_isr: Callable[[PartitionRegistration], int],
    ) -> None:
        """Replay a record that this controller, being active, has just appended, and tell the trace of it."""
        config = change.record.config
        if config is not None:
            resource = f"{config.resource_type}/{config.resource_name}"
            step.record(ConfigChange(offset, quorum_epoch, resource, config.name, config.value))
        for changed in self.replay(change.record, offset):
            match changed:
                case PartitionRegistration():
                    tp = self.key(changed, cluster)
                    step.record(_part_change(changed, tp, change, offset, quorum_epoch, min_isr(changed)))
                case BrokerRegistration():
                    step.record(_broker_reg(changed, change, offset))
                case TopicRemoval():
                    for partition in changed.partitions:
                        tp = self.key(partition, cluster)
                        step.record(PartRemove(tp, offset, quorum_epoch, changed.topic_id))


def _part_change(
    changed: PartitionRegistration, tp: str, change: Change, offset: int, quorum_epoch: int, min_isr: int
) -> PartChange:
    return PartChange(
        tp,
        offset,
        quorum_epoch,
        changed.leader,
        changed.leader_epoch,
        changed.partition_epoch,
        changed.isr,
        changed.replicas,
        change.cause,
        changed.elr,
        changed.last_known_elr,
        min_isr,
        change.asked,
        {str(broker_id): epoch for broker_id, epoch in change.members.items()},
        changed.leader_recovery_state == RECOVERING,
        change.placed,
    )


def _broker_reg(changed: BrokerRegistration, change: Change, offset: int) -> BrokerReg:
    return BrokerReg(
        changed.id,
        changed.epoch,
        changed.incarnation_id,
        changed.fenced,
        changed.in_controlled_shutdown,
        change.unclean,
        offset,
    )
