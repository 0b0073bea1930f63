"""A quorum in one process: members without the rest of their nodes, joined by a queue that the test empties."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from actors.node import network_client
from actors.node.codec import decode, encode
from actors.node.component import Components
from actors.node.effects import Call, Delete, DropHead, SetTimer, Write
from actors.node.events import Answered, AnyEvent, Chosen, Failed, Synced
from actors.node.fault import FatalFault
from actors.node.files import Files
from actors.node.messages import AnyRequest, AnyResponse
from actors.node.network_client import NetworkClient
from actors.node.spec import ClusterSpec, NodeSpec, node_name
from actors.node.step import Step
from actors.node.turn import NodeTurn
from actors.quorum import raft_client
from actors.quorum.raft_client import RaftClient
from actors.trace.events import TraceEvent
from actors.versions import Ranges, default_ranges
from krift.v1.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tests.datadriven.quorum.rendering import describe_event, describe_message, short
from tests.harness.host import Host


@dataclass
class Letter:
    """A request or a reply under way. ``call``: number of the caller's call; ``connection``: as the server sees it."""

    source: str
    target: str
    connection: str
    call: int
    message: Any
    is_reply: bool


class Member(Host):
    """One quorum member: its RaftClient, its disk, its timers. ``ranges``: what its timers were set with, milliseconds.
    ``held_syncs``: files to report when released."""

    def __init__(self, spec: NodeSpec, quorum: Quorum) -> None:
        super().__init__()
        self.spec, self.quorum = spec, quorum
        self.raft = RaftClient()
        self.files = Files()
        backoff_ms = spec.config.get("reconnect.backoff.max.ms", 1000)
        self.net = NetworkClient(spec.name, spec.versions, 50, backoff_ms, 30000)
        self.disk = quorum.disks.setdefault(spec.name, {})
        self.ranges: dict[str, tuple[int, int]] = {}
        self.manual_sync = False
        self.may_stop = False
        self.held_syncs: list[Synced] = []
        self.snapshots: dict[tuple[str, int], list[bytes]] = {}

    @property
    def durable(self) -> dict[str, list[bytes]]:
        """What survives power loss."""
        return self.quorum.durable.setdefault(self.spec.name, {})

    def owe(self, event: AnyEvent) -> None:
        assert isinstance(event, Chosen)
        self.quorum.step(self, lambda turn: COMPONENTS.on_chosen(self, turn, event))

    def recorded(self, event: TraceEvent) -> None:
        self.quorum.observer(self.spec.name, event)
        self.quorum.say(describe_event(self.spec.name, event))

    def called(self, call: Call) -> None:
        name = self.spec.name
        connection = f"{name}>{call.peer}/{call.connection}#{self.quorum.incarnations[name]}.{call.call}"
        self.quorum.say(describe_message(name, call.peer, call.request))
        self.quorum.queue.append(Letter(name, call.peer, connection, call.call, call.request, False))

    def replied(self, connection: str, response: AnyResponse | None) -> None:
        self.quorum.replying(self.spec.name)
        if response is None:
            return
        name, caller = self.spec.name, connection.partition(">")[0]
        self.quorum.say(describe_message(name, caller, response))
        incarnation, _, call = connection.rpartition("#")[2].partition(".")
        if caller in self.quorum.members and int(incarnation) == self.quorum.incarnations[caller]:
            self.quorum.queue.append(Letter(name, caller, connection, int(call), response, True))

    def synced(self, file: str) -> None:
        synced = Synced(file, self.files.states[file].syncing)
        self.snapshots[file, synced.upto] = list(self.disk.get(file, []))
        if self.manual_sync:
            self.quorum.say(f"{short(self.spec.name)} sync {file} is open")
            self.held_syncs.append(synced)
        else:
            self.quorum.report_sync(self, synced)

    def delay_ms(self, timer: SetTimer) -> int:
        low, high = self.ranges[timer.name] = timer.min_ms, timer.max_ms
        if self.quorum.show_timers:
            span = f"-{high}" if high != low else ""
            self.quorum.say(f"{short(self.spec.name)} timer {timer.name} {low}{span}")
        # Draws are spread over the range by the number of the node, so that elections have one winner.
        return low + (high - low) * (self.spec.node_id % 10) // 10

    def drawn(self, n: int) -> int:
        self.quorum.draws += 1
        return self.quorum.draws % n

    def write(self, write: Write) -> None:
        super().write(write)
        match write.operation:
            case DropHead(count):
                del self.durable.get(write.file, [])[:count]
            case Delete():
                self.durable.pop(write.file, None)


