"""The metadata of copied segments, kept in the topic ``__remote_log_metadata``
(``TopicBasedRemoteLogMetadataManager.java``, ``ProducerManager.java``, ``ConsumerTask.java``).

A broker is a client of that topic, as Kafka's is: it produces events to the leader of their partition, which may be
itself, and consumes the partitions that its own replicas need. What it knows is what it has consumed, so it lags. An
event is told to be published when this broker has consumed it itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from actors.broker.coordinator_common.partitions import REMOTE_LOG_METADATA_TOPIC as TOPIC, partition_of
from actors.broker.forwarding import ForwardingManager
from actors.broker.partition import Partition
from actors.broker.remote_log.readers import segments_key
from actors.broker.remote_log.segment_metadata import SegmentMetadata, SegmentState, metadata_of
from actors.broker.turn import Turn
from actors.config import config_text
from actors.log.batch import payload
from actors.metadata.registrations import PartitionRegistration
from actors.node.component import Component
from actors.node.errors import KafkaError, traits
from actors.node.fetch_session_handler import FetchSessionHandler, PartitionRequest
from actors.node.list_timestamps import EARLIEST
from actors.node.messages import Api
from actors.node.network_client import Ended
from actors.node.often import TOLD, Often
from actors.node.spec import node_name, topic_partition
from actors.trace.events import RpcQuiet, TierSegment
from krift.v1.fetch import FetchRequest, FetchResponse
from krift.v1.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from krift.v1.produce import ProduceRequest, ProduceResponse
from krift.v1.records import Record, RecordBatch
from krift.v1.remote_storage import RemoteLogMetadata, RemoteLogSegmentMetadataUpdateRecord
from krift.v1.topics import CreateTopicsRequest
from krift.v1.wire import from_bytes, to_bytes

PRODUCE = "remote-log-metadata-produce/"
FETCH = "remote-log-metadata-fetch/"
LIST = "remote-log-metadata-list/"
RETRY = "remote-log-metadata-retry"
INITIALIZE = "remote-log-metadata-topic"
PRODUCER, CONSUMER = "remote-log-metadata-producer", "remote-log-metadata-consumer"
RETRY_MS = 100
"""Pause after a failure, and between two attempts to have the topic made (``RETRY_INTERVAL_MS``)."""
FETCH_WAIT_MS = 500
FETCH_BYTES = 1048576
_TOPIC_IDS = 13
ALL = -1

Outcome = Literal["published", "failed"]


class Source(msgspec.Struct):
    """A partition of the topic that this broker consumes, up to ``offset``. end: where it ended when that began, -1 not
    known yet: below it views are not ready. lost: the leader's log does not have that offset, and it is asked where it
    begins (``auto.offset.reset``, earliest)."""

    offset: int = 0
    end: int = -1
    lost: bool = False

    @property
    def is_ready(self) -> bool:
        """Whether everything was consumed that was there when this began."""
        return 0 <= self.end <= self.offset


class Publication(msgspec.Struct):
    """An event on its way. partition: of the topic; offset: of its record, -1 not known to be there. sent: whether it
    is in flight. deadline_ms: when it is given up."""

    partition: int
    record: Record
    deadline_ms: int
    offset: int = -1
    sent: bool = False
    failed: bool = False


class RemoteLogMetadataManager(msgspec.Struct):
    """sources: by partition of the topic. sessions: leader -> the fetch session with it; fetching, producing: leaders
    with a request of the consumer, or of the producer, in flight. limits: leader -> partition -> high watermark that it
    told last. beyond: Fetches above these. life: names this incarnation. What was consumed is
    ``readers.segments``."""

    life: str = ""
    sources: dict[int, Source] = {}
    sessions: dict[int, FetchSessionHandler] = {}
    fetching: list[int] = []
    producing: dict[int, list[int]] = {}
    publications: dict[int, Publication] = {}
    events: int = 0
    paused: bool = False
    asked: bool = False
    limits: dict[int, dict[int, int]] = {}
    beyond: Often = msgspec.field(default_factory=Often)

    # ---- questions ---------------------------------------------------------------------------------------

    def is_ready(self, turn: Turn, partition: Partition) -> bool:
        """Whether enough of the topic was consumed for an answer (``isReady``)."""
        count = self._count(turn)
        source = self.sources.get(metadata_partition(partition, count)) if count else None
        return source is not None and source.is_ready

    def is_behind(self, turn: Turn, partition: Partition) -> bool:
        """Whether there is something to consume before anything can be said of a partition's copies
        (``RemoteLogMetadataCache.isInitialized``)."""
        return self._count(turn) > 0 and not self.is_ready(turn, partition)

    def _count(self, turn: Turn) -> int:
        """How many partitions the topic has, 0 if this broker does not know it."""
        topic = turn.image.topics.get(turn.image.topic_ids.get(TOPIC, ""))
        return 0 if topic is None else len(topic.partitions)

    # ---- publishing --------------------------------------------------------------------------------------

    def add(self, turn: Turn, partition: Partition, metadata: SegmentMetadata) -> int:
        """Tell of a copy that begins; the number of the publication."""
        return self._publish(turn, partition, RemoteLogMetadata(segment=metadata.to_record()))

    def update(self, turn: Turn, partition: Partition, metadata: SegmentMetadata, state: SegmentState) -> int:
        """Tell of a segment's new state; the number of the publication."""
        record = RemoteLogSegmentMetadataUpdateRecord(
            segment=metadata.id,
            broker_id=turn.settings.node_id,
            event_timestamp_ms=turn.step.wall_ms,
            remote_log_segment_state=int(state),
        )
        return self._publish(turn, partition, RemoteLogMetadata(update=record))

    def _publish(self, turn: Turn, partition: Partition, metadata: RemoteLogMetadata) -> int:
        self.events += 1
        uid = f"{self.life}/remote-log-metadata/{self.events}"
        record = Record(timestamp_ms=turn.step.wall_ms, uid=uid, value=to_bytes(metadata))
        deadline_ms = turn.step.now_ms + turn.settings.remote_log.consume_wait_ms
        number = metadata_partition(partition, self._count(turn))
        self.publications[self.events] = Publication(number, record, deadline_ms)
        return self.events

    def outcome(self, turn: Turn, publication: int) -> Outcome | None:
        """What became of a publication, told once; None if that is open. What failed may be there all the same."""
        each = self.publications[publication]
        source = self.sources.get(each.partition)
        found: Outcome | None = None
        if each.failed or each.deadline_ms <= turn.step.now_ms:
            found = "failed"
        elif each.offset >= 0 and source is not None and source.offset > each.offset:
            found = "published"
        if found is not None:
            del self.publications[publication]
        return found

    # ---- going on ----------------------------------------------------------------------------------------

    def poll(self, turn: Turn, forwarding: ForwardingManager) -> None:
        """Have the topic made if need be, and send what can be sent."""
        if not self._count(turn):
            self._initialize(turn, forwarding)
            return
        self._assign(turn)
        if self.paused:
            return
        self._produce(turn)
        self._reset(turn)
        self._fetch(turn)

    def _initialize(self, turn: Turn, forwarding: ForwardingManager) -> None:
        if self.asked:
            return
        self.asked = True
        turn.step.set_timer(INITIALIZE, RETRY_MS)
        config = turn.settings.remote_log
        topic = CreateTopicsRequest.CreatableTopic(
            name=TOPIC,
            num_partitions=config.topic_num_partitions,
            replication_factor=config.topic_replication_factor,
        )
        own = {"retention.ms": config.topic_retention_ms, "min.insync.replicas": config.topic_min_isr}
        topic.configs = [
            CreateTopicsRequest.CreatableTopicConfig(name=key, value=config_text(value)) for key, value in own.items()
        ]
        request = CreateTopicsRequest(topics=[topic], timeout_ms=turn.net.request_timeout_ms)
        forwarding.ask(turn, TOPIC, request)

    def _assign(self, turn: Turn) -> None:
        """Consume what the replicas of this broker need; what is not needed any more is forgotten."""
        count = self._count(turn)
        tiered = [each for each in turn.replicas.partitions.values() if each.remote_storage]
        needed = {metadata_partition(each, count) for each in tiered}
        needed |= {each.partition for each in self.publications.values()}
        for number in sorted(needed - self.sources.keys()):
            self.sources[number] = Source()
        for number in sorted(self.sources.keys() - needed):
            del self.sources[number]
            segments = turn.readers.segments
            for key in [key for key in segments if partition_of(key, count) == number]:
                del segments[key]

    def _leader(self, turn: Turn, number: int) -> PartitionRegistration | None:
        """The partition of the topic, if somebody leads it."""
        found = turn.image.partitions.get(topic_partition(TOPIC, number))
        return found if found is not None and found.leader in turn.image.brokers else None

    def _produce(self, turn: Turn) -> None:
        waiting: dict[int, list[int]] = {}
        for event, each in self.publications.items():
            where = self._leader(turn, each.partition)
            if where is not None and each.offset < 0 and not each.sent and not each.failed:
                waiting.setdefault(where.leader, []).append(event)
        for leader, events in waiting.items():
            peer = node_name(leader)
            if leader in self.producing or not turn.net.ready(turn.step, peer, PRODUCER):
                continue
            version = turn.net.version(peer, PRODUCER, Api.Produce)
            if version is None:
                continue
            request = self._produce_request(turn, version, events)
            for event in events:
                self.publications[event].sent = True
            self.producing[leader] = events
            turn.net.send(turn.step, peer, PRODUCER, request, version, f"{PRODUCE}{leader}")

    def _produce_request(self, turn: Turn, version: int, events: list[int]) -> ProduceRequest:
        """All events of one leader, a batch for each partition."""
        request = ProduceRequest(acks=ALL, timeout_ms=turn.net.request_timeout_ms)
        topic = ProduceRequest.TopicProduceData()
        if version >= _TOPIC_IDS:
            topic.topic_id = turn.image.topic_ids[TOPIC]
        else:
            topic.name = TOPIC
        request.topic_data.append(topic)
        batches: dict[int, list[Record]] = {}
        for event in events:
            each = self.publications[event]
            batches.setdefault(each.partition, []).append(each.record)
        topic.partition_data = [
            ProduceRequest.PartitionProduceData(index=index, records=RecordBatch(records=records))
            for index, records in batches.items()
        ]
        return request

    def on_produced(self, turn: Turn, ended: Ended, leader: int) -> None:
        """A Produce ended: what failed is tried again until its time is over."""
        events = [event for event in self.producing.pop(leader) if event in self.publications]
        response: ProduceResponse | None = ended.response
        topics = [] if response is None else response.responses
        told = {each.index: each for topic in topics for each in topic.partition_responses}
        taken: dict[int, int] = {}
        for event in events:
            each = self.publications[event]
            each.sent = False
            answer = told.get(each.partition)
            if answer is None:
                self._pause(turn)
            elif not answer.error_code:
                each.offset = answer.base_offset + taken.get(each.partition, 0)
                taken[each.partition] = taken.get(each.partition, 0) + 1
            elif traits(answer.error_code).retriable:
                self._pause(turn)
            else:
                each.failed = True

    def _asked(self, turn: Turn, api: Api, *, lost: bool) -> Iterator[tuple[int, int, list[int]]]:
        """Whom the consumer may ask something now: leader, version, and the partitions about which."""
        wanted: dict[int, list[int]] = {}
        for number, source in self.sources.items():
            where = self._leader(turn, number)
            if where is not None and source.lost == lost:
                wanted.setdefault(where.leader, []).append(number)
        for leader, numbers in wanted.items():
            if leader in self.fetching or not turn.net.ready(turn.step, node_name(leader), CONSUMER):
                continue
            version = turn.net.version(node_name(leader), CONSUMER, api)
            if version is not None:
                yield leader, version, numbers

    def _reset(self, turn: Turn) -> None:
        for leader, version, numbers in self._asked(turn, Api.ListOffsets, lost=True):
            partitions = [
                ListOffsetsRequest.ListOffsetsPartition(partition_index=number, timestamp=EARLIEST)
                for number in numbers
            ]
            request = ListOffsetsRequest(
                topics=[ListOffsetsRequest.ListOffsetsTopic(name=TOPIC, partitions=partitions)]
            )
            self.fetching.append(leader)
            turn.net.send(turn.step, node_name(leader), CONSUMER, request, version, f"{LIST}{leader}")

    def on_listed(self, turn: Turn, ended: Ended, leader: int) -> None:
        """A ListOffsets ended: consume from where the partitions begin."""
        self.fetching.remove(leader)
        response: ListOffsetsResponse | None = ended.response
        topics = [] if response is None else response.topics
        told = [each for topic in topics for each in topic.partitions]
        if not told or any(each.error_code for each in told):
            self._pause(turn)
        for each in told:
            source = self.sources.get(each.partition_index)
            if source is not None and source.lost and not each.error_code:
                source.offset, source.lost = each.offset, False

    def _fetch(self, turn: Turn) -> None:
        for leader, version, numbers in self._asked(turn, Api.Fetch, lost=False):
            topic_id = turn.image.topic_ids[TOPIC] if version >= _TOPIC_IDS else ""
            request = FetchRequest(max_wait_ms=FETCH_WAIT_MS, min_bytes=1)
            asked = {
                topic_partition(TOPIC, number): PartitionRequest(
                    TOPIC, topic_id, number, self.sources[number].offset, FETCH_BYTES
                )
                for number in numbers
            }
            self.sessions.setdefault(leader, FetchSessionHandler()).build(request, version, asked)
            self.fetching.append(leader)
            turn.net.send(turn.step, node_name(leader), CONSUMER, request, version, f"{FETCH}{leader}")

    def on_fetched(self, turn: Turn, ended: Ended, leader: int) -> None:
        """A Fetch ended: take in what it brought."""
        self.fetching.remove(leader)
        answers = self.sessions[leader].take(turn.step, ended)
        if answers is None:
            self._pause(turn)
            return
        told = self.limits.setdefault(leader, {})
        for _, data in answers:
            told[data.partition_index] = -1 if data.error_code else data.high_watermark
            source = self.sources.get(data.partition_index)
            if source is None:
                continue
            if data.error_code == KafkaError.OFFSET_OUT_OF_RANGE:
                source.lost = True
            elif data.error_code:
                self._pause(turn)
            else:
                self._consume(turn, source, data)
        if not any(data.records for _, data in answers):
            self._note_beyond(turn, told)

    def _note_beyond(self, turn: Turn, told: dict[int, int]) -> None:
        """Nothing came of a Fetch: maybe since it is beyond what a new leader knows to be committed, which answers it
        at once, like that of any consumer."""
        for number, source in self.sources.items():
            if source.offset > told.get(number, -1) >= 0:
                if self.beyond.count(turn.step.now_ms):
                    turn.step.record(RpcQuiet(TOLD, topic_partition(TOPIC, number)))
                return

    def _consume(self, turn: Turn, source: Source, data: FetchResponse.PartitionData) -> None:
        if source.end < 0:
            source.end = data.high_watermark
        for batch in data.records:
            for index, record in enumerate(batch.records):
                if not batch.is_control and batch.base_offset + index >= source.offset:
                    self._take(turn, from_bytes(RemoteLogMetadata, payload(record)))
            source.offset = max(source.offset, batch.base_offset + len(batch.records))

    def _take(self, turn: Turn, metadata: RemoteLogMetadata) -> None:
        """A record of the topic."""
        record, update = metadata.segment, metadata.update
        segment = record.segment if record is not None else update.segment if update is not None else None
        if segment is None:
            return
        partition = turn.replicas.partitions.get(topic_partition(segment.topic, segment.partition))
        if partition is None or partition.topic_id != segment.topic_id:
            return
        cache = turn.readers.segments_of(partition)
        known = cache.segments.get(segment.segment_id)
        if record is not None:
            known = metadata_of(record)
            taken, state = cache.add(known), SegmentState(record.remote_log_segment_state)
        else:
            assert update is not None
            taken, state = cache.update(update), SegmentState(update.remote_log_segment_state)
        if known is not None:
            turn.step.record(
                TierSegment(
                    partition.key,
                    segment.segment_id,
                    "known" if taken else "refused",
                    state.name,
                    known.start_offset,
                    known.end_offset,
                    {str(entry.epoch): entry.start_offset for entry in known.epochs},
                    known.max_timestamp_ms,
                    size=known.size_bytes,
                )
            )

    def _pause(self, turn: Turn) -> None:
        if not self.paused:
            self.paused = True
            turn.step.set_timer(RETRY, RETRY_MS)

    def on_retry(self, turn: Turn) -> None:
        """The pause after a failure is over."""
        self.paused = "metadata-topic-given-up" in turn.step.defects

    def on_initialize(self) -> None:
        """The topic may be asked for again."""
        self.asked = False


COMPONENT: Component[RemoteLogMetadataManager, Turn] = Component(
    timers={
        RETRY: lambda manager, turn, _: manager.on_retry(turn),
        INITIALIZE: lambda manager, turn, _: manager.on_initialize(),
    },
    answers={
        PRODUCE: lambda manager, turn, ended, leader: manager.on_produced(turn, ended, int(leader)),
        FETCH: lambda manager, turn, ended, leader: manager.on_fetched(turn, ended, int(leader)),
        LIST: lambda manager, turn, ended, leader: manager.on_listed(turn, ended, int(leader)),
    },
)


def metadata_partition(partition: Partition, count: int) -> int:
    """The partition of the topic that has a partition's segments, of so many
    (``RemoteLogMetadataTopicPartitioner``)."""
    return partition_of(segments_key(partition), count)
