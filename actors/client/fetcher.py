"""Fetching records for a consumer (``consumer/internals/AbstractFetch.java``, ``FetchCollector.java``)."""

from __future__ import annotations

import msgspec

from actors.client.aborted_transactions import AbortedTransactions
from actors.client.client_base import DATA
from actors.client.metadata_cache import STALE_LEADER, Leader, MetadataCache, refusal
from actors.client.subscription_state import TopicPartitionState
from actors.log.batch import payload_digest
from actors.node.backoff import backoff_range
from actors.node.errors import KafkaError, traits
from actors.node.fetch_session_handler import FetchSessionHandler, PartitionRequest
from actors.node.isolation import READ_COMMITTED
from actors.node.messages import Api
from actors.node.network_client import Ended, NetworkClient
from actors.node.often import TOLD, Often
from actors.node.spec import split_topic_partition
from actors.node.step import Step
from actors.trace.events import ErrorSeen, Polled, RpcQuiet
from krift.v1.fetch import FetchRequest, FetchResponse

PURPOSE = "fetch"
PAUSE = "fetch/"

_TOPIC_ID_VERSION = 13
_SESSION_LOST = (KafkaError.NONE, KafkaError.FETCH_SESSION_ID_NOT_FOUND, KafkaError.INVALID_FETCH_SESSION_EPOCH)

Positions = dict[str, TopicPartitionState]


class Asked(msgspec.Struct, frozen=True, gc=False):
    """What a Fetch asked of one partition; ``leader_epoch`` -1: the broker did not check it. ``key``: what the trace
    calls the partition that was asked."""

    offset: int
    leader_epoch: int
    key: str


class Delivery(msgspec.Struct, frozen=True, gc=False):
    """Records of one partition, as they go to the application in one poll. ``key``: what the trace calls it.
    ``log_start``: of the broker's log, -1 where the version of Fetch has no field for it."""

    tp: str
    key: str
    offset: int
    leader_epoch: int
    log_start: int
    records: list[Polled]


