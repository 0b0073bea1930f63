"""Requests that the cases make, in few words."""

from __future__ import annotations

import uuid
from typing import Any

from actors.node.errors import error_name
from tests.real_kafka.cluster import Batch, Connection, Fields, Pending, call

NOBODY = uuid.UUID(int=77)
METADATA_TOPIC = "__cluster_metadata"


def error(code: Any) -> str:
    """``3 UNKNOWN_TOPIC_OR_PARTITION``."""
    return f"{int(code)} {error_name(int(code))}"


def batch(*values: str, **options: Any) -> Batch:
    """A batch of these values."""
    return Batch([value.encode() for value in values], **options)


def send_produce(
    connection: Connection,
    topic: Any,
    records: Batch | list[Batch] | None,
    *,
    partition: int = 0,
    acks: int = -1,
    version: int = 9,
    timeout_ms: int = 30_000,
) -> Pending:
    """Send a Produce for one partition, of a topic's name or, from version 13 on, id."""
    data: Fields = {"partition_data": [{"index": partition, "records": records}]}
    data["topic_id" if version >= 13 else "name"] = topic
    return connection.send("Produce", version, {"acks": acks, "timeout_ms": timeout_ms, "topic_data": [data]})


def produced(answer: Any) -> Any:
    """The one partition of an answer to Produce."""
    return answer.responses[0].partition_responses[0]


def produce(connection: Connection, topic: Any, records: Batch | list[Batch] | None, **options: Any) -> Any:
    """A Produce for one partition, and what became of it."""
    return produced(send_produce(connection, topic, records, **options).get())


def send_list_offsets(
    connection: Connection,
    topic: str,
    timestamp: int,
    *,
    partition: int = 0,
    version: int = 10,
    epoch: int = -1,
    replica: int = -1,
) -> Pending:
    """Send a ListOffsets for one partition."""
    asked: Fields = {"partition_index": partition, "timestamp": timestamp}
    if version >= 4:
        asked["current_leader_epoch"] = epoch
    fields: Fields = {"replica_id": replica, "topics": [{"name": topic, "partitions": [asked]}]}
    if version >= 2:
        fields["isolation_level"] = 0
    if version >= 10:
        fields["timeout_ms"] = 5000
    return connection.send("ListOffsets", version, fields)


def list_offsets(connection: Connection, topic: str, timestamp: int, **options: Any) -> Any:
    """A ListOffsets for one partition, and its answer."""
    return send_list_offsets(connection, topic, timestamp, **options).get().topics[0].partitions[0]


def fetch(
    connection: Connection,
    topic: Any,
    offset: int,
    *,
    partition: int = 0,
    version: int = 12,
    epoch: int = -1,
    last_epoch: int = -1,
    isolation: int = 0,
) -> Any:
    """A consumer's Fetch outside of a session for one partition, and its answer."""
    topics = [fetched_topic(topic, offset, partition, version, epoch, last_epoch)]
    answer = fetch_session(connection, topics, version=version, isolation=isolation)
    return answer.responses[0].partitions[0] if answer.responses else answer


def fetched_topic(topic: Any, offset: int, partition: int, version: int, epoch: int, last_epoch: int) -> Fields:
    """A partition in a Fetch."""
    asked: Fields = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
    if version >= 9:
        asked["current_leader_epoch"] = epoch
    if version >= 12:
        asked["last_fetched_epoch"] = last_epoch
    if version >= 5:
        asked["log_start_offset"] = -1
    return {"partitions": [asked], "topic_id" if version >= 13 else "topic": topic}


def fetch_session(
    connection: Connection,
    topics: list[Fields],
    *,
    version: int = 12,
    session: int = 0,
    session_epoch: int = -1,
    isolation: int = 0,
) -> Any:
    """A consumer's Fetch, and the whole answer."""
    fields: Fields = {"max_wait_ms": 100, "min_bytes": 1, "max_bytes": 1 << 20, "isolation_level": isolation}
    fields["topics"] = topics
    if version < 15:
        fields["replica_id"] = -1
    if version >= 7:
        fields |= {"session_id": session, "session_epoch": session_epoch, "forgotten_topics_data": []}
    return call(connection, "Fetch", version, **fields)


def epoch_end(
    connection: Connection, topic: str, epoch: int, *, partition: int = 0, version: int = 4, current: int = -1
) -> Any:
    """An OffsetForLeaderEpoch for one partition, and its answer."""
    asked = {"partition": partition, "current_leader_epoch": current, "leader_epoch": epoch}
    fields: Fields = {"topics": [{"topic": topic, "partitions": [asked]}]}
    if version >= 3:
        fields["replica_id"] = -1
    return call(connection, "OffsetForLeaderEpoch", version, **fields).topics[0].partitions[0]


def metadata(connection: Connection, *topics: str, version: int = 12, topic_id: Any = None) -> Any:
    """A Metadata request: of topics by name, of one by its id, or of all."""
    named: list[Fields] | None = [{"name": name} for name in topics] or None
    if version >= 10:
        named = [{"name": name, "topic_id": None} for name in topics] or None
    if topic_id is not None:
        named = [{"name": None, "topic_id": topic_id}]
    fields: Fields = {"topics": named}
    if version >= 4:
        fields["allow_auto_topic_creation"] = False
    return call(connection, "Metadata", version, **fields)


def partition_of(connection: Connection, topic: str, partition: int = 0) -> Any:
    """What Metadata says of a partition."""
    found = metadata(connection, topic).topics[0].partitions
    return next(each for each in found if each.partition_index == partition)


def elect(connection: Connection, kind: int, topics: dict[str, list[int]] | None, version: int = 2) -> Any:
    """An ElectLeaders; of all partitions without topics."""
    asked = None if topics is None else [{"topic": name, "partitions": indexes} for name, indexes in topics.items()]
    fields: Fields = {"topic_partitions": asked, "timeout_ms": 10_000}
    if version >= 1:
        fields["election_type"] = kind
    return call(connection, "ElectLeaders", version, **fields)


def alter_topic(connection: Connection, topic: str, **values: str | None) -> str:
    """IncrementalAlterConfigs of a topic: keys have underscores for dots, None deletes. The error."""
    configs = [
        {"name": key.replace("_", "."), "config_operation": 0 if value is not None else 1, "value": value}
        for key, value in values.items()
    ]
    resource = {"resource_type": 2, "resource_name": topic, "configs": configs}
    answer = call(connection, "IncrementalAlterConfigs", 1, resources=[resource], validate_only=False)
    return error(answer.responses[0].error_code)


def init_producer_id(connection: Connection, producer_id: int = -1, producer_epoch: int = -1) -> Any:
    """An InitProducerId of an idempotent producer."""
    return call(
        connection,
        "InitProducerId",
        4,
        transactional_id=None,
        transaction_timeout_ms=0,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )


def describe_quorum(connection: Connection, topic: str = METADATA_TOPIC, partition: int = 0, version: int = 2) -> Any:
    """A DescribeQuorum, and its answer."""
    asked = {"topic_name": topic, "partitions": [{"partition_index": partition}]}
    return call(connection, "DescribeQuorum", version, topics=[asked])
