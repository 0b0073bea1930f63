"""One client on a stage: its clock, its connections, and brokers that say what the script wants."""

from __future__ import annotations

from typing import Any

from actors.client.admin import AdminNode
from actors.client.client_base import ClientNode
from actors.client.consumer import ConsumerNode
from actors.client.group_consumer import GroupConsumerNode
from actors.client.list_offsets_prober import ListOffsetsNode
from actors.client.mirror import MirrorNode
from actors.client.processor import ProcessorNode
from actors.client.producer import ProducerNode
from actors.client.transactional_producer import TransactionalProducerNode
from actors.config import default_config
from actors.node.codec import decode, encode
from actors.node.effects import Call, Complete, SetTimer
from actors.node.events import Answered, AnyEvent, Failed, FailureReason, Invoked, Started, TimedOut
from actors.node.messages import AnyMessage, AnyResponse, Api, api_of, check_fields
from actors.node.spec import ClusterSpec, NodeSpec, Role, TopicSpec
from actors.trace.events import TraceEvent
from actors.versions import Ranges, default_ranges
from krift.v1.api_versions import ApiVersionsResponse
from krift.v1.metadata import MetadataResponse
from krift.v1.offset_for_leader_epoch import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from krift.v1.producer_ids import InitProducerIdResponse
from tests.datadriven.client.groups import GROUP_APIS
from tests.datadriven.client.rendering import COPIES, describe_call, describe_events, describe_timer, join_sends
from tests.datadriven.client.transactions import TRANSACTION_APIS
from tests.harness.host import Host

TOPIC = "orders"
TOPIC_ID = "id-of-orders"
PRODUCER_ID = 7
ENDLESS = 2**62

ADMIN_APIS = (
    "ElectLeaders",
    "IncrementalAlterConfigs",
    "DescribeQuorum",
    "DeleteRecords",
    "AddRaftVoter",
    "RemoveRaftVoter",
)
NODES: dict[Role, type[ClientNode]] = {
    "producer": ProducerNode,
    "transactional-producer": TransactionalProducerNode,
    "consumer": ConsumerNode,
    "group-consumer": GroupConsumerNode,
    "mirror": MirrorNode,
    "processor": ProcessorNode,
    "list-offsets": ListOffsetsNode,
    "admin": AdminNode,
}