class Fetcher(msgspec.Struct):
    """One Fetch in flight per broker, for all partitions that it leads. ``calls``: call -> what it asked for.
    ``sessions``: fetch sessions by broker. ``limits``: up to where there is something to read for it (high watermarks,
    or last stable offsets), by broker and partition, as it told them last; a session's answer leaves them out while
    they do not move, also where the position is a new one."""

    isolation: int = 0
    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 52428800
    partition_max_bytes: int = 1048576
    backoff_ms: int = 100
    backoff_max_ms: int = 1000
    calls: dict[int, dict[str, Asked]] = {}
    busy: dict[str, int] = {}
    sessions: dict[str, FetchSessionHandler] = {}
    limits: dict[str, dict[str, int]] = {}
    beyond: Often = msgspec.field(default_factory=Often)

    # ---- sending ------------------------------------------------------------------------------------------

    def poll(self, step: Step, net: NetworkClient, metadata: MetadataCache, positions: Positions) -> None:
        """Send a Fetch to every broker that leads a fetchable partition and has none to answer yet."""
        by_broker: dict[str, dict[str, Leader]] = {}
        for tp, position in positions.items():
            if not position.fetchable:
                continue
            leader = position.leader
            if leader is None:
                metadata.request_update()
            elif leader.name not in self.busy:
                by_broker.setdefault(leader.name, {})[tp] = leader
        for peer, leaders in by_broker.items():
            if net.ready(step, peer, DATA):
                self._send(step, net, metadata, positions, peer, leaders)

    def _send(
        self,
        step: Step,
        net: NetworkClient,
        metadata: MetadataCache,
        positions: Positions,
        peer: str,
        leaders: dict[str, Leader],
    ) -> None:
        version = net.version(peer, DATA, Api.Fetch)
        if version is None:
            return
        names = {tp: split_topic_partition(tp) for tp in leaders}
        if any(topic not in metadata.topic_ids for topic, _ in names.values()):
            version = min(version, _TOPIC_ID_VERSION - 1)
        wait_ms = 0 if "fetch-without-wait" in step.defects else self.max_wait_ms
        request = FetchRequest(max_wait_ms=wait_ms, min_bytes=self.min_bytes, max_bytes=self.max_bytes)
        request.isolation_level = 0 if "everything-fetched" in step.defects else self.isolation
        wanted: dict[str, PartitionRequest] = {}
        asked: dict[str, Asked] = {}
        for tp, leader in leaders.items():
            topic, index = names[tp]
            offset = positions[tp].offset
            topic_id = metadata.topic_ids[topic] if version >= _TOPIC_ID_VERSION else ""
            epoch = -1 if "fetch-without-epoch" in step.defects else leader.epoch
            wanted[tp] = PartitionRequest(topic, topic_id, index, offset, self.partition_max_bytes, epoch)
            asked[tp] = Asked(offset, epoch if version >= 9 else -1, metadata.key(tp))
        session = self.sessions.get(peer)
        if session is None:
            session = self.sessions[peer] = FetchSessionHandler()
        session.build(request, version, wanted)
        call = net.send(step, peer, DATA, request, version, PURPOSE)
        self.calls[call] = asked
        self.busy[peer] = call

    # ---- answers ------------------------------------------------------------------------------------------

    def on_ended(self, step: Step, metadata: MetadataCache, positions: Positions, ended: Ended) -> list[Delivery]:
        """Take the end of a Fetch; returns what it delivers."""
        asked = self.calls.pop(ended.call)
        response = ended.response
        if response is not None or "consumer-gives-up" not in step.defects:
            del self.busy[ended.peer]
        session = self.sessions[ended.peer]
        answers = session.take(step, ended)
        if answers is None:
            self._on_refused(step, metadata, positions, ended, asked)
            return []
        deliveries: list[Delivery] = []
        told = self.limits.setdefault(ended.peer, {})
        for tp, data in answers:
            limit = data.last_stable_offset if self.isolation == READ_COMMITTED else data.high_watermark
            told[tp] = -1 if data.error_code else limit
            position = positions.get(tp)
            if position is None or tp not in asked:
                continue
            if position.state != "fetching" or position.revoking or position.offset != asked[tp].offset:
                continue  # the position was moved meanwhile, or is given up
            if data.error_code:
                self._on_error(step, metadata, position, ended, data)
            else:
                position.failures = 0
                deliveries += _collect(step, position, asked[tp], data, self.isolation)
        if not deliveries:
            self._note_beyond(step, positions, asked, told)
        return deliveries

    def _note_beyond(self, step: Step, positions: Positions, asked: dict[str, Asked], told: dict[str, int]) -> None:
        """Nothing came of a Fetch: maybe since it is beyond what a new leader knows to be committed, or has of
        transactions that are over."""
        for tp, each in asked.items():
            position = positions.get(tp)
            if position is not None and each.offset == position.offset > told.get(tp, -1) >= 0:
                if self.beyond.count(step.now_ms):
                    step.record(RpcQuiet(TOLD, tp))
                return

    def _on_refused(
        self,
        step: Step,
        metadata: MetadataCache,
        positions: Positions,
        ended: Ended,
        asked: dict[str, Asked],
    ) -> None:
        """The Fetch failed as a whole. If it is its session that the broker did not like, everything is asked for at
        once."""
        error = int(KafkaError.NETWORK_EXCEPTION) if ended.response is None else ended.response.error_code
        if error:
            step.record(ErrorSeen("", Api.Fetch.name, ended.version, error, ended.peer))
        if error == KafkaError.FETCH_SESSION_TOPIC_ID_ERROR:
            metadata.request_update()
        elif ended.response is not None and error not in _SESSION_LOST:
            for tp in asked:
                if tp in positions:
                    self._pause(step, positions[tp])

    def _on_error(
        self,
        step: Step,
        metadata: MetadataCache,
        position: TopicPartitionState,
        ended: Ended,
        data: FetchResponse.PartitionData,
    ) -> None:
        error = data.error_code
        step.record(refusal(position.tp, Api.Fetch, ended, error, data.current_leader))
        if error == KafkaError.OFFSET_OUT_OF_RANGE:
            position.state = "reset"
            return
        if traits(error).invalid_metadata or error == KafkaError.OFFSET_NOT_AVAILABLE:
            metadata.request_update()
        if data.current_leader is not None and error in STALE_LEADER:
            endpoints = list(ended.response.node_endpoints)
            if metadata.update_leadership(step, ended.peer, position.tp, data.current_leader, endpoints):
                return
        self._pause(step, position)

    def _pause(self, step: Step, position: TopicPartitionState) -> None:
        """Kafka asks again at once; here a partition in error rests for the retry back-off."""
        low, high = backoff_range(self.backoff_ms, self.backoff_max_ms, position.failures)
        position.failures += 1
        position.pausing = True
        step.set_timer(PAUSE + position.tp, low, high)


def _collect(
    step: Step, position: TopicPartitionState, asked: Asked, data: FetchResponse.PartitionData, isolation: int
) -> list[Delivery]:
    """Move the position over the batches of an answer, and pick out what the application gets to see."""
    records: list[Polled] = []
    told = data.aborted_transactions if isolation == READ_COMMITTED else []
    aborted = AbortedTransactions(told, any_marker="any-marker-ends-abort" in step.defects)
    for number, batch in enumerate(data.records):
        end = batch.base_offset + len(batch.records)
        if end <= position.offset:
            continue
        left_out = aborted.leaves_out(batch) and "aborted-records-delivered" not in step.defects
        hidden = left_out or batch.is_control
        if not hidden and ("position-past-rest" not in step.defects or not number):
            # a broker sends whole batches: the first one may begin before the position
            for offset, record in enumerate(batch.records, batch.base_offset):
                if offset >= position.offset:
                    digest = payload_digest(record)
                    records.append(Polled(offset, batch.partition_leader_epoch, record.uid, digest))
        position.offset = end
        position.epoch = batch.partition_leader_epoch
    if not records:
        return []
    if "consumer-mislabel" in step.defects and len(records) > 1:
        first, second = records[0], records[1]
        records[:2] = [
            Polled(first.offset, first.leader_epoch, second.uid, second.digest),
            Polled(second.offset, second.leader_epoch, first.uid, first.digest),
        ]
    return [Delivery(position.tp, asked.key, asked.offset, asked.leader_epoch, data.log_start_offset, records)]
