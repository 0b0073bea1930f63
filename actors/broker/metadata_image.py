"""What a broker knows of the cluster: the committed metadata log, replayed (``metadata/.../image/MetadataImage.java``).

One image per broker, always a whole prefix of the log: a broker never goes back, but two brokers may be at
different offsets.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import msgspec

from actors.log.batch import Batch
from actors.node.spec import ClusterSpec, topic_partition
from actors.node.step import Step
from actors.trace.events import MetaImage
from krift.v1.records_pb2 import (
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)

NO_LEADER = -1
LEADER_UNCHANGED = -2


class BrokerRegistration(msgspec.Struct, frozen=True):
    """A registered broker, fenced or not."""

    broker_id: int
    broker_epoch: int
    incarnation_id: str
    fenced: bool
    in_controlled_shutdown: bool


class PartitionRegistration(msgspec.Struct, frozen=True):
    """A partition as the controller has it (``PartitionRegistration.java``)."""

    topic: str
    topic_id: str
    index: int
    replicas: list[int]
    isr: list[int]
    leader: int
    leader_epoch: int
    partition_epoch: int
    leader_recovery_state: int = 0

    @property
    def tp(self) -> str:
        """Key of the partition."""
        return topic_partition(self.topic, self.index)


class TopicImage(msgspec.Struct):
    """A topic: its id and how many partitions were seen."""

    name: str
    topic_id: str
    partitions: list[int] = []


class MetadataImage(msgspec.Struct):
    """Brokers, topics, partitions and configuration at ``offset`` (exclusive end of what was replayed).

    digest: hash over every record below ``offset``. changed: partitions touched since ``take_changes``, in order.
    """

    offset: int = 0
    digest: int = 0
    brokers: dict[int, BrokerRegistration] = {}
    topics: dict[str, TopicImage] = {}
    topic_names: dict[str, str] = {}
    partitions: dict[str, PartitionRegistration] = {}
    configs: dict[str, dict[str, str]] = {}
    changed: dict[str, bool] = {}
    reconfigured: bool = False

    # ---- replaying ---------------------------------------------------------------------------------------

    def apply(self, step: Step, batches: list[Batch]) -> None:
        """Replay committed batches, in order; records ``meta.image`` if they held anything but no-ops."""
        news = False
        for batch in batches:
            if batch.base_offset != self.offset:
                raise AssertionError(f"metadata at {self.offset}, replaying {batch.base_offset}")
            for record in batch.records:
                self.digest = _extend(self.digest, record.value)
                if not batch.is_control:
                    news = self._replay(MetadataRecord.FromString(record.value)) or news
            self.offset = batch.end_offset
        if news:
            step.record(MetaImage(self.offset, self.digest))

    def _replay(self, record: MetadataRecord) -> bool:
        match record.WhichOneof("record"):
            case "register_broker":
                self._register_broker(record.register_broker)
            case "broker_registration_change":
                self._change_registration(record.broker_registration_change)
            case "topic":
                self._add_topic(record.topic)
            case "partition":
                self._add_partition(record.partition)
            case "partition_change":
                self._change_partition(record.partition_change)
            case "config":
                self._configure(record.config)
            case "no_op" | None:
                return False
        return True

    def _register_broker(self, record: RegisterBrokerRecord) -> None:
        self.brokers[record.broker_id] = BrokerRegistration(
            record.broker_id,
            record.broker_epoch,
            record.incarnation_id,
            record.fenced,
            record.in_controlled_shutdown,
        )

    def _change_registration(self, record: BrokerRegistrationChangeRecord) -> None:
        known = self.brokers.get(record.broker_id)
        if known is None or known.broker_epoch != record.broker_epoch:
            return
        fenced = known.fenced if record.fenced == 0 else record.fenced > 0
        shutting_down = known.in_controlled_shutdown or record.in_controlled_shutdown > 0
        self.brokers[record.broker_id] = msgspec.structs.replace(
            known, fenced=fenced, in_controlled_shutdown=shutting_down
        )

    def _add_topic(self, record: TopicRecord) -> None:
        self.topics[record.topic_id] = TopicImage(record.name, record.topic_id)
        self.topic_names[record.name] = record.topic_id

    def _add_partition(self, record: PartitionRecord) -> None:
        topic = self.topics[record.topic_id]
        if record.partition_id not in topic.partitions:
            topic.partitions.append(record.partition_id)
        tp = topic_partition(topic.name, record.partition_id)
        self.partitions[tp] = PartitionRegistration(
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
        self.changed[tp] = True

    def _change_partition(self, record: PartitionChangeRecord) -> None:
        tp = topic_partition(self.topics[record.topic_id].name, record.partition_id)
        known = self.partitions[tp]
        leader, leader_epoch = known.leader, known.leader_epoch
        if record.leader != LEADER_UNCHANGED:
            # Naming a leader makes a new epoch, even if it is the same broker or none (PartitionRegistration.merge).
            leader, leader_epoch = record.leader, leader_epoch + 1
        recovery = record.leader_recovery_state
        self.partitions[tp] = msgspec.structs.replace(
            known,
            isr=list(record.isr) or known.isr,
            leader=leader,
            leader_epoch=leader_epoch,
            partition_epoch=known.partition_epoch + 1,
            leader_recovery_state=known.leader_recovery_state if recovery < 0 else recovery,
        )
        self.changed[tp] = True

    def _configure(self, record: ConfigRecord) -> None:
        self.configs.setdefault(f"{record.resource_type}/{record.resource_name}", {})[record.name] = record.value
        self.reconfigured = True

    def take_reconfigured(self) -> bool:
        """Whether any configuration changed since the last call."""
        changed, self.reconfigured = self.reconfigured, False
        return changed

    def take_changes(self) -> list[PartitionRegistration]:
        """Partitions that changed since the last call, each at its present state."""
        if not self.changed:
            return []
        changes = [self.partitions[tp] for tp in self.changed]
        self.changed = {}
        return changes

    # ---- questions ---------------------------------------------------------------------------------------

    @property
    def last_applied_offset(self) -> int:
        """Offset of the last record replayed, -1 if none."""
        return self.offset - 1

    def is_active(self, broker_id: int) -> bool:
        """Whether a broker is registered, unfenced and not in controlled shutdown."""
        broker = self.brokers.get(broker_id)
        return broker is not None and not broker.fenced and not broker.in_controlled_shutdown

    def is_alive(self, broker_id: int) -> bool:
        """Whether a broker is registered and unfenced: what clients are told of."""
        broker = self.brokers.get(broker_id)
        return broker is not None and not broker.fenced

    def alive_epoch(self, broker_id: int) -> int | None:
        """Broker epoch of an unfenced broker (``KRaftMetadataCache.getAliveBrokerEpoch``)."""
        broker = self.brokers.get(broker_id)
        return None if broker is None or broker.fenced else broker.broker_epoch

    def topic_config(self, cluster: ClusterSpec, topic: str, key: str, default: Any) -> Any:
        """Value of a topic-level key: the metadata log's, else the scenario's for that topic, else ``default``."""
        found = self.configs.get(f"topic/{topic}", {}).get(key)
        if found is None:
            for spec in cluster.topics:
                if spec.name == topic:
                    return spec.config.get(key, default)
            return default
        if isinstance(default, bool):
            return found == "true"
        return int(found) if isinstance(default, int) else found


def _extend(digest: int, value: bytes) -> int:
    chained = blake2b(digest.to_bytes(8, "big"), digest_size=8)
    chained.update(value)
    return int.from_bytes(chained.digest(), "big") >> 1
