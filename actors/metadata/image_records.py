"""The state of the metadata log as records, which is how a snapshot has it (``MetadataImage.write``), and back."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from hashlib import blake2b

import msgspec

from actors.log.batch import Batch, payload
from actors.metadata.metadata_state import MetadataState
from actors.metadata.registrations import BrokerRegistration, partition_record
from krift.v1.records import (
    ConfigRecord,
    FeatureLevelRecord,
    MetadataEpochRecord,
    MetadataRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from krift.v1.wire import from_bytes, to_bytes

EMPTY_DIGEST = 0
"""Digest of a log without records."""

ZNODE_VERSION = 1
"""Of the form in which /metadata_epoch is kept."""


def records_of(state: MetadataState, defects: Collection[str] = ()) -> list[bytes]:
    """Records that make this state out of an empty one, in the order in which the image's parts write theirs, and
    within a part in that of the log. Topics that were removed come as they came and went, which Kafka does not keep."""
    found = [
        MetadataRecord(feature_level=FeatureLevelRecord(name=name, feature_level=level))
        for name, level in state.features.items()
    ]
    found += [MetadataRecord(register_broker=_registration(broker)) for broker in state.brokers.values()]
    for topic_id, name in state.removed.items():
        found.append(MetadataRecord(topic=TopicRecord(name=name, topic_id=topic_id)))
        found.append(MetadataRecord(remove_topic=RemoveTopicRecord(topic_id=topic_id)))
    found += [
        MetadataRecord(topic=TopicRecord(name=topic.name, topic_id=topic.topic_id)) for topic in state.topics.values()
    ]
    partitions = [partition_record(partition) for partition in state.partitions.values()]
    if "snapshot-without-elr" in defects:
        partitions = [msgspec.structs.replace(each, eligible_leader_replicas=[]) for each in partitions]
    found += [MetadataRecord(partition=partition) for partition in partitions]
    for resource, values in state.configs.items():
        kind, _, name = resource.partition("/")
        found += [
            MetadataRecord(config=ConfigRecord(resource_type=kind, resource_name=name, name=key, value=value))
            for key, value in values.items()
        ]
    if state.next_producer_id:
        found.append(MetadataRecord(producer_ids=ProducerIdsRecord(next_producer_id=state.next_producer_id)))
    if state.metadata_epoch:
        found.append(metadata_epoch_record(state.metadata_epoch))
    return [to_bytes(record) for record in found]


def metadata_epoch_record(epoch: int) -> MetadataRecord:
    """A metadata epoch is counted: what the znode of KIP-232 (version 16) holds then."""
    return MetadataRecord(metadata_epoch=MetadataEpochRecord(version=ZNODE_VERSION, metadata_epoch=epoch))


def _registration(broker: BrokerRegistration) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker.id,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
    )


def load_records(state: MetadataState, records: Iterable[bytes], last_offset: int) -> None:
    """Make an empty state that of a snapshot whose last record was at ``last_offset``: for the state machine, that is
    the offset of all of them (``QuorumController.handleLoadSnapshot``)."""
    for record in records:
        state.replay(from_bytes(MetadataRecord, record), last_offset)


def extend_digest(digest: int, batches: Iterable[Batch]) -> int:
    """Hash over every record of a log, given that over those before ``batches``. Ghost data: no rule reads it."""
    for batch in batches:
        for record in batch.records:
            chained = blake2b(digest.to_bytes(8, "big"), digest_size=8)
            chained.update(payload(record))
            digest = int.from_bytes(chained.digest(), "big") >> 1
    return digest
