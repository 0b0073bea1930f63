"""The cluster as a metadata epoch has it (KIP-232 as it was first proposed, version 16)."""

from __future__ import annotations

import json
from hashlib import blake2b

from actors.metadata.image_records import ZNODE_VERSION
from actors.metadata.metadata_state import MetadataState


def as_told(state: MetadataState, epoch: int) -> MetadataState:
    """What brokers are told of the cluster, as it is now: brokers and partitions, under a metadata epoch."""
    return MetadataState(brokers=dict(state.brokers), partitions=dict(state.partitions), metadata_epoch=epoch)


def znode(epoch: int) -> str:
    """What the proposal's znode /metadata_epoch holds at this epoch."""
    return json.dumps({"version": ZNODE_VERSION, "metadata_epoch": epoch})


def told_digest(told: MetadataState) -> int:
    """Hash over all that brokers are told of the cluster under this metadata epoch."""
    found = blake2b(digest_size=8)
    found.update(str([broker for broker in sorted(told.brokers) if told.is_alive(broker)]).encode())
    for tp in sorted(told.partitions):
        partition = told.partitions[tp]
        said = (tp, partition.topic_id, partition.leader, partition.leader_epoch, partition.isr, partition.replicas)
        found.update(str(said).encode())
    return int.from_bytes(found.digest(), "big") >> 1
