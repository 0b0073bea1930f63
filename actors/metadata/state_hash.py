"""What a node has made of the metadata log, as one number: ghost data, by which two nodes' states are compared."""

from __future__ import annotations

from hashlib import blake2b

from actors.metadata.metadata_state import MetadataState
from actors.node.codec import encode


def state_hash(state: MetadataState) -> int:
    """Hash over brokers, topics, partitions, configurations, features, the next producer id and the metadata epoch,
    whatever the order in which they came: of the state itself, not of the records that a snapshot has of it.

    It leaves out what a snapshot does not keep: the offsets of registrations. It leaves out what Kafka does not keep:
    the topics that were removed."""
    parts = (
        sorted(
            (key, each.id, each.incarnation_id, each.epoch, each.fenced, each.in_controlled_shutdown)
            for key, each in state.brokers.items()
        ),
        sorted((key, each.topic_id, each.name, sorted(each.partitions)) for key, each in state.topics.items()),
        sorted(state.topic_ids.items()),
        sorted(state.partitions.items()),
        sorted((resource, sorted(values.items())) for resource, values in state.configs.items()),
        sorted((name, level) for name, level in state.features.items() if level),
        state.next_producer_id,
        state.metadata_epoch,
    )
    return int.from_bytes(blake2b(encode(parts), digest_size=8).digest(), "big") >> 1
