"""Serving Metadata from what the broker knows of the cluster (``KRaftMetadataCache.java``)."""

from __future__ import annotations

from actors.broker.current_leader import BROKER_PORT
from actors.broker.turn import Turn
from actors.metadata.metadata_state import MetadataState
from actors.metadata.registrations import NO_LEADER, PartitionRegistration, TopicRegistration
from actors.node.errors import KafkaError
from actors.node.messages import check_fields
from actors.node.spec import is_valid_topic_name, node_name, topic_partition
from krift.v1.metadata import MetadataRequest, MetadataResponse

METADATA_EPOCH = 6
"""Version from which on an answer has the metadata epoch of KIP-232 as it was first proposed."""
BY_ID = 12
"""Version from which on topics may be asked for by their ids; the two before it have the field, and refuse it."""


def metadata(turn: Turn, connection: str, request: MetadataRequest, cache: MetadataState) -> None:
    """Answer with what this broker has replayed, or was told; fenced brokers are left out, replicas on them are
    offline."""
    version = request.header.api_version
    response = MetadataResponse()
    if version < BY_ID and any(asked.topic_id for asked in request.topics):
        for asked in request.topics:
            response.topics.append(
                MetadataResponse.MetadataResponseTopic(name=asked.name, error_code=KafkaError.INVALID_REQUEST)
            )
        turn.step.reply(connection, response)
        return
    alive = [broker_id for broker_id in sorted(cache.brokers) if cache.is_alive(broker_id)]
    for broker_id in alive:
        response.brokers.append(
            MetadataResponse.MetadataResponseBroker(node_id=broker_id, host=node_name(broker_id), port=BROKER_PORT)
        )
    if version >= 1:
        # Clients cannot reach the controller; Kafka names any broker that is alive.
        response.controller_id = alive[0] if alive else NO_LEADER
    if version >= 2:
        response.cluster_id = turn.settings.cluster.cluster_id
    if version >= METADATA_EPOCH and turn.settings.kip_232 == "seed":
        response.metadata_epoch = cache.metadata_epoch
    if request.all_topics or (version == 0 and not request.topics):
        for topic in cache.topics.values():
            response.topics.append(_answer_topic(cache, topic, version))
    for asked in {(asked.topic_id, asked.name): asked for asked in request.topics}.values():
        response.topics.append(_answer_asked(cache, asked, version))
    check_fields(response, version)
    turn.step.reply(connection, response)


def _answer_asked(
    cache: MetadataState, asked: MetadataRequest.MetadataRequestTopic, version: int
) -> MetadataResponse.MetadataResponseTopic:
    topic_id = asked.topic_id or cache.topic_ids.get(asked.name, "")
    topic = cache.topics.get(topic_id)
    if topic is not None:
        return _answer_topic(cache, topic, version)
    if asked.topic_id:
        unknown = int(KafkaError.UNKNOWN_TOPIC_ID)
        return MetadataResponse.MetadataResponseTopic(error_code=unknown, topic_id=asked.topic_id)
    known = is_valid_topic_name(asked.name)
    error = KafkaError.UNKNOWN_TOPIC_OR_PARTITION if known else KafkaError.INVALID_TOPIC_EXCEPTION
    return MetadataResponse.MetadataResponseTopic(error_code=int(error), name=asked.name)


def _answer_topic(
    cache: MetadataState, topic: TopicRegistration, version: int
) -> MetadataResponse.MetadataResponseTopic:
    answer = MetadataResponse.MetadataResponseTopic(name=topic.name)
    if version >= 10:
        answer.topic_id = topic.topic_id
    for index in sorted(topic.partitions):
        state = cache.partitions[topic_partition(topic.name, index)]
        answer.partitions.append(_answer_partition(cache, state, version))
    return answer


def _answer_partition(
    cache: MetadataState, state: PartitionRegistration, version: int
) -> MetadataResponse.MetadataResponsePartition:
    """Epoch and ISR are told even where the leader is not available."""
    answer = MetadataResponse.MetadataResponsePartition(
        partition_index=state.partition, replica_nodes=list(state.replicas), isr_nodes=list(state.isr)
    )
    if state.leader == NO_LEADER or not cache.is_alive(state.leader):
        answer.error_code = int(KafkaError.LEADER_NOT_AVAILABLE)
        answer.leader_id = NO_LEADER
    else:
        answer.leader_id = state.leader
    if version >= 7:
        answer.leader_epoch = state.leader_epoch
    if version >= 5:
        answer.offline_replicas = [replica for replica in state.replicas if not cache.is_alive(replica)]
    return answer
