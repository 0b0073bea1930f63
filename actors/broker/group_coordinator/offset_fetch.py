"""Serving OffsetFetch (``KafkaApis.handleOffsetFetchRequest``, ``OffsetMetadataManager.fetchOffsets``)."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from actors.broker.coordinator_common.refusals import record_refusal_of_member
from actors.broker.coordinator_common.writes import answer as answer_coordinated, answer_error, coordinator_error
from actors.broker.group_coordinator import writes
from actors.broker.group_coordinator.group_state import DEAD
from actors.broker.group_coordinator.offset_metadata import INVALID_OFFSET, OffsetAndMetadata
from actors.broker.group_coordinator.shard import Shard
from actors.broker.purgatory import COMMITTED
from actors.broker.turn import Turn
from actors.node.errors import KafkaError
from actors.node.messages import Api
from actors.node.purgatory import DelayedOperation, Key
from actors.node.spec import split_topic_partition, topic_partition
from actors.trace.events import GrpFetch
from actors.trace.group_events import NO_ENTRY, Entry
from krift.v1.groups import OffsetFetchRequest, OffsetFetchResponse

WITH_METADATA_EPOCH = 4
WITH_LEADER_EPOCH = 5
BATCHED = 8
WITH_TOPIC_IDS = 10


class FetchedPartition(msgspec.Struct):
    """What is told of a partition. ``other``: what is committed is of another topic of its name, and is not told."""

    index: int
    error: KafkaError = KafkaError.NONE
    value: OffsetAndMetadata | None = None
    other: bool = False


class FetchedTopic(msgspec.Struct):
    """Of a topic, by name or by id as it was asked for."""

    name: str
    topic_id: str
    partitions: list[FetchedPartition] = []


class FetchedGroup(msgspec.Struct):
    """Of a group. ``offsets_tp``, ``epoch``: who coordinates it, ""  if this broker does not; ``end``: up to here its
    offsets partition has to be committed before that may be told. ``waiting``: it is not."""

    group_id: str
    error: KafkaError = KafkaError.NONE
    topics: list[FetchedTopic] = []
    offsets_tp: str = ""
    epoch: int = -1
    end: int = 0
    waiting: bool = False


class DelayedOffsetFetch(DelayedOperation):
    """An OffsetFetch with RequireStable, which is told the newest offsets, once these are committed."""

    request: OffsetFetchRequest
    groups: list[FetchedGroup]

    timer: ClassVar[str] = writes.TIMER

    @property
    def keys(self) -> list[Key]:
        """The offsets partitions of its groups."""
        return [(COMMITTED, group.offsets_tp) for group in self.groups if group.offsets_tp]

    def try_complete(self, context: Turn, key: Key) -> bool:
        """Decide the groups that can be."""
        for group in self.groups:
            settle(context, group)
        return not any(group.waiting for group in self.groups)

    def on_complete(self, context: Turn) -> None:
        """Answer."""
        answer(context, self.connection, self.request, self.groups)

    def on_expiration(self, context: Turn) -> None:
        """It took too long."""
        for group in self.groups:
            if group.waiting:
                group.error, group.waiting = coordinator_error(KafkaError.REQUEST_TIMED_OUT), False
        answer(context, self.connection, self.request, self.groups)


def settle(turn: Turn, group: FetchedGroup) -> None:
    """Look whether what is told of a group is committed."""
    if not group.waiting:
        return
    decided = writes.decide(turn, group.offsets_tp, group.end)
    if decided is not None:
        group.waiting, group.error = False, coordinator_error(decided)


# ---- the request -------------------------------------------------------------------------------------------


def offset_fetch(turn: Turn, connection: str, request: OffsetFetchRequest) -> None:
    """Tell what groups have committed: at once what is committed, or with RequireStable the newest once it is."""
    groups = [_fetch(turn, request, asked) for asked in _asked(request)]
    for group in groups:
        settle(turn, group)
    if any(group.waiting for group in groups):
        deadline_ms = writes.deadline_ms(turn)
        turn.purgatory.park(turn.step, DelayedOffsetFetch(connection, deadline_ms, request, groups))
    else:
        answer(turn, connection, request, groups)


def _asked(request: OffsetFetchRequest) -> list[OffsetFetchRequest.OffsetFetchRequestGroup]:
    """The groups, in the form of version 8; before that there is one."""
    if request.header.api_version >= BATCHED:
        return request.groups
    topics = [
        OffsetFetchRequest.OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
        for topic in request.topics
    ]
    return [
        OffsetFetchRequest.OffsetFetchRequestGroup(
            group_id=request.group_id, topics=topics, all_topics=request.all_topics
        )
    ]


def _fetch(turn: Turn, request: OffsetFetchRequest, asked: OffsetFetchRequest.OffsetFetchRequestGroup) -> FetchedGroup:
    found = FetchedGroup(asked.group_id)
    shard, found.error = turn.groups.find(turn, asked.group_id)
    if found.error:
        record_refusal_of_member(turn, Api.OffsetFetch, asked.group_id, asked, found.error)
    if shard is None:
        return found
    found.offsets_tp, found.epoch = shard.tp, shard.epoch
    shard.offsets.advance(turn.replicas.partitions[shard.tp].log.high_watermark)
    if request.require_stable:
        found.end, found.waiting = shard.written, True
    known = _of_group(turn, shard, asked.group_id, request.require_stable)
    by_id = request.header.api_version >= WITH_TOPIC_IDS
    if asked.all_topics:
        found.topics = _all(turn, known, by_id)
    else:
        found.topics = [_topic(turn, known, topic, by_id) for topic in asked.topics]
    if request.require_stable and "unstable-offsets-told" not in turn.step.defects:
        _hide_unstable(shard, found)
    return found


def _hide_unstable(shard: Shard, found: FetchedGroup) -> None:
    """What an open transaction is about to commit is not told, nor what was committed before."""
    for topic in found.topics:
        for partition in topic.partitions:
            tp = topic_partition(topic.name, partition.index)
            if not partition.error and shard.offsets.is_pending(found.group_id, tp):
                partition.error, partition.value, partition.other = KafkaError.UNSTABLE_OFFSET_COMMIT, None, False


def _of_group(turn: Turn, shard: Shard, group_id: str, newest: bool) -> dict[str, OffsetAndMetadata]:
    """What is stored for a group; nothing if there is no such group, as far as that is committed."""
    group = shard.groups.get(group_id)
    if group is None or group.state == DEAD:
        return {}
    if newest:
        return shard.offsets.written.get(group_id, {})
    if group.seen_at > turn.replicas.partitions[shard.tp].log.high_watermark:
        return {}
    return shard.offsets.committed.get(group_id, {})


def _all(turn: Turn, known: dict[str, OffsetAndMetadata], by_id: bool) -> list[FetchedTopic]:
    """Everything that is stored; by ids only of topics that there are."""
    topics: dict[str, FetchedTopic] = {}
    for tp, value in known.items():
        name, index = split_topic_partition(tp)
        topic_id = turn.image.topic_ids.get(name, "") if by_id else ""
        if by_id and (not topic_id or _is_of_another(value, topic_id)):
            continue
        topic = topics.setdefault(name, FetchedTopic(name, topic_id))
        topic.partitions.append(FetchedPartition(index, value=value))
    return list(topics.values())


def _topic(
    turn: Turn,
    known: dict[str, OffsetAndMetadata],
    asked: OffsetFetchRequest.OffsetFetchRequestTopics,
    by_id: bool,
) -> FetchedTopic:
    name, error = asked.name, KafkaError.NONE
    if by_id:
        topic = turn.image.topics.get(asked.topic_id)
        name, error = ("", KafkaError.UNKNOWN_TOPIC_ID) if topic is None else (topic.name, KafkaError.NONE)
    found = FetchedTopic(name, asked.topic_id)
    for index in asked.partition_indexes:
        value = None if error else known.get(topic_partition(name, index))
        other = value is not None and _is_of_another(value, asked.topic_id)
        found.partitions.append(FetchedPartition(index, error, None if other else value, other))
    return found


def _is_of_another(value: OffsetAndMetadata, topic_id: str) -> bool:
    """Whether it was committed for a topic that had the same name before; who commits by name does not say which."""
    return bool(value.topic_id and topic_id) and value.topic_id != topic_id


# ---- the answer --------------------------------------------------------------------------------------------


def answer(turn: Turn, connection: str, request: OffsetFetchRequest, groups: list[FetchedGroup]) -> None:
    """Send it, and record what was told."""
    version = request.header.api_version
    for group in groups:
        _record(turn, group, request)
    if version >= BATCHED:
        response = OffsetFetchResponse(groups=[_group_response(turn, version, group) for group in groups])
        answer_coordinated(turn, connection, request, response)
        return
    [group] = groups
    if group.error:
        answer_error(turn, connection, request, group.error)
        return
    response = OffsetFetchResponse()
    for topic in group.topics:
        told = OffsetFetchResponse.OffsetFetchResponseTopic(name=topic.name)
        response.topics.append(told)
        for each in topic.partitions:
            partition = OffsetFetchResponse.OffsetFetchResponsePartition()
            told.partitions.append(_fill(turn, version, partition, each))
    answer_coordinated(turn, connection, request, response)


def _group_response(turn: Turn, version: int, group: FetchedGroup) -> OffsetFetchResponse.OffsetFetchResponseGroup:
    response = OffsetFetchResponse.OffsetFetchResponseGroup(group_id=group.group_id, error_code=group.error)
    for topic in [] if group.error else group.topics:
        told = OffsetFetchResponse.OffsetFetchResponseTopics()
        if version >= WITH_TOPIC_IDS:
            told.topic_id = topic.topic_id
        else:
            told.name = topic.name
        response.topics.append(told)
        for each in topic.partitions:
            partition = OffsetFetchResponse.OffsetFetchResponsePartitions()
            told.partitions.append(_fill(turn, version, partition, each))
    return response


def _fill(turn: Turn, version: int, told: Any, found: FetchedPartition) -> Any:
    """Put what was found into a partition of the answer, in whichever of its two forms."""
    value = found.value or OffsetAndMetadata(INVALID_OFFSET)
    told.partition_index, told.error_code = found.index, int(found.error)
    told.committed_offset, told.metadata = value.offset, value.metadata
    if version >= WITH_LEADER_EPOCH and "commit-epoch-untold" not in turn.step.defects:
        told.committed_leader_epoch = value.leader_epoch
    if version >= WITH_METADATA_EPOCH and turn.settings.kip_232 == "seed":
        told.metadata_epoch = value.metadata_epoch
    return told


def _record(turn: Turn, group: FetchedGroup, request: OffsetFetchRequest) -> None:
    if not group.offsets_tp:
        return
    offsets: dict[str, Entry] = {}
    for topic in [] if group.error else group.topics:
        for partition in topic.partitions:
            if not partition.error and not partition.other:
                entry = NO_ENTRY if partition.value is None else partition.value.entry
                offsets[topic_partition(topic.name, partition.index)] = list(entry)
    stable_end = group.end if request.require_stable else -1
    error, version = int(group.error), request.header.api_version
    turn.step.record(GrpFetch(group.group_id, group.offsets_tp, group.epoch, error, offsets, stable_end, version))
