"""Telling clients where brokers are: the hint at the present leader in answers of others (KIP-951)."""

from __future__ import annotations

from actors.broker.partition import Partition
from actors.broker.turn import Turn
from actors.node.spec import node_name
from krift.v1.common import LeaderAndEpoch, NodeEndpoint

BROKER_PORT = 9092
"""A broker's address is its name; the port is Kafka's."""


def current_leader(turn: Turn, tp: str, partition: Partition | None, endpoints: list[NodeEndpoint]) -> LeaderAndEpoch:
    """Who leads: as the replica knows it or, failing that, metadata. Where to find that broker is added to
    ``endpoints``."""
    leader, epoch = -1, -1
    if partition is not None and partition.leader_epoch >= 0:
        leader, epoch = partition.leader, partition.leader_epoch
        if "hint-of-former-epoch" in turn.step.defects and not partition.is_leader:
            epoch = max(epoch - 1, 0)
    elif tp in turn.image.partitions:
        state = turn.image.partitions[tp]
        leader, epoch = state.leader, state.leader_epoch
    if turn.image.is_alive(leader) and all(endpoint.node_id != leader for endpoint in endpoints):
        endpoints.append(NodeEndpoint(node_id=leader, host=node_name(leader), port=BROKER_PORT))
    return LeaderAndEpoch(leader_id=leader, leader_epoch=epoch)
