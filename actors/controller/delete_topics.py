"""DeleteTopics (``ControllerApis.deleteTopics``, ``ReplicationControlManager.deleteTopics``; KIP-516)."""

from __future__ import annotations

from actors.controller.changes import Change
from actors.controller.controller_config import ControllerConfig
from actors.controller.controller_state import ControllerState
from actors.node.error_responses import error_response
from actors.node.errors import KafkaError
from actors.node.messages import request_version
from krift.v1.records import MetadataRecord, RemoveTopicRecord
from krift.v1.topics import DeleteTopicsRequest, DeleteTopicsResponse

DISABLED_TOLD = 3
MESSAGES_TOLD = 5
BY_ID = 6
"""Version from which on topics may be named by their ids."""


def delete_topics(
    request: DeleteTopicsRequest, state: ControllerState, config: ControllerConfig
) -> tuple[list[Change], DeleteTopicsResponse]:
    """The records, and what became of each topic: those that are refused first, then those that are deleted. Kafka
    answers in any order."""
    version = request_version(request)
    if not config.topic_deletion:
        named = version >= DISABLED_TOLD
        error = KafkaError.TOPIC_DELETION_DISABLED if named else KafkaError.INVALID_REQUEST
        return [], error_response(request, error, "Topic deletion is disabled.")
    answers = _Answers(version)
    names, ids = _asked(request, answers)
    found: dict[str, str | None] = {}
    for topic_id in ids:
        if topic_id in state.topics:
            found[topic_id] = state.topics[topic_id].name
        else:
            answers.add(None, topic_id, KafkaError.UNKNOWN_TOPIC_ID)
    twice: list[str] = []
    for name in names:
        topic_id = state.topic_ids.get(name, "")
        if not topic_id:
            answers.add(name, "", KafkaError.UNKNOWN_TOPIC_OR_PARTITION)
        elif topic_id in found:
            twice.append(topic_id)
            text = "The provided topic name maps to an ID that was already supplied."
            answers.add(name, topic_id, KafkaError.INVALID_REQUEST, text)
        else:
            found[topic_id] = name
    for topic_id in twice:
        del found[topic_id]
    for topic_id, name_found in found.items():
        answers.add(name_found, topic_id, KafkaError.NONE)
    records = [MetadataRecord(remove_topic=RemoveTopicRecord(topic_id=topic_id)) for topic_id in found]
    return [Change(record, "delete", asked=True) for record in records], answers.response


def _asked(request: DeleteTopicsRequest, answers: _Answers) -> tuple[list[str], list[str]]:
    """Names and ids that the request gives once each; what it gives otherwise is refused."""
    names, ids = list(request.topic_names), []
    for topic in request.topics:
        if topic.name is not None and topic.topic_id:
            text = "You may not specify both topic name and topic id."
            answers.add(topic.name, topic.topic_id, KafkaError.INVALID_REQUEST, text)
        elif topic.name is not None:
            names.append(topic.name)
        elif topic.topic_id:
            ids.append(topic.topic_id)
        else:
            answers.add(None, "", KafkaError.INVALID_REQUEST, "Neither topic name nor id were specified.")
    for name in _repeated(names):
        answers.add(name, "", KafkaError.INVALID_REQUEST, "Duplicate topic name.")
    for topic_id in _repeated(ids):
        answers.add(None, topic_id, KafkaError.INVALID_REQUEST, "Duplicate topic id.")
    return [name for name in names if names.count(name) == 1], [each for each in ids if ids.count(each) == 1]


def _repeated(items: list[str]) -> list[str]:
    return [item for item in dict.fromkeys(items) if items.count(item) > 1]


class _Answers:
    """The answer while it is made, with what its version has."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.response = DeleteTopicsResponse()

    def add(self, name: str | None, topic_id: str, error: KafkaError, message: str = "") -> None:
        result = DeleteTopicsResponse.DeletableTopicResult(name=name, error_code=error)
        if self.version >= BY_ID:
            result.topic_id = topic_id
        if self.version >= MESSAGES_TOLD and message:
            result.error_message = message
        self.response.responses.append(result)
