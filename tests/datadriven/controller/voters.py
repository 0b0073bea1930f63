"""A few controllers in one process, with virtual time, immediate Syncs and links that hold messages."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from actors.controller.controller_node import ControllerNode
from actors.node.codec import decode, encode
from actors.node.effects import Call, SetTimer
from actors.node.events import Answered, AnyEvent, Disconnected, Failed, Received, Started, TimedOut
from actors.node.messages import AnyResponse, Api, api_of, check_fields
from actors.node.spec import NodeSpec
from actors.trace.events import TraceEvent
from actors.versions import Ranges, default_ranges
from krift.v1.api_versions import ApiVersionsResponse
from krift.v1.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from tests.datadriven.controller.rendering import describe_event, describe_push, describe_reply
from tests.datadriven.quorum.rendering import short
from tests.harness.host import Host


class Voter(Host):
    """One controller, with its open calls: number -> (whom it asked, when that times out)."""

    def __init__(self, spec: NodeSpec, voters: Voters) -> None:
        super().__init__()
        self.spec, self.voters = spec, voters
        self.node = ControllerNode()
        self.incarnation = -1
        self.up = False
        self.calls: dict[int, tuple[str, int]] = {}

    def begin(self) -> None:
        """Begin an incarnation."""
        self.node, self.up, self.incarnation = ControllerNode(), True, self.incarnation + 1
        self.timers, self.written, self.calls = {}, {}, {}
        self.give(Started(self.spec, self.incarnation, self.image()))

    def give(self, event: AnyEvent) -> None:
        """Step it, and carry out what it asks for."""
        self.carry_out(self.node.step(self.voters.now, event), self.voters.now)
        assert decode(encode(self.node), ControllerNode) == self.node, "the state is not plain data"

    def owe(self, event: AnyEvent) -> None:
        self.voters.push(self.spec.name, event)

    def recorded(self, event: TraceEvent) -> None:
        self.voters.say(self.spec.name, describe_event(event))

    def called(self, call: Call) -> None:
        self.calls[call.call] = (call.peer, self.voters.now + call.timeout_ms)
        if call.peer.startswith("broker-"):
            self.voters.push_to_broker(self, call)
            return
        connection = f"{self.spec.name}/{self.incarnation}/{call.call}"
        self.voters.exchanges[connection] = Exchange(self.spec.name, call.call, call.peer)
        self.voters.send(self.spec.name, call.peer, Received(connection, call.request))

    def replied(self, connection: str, response: AnyResponse | None) -> None:
        self.voters.answer(self.spec.name, connection, response)

    def closed(self, connection: str) -> None:
        self.voters.answer(self.spec.name, connection, None)

    def delay_ms(self, timer: SetTimer) -> int:
        return timer.min_ms


@dataclass
class Exchange:
    """A request under way: who asked with which call (a test asks without one) on which connection."""

    source: str
    call: int
    target: str


@dataclass
class Voters:
    """The controllers of a test, and what they did since they were last asked (``lines``): what the controllers (not
    the quorum) put into the trace, and what the test was answered; ``replies`` has these by connection (None: the
    connection was closed). ``broker_ranges``: what brokers speak that are told something; ``deaf``: those who do not
    answer."""

    voters: dict[str, Voter] = field(default_factory=dict)
    now: int = 0
    cut: set[str] = field(default_factory=set)
    held: list[tuple[str, int, AnyEvent]] = field(default_factory=list)
    exchanges: dict[str, Exchange] = field(default_factory=dict)
    queue: deque[tuple[str, int, AnyEvent]] = field(default_factory=deque)
    lines: list[str] = field(default_factory=list)
    replies: dict[str, AnyResponse | None] = field(default_factory=dict)
    requests: int = 0
    broker_ranges: Ranges = field(default_factory=default_ranges)
    deaf: set[str] = field(default_factory=set)

    # ---- what a test does --------------------------------------------------------------------------------

    def start(self, name: str) -> None:
        """Begin an incarnation."""
        self.voters[name].begin()
        self.settle()

    def crash(self, name: str) -> None:
        """Kill a controller; its disk stays, and its peers notice."""
        self.voters[name].up = False
        self.voters[name].timers = {}
        for voter in self.voters.values():
            for call in [call for call, (target, _) in voter.calls.items() if target == name]:
                self._fail(voter, call, "disconnect")
        self.settle()

    def ask(self, target: str, request: Any, version: int, source: str = "test") -> str:
        """Send a request of the test's own; returns the connection that its answer will be on."""
        self.requests += 1
        connection = f"{source}/{self.requests}"
        request.header.api_key = int(api_of(request))
        request.header.api_version = version
        self.exchanges[connection] = Exchange("test", -1, target)
        self.push(target, Received(connection, request))
        self.settle()
        return connection

    def hang_up(self, connection: str) -> None:
        """The test closes a connection on which it waits."""
        exchange = self.exchanges.pop(connection)
        self.push(exchange.target, Disconnected(connection))
        self.settle()

    def settle(self) -> None:
        """Deliver everything that is under way."""
        while self.queue:
            name, incarnation, event = self.queue.popleft()
            voter = self.voters[name]
            if not voter.up or voter.incarnation != incarnation:
                continue
            if isinstance(event, Answered) and voter.calls.pop(event.call, None) is None:
                continue
            voter.give(event)

    def heal(self) -> None:
        """No link is cut any more: what was held arrives, unless its call has ended."""
        self.cut = set()
        self.queue.extend(self.held)
        self.held = []
        self.settle()

    def told(self) -> str:
        """What happened since this was last asked."""
        lines, self.lines = self.lines, []
        return "\n".join(lines)

    def run(self, ms: int) -> None:
        """Let time pass."""
        end = self.now + ms
        while True:
            due = [
                (deadline, name, timer, -1)
                for name, voter in self.voters.items()
                for timer, deadline in voter.timers.items()
            ]
            due += [
                (deadline, name, "", call)
                for name, voter in self.voters.items()
                if voter.up
                for call, (_, deadline) in voter.calls.items()
            ]
            if not due or min(due)[0] > end:
                break
            deadline, name, timer, call = min(due)
            self.now = max(self.now, deadline)
            voter = self.voters[name]
            if timer:
                del voter.timers[timer]
                voter.give(TimedOut(timer))
            else:
                self._fail(voter, call, "timeout")
            self.settle()
        self.now = end

    @property
    def active(self) -> str:
        """The active controller of the highest epoch, or ""."""
        found = [(v.node.controller.active_epoch, n) for n, v in self.voters.items() if v.up]
        epoch, name = max(found, default=(-1, ""))
        return name if epoch >= 0 else ""

    # ---- what is under way ------------------------------------------------------------------------------------

    def push(self, name: str, event: AnyEvent) -> None:
        """A controller gets an event, unless it goes down before."""
        self.queue.append((name, self.voters[name].incarnation, event))

    def send(self, source: str, target: str, event: AnyEvent) -> None:
        """A message between controllers; a cut holds it."""
        if {source, target} & self.cut:
            self.held.append((target, self.voters[target].incarnation, event))
        else:
            self.push(target, event)

    def _fail(self, voter: Voter, call: int, reason: Any) -> None:
        del voter.calls[call]
        self.push(voter.spec.name, Failed(call, reason))

    def push_to_broker(self, voter: Voter, call: Call) -> None:
        """A controller tells a broker something, which agrees at once, unless it is ``deaf``."""
        request = call.request
        if api_of(request) == Api.ApiVersions:
            served = [(Api[name], low, high) for name, (low, high) in self.broker_ranges.items()]
            keys = [ApiVersionsResponse.ApiVersion(api_key=int(a), min_version=b, max_version=c) for a, b, c in served]
            self.push(voter.spec.name, Answered(call.call, ApiVersionsResponse(api_keys=keys)))
            return
        assert isinstance(request, UpdateMetadataRequest), "a controller has nothing else to say to a broker"
        check_fields(request, request.header.api_version)
        self.say(voter.spec.name, describe_push(call.peer, request))
        if call.peer not in self.deaf:
            self.push(voter.spec.name, Answered(call.call, UpdateMetadataResponse()))

    def answer(self, server: str, connection: str, response: AnyResponse | None) -> None:
        """A controller answers on a connection, or closes it."""
        exchange = self.exchanges.pop(connection, None)
        if exchange is None:
            return
        if exchange.source == "test":
            self.replies[connection] = response
            self.say(server, describe_reply(connection, response))
            return
        assert response is not None, "controllers do not close each other's connections"
        self.send(server, exchange.source, Answered(exchange.call, response))

    def say(self, name: str, line: str | None) -> None:
        """What happened, if it is told at all."""
        if line is not None:
            self.lines.append(line if len(self.voters) == 1 else f"{short(name)}: {line}")
