"""Drives one client node: virtual time, timers, choices; the test answers its calls."""

from __future__ import annotations

from typing import Any, TypeVar

from actors.client.client_base import ClientNode
from actors.config import default_config
from actors.node import codec
from actors.node.effects import Call, Complete
from actors.node.events import Answered, AnyEvent, Failed, FailureReason, Invoked, Started, TimedOut
from actors.node.messages import AnyResponse, Api, api_of
from actors.node.spec import ClusterSpec, NodeSpec, Role, TopicSpec
from actors.trace.events import TraceEvent
from actors.versions import Ranges, default_ranges
from krift.v1.api_versions import ApiVersionsResponse
from krift.v1.metadata import MetadataRequest, MetadataResponse
from tests.harness.host import Host

E = TypeVar("E", bound=TraceEvent)

TOPIC_ID = "id-of-orders"
ROLES: dict[str, Role] = {"producer-1": "producer", "consumer-1": "consumer", "list-offsets-1": "list-offsets"}


def spec(
    name: str,
    workload: dict[str, Any],
    config: dict[str, Any] | None = None,
    versions: Ranges | None = None,
    defects: list[str] | None = None,
    partitions: int = 1,
) -> NodeSpec:
    """A client of a cluster of three brokers with the topic orders."""
    topic = TopicSpec("orders", TOPIC_ID, [[1, 2, 3]] * partitions)
    defaults = {**default_config("producer"), **default_config("consumer")}
    return NodeSpec(
        name,
        ROLES[name],
        -1,
        name,
        ClusterSpec("cluster", [101], [1, 2, 3], [topic]),
        {**defaults, **(config or {})},
        {},
        {**default_ranges(), **(versions or {})},
        defects or [],
        {"topic": "orders", "partitions": list(range(partitions)), **workload},
    )


class Driver(Host):
    """One node and what its runtime would keep. Timers fire at the end of their range; choices are 0.

    ApiVersions is answered at once (``down``: brokers whose connections break instead; ``ranges``: what brokers
    speak). Everything else waits in ``calls`` until the test takes it. After every step the state is encoded and
    decoded again, and must be equal.
    """

    def __init__(self, node: ClientNode, node_spec: NodeSpec) -> None:
        super().__init__()
        self.node = node
        self.now = 1_000_000
        self.owed: list[AnyEvent] = []
        self.calls: dict[int, Call] = {}
        self.trace: list[TraceEvent] = []
        self.results: dict[str, dict[str, Any]] = {}
        self.down: set[str] = set()
        self.ranges = default_ranges()
        self.leaders: dict[int, tuple[int, int]] | None = None
        self.metadata_requests = 0
        self.feed(Started(node_spec, 0, {}))

    def feed(self, event: AnyEvent) -> None:
        """One step, and those that its effects cause at once."""
        effects = self.node.step(self.now, event)
        assert codec.decode(codec.encode(self.node), type(self.node)) == self.node
        self.carry_out(effects, self.now)
        owed, self.owed = self.owed, []
        for each in owed:
            self.feed(each)

    def owe(self, event: AnyEvent) -> None:
        self.owed.append(event)

    def recorded(self, event: TraceEvent) -> None:
        self.trace.append(event)

    def completed(self, complete: Complete) -> None:
        self.results[complete.operation] = complete.result

    def called(self, call: Call) -> None:
        if call.peer in self.down:
            self.owe(Failed(call.call, "disconnect"))
        elif api_of(call.request) == Api.ApiVersions:
            answer = ApiVersionsResponse()
            for name, (low, high) in self.ranges.items():
                spoken = ApiVersionsResponse.ApiVersion(api_key=Api[name], min_version=low, max_version=high)
                answer.api_keys.append(spoken)
            self.owe(Answered(call.call, answer))
        elif isinstance(call.request, MetadataRequest) and self.leaders is not None:
            self.metadata_requests += 1
            self.owe(Answered(call.call, metadata(self.leaders, call.request.header.api_version)))
        else:
            self.metadata_requests += isinstance(call.request, MetadataRequest)
            self.calls[call.call] = call

    def advance(self, ms: int) -> None:
        """Let time pass; timers fire in order."""
        end = self.now + ms
        while self.timers:
            name = min(self.timers, key=lambda timer: self.timers[timer])
            if self.timers[name] > end:
                break
            self.now = max(self.now, self.timers.pop(name))
            self.feed(TimedOut(name))
        self.now = end

    def start(self) -> None:
        """The operation "start"."""
        self.feed(Invoked("op-start", "start"))

    def stop(self) -> None:
        """The operation "stop"; its result is in ``results["op-stop"]``."""
        self.feed(Invoked("op-stop", "stop"))

    def open(self, api: Api) -> list[Call]:
        """Calls of an API that wait, oldest first."""
        return [call for call in self.calls.values() if api_of(call.request) == api]

    def take(self, api: Api) -> Call:
        """The oldest waiting call of an API; it must exist, and the test has to end it."""
        return self.calls.pop(self.open(api)[0].call)

    def answer(self, call: Call, response: AnyResponse) -> None:
        """End a call with an answer."""
        self.feed(Answered(call.call, response))

    def fail(self, call: Call, reason: FailureReason = "disconnect") -> None:
        """End a call without one."""
        self.calls.pop(call.call, None)
        self.feed(Failed(call.call, reason))

    def events_of(self, kind: type[E]) -> list[E]:
        """Trace events of a type, oldest first."""
        return [event for event in self.trace if isinstance(event, kind)]


def metadata(leaders: dict[int, tuple[int, int]], version: int = 13) -> MetadataResponse:
    """A Metadata answer: partition -> (leader, leader epoch); leader -1 gives LEADER_NOT_AVAILABLE."""
    response = MetadataResponse()
    for broker in (1, 2, 3):
        response.brokers.append(MetadataResponse.MetadataResponseBroker(node_id=broker))
    topic = MetadataResponse.MetadataResponseTopic(name="orders")
    response.topics.append(topic)
    if version >= 10:
        topic.topic_id = TOPIC_ID
    for index, (leader, epoch) in leaders.items():
        partition = MetadataResponse.MetadataResponsePartition(
            partition_index=index, error_code=5 if leader < 0 else 0, leader_id=leader
        )
        topic.partitions.append(partition)
        if version >= 7:
            partition.leader_epoch = epoch
    return response
