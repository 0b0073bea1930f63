"""An operator's DeleteRecords: which of its partitions go to which leader, and what becomes of them
(``DeleteRecordsHandler.java``, ``AdminApiDriver.java``, ``PartitionLeaderStrategy.java``)."""

from __future__ import annotations

import msgspec

from actors.client.metadata_cache import MetadataCache
from actors.node.errors import KafkaError, traits
from actors.node.spec import split_topic_partition, topic_partition
from krift.v1.delete_records import DeleteRecordsRequest, DeleteRecordsResponse

Offsets = dict[str, int]
"""Topic partition -> the offset before which its records are deleted, -1: the high watermark."""


class Deleted(msgspec.Struct):
    """An answer. results: of partitions that are decided, errors; low_watermarks: of those that are done. unmapped: to
    be asked of another leader; retriable: of the same one, again; with their errors."""

    results: dict[str, KafkaError] = {}
    low_watermarks: dict[str, int] = {}
    unmapped: dict[str, KafkaError] = {}
    retriable: dict[str, KafkaError] = {}


def topics_of(offsets: Offsets) -> list[str]:
    """Their topics, each once."""
    return list(dict.fromkeys(split_topic_partition(tp)[0] for tp in offsets))


def by_leader(metadata: MetadataCache, offsets: Offsets) -> dict[int, Offsets]:
    """What each leader is to be asked; what has none that is known is not in it."""
    found: dict[int, Offsets] = {}
    for tp, offset in offsets.items():
        leader = metadata.leader_for(tp)
        if leader is not None:
            found.setdefault(leader.node_id, {})[tp] = offset
    return found


def request_of(offsets: Offsets, timeout_ms: int) -> DeleteRecordsRequest:
    """The request to one leader."""
    request, topics = DeleteRecordsRequest(timeout_ms=timeout_ms), dict[str, DeleteRecordsRequest.DeleteRecordsTopic]()
    for tp, offset in offsets.items():
        topic, index = split_topic_partition(tp)
        if topic not in topics:
            topics[topic] = DeleteRecordsRequest.DeleteRecordsTopic(name=topic)
            request.topics.append(topics[topic])
        asked = DeleteRecordsRequest.DeleteRecordsPartition(partition_index=index, offset=offset)
        topics[topic].partitions.append(asked)
    return request


def take(response: DeleteRecordsResponse, once: bool = False) -> Deleted:
    """Sort the partitions of an answer. ``once``: all are decided, for a defect."""
    taken = Deleted()
    for topic in response.topics:
        for each in topic.partitions:
            tp, error = topic_partition(topic.name, each.partition_index), KafkaError(each.error_code)
            if not error:
                taken.results[tp], taken.low_watermarks[tp] = error, each.low_watermark
            elif once:
                taken.results[tp] = error
            elif traits(error).invalid_metadata:
                taken.unmapped[tp] = error
            elif traits(error).retriable:
                taken.retriable[tp] = error
            else:
                taken.results[tp] = error
    return taken
