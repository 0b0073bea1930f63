"""The metadata log as a fold over its records (``MetadataImage.java`` and the controllers' managers)."""

from __future__ import annotations

from typing import Any

import msgspec

from actors.config import SERVER_SYNONYMS, config_value
from actors.log.producer_state import TransactionVersion
from actors.metadata.registrations import (
    BrokerRegistration,
    Changed,
    PartitionRegistration,
    TopicRegistration,
    TopicRemoval,
    partition_registration,
)
from actors.node.spec import ClusterSpec, topic_id_partition, topic_partition
from krift.v1.records import (
    BrokerIds,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ConfigRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
)

ELR_FEATURE = "eligible.leader.replicas.version"
TRANSACTION_FEATURE = "transaction.version"


class MetadataState(msgspec.Struct):
    """Brokers by id, topics by id, partitions by ``orders-0`` in the order of the log, configuration, feature levels,
    the next producer id, and the metadata epoch.

    topic_ids: by name. removed: id -> name of each topic that was removed, so that none of a scenario is
    created a second time. configs: "topic/orders", "broker/1", or "broker/" for the default of all brokers -> key ->
    value as text. features: finalized levels; one that is not there is 0. metadata_epoch: the last one that was counted
    (kip-232: seed), 0 none.
    """

    brokers: dict[int, BrokerRegistration] = {}
    topics: dict[str, TopicRegistration] = {}
    topic_ids: dict[str, str] = {}
    removed: dict[str, str] = {}
    partitions: dict[str, PartitionRegistration] = {}
    configs: dict[str, dict[str, str]] = {}
    features: dict[str, int] = {}
    next_producer_id: int = 0
    metadata_epoch: int = 0

    # ---- questions ---------------------------------------------------------------------------------------

    def is_active(self, broker_id: int) -> bool:
        """Whether a broker is registered, unfenced and not shutting down."""
        broker = self.brokers.get(broker_id)
        return broker is not None and broker.active

    def is_alive(self, broker_id: int) -> bool:
        """Whether a broker is registered and unfenced: what clients are told of."""
        broker = self.brokers.get(broker_id)
        return broker is not None and not broker.fenced

    def partition(self, topic_id: str, index: int) -> PartitionRegistration | None:
        """A partition by its topic's id."""
        topic = self.topics.get(topic_id)
        return None if topic is None else self.partitions.get(topic_partition(topic.name, index))

    def key(self, partition: PartitionRegistration, cluster: ClusterSpec) -> str:
        """What a partition is called on disks and in the trace: ``orders-0`` where its topic is the first one of its
        name, which is the scenario's if that has one; else with the topic id, so that two of a name are told apart."""
        name, topic_id = partition.topic, partition.topic_id
        first = cluster.topic_id(name)
        if first == topic_id or (not first and name not in self.removed.values()):
            return partition.tp
        if not first and next(known for known, removed in self.removed.items() if removed == name) == topic_id:
            return partition.tp
        return topic_id_partition(partition.tp, topic_id)

    @property
    def elr_enabled(self) -> bool:
        """Whether there are eligible leader replicas (KIP-966)."""
        return self.features.get(ELR_FEATURE, 0) >= 1

    @property
    def transaction_version(self) -> TransactionVersion:
        """By which transactions are begun and ended from here on (KIP-890)."""
        level = self.features.get(TRANSACTION_FEATURE, 0)
        return 2 if level >= 2 else 1 if level == 1 else 0

    def config(self, node_id: int, topic: str, key: str, static: Any) -> Any:
        """A key's value for a topic, or for the node alone if that is "": the topic's own, the node's, that of all
        brokers, or ``static``, what the node was started with (``KafkaConfigSchema.resolveEffectiveTopicConfig``)."""
        names = {f"topic/{topic}": key} if topic else {}
        for resource in (f"broker/{node_id}", "broker/"):
            names[resource] = SERVER_SYNONYMS.get(key, key)
        for resource, name in names.items():
            text = self.configs.get(resource, {}).get(name)
            if text is not None:
                return config_value(name, text)
        return static

    # ---- replaying ---------------------------------------------------------------------------------------

    def replay(self, record: MetadataRecord, offset: int) -> list[Changed]:
        """Replay one record at its offset; the partitions, the broker or the topic that it changes. Raises
        AssertionError for a change of something that the log does not have."""
        if record.register_broker is not None:
            return [self._register_broker(record.register_broker, offset)]
        if record.broker_registration_change is not None:
            return self._change_broker(record.broker_registration_change)
        if record.partition is not None:
            return [self._add_partition(record.partition)]
        if record.partition_change is not None:
            return [self._change_partition(record.partition_change)]
        if record.clear_elr is not None:
            return self._clear_elr(record.clear_elr)
        if record.remove_topic is not None:
            return [self._remove_topic(record.remove_topic)]
        if record.topic is not None:
            self._add_topic(record.topic)
        elif record.config is not None:
            self._configure(record.config)
        elif record.feature_level is not None:
            self.features[record.feature_level.name] = record.feature_level.feature_level
        elif record.producer_ids is not None:
            self.next_producer_id = record.producer_ids.next_producer_id
        elif record.metadata_epoch is not None:
            self.metadata_epoch = record.metadata_epoch.metadata_epoch
        return []

    def _register_broker(self, record: RegisterBrokerRecord, offset: int) -> BrokerRegistration:
        broker = self.brokers[record.broker_id] = BrokerRegistration(
            record.broker_id,
            record.incarnation_id,
            record.broker_epoch,
            record.fenced,
            record.in_controlled_shutdown,
            offset,
        )
        return broker

    def _change_broker(self, record: BrokerRegistrationChangeRecord) -> list[Changed]:
        broker = self.brokers.get(record.broker_id)
        if broker is None or broker.epoch != record.broker_epoch:
            raise AssertionError(f"no registration of broker {record.broker_id} with epoch {record.broker_epoch}")
        after = self.brokers[broker.id] = broker.merge(record)
        return [] if after == broker else [after]

    def _add_topic(self, record: TopicRecord) -> None:
        self.topics[record.topic_id] = TopicRegistration(record.name, record.topic_id)
        self.topic_ids[record.name] = record.topic_id

    def _remove_topic(self, record: RemoveTopicRecord) -> TopicRemoval:
        """Partitions and configuration go with it (``ReplicationControlManager.replay``, ``ConfigurationsDelta``)."""
        topic = self.topics.pop(record.topic_id, None)
        if topic is None:
            raise AssertionError(f"no topic {record.topic_id}")
        del self.topic_ids[topic.name]
        self.removed[topic.topic_id] = topic.name
        self.configs.pop(f"topic/{topic.name}", None)
        partitions = [self.partitions.pop(topic_partition(topic.name, index)) for index in topic.partitions]
        return TopicRemoval(topic.name, topic.topic_id, partitions)

    def _add_partition(self, record: PartitionRecord) -> PartitionRegistration:
        topic = self.topics[record.topic_id]
        if record.partition_id not in topic.partitions:
            topic.partitions.append(record.partition_id)
        added = partition_registration(topic, record)
        self.partitions[added.tp] = added
        return added

    def _change_partition(self, record: PartitionChangeRecord) -> PartitionRegistration:
        before = self.partition(record.topic_id, record.partition_id)
        if before is None:
            raise AssertionError(f"no partition {record.partition_id} of topic {record.topic_id}")
        after = self.partitions[before.tp] = before.merge(record)
        return after

    def _clear_elr(self, record: ClearElrRecord) -> list[Changed]:
        """Nobody is eligible any more who is not in the ISR, and nobody knows who led last, whether or not there is a
        leader (``TopicDelta.maybeClearElr``; finding elr-cleared); of the partitions that this changes nothing else
        does."""
        changed: list[Changed] = []
        for partition in list(self.partitions.values()):
            if record.topic_name not in ("", partition.topic) or (record.keeps_leaderless and not partition.isr):
                continue
            change = PartitionChangeRecord(topic_id=partition.topic_id, partition_id=partition.partition)
            if partition.elr:
                change.eligible_leader_replicas = BrokerIds()
            if partition.last_known_elr and not record.keeps_last_known:
                change.last_known_elr = BrokerIds()
            if change.eligible_leader_replicas is not None or change.last_known_elr is not None:
                changed.append(self._change_partition(change))
        return changed

    def _configure(self, record: ConfigRecord) -> None:
        resource = f"{record.resource_type}/{record.resource_name}"
        values = self.configs.setdefault(resource, {})
        if record.value is not None:
            values[record.name] = record.value
        else:
            values.pop(record.name, None)
        if not values:
            del self.configs[resource]
