"""What the metadata log says, as the controller keeps it: a fold over records, committed or not."""

from __future__ import annotations

import msgspec

from actors.controller.broker_registry import BrokerRegistration, BrokerRegistry
from actors.controller.changes import Change
from actors.controller.controller_config import UNCLEAN_ELECTION
from actors.controller.partition_registry import PartitionRegistration, PartitionRegistry
from actors.log.batch import Batch
from actors.node.step import Step
from actors.trace.events import BrokerReg, PartChange
from krift.v1.records_pb2 import MetadataRecord


class ControllerState(msgspec.Struct):
    """Brokers, topics, configuration, feature levels and the next producer id.

    configs: "topic/orders", or "broker/" for the default of all brokers -> key -> value as text.
    """

    brokers: BrokerRegistry = msgspec.field(default_factory=BrokerRegistry)
    partitions: PartitionRegistry = msgspec.field(default_factory=PartitionRegistry)
    configs: dict[str, dict[str, str]] = {}
    features: dict[str, int] = {}
    next_producer_id: int = 0

    def unclean_election_enabled(self, topic: str, default: bool) -> bool:
        """Whether a topic allows unclean elections: its own configuration, the brokers', or ``default``, this
        controller's."""
        for resource in (f"topic/{topic}", "broker/"):
            value = self.configs.get(resource, {}).get(UNCLEAN_ELECTION)
            if value is not None:
                return value == "true"
        return default

    # ---- replaying ---------------------------------------------------------------------------------------

    def replay_batch(self, batch: Batch) -> None:
        """Replay a batch of the log; control batches are the quorum's own."""
        if batch.is_control:
            return
        for index, record in enumerate(batch.records):
            self.replay(MetadataRecord.FromString(record.value), batch.base_offset + index)

    def replay(self, record: MetadataRecord, offset: int) -> PartitionRegistration | BrokerRegistration | None:
        """Replay one record at its offset; the partition or broker it changes, if it does."""
        match record.WhichOneof("record"):
            case "register_broker":
                return self.brokers.replay_register(record.register_broker, offset)
            case "broker_registration_change":
                return self.brokers.replay_change(record.broker_registration_change)
            case "topic":
                self.partitions.replay_topic(record.topic)
            case "partition":
                return self.partitions.replay_partition(record.partition)
            case "partition_change":
                return self.partitions.replay_change(record.partition_change)
            case "config":
                resource = f"{record.config.resource_type}/{record.config.resource_name}"
                self.configs.setdefault(resource, {})[record.config.name] = record.config.value
            case "feature_level":
                self.features[record.feature_level.name] = record.feature_level.feature_level
            case "producer_ids":
                self.next_producer_id = record.producer_ids.next_producer_id
        return None

    def replay_own(self, step: Step, change: Change, offset: int, quorum_epoch: int) -> None:
        """Replay a record that this controller, being active, has just appended, and tell the trace of it."""
        changed = self.replay(change.record, offset)
        if isinstance(changed, PartitionRegistration):
            step.record(
                PartChange(
                    changed.tp,
                    offset,
                    quorum_epoch,
                    changed.leader,
                    changed.leader_epoch,
                    changed.partition_epoch,
                    changed.isr,
                    changed.replicas,
                    change.cause,
                )
            )
        elif changed is not None:
            step.record(
                BrokerReg(
                    changed.id,
                    changed.epoch,
                    changed.incarnation_id,
                    changed.fenced,
                    changed.in_controlled_shutdown,
                    change.unclean,
                    offset,
                )
            )