@dataclass
class Quorum:
    """Members by name, what is under way, and what happened since it was last asked (``lines``)."""

    cluster: ClusterSpec
    features: dict[str, str] = field(default_factory=dict)
    config: dict[str, int] = field(default_factory=dict)
    now_ms: int = 0
    members: dict[str, Member] = field(default_factory=dict)
    disks: dict[str, dict[str, list[bytes]]] = field(default_factory=dict)
    durable: dict[str, dict[str, list[bytes]]] = field(default_factory=dict)
    versions: dict[str, Ranges] = field(default_factory=dict)
    cluster_ids: dict[str, str] = field(default_factory=dict)
    incarnations: dict[str, int] = field(default_factory=dict)
    queue: list[Letter] = field(default_factory=list)
    cut: set[tuple[str, str]] = field(default_factory=set)
    lines: list[str] = field(default_factory=list)
    observer: Callable[[str, TraceEvent], None] = lambda name, event: None
    replying: Callable[[str], None] = lambda name: None
    show_timers: bool = False
    directories: dict[str, str] = field(default_factory=dict)
    configs: dict[str, dict[str, Any]] = field(default_factory=dict)
    draws: int = 0

    # ---- life ------------------------------------------------------------------------------------------------

    def spec(self, name: str, defects: list[str]) -> NodeSpec:
        """The specification of a node: controllers are voters or spare, brokers are observers."""
        role, _, number = name.partition("-")
        node_id = int(number) + (100 if role == "controller" else 0)
        ranges = {**default_ranges(), **self.versions.get(name, {})}
        return NodeSpec(
            name,
            "controller" if role == "controller" else "broker",
            node_id,
            self.directories.get(name, f"dir-{short(name)}"),
            msgspec.structs.replace(self.cluster, cluster_id=self.cluster_ids.get(name, self.cluster.cluster_id)),
            config={**self.config, **self.configs.get(name, {})},
            features=self.features,
            versions=ranges,
            defects=defects,
        )

    def start(self, name: str, defects: list[str]) -> None:
        """Begin an incarnation of a node with what its disk holds."""
        member = self.members[name] = Member(self.spec(name, defects), self)
        self.incarnations[name] = self.incarnations.get(name, -1) + 1
        image = member.image()
        self.step(member, lambda turn: member.raft.start(turn, member.spec, image))

    def crash(self, name: str) -> None:
        """End an incarnation: calls to it and from it end, its disk stays."""
        del self.members[name]
        lost = [letter for letter in self.queue if name in (letter.source, letter.target)]
        self.queue = [letter for letter in self.queue if letter not in lost]
        for letter in lost:
            caller = letter.target if letter.is_reply else letter.source
            if caller != name:
                self.fail(caller, letter.call, "disconnect")
        for member in list(self.members.values()):
            for flight in [f for f in member.net.in_flight.values() if f.peer == name]:
                self.fail(member.spec.name, flight.call, "disconnect")

    def lose_power(self, name: str) -> None:
        """End an incarnation together with all that no finished Sync covers."""
        self.crash(name)
        self.disks[name] = {file: list(entries) for file, entries in self.durable.get(name, {}).items()}

    # ---- steps -----------------------------------------------------------------------------------------------

    def step(self, member: Member, action: Callable[[NodeTurn], object]) -> None:
        """Let a member take one input, and carry out what it asks for. Its state survives encoding each time."""
        step = Step(self.now_ms, tuple(member.spec.defects))
        try:
            turn = NodeTurn(step, member.files, member.net)
            action(turn)
            member.raft.poll(turn)
        except FatalFault as fault:
            # Its fault handler ends the process (``ProcessTerminatingFaultHandler``).
            self.say(f"{short(member.spec.name)} stops: {fault}")
            self.crash(member.spec.name)
            return
        assert decode(encode(member.raft), RaftClient) == member.raft
        member.carry_out(step.effects, self.now_ms)
        if member.raft.is_shut_down and not member.may_stop:
            member.may_stop = True
            self.say(f"{short(member.spec.name)} may stop")
        for letter in [letter for letter in self.queue if isinstance(letter.message, ApiVersionsRequest)]:
            if letter in self.queue and (letter.source, letter.target) not in self.cut:
                self.queue.remove(letter)
                self.deliver(letter)

    def say(self, line: str | None) -> None:
        """What happened, if it is told at all."""
        if line is not None:
            self.lines.append(line)

    def report_sync(self, member: Member, synced: Synced) -> None:
        """Tell a member that a Sync is done."""
        member.durable[synced.file] = member.snapshots[synced.file, synced.upto]
        self.step(member, lambda turn: member.raft.on_synced(turn, synced))

    # ---- messages --------------------------------------------------------------------------------------------

    def deliver(self, letter: Letter) -> None:
        """Hand a letter to its target; a target that does not run breaks the connection."""
        member = self.members.get(letter.target)
        if letter.is_reply:
            if member is not None:
                self._answer(member, letter)
        elif isinstance(letter.message, ApiVersionsRequest):
            self._answer_api_versions(letter)
        elif member is None:
            self.fail(letter.source, letter.call, "disconnect")
        else:
            self.request(member, letter.connection, letter.message)

    def request(self, member: Member, connection: str, request: AnyRequest) -> None:
        """Let a member receive a request."""
        self.step(member, lambda turn: member.raft.on_request(turn, connection, request))

    def _answer(self, member: Member, letter: Letter) -> None:
        event = Answered(letter.call, letter.message)
        self.step(member, lambda turn: COMPONENTS.on_ended(member, turn, member.net.on_answered(turn.step, event)))

    def _answer_api_versions(self, letter: Letter) -> None:
        """Versions are agreed on without a line in the transcript; a scripted peer speaks everything."""
        if letter.target not in self.members and letter.target not in self.scripted:
            self.fail(letter.source, letter.call, "disconnect")
            return
        response = ApiVersionsResponse()
        for api, (low, high) in {**default_ranges(), **self.versions.get(letter.target, {})}.items():
            response.api_keys.append(
                ApiVersionsResponse.ApiVersion(api_key=api_key(api), min_version=low, max_version=high)
            )
        reply = Letter(letter.target, letter.source, letter.connection, letter.call, response, True)
        self._answer(self.members[letter.source], reply)

    @property
    def scripted(self) -> set[str]:
        """Voters that do not run and for which the transcript answers."""
        names = {node_name(voter) for voter in [*self.cluster.voters, *self.cluster.spare_controllers]}
        return {name for name in names if name not in self.members and name not in self.incarnations}

    def fail(self, name: str, call: int, reason: str) -> None:
        """End a call without an answer."""
        member = self.members[name]
        event = Failed(call, "timeout" if reason == "timeout" else "disconnect")
        self.step(member, lambda turn: COMPONENTS.on_ended(member, turn, member.net.on_failed(turn.step, event)))

    def next_letter(self) -> Letter | None:
        """Take the first letter that no cut holds back and that no scripted peer must answer."""
        for letter in self.queue:
            held = (letter.source, letter.target) in self.cut
            waits = letter.target in self.scripted and not isinstance(letter.message, ApiVersionsRequest)
            if not held and not waits:
                self.queue.remove(letter)
                return letter
        return None

    def stabilize(self, limit: int = 1000) -> None:
        """Deliver until nothing more can be."""
        for _ in range(limit):
            letter = self.next_letter()
            if letter is None:
                return
            self.deliver(letter)
        raise AssertionError("the messages never come to an end")

    # ---- time ------------------------------------------------------------------------------------------------

    def fire(self, member: Member, timer: str) -> None:
        """Let a timer fire now."""
        del member.timers[timer]
        self.step(member, lambda turn: COMPONENTS.on_timer(member, turn, timer))

    def run_for(self, duration_ms: int) -> None:
        """Let time pass: timers fire in order, and messages take no time."""
        end_ms = self.now_ms + duration_ms
        self.stabilize()
        while True:
            due = sorted(
                (due_ms, name, timer)
                for name, member in self.members.items()
                for timer, due_ms in member.timers.items()
            )
            if not due or due[0][0] > end_ms:
                break
            self.now_ms, name, timer = due[0]
            self.fire(self.members[name], timer)
            self.stabilize()
        self.now_ms = end_ms


def api_key(name: str) -> int:
    """Number of an API."""
    from actors.node.messages import Api

    return int(Api[name])


COMPONENTS: Components[Member, NodeTurn] = Components()
"""Who takes the timers, answers and choices of a member."""
COMPONENTS.add(network_client.COMPONENT, lambda member: member.net)
COMPONENTS.add(raft_client.COMPONENT, lambda member: member.raft)
