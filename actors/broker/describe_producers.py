"""Serving DescribeProducers (``KafkaApis.handleDescribeProducersRequest``, ``ReplicaManager.activeProducerState``)."""

from __future__ import annotations

from actors.broker.coordinator_common.writes import answer
from actors.broker.partition import find_partition
from actors.broker.turn import Turn
from actors.log.producer_state import NONE_OPEN
from actors.node.errors import KafkaError
from actors.node.spec import is_valid_topic_name, topic_partition
from krift.v1.transactions import DescribeProducersRequest, DescribeProducersResponse

Described = DescribeProducersResponse.PartitionResponse


def describe_producers(turn: Turn, connection: str, request: DescribeProducersRequest) -> None:
    """Tell what the leaders of partitions remember of producers."""
    response = DescribeProducersResponse()
    for asked in request.topics:
        topic = DescribeProducersResponse.TopicResponse(name=asked.name)
        response.topics.append(topic)
        for index in asked.partition_indexes:
            topic.partitions.append(_describe(turn, asked.name, index))
    answer(turn, connection, request, response)


def _describe(turn: Turn, topic: str, index: int) -> Described:
    if not is_valid_topic_name(topic):
        return Described(partition_index=index, error_code=KafkaError.INVALID_TOPIC_EXCEPTION)
    if topic not in turn.image.topic_ids:
        return Described(partition_index=index, error_code=KafkaError.UNKNOWN_TOPIC_OR_PARTITION)
    partition, error = find_partition(turn, topic_partition(topic, index))
    if partition is None or not partition.is_leader:
        return Described(partition_index=index, error_code=error or KafkaError.NOT_LEADER_OR_FOLLOWER)
    told = Described(partition_index=index)
    for producer_id, entry in partition.log.producers.entries.items():
        told.active_producers.append(
            DescribeProducersResponse.ProducerState(
                producer_id=producer_id,
                producer_epoch=entry.producer_epoch,
                last_sequence=entry.last_sequence(),
                last_timestamp=entry.last_timestamp_ms,
                coordinator_epoch=entry.coordinator_epoch,
                current_txn_start_offset=-1
                if entry.current_txn_first_offset == NONE_OPEN
                else entry.current_txn_first_offset,
            )
        )
    return told
