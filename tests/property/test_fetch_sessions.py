"""A fetch session never hides anything: whoever fetches in one sees what a fetcher without one sees."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from actors.node.errors import KafkaError
from actors.node.fetch_session_handler import FetchSessionHandler, PartitionRequest
from actors.node.messages import Api
from actors.node.network_client import Ended
from actors.node.step import Step
from krift.v1.fetch import FetchRequest, FetchResponse
from krift.v1.produce import ProduceRequest
from krift.v1.records import (
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    Record,
    RecordBatch,
    TopicRecord,
)
from tests.datadriven.broker.environment import Environment
from tests.datadriven.runner import parse_command
from tests.harness.examples import examples

TOPICS = ("a", "b", "c")
VERSION = 18


class View(msgspec.Struct):
    """What a fetcher knows of a partition: records by offset and leader epoch, and what it was told last."""

    records: list[tuple[int, int]] = []
    high_watermark: int = -1
    log_start: int = -1
    error: int = 0
    diverging: tuple[int, int] = (-1, -1)
    end: int = 0

    def hear(self, data: FetchResponse.PartitionData) -> None:
        """Take in what an answer says."""
        self.error = data.error_code
        parts = data.diverging_epoch or FetchResponse.EpochEndOffset()
        self.diverging = (parts.epoch, parts.end_offset)
        if data.error_code:
            self.high_watermark = self.log_start = -1
            return
        self.high_watermark, self.log_start = data.high_watermark, data.log_start_offset
        self.records += [(batch.base_offset, batch.partition_leader_epoch) for batch in data.records]
        if data.records:
            self.end = data.records[-1].base_offset + len(data.records[-1].records)


class TwoFetchers(RuleBasedStateMachine):
    """One broker, one fetcher in a session and one without, at the same positions at the same time."""

    def __init__(self) -> None:
        super().__init__()
        self.environment = Environment()
        self.scene = self.environment.scene
        self.session = FetchSessionHandler()
        self.wanted: dict[str, PartitionRequest] = {}
        self.views: dict[str, dict[str, View]] = {"session": {}, "alone": {}}
        self.epochs: dict[str, int] = {}

    @initialize(slots=st.sampled_from([0, 1, 1000]))
    def begin(self, slots: int) -> None:
        """A broker that leads some topics, and has room for some sessions."""
        key = "max.incremental.fetch.session.cache.slots"
        self.environment.verb_start(parse_command([f"start config=({key}:{slots})"], 1))
        for topic in TOPICS[:2]:
            self._create(topic)
        for topic in TOPICS:
            self.ask(topic, -1, -1, 0)

    def _create(self, topic: str) -> None:
        partition = PartitionRecord(
            topic_id=f"id-{topic}", partition_id=0, replicas=[1], isr=[1], leader=1, leader_epoch=0, partition_epoch=0
        )
        self.scene.commit(
            [
                MetadataRecord(topic=TopicRecord(name=topic, topic_id=f"id-{topic}")),
                MetadataRecord(partition=partition),
            ]
        )
        self.epochs[topic] = 0

    # ---- the broker's partitions ---------------------------------------------------------------------------

    @rule(topic=st.sampled_from(TOPICS), count=st.integers(1, 3))
    def produce(self, topic: str, count: int) -> None:
        """Records arrive; alone in the ISR, the leader commits them at once."""
        request = ProduceRequest(acks=1, timeout_ms=1000)
        records = [Record(timestamp_ms=0, uid="u", value=b"v") for _ in range(count)]
        data = ProduceRequest.PartitionProduceData(records=RecordBatch(records=records))
        request.topic_data.append(ProduceRequest.TopicProduceData(topic_id=f"id-{topic}", partition_data=[data]))
        self.scene.receive("p", request, 13)
        self.fetch()

    @rule(topic=st.sampled_from(TOPICS), leader=st.sampled_from([1, 1, -1]))
    def change_leader(self, topic: str, leader: int) -> None:
        """A new leader epoch: of this broker, or without a leader."""
        if topic in self.epochs:
            record = PartitionChangeRecord(topic_id=f"id-{topic}", partition_id=0, leader=leader)
            self.scene.commit([MetadataRecord(partition_change=record)])
            self.epochs[topic] += 1
            self.fetch()

    @rule()
    def create_the_third(self) -> None:
        """A topic that was fetched in vain so far comes into being."""
        if TOPICS[2] not in self.epochs:
            self._create(TOPICS[2])

    # ---- the fetchers ---------------------------------------------------------------------------------------

    @rule(
        topic=st.sampled_from(TOPICS),
        epoch=st.sampled_from([-1, -1, -1, 0, 1, 2]),
        last=st.sampled_from([-1, -1, 0, 1, 2]),
        back=st.sampled_from([0, 0, 0, 1, -2]),
    )
    def ask(self, topic: str, epoch: int, last: int, back: int) -> None:
        """From now on this partition is asked for: from where it was read to, before or behind that, with these
        epochs."""
        view = self.views["alone"].get(f"{topic}-0", View())
        at = max(0, view.end - back)
        self.wanted[f"{topic}-0"] = PartitionRequest(topic, f"id-{topic}", 0, at, 1 << 20, epoch, last)
        self.fetch()

    @rule(topic=st.sampled_from(TOPICS))
    def stop_asking(self, topic: str) -> None:
        """This partition is not fetched any more."""
        self.wanted.pop(f"{topic}-0", None)

    @rule()
    def lose_the_connection(self) -> None:
        """The session's fetcher cannot know what the broker took in."""
        self._take(None)

    @rule()
    def someone_else(self) -> None:
        """Another fetcher begins a session, as a follower, which may push this one out."""
        request = FetchRequest(max_wait_ms=0, min_bytes=1, session_epoch=0)
        request.replica_state = FetchRequest.ReplicaState(replica_id=2)
        self._send("other", request)

    @rule()
    def fetch(self) -> None:
        """Both fetch; the session's as often as it takes to get an answer that it can use."""
        alone = FetchRequest(max_wait_ms=0, min_bytes=1)
        FetchSessionHandler().build(alone, VERSION, dict(self.wanted))
        alone.session_epoch = -1
        answers = dict(self._named(self._send("alone", alone)))
        heard: Any = None
        for _attempt in range(2):
            request = FetchRequest(max_wait_ms=0, min_bytes=1)
            self.session.build(request, VERSION, dict(self.wanted))
            heard = self._take(self._send("session", request))
            if heard is not None:
                break
        assert heard is not None, "refused twice, the second time for a full Fetch"
        self._compare(answers, dict(heard))

    def _compare(self, alone: dict[str, FetchResponse.PartitionData], heard: dict[str, Any]) -> None:
        for views in self.views.values():
            for tp in [tp for tp in views if tp not in self.wanted]:
                del views[tp]
        assert list(alone) == list(self.wanted)
        for tp, data in alone.items():
            self.views["alone"].setdefault(tp, View()).hear(data)
            mine = self.views["session"].setdefault(tp, View())
            if tp in heard:
                mine.hear(heard[tp])
            assert mine == self.views["alone"][tp], tp
            if data.records:
                self.wanted[tp] = msgspec.structs.replace(self.wanted[tp], offset=mine.end)

    def _take(self, response: FetchResponse | None) -> Any:
        """What the session's fetcher makes of an answer, which fits its session, or of none."""
        step = Step(0)
        ended = Ended(1, "broker-1", "client", int(Api.Fetch), VERSION, "fetch", FetchRequest(), response, None)
        heard = self.session.take(step, ended)
        assert not step.effects
        return heard

    def _named(self, response: FetchResponse) -> list[tuple[str, FetchResponse.PartitionData]]:
        named: list[tuple[str, FetchResponse.PartitionData]] = []
        for topic in response.responses:
            name = topic.topic_id.removeprefix("id-")
            named += [(f"{name}-{data.partition_index}", data) for data in topic.partitions]
        return named

    def _send(self, connection: str, request: FetchRequest) -> FetchResponse:
        self.scene.receive(connection, request, VERSION)
        response = self.scene.responses[connection]
        assert isinstance(response, FetchResponse)
        assert response.error_code in (KafkaError.NONE, KafkaError.FETCH_SESSION_ID_NOT_FOUND)
        return response

    @invariant()
    def room_is_bounded(self) -> None:
        """Shows that the broker keeps no more sessions than it has slots."""
        sessions = self.scene.node.replicas.sessions
        assert len(sessions.sessions) <= sessions.slots


TestTwoFetchers = TwoFetchers.TestCase
TwoFetchers.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=50)
