"""What a broker knows of the cluster: the committed metadata log, replayed (``metadata/.../image/MetadataImage.java``).

One image per broker, always a whole prefix of the log: a broker never goes back, but two brokers may be at
different offsets.
"""

from __future__ import annotations

import msgspec

from actors.log.batch import Batch, payload
from actors.metadata.image_records import extend_digest, load_records
from actors.metadata.metadata_state import MetadataState
from actors.metadata.registrations import PartitionRegistration, TopicRemoval
from actors.metadata.state_hash import state_hash
from actors.node.step import Step
from actors.quorum.snapshots import Snapshot
from actors.trace.events import MetaImage
from krift.v1.records import MetadataRecord
from krift.v1.wire import from_bytes


class MetadataImage(MetadataState):
    """The state at ``offset`` (exclusive end of what was replayed).

    digest: hash over every record below ``offset``. changed: partitions touched since ``take_changes``, in order.
    removed_partitions: those of removed topics since ``take_removed``, with the ids of these topics.
    """

    offset: int = 0
    digest: int = 0
    changed: dict[str, bool] = msgspec.field(default_factory=dict)
    removed_partitions: dict[str, list[str]] = msgspec.field(default_factory=dict)
    reconfigured: bool = False

    # ---- replaying ---------------------------------------------------------------------------------------

    def apply(self, step: Step, batches: list[Batch]) -> None:
        """Replay committed batches, in order; records ``meta.image`` if they held anything but no-ops."""
        news = False
        self.digest = extend_digest(self.digest, batches)
        for batch in batches:
            if batch.base_offset != self.offset:
                raise AssertionError(f"metadata at {self.offset}, replaying {batch.base_offset}")
            for index, record in enumerate(batch.records):
                if batch.is_control:
                    continue
                decoded = from_bytes(MetadataRecord, payload(record))
                if "later-changes-dropped" in step.defects and index and decoded.partition_change is not None:
                    continue
                news = self._replay(decoded, batch.base_offset + index) or news
            self.offset = batch.end_offset
        if news:
            step.record(MetaImage(self.offset, self.digest, state_hash(self)))

    def load(self, step: Step, snapshot: Snapshot) -> None:
        """Take up what a snapshot holds; of the partitions, those count as changed that it has otherwise."""
        loaded = MetadataState()
        load_records(loaded, snapshot.records, snapshot.end - 1)
        for tp, known in self.partitions.items():
            if tp not in loaded.partitions or loaded.partitions[tp].topic_id != known.topic_id:
                self._remove(known)
        for tp, partition in loaded.partitions.items():
            if self.partitions.get(tp) != partition:
                self.changed[tp] = True
        kept = self.brokers if "load-keeps-registrations" in step.defects else {}
        self.brokers, self.topics, self.topic_ids = loaded.brokers | kept, loaded.topics, loaded.topic_ids
        self.removed = loaded.removed
        self.partitions, self.configs, self.features = loaded.partitions, loaded.configs, loaded.features
        self.next_producer_id, self.metadata_epoch = loaded.next_producer_id, loaded.metadata_epoch
        self.reconfigured = True
        self.offset, self.digest = snapshot.end, snapshot.digest
        step.record(MetaImage(self.offset, self.digest, state_hash(self)))

    def _replay(self, record: MetadataRecord, offset: int) -> bool:
        for changed in self.replay(record, offset):
            if isinstance(changed, PartitionRegistration):
                self.changed[changed.tp] = True
            elif isinstance(changed, TopicRemoval):
                for partition in changed.partitions:
                    self._remove(partition)
        self.reconfigured = self.reconfigured or record.config is not None
        return record.no_op is None and record != MetadataRecord()

    def _remove(self, partition: PartitionRegistration) -> None:
        self.changed.pop(partition.tp, None)
        self.removed_partitions.setdefault(partition.tp, []).append(partition.topic_id)

    def take_removed(self) -> dict[str, list[str]]:
        """Partitions, by name, that were removed since the last call, though others of the name may be there, and the
        ids of the topics that they were of."""
        removed, self.removed_partitions = self.removed_partitions, {}
        return removed

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

    def alive_epoch(self, broker_id: int) -> int | None:
        """Broker epoch of an unfenced broker (``KRaftMetadataCache.getAliveBrokerEpoch``)."""
        broker = self.brokers.get(broker_id)
        return None if broker is None or broker.fenced else broker.epoch
