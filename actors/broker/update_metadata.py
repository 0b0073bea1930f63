"""Metadata as brokers were told of it before KRaft: pushed by the controller, to each broker by itself
(``core/.../server/metadata/ZkMetadataCache.scala`` of Kafka 3.x; KIP-232 is about what comes of it).

Only what clients are told comes from here; who leads and who follows comes from the metadata log all the same.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from actors.broker.turn import Turn
from actors.metadata.metadata_state import MetadataState
from actors.metadata.registrations import BrokerRegistration, PartitionRegistration, TopicRegistration
from actors.node.errors import KafkaError
from actors.node.messages import check_fields
from actors.node.spec import topic_partition
from krift.v1.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse

UNKNOWN_EPOCH = -1
LEADER_DURING_DELETE = -2

PartitionState = UpdateMetadataRequest.UpdateMetadataPartitionState


class PushedMetadata(msgspec.Struct):
    """What a broker was told last. ``controller_epoch``: the highest that any controller has shown."""

    controller_epoch: int = UNKNOWN_EPOCH
    cache: MetadataState = msgspec.field(default_factory=lambda: MetadataState(metadata_epoch=UNKNOWN_EPOCH))

    def update(self, turn: Turn, connection: str, request: UpdateMetadataRequest) -> None:
        """Serve UpdateMetadata. Whatever it lists is overwritten: neither leader epochs nor metadata epochs are
        compared, so a broker tells clients the metadata epoch of the last update that it took."""
        error = self._refusal(turn, request)
        if error == KafkaError.NONE:
            self.controller_epoch = request.controller_epoch
            self._take(request)
            self.cache.metadata_epoch = request.metadata_epoch if turn.settings.kip_232 == "seed" else UNKNOWN_EPOCH
        response = UpdateMetadataResponse(error_code=error)
        check_fields(response, request.header.api_version)
        turn.step.reply(connection, response)

    def _refusal(self, turn: Turn, request: UpdateMetadataRequest) -> KafkaError:
        """STALE_BROKER_EPOCH for a former registration's (this broker may learn of its newest one last), then
        STALE_CONTROLLER_EPOCH for a former controller's."""
        if request.broker_epoch != UNKNOWN_EPOCH and request.broker_epoch < turn.broker_epoch:
            return KafkaError.STALE_BROKER_EPOCH
        if request.controller_epoch < self.controller_epoch and "former-controller-obeyed" not in turn.step.defects:
            return KafkaError.STALE_CONTROLLER_EPOCH
        return KafkaError.NONE

    def _take(self, request: UpdateMetadataRequest) -> None:
        cache = self.cache
        cache.brokers = {broker.id: _alive(broker.id) for broker in request.live_brokers}
        for topic, topic_id, state in _states(request):
            if state.leader == LEADER_DURING_DELETE:
                self._delete(topic, topic_id, state.partition_index)
                continue
            registration = self._topic(topic, topic_id)
            tp = topic_partition(topic, state.partition_index)
            if state.partition_index not in registration.partitions:
                registration.partitions.append(state.partition_index)
            cache.partitions[tp] = _partition(registration, state)

    def _delete(self, name: str, topic_id: str, index: int) -> None:
        """Forget a partition, and with its last one the topic, unless another topic has the name by now."""
        cache = self.cache
        known = cache.topic_ids.get(name, "")
        if not known or topic_id not in ("", known):
            return
        registration = cache.topics[known]
        if cache.partitions.pop(topic_partition(name, index), None) is not None:
            registration.partitions.remove(index)
        if not registration.partitions:
            del cache.topics[known], cache.topic_ids[name]

    def _topic(self, name: str, topic_id: str) -> TopicRegistration:
        """The topic as it is known, or a new one. Below version 7 no id is told: what is known of it stays, and where
        nothing is, its name stands for the id."""
        cache = self.cache
        known = cache.topic_ids.get(name, "")
        key = topic_id or known or name
        if known != key:
            if known:
                for index in cache.topics.pop(known).partitions:
                    cache.partitions.pop(topic_partition(name, index))
            cache.topic_ids[name] = key
            cache.topics[key] = TopicRegistration(name, topic_id)
        return cache.topics[key]


def _states(request: UpdateMetadataRequest) -> Iterator[tuple[str, str, PartitionState]]:
    for state in request.ungrouped_partition_states:
        yield state.topic_name, "", state
    for topic in request.topic_states:
        for state in topic.partition_states:
            yield topic.topic_name, topic.topic_id, state


def _alive(broker_id: int) -> BrokerRegistration:
    return BrokerRegistration(broker_id, "", UNKNOWN_EPOCH, False, False, -1)


def _partition(topic: TopicRegistration, state: PartitionState) -> PartitionRegistration:
    return PartitionRegistration(
        topic.name,
        topic.topic_id,
        state.partition_index,
        list(state.replicas),
        list(state.isr),
        state.leader,
        state.leader_epoch,
        state.zk_version,
    )
