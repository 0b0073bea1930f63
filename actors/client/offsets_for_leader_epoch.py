"""Checking a consumer's positions after a leader change: was the log cut below them? (``SubscriptionState.java``
maybeValidatePosition, ``OffsetsForLeaderEpochClient.java``, ``OffsetsForLeaderEpochUtils.java``; KIP-320)"""

from __future__ import annotations

import msgspec

from actors.client.metadata_cache import Leader, MetadataCache
from actors.client.subscription_state import TopicPartitionState
from actors.node.errors import KafkaError
from actors.node.messages import Api
from actors.node.network_client import Ended, NetworkClient
from actors.node.spec import split_topic_partition, topic_partition
from actors.node.step import Step
from actors.trace.events import ErrorSeen
from krift.v1.offset_for_leader_epoch import OffsetForLeaderEpochRequest

PURPOSE = "offset-for-leader-epoch"
RETRY = "offset-for-leader-epoch/retry/"

LEAST_VERSION = 3
"""Before it a client needed a right over the whole cluster to ask; such a broker is not asked."""

Positions = dict[str, TopicPartitionState]


class Truncation(msgspec.Struct, frozen=True):
    """The leader's log does not hold what the position comes after. ``end``, ``epoch``: where the two part, -1 where
    the leader cannot tell."""

    tp: str
    end: int
    epoch: int


class PositionValidator(msgspec.Struct):
    """Positions that wait are those in the state "validating". ``calls``: call -> partitions it asks about."""

    connection: str = ""
    backoff_ms: int = 100
    calls: dict[int, list[str]] = {}

    # ---- sending ------------------------------------------------------------------------------------------

    def poll(self, step: Step, net: NetworkClient, metadata: MetadataCache, positions: Positions) -> None:
        """Let positions follow their leaders, and ask about those that have to be checked, one request per broker."""
        groups: dict[str, list[TopicPartitionState]] = {}
        for position in positions.values():
            leader = metadata.current_leader(position.tp)
            if leader is not None and leader != position.leader and position.state in ("fetching", "validating"):
                self._follow(step, net, position, leader)
            if position.state == "validating" and not position.validation and not position.validation_pausing:
                assert position.leader is not None
                groups.setdefault(position.leader.name, []).append(position)
        for peer, group in groups.items():
            if net.ready(step, peer, self.connection):
                self._send(step, net, peer, group)

    def _follow(self, step: Step, net: NetworkClient, position: TopicPartitionState, leader: Leader) -> None:
        """A new leader, or leader epoch. A position that knows the epoch of what it comes after must be checked."""
        position.leader = leader
        position.validation = 0
        if position.validation_pausing:
            position.validation_pausing = False
            step.cancel_timer(RETRY + position.tp)
        known = position.epoch >= 0 and leader.epoch >= 0
        if known and net.connected(leader.name, self.connection):
            known = self._usable(net, leader.name) is not None
        position.state = "validating" if known and "position-not-validated" not in step.defects else "fetching"

    def _usable(self, net: NetworkClient, peer: str) -> int | None:
        version = net.version(peer, self.connection, Api.OffsetForLeaderEpoch)
        return None if version is None or version < LEAST_VERSION else version

    def _send(self, step: Step, net: NetworkClient, peer: str, group: list[TopicPartitionState]) -> None:
        version = self._usable(net, peer)
        if version is None:
            for position in group:
                position.state = "fetching"
            return
        request = OffsetForLeaderEpochRequest(replica_id=-1)
        topics: dict[str, OffsetForLeaderEpochRequest.OffsetForLeaderTopic] = {}
        for position in group:
            name, index = split_topic_partition(position.tp)
            if name not in topics:
                topics[name] = OffsetForLeaderEpochRequest.OffsetForLeaderTopic(topic=name)
                request.topics.append(topics[name])
            assert position.leader is not None
            current = -1 if "epoch-end-without-epoch" in step.defects else position.leader.epoch
            topics[name].partitions.append(
                OffsetForLeaderEpochRequest.OffsetForLeaderPartition(
                    partition=index, current_leader_epoch=current, leader_epoch=position.epoch
                )
            )
        call = net.send(step, peer, self.connection, request, version, PURPOSE)
        self.calls[call] = [position.tp for position in group]
        for position in group:
            position.validation = call

    # ---- answers ------------------------------------------------------------------------------------------

    def on_ended(self, step: Step, metadata: MetadataCache, positions: Positions, ended: Ended) -> list[Truncation]:
        """Take the end of a call; returns what was found to be truncated. An answer about a position that has another
        leader by now is dropped."""
        asked = self.calls.pop(ended.call)
        errors: dict[str, int] = dict.fromkeys(asked, int(KafkaError.UNKNOWN_SERVER_ERROR))
        ends: dict[str, tuple[int, int]] = {}
        if ended.response is None:
            errors = dict.fromkeys(asked, int(KafkaError.NETWORK_EXCEPTION))
            step.record(
                ErrorSeen("", Api.OffsetForLeaderEpoch.name, ended.version, KafkaError.NETWORK_EXCEPTION, ended.peer)
            )
        else:
            for topic in ended.response.topics:
                for data in topic.partitions:
                    tp = topic_partition(topic.topic, data.partition)
                    errors[tp] = data.error_code
                    ends[tp] = (data.leader_epoch, data.end_offset)
        truncations: list[Truncation] = []
        for tp in asked:
            position = positions.get(tp)
            if position is None or position.validation != ended.call:
                continue
            position.validation = 0
            if errors[tp]:
                self._retry(step, metadata, position, ended, errors[tp])
                continue
            position.state = "fetching"
            epoch, end = ends[tp]
            if epoch < 0 or end < 0:
                truncations.append(Truncation(tp, -1, -1))
            elif end < position.offset or (end > position.offset and "truncation-forward" in step.defects):
                if "truncation-one-short" in step.defects:
                    end = max(end - 1, 0)
                truncations.append(Truncation(tp, end, epoch))
        return truncations

    def _retry(
        self, step: Step, metadata: MetadataCache, position: TopicPartitionState, ended: Ended, error: int
    ) -> None:
        if ended.response is not None:
            step.record(ErrorSeen(position.tp, Api.OffsetForLeaderEpoch.name, ended.version, error, ended.peer))
        metadata.request_update()
        position.validation_pausing = True
        step.set_timer(RETRY + position.tp, self.backoff_ms, self.backoff_ms)
