"""A few controllers in one process, with virtual time, immediate Syncs and links that hold messages."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from google.protobuf.message import Message

from actors.controller.controller_node import ControllerNode
from actors.node.codec import decode, encode
from actors.node.effects import (
    AnyEffect,
    Append,
    Call,
    CancelTimer,
    Choose,
    Close,
    Record,
    Replace,
    Reply,
    SetTimer,
    Sync,
    Write,
)
from actors.node.events import (
    Answered,
    AnyEvent,
    Chosen,
    Disconnected,
    DiskImage,
    Failed,
    Received,
    Started,
    Synced,
    TimedOut,
)
from actors.node.messages import api_of
from actors.node.spec import NodeSpec
from tests.datadriven.controller.rendering import describe_event, describe_reply
from tests.datadriven.quorum.rendering import short


@dataclass
class Voter:
    """One controller, its timers, disk and open calls."""

    spec: NodeSpec
    node: ControllerNode = field(default_factory=ControllerNode)
    incarnation: int = -1
    up: bool = False
    timers: dict[str, int] = field(default_factory=dict)
    disk: DiskImage = field(default_factory=dict)
    written: dict[str, int] = field(default_factory=dict)
    calls: dict[int, tuple[str, int]] = field(default_factory=dict)


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
    connection was closed)."""

    voters: dict[str, Voter] = field(default_factory=dict)
    now: int = 0
    cut: set[str] = field(default_factory=set)
    held: list[tuple[str, int, AnyEvent]] = field(default_factory=list)
    exchanges: dict[str, Exchange] = field(default_factory=dict)
    queue: deque[tuple[str, int, AnyEvent]] = field(default_factory=deque)
    lines: list[str] = field(default_factory=list)
    replies: dict[str, Message | None] = field(default_factory=dict)
    requests: int = 0

    # ---- what a test does --------------------------------------------------------------------------------

    def start(self, name: str) -> None:
        """Begin an incarnation."""
        voter = self.voters[name]
        voter.node, voter.up, voter.incarnation = ControllerNode(), True, voter.incarnation + 1
        voter.timers, voter.written, voter.calls = {}, {}, {}
        self._deliver(voter, Started(voter.spec, voter.incarnation, {f: list(e) for f, e in voter.disk.items()}))
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
        self._push(target, Received(connection, request))
        self.settle()
        return connection

    def hang_up(self, connection: str) -> None:
        """The test closes a connection on which it waits."""
        exchange = self.exchanges.pop(connection)
        self._push(exchange.target, Disconnected(connection))
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
            self._deliver(voter, event)

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
                self._deliver(voter, TimedOut(timer))
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

    # ---- carrying out ------------------------------------------------------------------------------------

    def _push(self, name: str, event: AnyEvent) -> None:
        self.queue.append((name, self.voters[name].incarnation, event))

    def _send(self, source: str, target: str, event: AnyEvent) -> None:
        """A message between controllers; a cut holds it."""
        if {source, target} & self.cut:
            self.held.append((target, self.voters[target].incarnation, event))
        else:
            self._push(target, event)

    def _fail(self, voter: Voter, call: int, reason: Any) -> None:
        del voter.calls[call]
        self._push(voter.spec.name, Failed(call, reason))

    def _deliver(self, voter: Voter, event: AnyEvent) -> None:
        for effect in voter.node.step(self.now, event):
            self._carry_out(voter, effect)
        assert decode(encode(voter.node), ControllerNode) == voter.node, "the state is not plain data"

    def _carry_out(self, voter: Voter, effect: AnyEffect) -> None:
        name = voter.spec.name
        match effect:
            case Call():
                voter.calls[effect.call] = (effect.peer, self.now + effect.timeout_ms)
                connection = f"{name}/{voter.incarnation}/{effect.call}"
                self.exchanges[connection] = Exchange(name, effect.call, effect.peer)
                self._send(name, effect.peer, Received(connection, effect.request))
            case Reply():
                self._answer(name, effect.connection, effect.response)
            case Close():
                self._answer(name, effect.connection, None)
            case SetTimer():
                voter.timers[effect.name] = self.now + effect.min_ms
            case CancelTimer():
                voter.timers.pop(effect.name, None)
            case Choose():
                self._push(name, Chosen(effect.name, 0))
            case Sync():
                self._push(name, Synced(effect.file, voter.written.get(effect.file, 0)))
            case Write():
                self._write(voter, effect)
            case Record():
                self._say(name, describe_event(effect.event))

    def _answer(self, server: str, connection: str, response: Message | None) -> None:
        exchange = self.exchanges.pop(connection, None)
        if exchange is None:
            return
        if exchange.source == "test":
            self.replies[connection] = response
            self._say(server, describe_reply(connection, response))
            return
        assert response is not None, "controllers do not close each other's connections"
        self._send(server, exchange.source, Answered(exchange.call, response))

    def _say(self, name: str, line: str | None) -> None:
        if line is not None:
            self.lines.append(line if len(self.voters) == 1 else f"{short(name)}: {line}")

    def _write(self, voter: Voter, effect: Write) -> None:
        voter.written[effect.file] = effect.number
        content = voter.disk.setdefault(effect.file, [])
        match effect.operation:
            case Append():
                content.extend(effect.operation.entries)
            case Replace():
                voter.disk[effect.file] = [effect.operation.content]
            case _:
                del content[effect.operation.entries :]
