"""Requests that no client of Kafka's own would make."""

from __future__ import annotations

from typing import Any

from tests.real_kafka.cases.common import prefer
from tests.real_kafka.cluster import Cluster, Connection, Fields, Topic, call, count_records
from tests.real_kafka.outcomes import Outcomes
from tests.real_kafka.requests import batch, error, fetched_topic, init_producer_id, metadata, produce

NAME, OTHER = "odd", "odd-two"
TOPICS = {NAME: Topic([[1, 2, 3]]), OTHER: Topic([[1, 2]])}
STRANGER = 9


def ask(cluster: Cluster, outcomes: Outcomes) -> None:
    """Of the leader, and of a follower."""
    prefer(cluster, NAME, OTHER)
    leader = cluster.connect(1)
    produce(leader, NAME, batch("a", "b"))
    cluster.sleep(1000)
    _ask_as_follower(cluster, leader, outcomes)
    _ask_metadata(leader, outcomes)
    _ask_producer_ids(cluster, leader, outcomes)
    _ask_twice(leader, outcomes)


def _fetch_as(connection: Connection, replica: int, version: int, topic: Any, epoch: int) -> str:
    """A Fetch of a replica that claims a broker epoch which it never had."""
    fields: Fields = {"max_wait_ms": 10, "min_bytes": 1, "max_bytes": 1 << 20, "isolation_level": 0}
    fields |= {"session_id": 0, "session_epoch": -1, "forgotten_topics_data": []}
    fields["topics"] = [fetched_topic(topic, 0, 0, version, epoch, -1)]
    if version >= 15:
        fields["replica_state"] = {"replica_id": replica, "replica_epoch": 0}
    else:
        fields["replica_id"] = replica
    answer = call(connection, "Fetch", version, **fields)
    told = [
        (error(data.error_code), count_records(data.records)) for each in answer.responses for data in each.partitions
    ]
    return f"{error(answer.error_code)} {told}"


def _ask_as_follower(cluster: Cluster, leader: Connection, outcomes: Outcomes) -> None:
    topic_id, other_id = (metadata(leader, name).topics[0].topic_id for name in (NAME, OTHER))
    for version, topic, other in ((12, NAME, OTHER), (16, topic_id, other_id)):
        outcomes.say(f"Fetch {version} of no replica", _fetch_as(leader, STRANGER, version, topic, 0))
        outcomes.say(f"Fetch {version} of a replica of another topic", _fetch_as(leader, 3, version, other, 0))
        outcomes.say(f"Fetch {version} of no replica, later epoch", _fetch_as(leader, STRANGER, version, topic, 5))
        at_follower = _fetch_as(cluster.connect(2), 3, version, topic, 0)
        outcomes.say(f"Fetch {version} of a replica at a follower", at_follower)
    outcomes.say("Fetch 16 of a replica, old broker epoch", _fetch_as(leader, 2, 16, topic_id, 0))


def _ask_metadata(leader: Connection, outcomes: Outcomes) -> None:
    topic_id = metadata(leader, NAME).topics[0].topic_id
    for version in (0, 1, 4, 9, 12):
        fields: Fields = {"topics": []}
        if version >= 4:
            fields["allow_auto_topic_creation"] = False
        answer = call(leader, "Metadata", version, **fields)
        found = NAME in [topic.name for topic in answer.topics]
        outcomes.say(f"Metadata {version} of an empty list names the topic", found)
    for version in (10, 11, 12):
        asked = [{"name": None, "topic_id": topic_id}]
        fields = {"topics": asked, "allow_auto_topic_creation": False}
        outcomes.ask(
            f"Metadata {version} by id", lambda version=version, fields=fields: _named(leader, version, fields)
        )
    twice = [{"name": NAME}, {"name": NAME}]
    answer = call(leader, "Metadata", 9, topics=twice, allow_auto_topic_creation=False)
    outcomes.say("Metadata of a topic twice", len(answer.topics))


def _named(leader: Connection, version: int, fields: Fields) -> str:
    answer = call(leader, "Metadata", version, **fields)
    return str([(error(topic.error_code), topic.name or "") for topic in answer.topics])


def _ask_producer_ids(cluster: Cluster, leader: Connection, outcomes: Outcomes) -> None:
    while init_producer_id(leader).error_code:
        cluster.sleep(50)
    for version in range(6):
        fields: Fields = {"transactional_id": None, "transaction_timeout_ms": 0}
        if version >= 3:
            fields |= {"producer_id": -1, "producer_epoch": -1}
        answer = call(leader, "InitProducerId", version, **fields)
        outcomes.say(f"InitProducerId {version}", f"{error(answer.error_code)} epoch={answer.producer_epoch}")
    for producer_id, epoch in ((5, -1), (-1, 3), (5, 3)):
        fields = {"transactional_id": None, "transaction_timeout_ms": 0}
        answer = call(leader, "InitProducerId", 4, **fields, producer_id=producer_id, producer_epoch=epoch)
        told = f"{error(answer.error_code)} epoch={answer.producer_epoch}"
        outcomes.say(f"InitProducerId with id {producer_id} and epoch {epoch}", told)


def _ask_twice(leader: Connection, outcomes: Outcomes) -> None:
    """A partition twice in one request."""
    asked = {"partition_index": 0, "timestamp": -1, "current_leader_epoch": -1}
    topics = [{"name": NAME, "partitions": [asked, asked]}]
    answer = call(leader, "ListOffsets", 7, replica_id=-1, isolation_level=0, topics=topics)
    told = [(error(data.error_code), data.offset) for topic in answer.topics for data in topic.partitions]
    outcomes.say("ListOffsets of a partition twice", told)
    ends = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}
    topics = [{"topic": NAME, "partitions": [ends, ends]}]
    answer = call(leader, "OffsetForLeaderEpoch", 4, replica_id=-1, topics=topics)
    told = [(error(data.error_code), data.end_offset) for topic in answer.topics for data in topic.partitions]
    outcomes.say("OffsetForLeaderEpoch of a partition twice", told)
