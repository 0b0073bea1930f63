"""CreateTopics (``ReplicationControlManager.createTopics``, ``ControllerApis.createTopics``)."""

from __future__ import annotations

from collections.abc import Sequence

from actors.config import CONFIG, SERVER_SYNONYMS, config_text
from actors.controller.changes import Change
from actors.controller.configuration_control import invalid_topic_config
from actors.controller.controller_config import MIN_ISR, UNCLEAN_ELECTION, ControllerConfig
from actors.controller.controller_state import ControllerState
from actors.controller.replica_placement import Draws, Refused, place, validate_assignment
from actors.node.error_responses import error_response
from actors.node.errors import KafkaError
from actors.node.messages import request_version
from actors.node.spec import METADATA_TOPIC, is_valid_topic_name
from krift.v1.records import ConfigRecord, MetadataRecord, PartitionRecord, TopicRecord
from krift.v1.topics import CreateTopicsRequest, CreateTopicsResponse

MAX_RECORDS = 10_000
"""Of one operation of a user's (``QuorumController.MAX_RECORDS_PER_USER_OP``); so many partitions at most."""

CONFIGS_TOLD = 5
"""Version from which on the answer tells what the topic has (KIP-525)."""
IDS_TOLD = 7

TOPIC_SOURCE, BROKER_SOURCE, ALL_BROKERS_SOURCE, FILE_SOURCE, DEFAULT_SOURCE = 1, 2, 3, 4, 5
"""Where a value comes from (``ConfigSource``)."""

Topic = CreateTopicsRequest.CreatableTopic
Result = CreateTopicsResponse.CreatableTopicResult


def create_topics(
    request: CreateTopicsRequest, state: ControllerState, config: ControllerConfig, draws: Draws, defects: Sequence[str]
) -> tuple[list[Change], CreateTopicsResponse]:
    """The records, and the answer: a result for each topic, which is made as a whole or not at all. A name that comes
    twice is refused for both, after all others."""
    if sum(_partitions(topic, config) for topic in request.topics) > MAX_RECORDS:
        text = "Excessively large number of partitions per request."
        return [], error_response(request, KafkaError.POLICY_VIOLATION, text)
    version, response = request_version(request), CreateTopicsResponse()
    names = [topic.name for topic in request.topics]
    changes: list[Change] = []
    taken: list[str] = []
    for topic in request.topics:
        if names.count(topic.name) > 1 or topic.name == METADATA_TOPIC:
            continue
        try:
            _refuse_name(topic.name, state)
            configs = _configs(topic)
            placed = _placed(topic, state, config, draws, defects)
        except Refused as refused:
            response.topics.append(_refusal(topic.name, refused.error, refused.message))
            continue
        topic_id = draws.topic_id(state, taken)
        taken.append(topic_id)
        if "topic-id-reused" in defects:
            former = [known for known, name in state.removed.items() if name == topic.name]
            topic_id = former[-1] if former else topic_id
        changes += new_topic(topic.name, topic_id, configs, placed, by_hand=bool(topic.assignments))
        response.topics.append(_success(topic.name, topic_id, configs, placed, state, config, version))
    if len(changes) > MAX_RECORDS:
        text = "Unable to perform excessively large batch operation."
        return [], error_response(request, KafkaError.POLICY_VIOLATION, text)
    for name in dict.fromkeys(name for name in names if names.count(name) > 1):
        response.topics.append(_refusal(name, KafkaError.INVALID_REQUEST, "Duplicate topic name."))
    if names.count(METADATA_TOPIC) == 1:
        text = f"Creation of internal topic {METADATA_TOPIC} is prohibited."
        response.topics.append(_refusal(METADATA_TOPIC, KafkaError.INVALID_REQUEST, text))
    return ([] if request.validate_only else changes), response


def new_topic(
    name: str, topic_id: str, configs: dict[str, str], placed: list[tuple[list[int], list[int]]], *, by_hand: bool
) -> list[Change]:
    """The records of a topic, its configuration between itself and its partitions. ``placed``: replicas and ISR of
    each; the first of the ISR leads. ``by_hand``: whether the request assigns the replicas."""
    records = [MetadataRecord(topic=TopicRecord(name=name, topic_id=topic_id))]
    for key, value in configs.items():
        config = ConfigRecord(resource_type="topic", resource_name=name, name=key, value=value)
        records.append(MetadataRecord(config=config))
    return [Change(record, "create") for record in records] + new_partitions(topic_id, 0, placed, by_hand=by_hand)


def new_partitions(
    topic_id: str, first: int, placed: list[tuple[list[int], list[int]]], *, by_hand: bool
) -> list[Change]:
    """The records of partitions, numbered from ``first`` on. ``by_hand``: as above."""
    return [
        Change(
            MetadataRecord(
                partition=PartitionRecord(
                    topic_id=topic_id, partition_id=first + index, replicas=replicas, isr=isr, leader=isr[0]
                )
            ),
            "create",
            placed=-1 if by_hand else index,
        )
        for index, (replicas, isr) in enumerate(placed)
    ]


def in_sync(state: ControllerState, replicas: list[int], refusal: KafkaError) -> list[int]:
    """The first ISR of a new partition: its active replicas. Raises Refused where there is none."""
    isr = [replica for replica in replicas if state.is_active(replica)]
    if not isr:
        raise Refused(refusal, "All brokers of a partition are currently fenced or in controlled shutdown.")
    return isr