class Scene(Host):
    """The stage. ``lines``: what happened since it was last asked. ``held``: calls that the script has to end, by
    the name they were shown with. ``scripted``: APIs that are not answered by themselves. ``leaders``: what Metadata
    is answered with, by partition, as (leader, leader epoch)."""

    def __init__(self) -> None:
        super().__init__()
        self.node = ClientNode()
        self.now_ms = 1_000_000
        self.early = False
        self.choice = 0
        self.owed: list[AnyEvent] = []
        self.events: list[TraceEvent] = []
        self.held: dict[str, Call] = {}
        self.sent_ms: dict[str, int] = {}
        self.calls = 0
        self.lines: list[str] = []
        self.scripted: set[str] = {"Produce", "Fetch", "ListOffsets", *ADMIN_APIS, *GROUP_APIS, *TRANSACTION_APIS}
        self.down: set[str] = set()
        self.brokers = [1, 2, 3]
        self.broker_ranges: Ranges = default_ranges()
        self.leaders: dict[int, tuple[int, int]] = {}
        self.topic_id = TOPIC_ID
        self.metadata_epoch = -1
        self.finalized: tuple[int, dict[str, int]] = (-1, {})
        self.mirrored = False

    # ---- the client --------------------------------------------------------------------------------------

    def start(
        self,
        role: Role,
        workload: dict[str, Any],
        config: dict[str, Any],
        ranges: Ranges,
        defects: list[str],
        features: dict[str, str],
    ) -> None:
        """Begin the client's life and its workload."""
        self.node = NODES[role]()
        self.mirrored = role in ("mirror", "processor")
        partitions = list(range(workload.pop("partitions")))
        topic = TopicSpec(TOPIC, TOPIC_ID, [[1, 2, 3]] * len(partitions))
        self.leaders = self.leaders or dict.fromkeys(partitions, (1, 0))
        spec = NodeSpec(
            "producer-1" if role == "transactional-producer" else f"{role}-1",
            role,
            -1,
            "d",
            ClusterSpec("krift", [101], self.brokers, [topic]),
            {**default_config("producer"), **default_config("consumer"), **default_config("group-consumer"), **config},
            features,
            {**default_ranges(), **ranges},
            defects,
            {"topic": TOPIC, "partitions": partitions, **workload},
        )
        self.timers, self.held, self.sent_ms = {}, {}, {}
        self.give(Started(spec, 0, self.image()))
        self.give(Invoked("start", "start"))

    def give(self, event: AnyEvent) -> None:
        """Step the client, and everything that follows from it; its state must survive encoding each time."""
        effects = self.node.step(self.now_ms, event)
        again: object = decode(encode(self.node), type(self.node))
        assert again == self.node
        self.carry_out(effects, self.now_ms)
        self._tell_events()
        owed, self.owed = self.owed, []
        for each in owed:
            self.give(each)

    # ---- what it does with effects -----------------------------------------------------------------------

    def owe(self, event: AnyEvent) -> None:
        self.owed.append(event)

    def recorded(self, event: TraceEvent) -> None:
        self.events.append(event)

    def _tell_events(self) -> None:
        """Events that come one after the other are told together."""
        self.lines += describe_events(self.events)
        self.events = []

    def delay_ms(self, timer: SetTimer) -> int:
        self._tell_events()
        line = describe_timer(timer)
        self.lines += [line] if line else []
        return timer.min_ms if self.early else timer.max_ms

    def drawn(self, n: int) -> int:
        self._tell_events()
        return self.choice % n

    def completed(self, complete: Complete) -> None:
        self._tell_events()
        if complete.operation != "start":
            self.lines.append(f"{complete.operation} complete {complete.result}")

    # ---- time --------------------------------------------------------------------------------------------

    def advance(self, ms: int) -> None:
        """Let time pass: timers fire and requests time out when they are due."""
        until = self.now_ms + ms
        while True:
            due = [(at, 0, name) for name, at in self.timers.items() if at <= until]
            late = {name: self.sent_ms[name] + call.timeout_ms for name, call in self.held.items()}
            due += [(at, 1, name) for name, at in late.items() if at <= until]
            if not due:
                break
            at, is_call, name = min(due)
            self.now_ms = max(self.now_ms, at)
            if is_call:
                self.fail(name, "timeout")
            else:
                del self.timers[name]
                self.give(TimedOut(name))
        self.now_ms = until

    # ---- calls of the client -----------------------------------------------------------------------------

    def called(self, call: Call) -> None:
        self._tell_events()
        request: Any = call.request
        check_fields(request, request.header.api_version)
        api = api_of(call.request)
        if call.peer in self.down:
            self.lines.append(f"-x {call.peer}/{call.connection} {api.name}")
            self.owe(Failed(call.call, "disconnect"))
        elif api.name not in self.scripted:
            self.owe(Answered(call.call, self._automatic_answer(api, request)))
        else:
            self.calls += 1
            name = f"c{self.calls}"
            self.held[name], self.sent_ms[name] = call, self.now_ms
            self.lines.append(describe_call(name, call))

    def _automatic_answer(self, api: Api, request: Any) -> AnyMessage:
        if api == Api.ApiVersions:
            return self.api_versions(self.broker_ranges)
        if api == Api.InitProducerId:
            self.lines.append(f"producer id {PRODUCER_ID}/0")
            return InitProducerIdResponse(producer_id=PRODUCER_ID, producer_epoch=0)
        if api == Api.OffsetForLeaderEpoch:
            return self._no_truncation(request)
        assert api == Api.Metadata
        return self.metadata(request.header.api_version)

    def _no_truncation(self, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
        """A log that reaches every position."""
        response = OffsetForLeaderEpochResponse()
        for asked in request.topics:
            topic = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult(topic=asked.topic)
            response.topics.append(topic)
            for each in asked.partitions:
                topic.partitions.append(
                    OffsetForLeaderEpochResponse.EpochEndOffset(
                        partition=each.partition, leader_epoch=each.leader_epoch, end_offset=ENDLESS
                    )
                )
                self.lines.append(f"position {asked.topic}-{each.partition} epoch {each.leader_epoch} valid")
        return response

    def api_versions(self, ranges: Ranges, error: int = 0) -> ApiVersionsResponse:
        """What a broker with these ranges answers."""
        response = ApiVersionsResponse(error_code=error)
        epoch, features = self.finalized
        if epoch >= 0:
            response.finalized_features_epoch = epoch
            for name, level in features.items():
                feature = ApiVersionsResponse.FinalizedFeatureKey(name=name, max_version_level=level)
                response.finalized_features.append(feature)
        for name, (low, high) in ranges.items():
            response.api_keys.append(
                ApiVersionsResponse.ApiVersion(api_key=int(Api[name]), min_version=low, max_version=high)
            )
        return response

    def metadata(self, version: int, topic_error: int = 0) -> MetadataResponse:
        """Metadata as the brokers have it now; leader -1 is LEADER_NOT_AVAILABLE."""
        response = MetadataResponse()
        for broker in self.brokers:
            response.brokers.append(MetadataResponse.MetadataResponseBroker(node_id=broker))
        if version >= 6:
            response.metadata_epoch = self.metadata_epoch
        topic = MetadataResponse.MetadataResponseTopic(name=TOPIC, error_code=topic_error)
        response.topics.append(topic)
        if version >= 10:
            topic.topic_id = self.topic_id
        for index, (leader, epoch) in self.leaders.items():
            partition = MetadataResponse.MetadataResponsePartition(
                partition_index=index, error_code=5 if leader < 0 else 0, leader_id=leader
            )
            topic.partitions.append(partition)
            if version >= 7:
                partition.leader_epoch = epoch
        if self.mirrored:
            topic = MetadataResponse.MetadataResponseTopic(name=COPIES, topic_id=COPIES)
            topic.partitions.append(MetadataResponse.MetadataResponsePartition(leader_id=1, leader_epoch=0))
            response.topics.append(topic)
        return response

    def answer(self, name: str, response: AnyResponse) -> None:
        """End a call with an answer."""
        self.give(Answered(self.held.pop(name).call, response))

    def fail(self, name: str, reason: FailureReason) -> None:
        """End a call without one. The connection is gone, and so are the other calls on it."""
        call = self.held.pop(name)
        others = [each for each, other in self.held.items() if _same_connection(call, other)]
        self.lines.append(f"{name} {reason}")
        self.give(Failed(call.call, reason))
        for each in others:
            self.lines.append(f"{each} disconnect")
            self.give(Failed(self.held.pop(each).call, "disconnect"))

    def told(self) -> str:
        """What happened since this was last asked."""
        lines, self.lines = self.lines, []
        return "\n".join(join_sends(lines))


def _same_connection(one: Call, other: Call) -> bool:
    return (one.peer, one.connection) == (other.peer, other.connection)
