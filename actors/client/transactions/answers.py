"""What the answers to a transactional producer's requests say of each partition."""

from __future__ import annotations

from actors.node.spec import topic_partition
from krift.v1.groups import FindCoordinatorResponse
from krift.v1.transactions import AddPartitionsToTxnResponse, TxnOffsetCommitResponse


def coordinator_in(response: FindCoordinatorResponse) -> tuple[int, int]:
    """Error and broker."""
    if response.coordinators:
        found = response.coordinators[0]
        return found.error_code, found.node_id
    return response.error_code, response.node_id


def added_partitions(response: AddPartitionsToTxnResponse) -> dict[str, int]:
    """Error by partition, in the answer to a client."""
    return {
        topic_partition(topic.name, each.partition_index): each.partition_error_code
        for topic in response.results_by_topic_v3_and_below
        for each in topic.results_by_partition
    }


def errors_of_offsets(response: TxnOffsetCommitResponse) -> dict[str, int]:
    """Error by partition."""
    return {
        topic_partition(topic.name, each.partition_index): each.error_code
        for topic in response.topics
        for each in topic.partitions
    }
