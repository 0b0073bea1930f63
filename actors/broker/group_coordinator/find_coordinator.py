"""Serving FindCoordinator (``KafkaApis.handleFindCoordinatorRequest``): the leader of the partition of
``__consumer_offsets`` that a group's id hashes to. Whoever is asked first has that topic made
(``AutoTopicCreationManager.java``)."""

from __future__ import annotations

import msgspec

from actors.broker.current_leader import BROKER_PORT
from actors.broker.forwarding import ForwardingManager
from actors.broker.group_coordinator.partitions import GROUP_METADATA_TOPIC, partition_for
from actors.broker.group_coordinator.writes import answer
from actors.broker.turn import Turn
from actors.metadata.metadata_state import MetadataState
from actors.node.errors import KafkaError
from actors.node.spec import node_name
from krift.v1.groups import FindCoordinatorRequest, FindCoordinatorResponse
from krift.v1.topics import CreateTopicsRequest

GROUP, TRANSACTION, SHARE = 0, 1, 2
WITH_MESSAGE = 1
BATCHED = 4


class Found(msgspec.Struct, frozen=True):
    """The coordinator of a key, or why there is none."""

    error: KafkaError = KafkaError.NONE
    node_id: int = -1
    host: str = ""
    port: int = -1


def find_coordinator(
    turn: Turn,
    connection: str,
    request: FindCoordinatorRequest,
    cache: MetadataState,
    forwarding: ForwardingManager,
) -> None:
    """Tell who coordinates. ``cache``: what this broker tells clients of the cluster; ``forwarding``: by which it asks
    the controller for the topic, if there is none yet."""
    version = request.header.api_version
    keys = request.coordinator_keys if version >= BATCHED else [request.key]
    if request.key_type == GROUP and GROUP_METADATA_TOPIC not in cache.topic_ids:
        forwarding.ask(turn, GROUP_METADATA_TOPIC, _create_topic(turn))
    found = [_find(turn, cache, request.key_type, key) for key in keys]
    response = FindCoordinatorResponse()
    if version >= BATCHED:
        response.coordinators = [
            FindCoordinatorResponse.Coordinator(
                key=key, node_id=each.node_id, host=each.host, port=each.port, error_code=each.error
            )
            for key, each in zip(keys, found, strict=True)
        ]
    else:
        [each] = found
        response.error_code, response.node_id = int(each.error), each.node_id
        response.host, response.port = each.host, each.port
    answer(turn, connection, request, response)


def _find(turn: Turn, cache: MetadataState, key_type: int, key: str) -> Found:
    if key_type == TRANSACTION:
        return Found(KafkaError.COORDINATOR_NOT_AVAILABLE)  # as InitProducerId: transactions are not emulated yet
    if key_type != GROUP:
        return Found(KafkaError.INVALID_REQUEST)
    if GROUP_METADATA_TOPIC not in cache.topic_ids:
        return Found(KafkaError.COORDINATOR_NOT_AVAILABLE)
    partition = cache.partitions.get(partition_for(turn, key))
    if partition is None or partition.leader < 0 or not cache.is_alive(partition.leader):
        return Found(KafkaError.COORDINATOR_NOT_AVAILABLE)
    return Found(node_id=partition.leader, host=node_name(partition.leader), port=BROKER_PORT)


def _create_topic(turn: Turn) -> CreateTopicsRequest:
    config = turn.settings.groups
    topic = CreateTopicsRequest.CreatableTopic(
        name=GROUP_METADATA_TOPIC,
        num_partitions=config.offsets_topic_num_partitions,
        replication_factor=config.offsets_topic_replication_factor,
    )
    return CreateTopicsRequest(topics=[topic], timeout_ms=turn.net.request_timeout_ms)
