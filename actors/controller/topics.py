"""Records that the controller writes of its own accord: for an empty log, and for the topics of the scenario."""

from __future__ import annotations

from actors.config import config_text
from actors.controller.changes import Change
from actors.controller.controller_config import MIN_ISR, ControllerConfig
from actors.metadata.metadata_state import ELR_FEATURE, TRANSACTION_FEATURE
from actors.node.spec import TopicSpec
from krift.v1.records import ConfigRecord, FeatureLevelRecord, MetadataRecord, PartitionRecord, TopicRecord

METADATA_VERSION = "metadata.version"
METADATA_VERSION_LEVEL = 25
"""4.0-IV3: leader epochs are not bumped on an ISR shrink; recovery state, broker epochs in ISRs and eligible leader
replicas are known."""


def bootstrap_records(config: ControllerConfig) -> list[Change]:
    """What the first active controller of a cluster writes (``BootstrapMetadata``, ``ActivationRecordsGenerator``).
    Eligible leader replicas need one min.insync.replicas that all nodes know."""
    levels = {METADATA_VERSION: METADATA_VERSION_LEVEL}
    if config.elr_version:
        levels[ELR_FEATURE] = config.elr_version
    if config.transaction_version:
        levels[TRANSACTION_FEATURE] = config.transaction_version
    records = [
        MetadataRecord(feature_level=FeatureLevelRecord(name=name, feature_level=level))
        for name, level in levels.items()
    ]
    if config.elr_version:
        value = config_text(config.min_isr)
        of_all = ConfigRecord(resource_type="broker", resource_name="", name=MIN_ISR, value=value)
        records.append(MetadataRecord(config=of_all))
    return [Change(record) for record in records]


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
