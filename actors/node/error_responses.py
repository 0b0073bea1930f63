"""Answers that say nothing but an error, in every place that the response has for it
(``AbstractRequest.getErrorResponse``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeVar

from actors.node.errors import KafkaError
from actors.node.messages import RESPONSES, AnyRequest, api_of
from krift.v1.admin import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from krift.v1.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from krift.v1.groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from krift.v1.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from krift.v1.offset_for_leader_epoch import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from krift.v1.produce import ProduceRequest, ProduceResponse
from krift.v1.topics import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from krift.v1.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

T = TypeVar("T")


def error_response(request: AnyRequest, error: KafkaError, message: str = "") -> Any:
    """The answer to a request that fails as a whole. Where the response, or its version, has no place for that, each
    part that was asked for fails; of an ElectLeaders each part fails as well, with the same ``message``, as do topics
    that were to be created, deleted or extended."""
    match request:
        case ProduceRequest():
            return _produce(request, error)
        case ListOffsetsRequest():
            return _list_offsets(request, error)
        case DeleteRecordsRequest():
            return _delete_records(request, error)
        case OffsetForLeaderEpochRequest():
            return _offset_for_leader_epoch(request, error)
        case IncrementalAlterConfigsRequest():
            return _incremental_alter_configs(request, error)
        case ElectLeadersRequest():
            return _elect_leaders(request, error, message)
        case OffsetCommitRequest():
            return _offset_commit(request, error)
        case OffsetFetchRequest():
            return _offset_fetch(request, error)
        case FindCoordinatorRequest():
            return _find_coordinator(request, error)
        case DescribeGroupsRequest():
            return _describe_groups(request, error)
        case CreateTopicsRequest():
            return _create_topics(request, error, message)
        case DeleteTopicsRequest():
            return _delete_topics(request, error, message)
        case CreatePartitionsRequest():
            return _create_partitions(request, error, message)
        case AddPartitionsToTxnRequest():
            return _add_partitions_to_txn(request, error)
        case WriteTxnMarkersRequest():
            return _write_txn_markers(request, error)
        case TxnOffsetCommitRequest():
            return _txn_offset_commit(request, error)
        case DescribeProducersRequest():
            return _describe_producers(request, error)
        case DescribeTransactionsRequest():
            told = DescribeTransactionsResponse.TransactionState
            states = [told(transactional_id=each, error_code=error) for each in request.transactional_ids]
            return DescribeTransactionsResponse(transaction_states=states)
    response = RESPONSES[api_of(request)]()
    response.error_code = error
    return response


def _produce(asked: ProduceRequest, error: KafkaError) -> ProduceResponse:
    response = ProduceResponse()
    for data in asked.topic_data:
        topic = ProduceResponse.TopicProduceResponse(name=data.name)
        response.responses.append(topic)
        for partition in data.partition_data:
            failed = ProduceResponse.PartitionProduceResponse(index=partition.index, error_code=error)
            topic.partition_responses.append(failed)
    return response


def _topics(asked: Iterable[Any], topic: Callable[..., T], partition: Callable[..., Any], error: KafkaError) -> list[T]:
    """A topic of the answer for each one that was asked about, with the error for each of its partitions."""
    return [
        topic(
            name=data.name,
            partitions=[partition(partition_index=each.partition_index, error_code=error) for each in data.partitions],
        )
        for data in asked
    ]


def _list_offsets(asked: ListOffsetsRequest, error: KafkaError) -> ListOffsetsResponse:
    told = ListOffsetsResponse
    topics = _topics(asked.topics, told.ListOffsetsTopicResponse, told.ListOffsetsPartitionResponse, error)
    return ListOffsetsResponse(topics=topics)


def _delete_records(asked: DeleteRecordsRequest, error: KafkaError) -> DeleteRecordsResponse:
    told = DeleteRecordsResponse
    failed = partial(told.DeleteRecordsPartitionResult, low_watermark=-1)
    return DeleteRecordsResponse(topics=_topics(asked.topics, told.DeleteRecordsTopicResult, failed, error))


def _offset_for_leader_epoch(asked: OffsetForLeaderEpochRequest, error: KafkaError) -> OffsetForLeaderEpochResponse:
    response = OffsetForLeaderEpochResponse()
    for data in asked.topics:
        topic = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult(topic=data.topic)
        response.topics.append(topic)
        for partition in data.partitions:
            index = partition.partition
            failed = OffsetForLeaderEpochResponse.EpochEndOffset(partition=index, error_code=error)
            topic.partitions.append(failed)
    return response


def _incremental_alter_configs(
    asked: IncrementalAlterConfigsRequest, error: KafkaError
) -> IncrementalAlterConfigsResponse:
    response = IncrementalAlterConfigsResponse()
    for resource in asked.resources:
        failed = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse(
            error_code=error, resource_type=resource.resource_type, resource_name=resource.resource_name
        )
        response.responses.append(failed)
    return response


def _elect_leaders(asked: ElectLeadersRequest, error: KafkaError, message: str) -> ElectLeadersResponse:
    response = ElectLeadersResponse()
    if asked.header.api_version >= 1:
        response.error_code = error
    for each in asked.topic_partitions:
        answer = ElectLeadersResponse.ReplicaElectionResult(topic=each.topic)
        response.replica_election_results.append(answer)
        for index in each.partitions:
            result = ElectLeadersResponse.PartitionResult(partition_id=index, error_code=error, error_message=message)
            answer.partition_result.append(result)
    return response


def _offset_commit(asked: OffsetCommitRequest, error: KafkaError) -> OffsetCommitResponse:
    response = OffsetCommitResponse()
    for data in asked.topics:
        topic = OffsetCommitResponse.OffsetCommitResponseTopic(name=data.name, topic_id=data.topic_id)
        response.topics.append(topic)
        for partition in data.partitions:
            index = partition.partition_index
            failed = OffsetCommitResponse.OffsetCommitResponsePartition(partition_index=index, error_code=error)
            topic.partitions.append(failed)
    return response


def _offset_fetch(asked: OffsetFetchRequest, error: KafkaError) -> OffsetFetchResponse:
    """Version 1 has a place for it in each partition only, and version 8 in each group."""
    version = asked.header.api_version
    response = OffsetFetchResponse()
    for group in asked.groups:
        failed = OffsetFetchResponse.OffsetFetchResponseGroup(group_id=group.group_id, error_code=error)
        response.groups.append(failed)
    if 2 <= version <= 7:
        response.error_code = error
    for data in asked.topics if version < 2 else []:
        topic = OffsetFetchResponse.OffsetFetchResponseTopic(name=data.name)
        response.topics.append(topic)
        for index in data.partition_indexes:
            topic.partitions.append(
                OffsetFetchResponse.OffsetFetchResponsePartition(
                    partition_index=index, committed_offset=-1, metadata="", error_code=error
                )
            )
    return response


def _find_coordinator(asked: FindCoordinatorRequest, error: KafkaError) -> FindCoordinatorResponse:
    if asked.header.api_version < 4:
        return FindCoordinatorResponse(error_code=error, node_id=-1, port=-1)
    response = FindCoordinatorResponse()
    for key in asked.coordinator_keys:
        failed = FindCoordinatorResponse.Coordinator(key=key, node_id=-1, port=-1, error_code=error)
        response.coordinators.append(failed)
    return response


def _describe_groups(asked: DescribeGroupsRequest, error: KafkaError) -> DescribeGroupsResponse:
    response = DescribeGroupsResponse()
    response.groups = [DescribeGroupsResponse.DescribedGroup(group_id=each, error_code=error) for each in asked.groups]
    return response


def _create_topics(asked: CreateTopicsRequest, error: KafkaError, message: str) -> CreateTopicsResponse:
    names = [topic.name for topic in asked.topics]
    return CreateTopicsResponse(
        topics=[
            CreateTopicsResponse.CreatableTopicResult(name=name, error_code=error, error_message=message)
            for name in names
        ]
    )


def _delete_topics(asked: DeleteTopicsRequest, error: KafkaError, message: str) -> DeleteTopicsResponse:
    named = [(name, "") for name in asked.topic_names] + [(topic.name, topic.topic_id) for topic in asked.topics]
    response = DeleteTopicsResponse()
    for name, topic_id in named:
        result = DeleteTopicsResponse.DeletableTopicResult(name=name, topic_id=topic_id, error_code=error)
        if asked.header.api_version >= 5:
            result.error_message = message
        response.responses.append(result)
    return response


def _create_partitions(asked: CreatePartitionsRequest, error: KafkaError, message: str) -> CreatePartitionsResponse:
    names = [topic.name for topic in asked.topics]
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsResponse.CreatePartitionsTopicResult(name=name, error_code=error, error_message=message)
            for name in names
        ]
    )


def _add_partitions_to_txn(asked: AddPartitionsToTxnRequest, error: KafkaError) -> AddPartitionsToTxnResponse:
    """Before version 4 there is no place for it but in each partition."""
    if asked.header.api_version >= 4:
        return AddPartitionsToTxnResponse(error_code=error)
    response = AddPartitionsToTxnResponse()
    for topic in asked.v3_and_below_topics:
        result = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult(name=topic.name)
        response.results_by_topic_v3_and_below.append(result)
        for index in topic.partitions:
            failed = AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult(
                partition_index=index, partition_error_code=error
            )
            result.results_by_partition.append(failed)
    return response


def _write_txn_markers(asked: WriteTxnMarkersRequest, error: KafkaError) -> WriteTxnMarkersResponse:
    response = WriteTxnMarkersResponse()
    for marker in asked.markers:
        result = WriteTxnMarkersResponse.WritableTxnMarkerResult(producer_id=marker.producer_id)
        response.markers.append(result)
        for each in marker.topics:
            topic = WriteTxnMarkersResponse.WritableTxnMarkerTopicResult(name=each.name)
            result.topics.append(topic)
            for index in each.partitions:
                failed = WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult(
                    partition_index=index, error_code=error
                )
                topic.partitions.append(failed)
    return response


def _txn_offset_commit(asked: TxnOffsetCommitRequest, error: KafkaError) -> TxnOffsetCommitResponse:
    told = TxnOffsetCommitResponse
    topics = _topics(asked.topics, told.TxnOffsetCommitResponseTopic, told.TxnOffsetCommitResponsePartition, error)
    return TxnOffsetCommitResponse(topics=topics)


def _describe_producers(asked: DescribeProducersRequest, error: KafkaError) -> DescribeProducersResponse:
    response = DescribeProducersResponse()
    for data in asked.topics:
        topic = DescribeProducersResponse.TopicResponse(name=data.name)
        response.topics.append(topic)
        for index in data.partition_indexes:
            topic.partitions.append(
                DescribeProducersResponse.PartitionResponse(partition_index=index, error_code=error)
            )
    return response
