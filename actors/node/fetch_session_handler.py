"""A fetcher's side of a fetch session with one broker (``clients/.../FetchSessionHandler.java``, KIP-227): a replica's
or a consumer's."""

from __future__ import annotations

import msgspec

from actors.node.errors import KafkaError
from actors.node.network_client import Ended
from actors.node.spec import topic_partition
from actors.node.step import Step
from actors.trace.events import FetchMisfit
from krift.v1.fetch import FetchRequest, FetchResponse

INVALID_SESSION_ID = 0
INITIAL_EPOCH = 0
FETCH_SESSIONS = 7
"""Version that brought fetch sessions."""
_TOPIC_IDS = 13
_EPOCH_MAX = 2**31 - 1

Data = FetchResponse.PartitionData


def next_epoch(epoch: int) -> int:
    """The epoch of the request after the one with ``epoch``."""
    return 1 if epoch == _EPOCH_MAX else epoch + 1


class PartitionRequest(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What is asked of one partition. ``topic_id`` is empty where the request names topics. -1: not said."""

    topic: str
    topic_id: str
    index: int
    offset: int
    max_bytes: int
    current_leader_epoch: int = -1
    last_fetched_epoch: int = -1
    log_start: int = -1


class FetchSessionHandler(msgspec.Struct):
    """``epoch`` 0: the next request asks for everything, in a new session. ``partitions``: what the broker holds of
    the session, by topic partition."""

    session_id: int = INVALID_SESSION_ID
    epoch: int = INITIAL_EPOCH
    partitions: dict[str, PartitionRequest] = {}
    names: dict[str, str] = {}

    def build(self, request: FetchRequest, version: int, wanted: dict[str, PartitionRequest]) -> None:
        """Fill ``request`` in so that ``wanted`` is what it asks for: all of it, or what is new in the session."""
        changed = wanted
        if self.epoch == INITIAL_EPOCH:
            self.names = {}
        else:
            changed = {tp: asked for tp, asked in wanted.items() if self.partitions.get(tp) != asked}
            if self._forget(request, version, wanted, changed):
                self.names = {asked.topic_id: asked.topic for asked in wanted.values() if asked.topic_id}
        if version >= FETCH_SESSIONS:
            request.session_id, request.session_epoch = self.session_id, self.epoch
        for asked in changed.values():
            if asked.topic_id:
                self.names[asked.topic_id] = asked.topic
        _add(request, version, changed)
        self.partitions = wanted

    def _forget(
        self,
        request: FetchRequest,
        version: int,
        wanted: dict[str, PartitionRequest],
        changed: dict[str, PartitionRequest],
    ) -> bool:
        """Name what the session need not hold any more: what is not wanted, and topics that were made anew. Whether
        there is any."""
        known = self.partitions
        gone = [] if known.keys() <= wanted.keys() else [each for tp, each in known.items() if tp not in wanted]
        for tp, asked in changed.items():
            before = known.get(tp)
            if before is not None and before.topic_id and asked.topic_id and before.topic_id != asked.topic_id:
                gone.append(before)
        forgotten: dict[str, FetchRequest.ForgottenTopic] = {}
        for each in gone:
            by_id = version >= _TOPIC_IDS
            name = each.topic_id if by_id else each.topic
            if name not in forgotten:
                topic = forgotten[name] = FetchRequest.ForgottenTopic()
                request.forgotten_topics_data.append(topic)
                if by_id:
                    topic.topic_id = name
                else:
                    topic.topic = name
            forgotten[name].partitions.append(each.index)
        return bool(gone)

    def take(self, step: Step, ended: Ended) -> list[tuple[str, Data]] | None:
        """What an answer says of each partition, by topic partition; what a session's answer leaves out has not
        changed. None: there is no answer, or it cannot be used, and the next request asks for everything."""
        response: FetchResponse | None = ended.response
        if response is None:
            self.epoch = INITIAL_EPOCH  # the next one ends the session, too
            return None
        if response.error_code:
            lost = response.error_code == KafkaError.FETCH_SESSION_ID_NOT_FOUND
            self.session_id = INVALID_SESSION_ID if lost else self.session_id
            self.epoch = INITIAL_EPOCH
            return None
        found: list[tuple[str, Data]] = []
        unasked: list[str] = []
        for topic in response.responses:
            name = self.names.get(topic.topic_id, topic.topic_id) if ended.version >= _TOPIC_IDS else topic.topic
            for data in topic.partitions:
                tp = topic_partition(name, data.partition_index)
                if tp not in self.partitions:
                    unasked.append(tp)
                found.append((tp, data))
        if unasked or (self.epoch == INITIAL_EPOCH and len(found) != len(self.partitions)):
            self._misfit(step, ended.peer, unasked, found)
            return None
        # The id 0 says that the broker began no session, or has ended this one.
        self.session_id = response.session_id
        self.epoch = INITIAL_EPOCH if self.session_id == INVALID_SESSION_ID else next_epoch(self.epoch)
        return found

    def _misfit(self, step: Step, peer: str, unasked: list[str], found: list[tuple[str, Data]]) -> None:
        """An answer does not fit (``verifyFullFetchResponsePartitions``, ``verifyIncrementalFetchResponsePartitions``):
        a session that began does not go on, and another one ends with the next request."""
        begins = self.epoch == INITIAL_EPOCH
        missing = sorted(self.partitions.keys() - {tp for tp, _ in found}) if begins else []
        step.record(FetchMisfit(peer, self.session_id, self.epoch, unasked, missing))
        self.session_id = INVALID_SESSION_ID if begins else self.session_id
        self.epoch = INITIAL_EPOCH


def _add(request: FetchRequest, version: int, wanted: dict[str, PartitionRequest]) -> None:
    topics: dict[str, FetchRequest.FetchTopic] = {}
    for asked in wanted.values():
        topic = topics.get(asked.topic)
        if topic is None:
            topic = topics[asked.topic] = FetchRequest.FetchTopic()
            request.topics.append(topic)
            if version >= _TOPIC_IDS:
                topic.topic_id = asked.topic_id
            else:
                topic.topic = asked.topic
        partition = FetchRequest.FetchPartition(
            partition=asked.index, fetch_offset=asked.offset, partition_max_bytes=asked.max_bytes
        )
        topic.partitions.append(partition)
        if version >= 5 and asked.log_start >= 0:
            partition.log_start_offset = asked.log_start
        if version >= 9 and asked.current_leader_epoch >= 0:
            partition.current_leader_epoch = asked.current_leader_epoch
        if version >= 12 and asked.last_fetched_epoch >= 0:
            partition.last_fetched_epoch = asked.last_fetched_epoch
