"""Records that the controller writes of its own accord: for an empty log, and for the topics of the scenario."""

from __future__ import annotations

from actors.config import config_text
from actors.controller.changes import Change
from actors.node.spec import TopicSpec
from krift.v1.records_pb2 import ConfigRecord, FeatureLevelRecord, MetadataRecord, PartitionRecord, TopicRecord

METADATA_VERSION = "metadata.version"
METADATA_VERSION_LEVEL = 25
"""4.0-IV3: leader epochs are not bumped on an ISR shrink, recovery state and broker epochs in ISRs are known."""


def bootstrap_records() -> list[Change]:
    """What the first active controller of a cluster writes (``BootstrapMetadata``)."""
    record = FeatureLevelRecord(name=METADATA_VERSION, feature_level=METADATA_VERSION_LEVEL)
    return [Change(MetadataRecord(feature_level=record))]


def topic_records(topic: TopicSpec) -> list[Change]:
    """A topic with its configuration and partitions, as CreateTopics with a manual assignment writes them: every
    replica is in the ISR, the first one leads."""
    records = [MetadataRecord(topic=TopicRecord(name=topic.name, topic_id=topic.topic_id))]
    for key, value in topic.config.items():
        config = ConfigRecord(resource_type="topic", resource_name=topic.name, name=key, value=config_text(value))
        records.append(MetadataRecord(config=config))
    for index, replicas in enumerate(topic.replicas):
        partition = PartitionRecord(
            topic_id=topic.topic_id, partition_id=index, replicas=replicas, isr=replicas, leader=replicas[0]
        )
        records.append(MetadataRecord(partition=partition))
    return [Change(record, "create") for record in records]