# ---- what may be refused -----------------------------------------------------------------------------------


def _refuse_name(name: str, state: ControllerState) -> None:
    if not is_valid_topic_name(name):
        raise Refused(KafkaError.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: '{name}'")
    if name in state.topic_ids:
        raise Refused(KafkaError.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    if "." in name or "_" in name:
        # Both become an underscore in the names of metrics.
        colliding = [known for known in state.topic_ids if known.replace(".", "_") == name.replace(".", "_")]
        if colliding:
            text = f"Topic '{name}' collides with existing topic: {colliding[0]}"
            raise Refused(KafkaError.INVALID_TOPIC_EXCEPTION, text)


def _configs(topic: Topic) -> dict[str, str]:
    values: dict[str, str] = {}
    for config in topic.configs:
        if config.value is None:
            raise Refused(KafkaError.INVALID_CONFIG, f"Null value not supported for topic configs: {config.name}")
        values[config.name] = config.value
    wrong = invalid_topic_config(values)
    if wrong:
        raise Refused(KafkaError.INVALID_CONFIG, wrong)
    return values


def _partitions(topic: Topic, config: ControllerConfig) -> int:
    if topic.assignments:
        return len(topic.assignments)
    return config.num_partitions if topic.num_partitions == -1 else max(0, topic.num_partitions)


def _placed(
    topic: Topic, state: ControllerState, config: ControllerConfig, draws: Draws, defects: Sequence[str]
) -> list[tuple[list[int], list[int]]]:
    """Replicas and ISR of each partition, as the request assigns them or as they are placed here."""
    if topic.assignments:
        return _assigned(topic, state)
    if topic.replication_factor < -1 or topic.replication_factor == 0:
        text = "Replication factor must be larger than 0, or -1 to use the default value."
        raise Refused(KafkaError.INVALID_REPLICATION_FACTOR, text)
    if topic.num_partitions < -1 or topic.num_partitions == 0:
        text = "Number of partitions was set to an invalid non-positive value."
        raise Refused(KafkaError.INVALID_PARTITIONS, text)
    replicas = config.replication_factor if topic.replication_factor == -1 else topic.replication_factor
    try:
        placed = place(state, _partitions(topic, config), replicas, draws, defects)
        return [(each, in_sync(state, each, KafkaError.INVALID_REPLICATION_FACTOR)) for each in placed]
    except Refused as refused:
        text = f"Unable to replicate the partition {replicas} time(s): {refused.message}"
        raise Refused(refused.error, text) from refused


def _assigned(topic: Topic, state: ControllerState) -> list[tuple[list[int], list[int]]]:
    for asked, what in ((topic.replication_factor, "replication factor"), (topic.num_partitions, "numPartitions")):
        if asked != -1:
            text = f"A manual partition assignment was specified, but {what} was not set to -1."
            raise Refused(KafkaError.INVALID_REQUEST, text)
    wrong = KafkaError.INVALID_REPLICA_ASSIGNMENT
    placed: dict[int, tuple[list[int], list[int]]] = {}
    replication_factor = -1
    for each in topic.assignments:
        if each.partition_index in placed:
            text = f"Found multiple manual partition assignments for partition {each.partition_index}"
            raise Refused(wrong, text)
        validate_assignment(state, each.broker_ids, replication_factor)
        replication_factor = len(each.broker_ids)
        placed[each.partition_index] = (list(each.broker_ids), in_sync(state, each.broker_ids, wrong))
    if sorted(placed) != list(range(len(placed))):
        raise Refused(wrong, "partitions should be a consecutive 0-based integer sequence")
    return [placed[index] for index in range(len(placed))]


# ---- the answer --------------------------------------------------------------------------------------------


def _refusal(name: str, error: KafkaError, message: str) -> Result:
    return Result(name=name, error_code=error, error_message=message)


def _success(
    name: str,
    topic_id: str,
    configs: dict[str, str],
    placed: list[tuple[list[int], list[int]]],
    state: ControllerState,
    config: ControllerConfig,
    version: int,
) -> Result:
    result = Result(name=name)
    if version >= IDS_TOLD:
        result.topic_id = topic_id
    if version >= CONFIGS_TOLD:
        result.num_partitions = len(placed)
        result.replication_factor = len(placed[0][0])
        result.configs = [_told(key, configs, state, config) for key in sorted(CONFIG) if "topic" in CONFIG[key].scopes]
    return result


def _told(
    key: str, configs: dict[str, str], state: ControllerState, config: ControllerConfig
) -> CreateTopicsResponse.CreatableTopicConfigs:
    """A key's value for a new topic, and where it comes from (``computeEffectiveTopicConfigs``)."""
    synonym = SERVER_SYNONYMS.get(key, key)
    of_file = {MIN_ISR: config_text(config.min_isr), UNCLEAN_ELECTION: config_text(config.unclean_election)}
    default = config_text(CONFIG[key].default)
    places = (
        (configs.get(key), TOPIC_SOURCE),
        (state.configs.get(f"broker/{config.node_id}", {}).get(synonym), BROKER_SOURCE),
        (state.configs.get("broker/", {}).get(synonym), ALL_BROKERS_SOURCE),
        (of_file[key] if of_file.get(key, default) != default else None, FILE_SOURCE),
        (default, DEFAULT_SOURCE),
    )
    value, source = next((value, source) for value, source in places if value is not None)
    return CreateTopicsResponse.CreatableTopicConfigs(name=key, value=value, config_source=source)
