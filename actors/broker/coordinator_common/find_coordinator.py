"""Serving FindCoordinator (``KafkaApis.handleFindCoordinatorRequest``): the leader of the partition of the
coordinator's topic that the key hashes to. Whoever is asked first has that topic made
(``AutoTopicCreationManager.java``)."""

from __future__ import annotations

import msgspec

from actors.broker.coordinator_common.partitions import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, partition_for
from actors.broker.coordinator_common.writes import answer
from actors.broker.current_leader import BROKER_PORT
from actors.broker.forwarding import ForwardingManager
from actors.broker.turn import Turn
from actors.config import config_text
from actors.metadata.metadata_state import MetadataState
from actors.node.errors import KafkaError
from actors.node.spec import node_name
from krift.v1.groups import FindCoordinatorRequest, FindCoordinatorResponse
from krift.v1.topics import CreateTopicsRequest

GROUP, TRANSACTION = 0, 1
TOPICS = {GROUP: GROUP_METADATA_TOPIC, TRANSACTION: TRANSACTION_STATE_TOPIC}
"""Type of a key -> the topic whose leaders coordinate."""
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
    topic = TOPICS.get(request.key_type)
    if topic is not None and topic not in cache.topic_ids:
        forwarding.ask(turn, topic, _create_topic(turn, topic))
    found = [_find(turn, cache, topic, key) for key in keys]
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


def _find(turn: Turn, cache: MetadataState, topic: str | None, key: str) -> Found:
    if topic is None:
        return Found(KafkaError.INVALID_REQUEST)
    if topic not in cache.topic_ids:
        return Found(KafkaError.COORDINATOR_NOT_AVAILABLE)
    partition = cache.partitions.get(partition_for(turn, topic, key))
    if partition is None or partition.leader < 0 or not cache.is_alive(partition.leader):
        return Found(KafkaError.COORDINATOR_NOT_AVAILABLE)
    return Found(node_id=partition.leader, host=node_name(partition.leader), port=BROKER_PORT)


def _create_topic(turn: Turn, name: str) -> CreateTopicsRequest:
    """The coordinator's topic; that of transactions never elects uncleanly, and has a least ISR of its own
    (``TransactionStateManager.transactionTopicConfigs``)."""
    groups, transactions = turn.settings.groups, turn.settings.transactions
    topic = CreateTopicsRequest.CreatableTopic(
        name=name,
        num_partitions=groups.offsets_topic_num_partitions,
        replication_factor=groups.offsets_topic_replication_factor,
    )
    if name == TRANSACTION_STATE_TOPIC:
        topic.num_partitions = transactions.topic_num_partitions
        topic.replication_factor = transactions.topic_replication_factor
        own = {"unclean.leader.election.enable": False, "min.insync.replicas": transactions.topic_min_isr}
        topic.configs = [
            CreateTopicsRequest.CreatableTopicConfig(name=key, value=config_text(value)) for key, value in own.items()
        ]
    return CreateTopicsRequest(topics=[topic], timeout_ms=turn.net.request_timeout_ms)
