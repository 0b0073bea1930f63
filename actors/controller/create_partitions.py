"""CreatePartitions (``ControllerApis.createPartitions``, ``ReplicationControlManager.createPartitions``; KIP-195)."""

from __future__ import annotations

from collections.abc import Sequence

from actors.controller.changes import Change
from actors.controller.controller_state import ControllerState
from actors.controller.create_topics import MAX_RECORDS, in_sync, new_partitions
from actors.controller.replica_placement import Draws, Refused, place, validate_assignment
from actors.metadata.registrations import TopicRegistration
from actors.node.error_responses import error_response
from actors.node.errors import KafkaError
from krift.v1.topics import CreatePartitionsRequest, CreatePartitionsResponse

Topic = CreatePartitionsRequest.CreatePartitionsTopic


def create_partitions(
    request: CreatePartitionsRequest, state: ControllerState, draws: Draws, defects: Sequence[str]
) -> tuple[list[Change], CreatePartitionsResponse]:
    """The records, and what became of each topic; one that is named twice is refused, before all others."""
    response = CreatePartitionsResponse()
    names = [topic.name for topic in request.topics]
    for name in dict.fromkeys(name for name in names if names.count(name) > 1):
        _add(response, name, KafkaError.INVALID_REQUEST, "Duplicate topic name.")
    changes: list[Change] = []
    for topic in request.topics:
        if names.count(topic.name) > 1:
            continue
        try:
            changes += _grow(topic, state, draws, defects)
        except Refused as refused:
            _add(response, topic.name, refused.error, refused.message)
        else:
            _add(response, topic.name, KafkaError.NONE, "")
    if len(changes) > MAX_RECORDS:
        text = "Unable to perform excessively large batch operation."
        return [], error_response(request, KafkaError.POLICY_VIOLATION, text)
    return ([] if request.validate_only else changes), response


def _grow(topic: Topic, state: ControllerState, draws: Draws, defects: Sequence[str]) -> list[Change]:
    known = state.topics.get(state.topic_ids.get(topic.name, ""))
    if known is None:
        text = "This server does not host this topic-partition."
        raise Refused(KafkaError.UNKNOWN_TOPIC_OR_PARTITION, text)
    has = len(known.partitions)
    if topic.count == has:
        raise Refused(KafkaError.INVALID_PARTITIONS, f"Topic already has {has} partition(s).")
    if topic.count < has:
        text = f"The topic {topic.name} currently has {has} partition(s); {topic.count} would not be an increase."
        raise Refused(KafkaError.INVALID_PARTITIONS, text)
    more = topic.count - has
    if more > MAX_RECORDS:
        raise Refused(KafkaError.POLICY_VIOLATION, "Excessively large number of partitions per request.")
    if topic.assignments and len(topic.assignments) != more:
        text = f"Attempted to add {more} partition(s), but {len(topic.assignments)} assignment(s) were specified."
        raise Refused(KafkaError.INVALID_REPLICA_ASSIGNMENT, text)
    placed = _placed(topic, known, more, state, draws, defects)
    return new_partitions(known.topic_id, has, placed, by_hand=bool(topic.assignments))


def _placed(
    topic: Topic, known: TopicRegistration, more: int, state: ControllerState, draws: Draws, defects: Sequence[str]
) -> list[tuple[list[int], list[int]]]:
    first = state.partition(known.topic_id, known.partitions[0])
    assert first is not None, f"topic {topic.name} has no partitions"
    if not topic.assignments:
        placed = place(state, more, len(first.replicas), draws, defects)
        return [(each, in_sync(state, each, KafkaError.INVALID_REPLICATION_FACTOR)) for each in placed]
    wrong = KafkaError.INVALID_REPLICA_ASSIGNMENT
    assigned: list[tuple[list[int], list[int]]] = []
    for each in topic.assignments:
        validate_assignment(state, each.broker_ids, len(first.replicas))
        assigned.append((list(each.broker_ids), in_sync(state, each.broker_ids, wrong)))
    return assigned


def _add(response: CreatePartitionsResponse, name: str, error: KafkaError, message: str) -> None:
    response.results.append(
        CreatePartitionsResponse.CreatePartitionsTopicResult(name=name, error_code=error, error_message=message)
    )
