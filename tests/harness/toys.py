"""Small nodes and a scripted conductor, to test the runtimes apart from Kafka's protocol."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from actors.control import AnyAction, Barrier
from actors.node.effects import AnyEffect, Append, Call, Choose, Complete, Record, Reply, SetTimer, Sync, Write
from actors.node.events import Answered, AnyEvent, Chosen, Failed, Invoked, Received, Started, Synced, TimedOut
from actors.node.spec import ClusterSpec, NodeSpec, Role
from actors.sim.world import World
from actors.trace.events import ErrorSeen, MetaImage, Stamped
from krift.v1.api_versions import ApiVersionsRequest, ApiVersionsResponse

CLUSTER = ClusterSpec(cluster_id="toys", voters=[], brokers=[1])


def toy_spec(name: str, role: Role = "broker", **fields: Any) -> NodeSpec:
    """The spec of a toy."""
    return NodeSpec(name=name, role=role, node_id=-1, directory_id=f"dir-{name}", cluster=CLUSTER, **fields)


def ask(text: str) -> ApiVersionsRequest:
    """A request that carries some text."""
    return ApiVersionsRequest(client_software_name=text)


def say(code: int = 0) -> ApiVersionsResponse:
    """An answer that carries a number."""
    return ApiVersionsResponse(error_code=code)


Behaviour = Callable[[int, AnyEvent], list[AnyEffect]]


class Puppet:
    """A node whose behaviour is a function of the test's own; ``seen`` has every event with its time (ms)."""

    def __init__(self, behave: Behaviour, seen: list[tuple[int, AnyEvent]]) -> None:
        self.behave = behave
        self.seen = seen

    def step(self, now_ms: int, event: AnyEvent) -> list[AnyEffect]:
        """Note the event and behave."""
        self.seen.append((now_ms, event))
        return self.behave(now_ms, event)


class Script:
    """A conductor that does what a list says: actions by time (us), actions by event, and an end."""

    barriers: Sequence[Barrier] = ()

    def __init__(
        self,
        end_us: int,
        at: dict[int, list[AnyAction]] | None = None,
        on_event: Callable[[int, Stamped], list[AnyAction]] | None = None,
    ) -> None:
        self.end_us = end_us
        self.finished = False
        self.completed: list[tuple[int, str, str, dict[str, Any]]] = []
        self._at = dict(sorted({**(at or {})}.items()))
        self._on_event = on_event

    def begin(self) -> list[AnyAction]:
        """Nothing of its own."""
        return []

    def next_time_us(self) -> int | None:
        """The next time of the list, then the end."""
        return next(iter(self._at), self.end_us)

    def on_time(self, now_us: int) -> list[AnyAction]:
        """What the list says about now."""
        actions = [action for time in list(self._at) if time <= now_us for action in self._at.pop(time)]
        self.finished = now_us >= self.end_us
        return actions

    def on_event(self, now_us: int, event: Stamped) -> list[AnyAction]:
        """What the test says about the event."""
        return [] if self._on_event is None else self._on_event(now_us, event)

    def on_complete(self, now_us: int, node: str, operation: str, result: dict[str, Any]) -> list[AnyAction]:
        """Note it."""
        self.completed.append((now_us, node, operation, result))
        return []

    def end(self, now_us: int) -> list[AnyAction]:
        """Nothing to end."""
        return []


class Stage:
    """Puppets by name under one script: ``behave[name]`` sets the behaviour, ``seen[name]`` has what it was given
    (each incarnation behind the one before)."""

    def __init__(self, behave: dict[str, Behaviour], script: Script, seed: int = 1, **options: Any) -> None:
        self.script = script
        self.seen: dict[str, list[tuple[int, AnyEvent]]] = {name: [] for name in behave}
        self._waiting = list(behave)
        self._behave = behave
        specs = options.pop("specs", [toy_spec(name) for name in behave])
        options.setdefault("record", True)
        self.world = World(specs, script, seed, "test", new_node=self._new_node, **options)  # type: ignore[arg-type]

    def _new_node(self, role: Role) -> Puppet:
        """The runtime asks by role alone: tell by who is down."""
        name = next(host.name for host in self.world.hosts.values() if host.node is None and not host.halted)
        return Puppet(self._behave[name], self.seen[name])

    def events(self, name: str, kind: type[Any] | tuple[type[Any], ...]) -> list[Any]:
        """The events of a kind that a node was given."""
        return [event for _, event in self.seen[name] if isinstance(event, kind)]


# ---- ping and pong: plain-data nodes for determinism and for speed -------------------------------------------


class PingNode(msgspec.Struct):
    """Keeps ``depth`` requests in flight to every broker, one after a drawn pause each; records every tenth answer
    and every failure."""

    name: str = ""
    targets: list[str] = []
    pause_max_ms: int = 0
    timeout_ms: int = 1000
    calls: int = 0
    answers: int = 0
    waiting: dict[int, str] = {}
    operation: str = ""

    def step(self, now_ms: int, event: AnyEvent) -> list[AnyEffect]:
        """Take one event."""
        effects: list[AnyEffect] = []
        match event:
            case Started(spec=spec):
                self.name, self.targets = spec.name, list(spec.workload["targets"])
                self.pause_max_ms = spec.workload["pause_max_ms"]
                for target in self.targets:
                    for _ in range(spec.workload["depth"]):
                        self._call(target, effects)
            case Invoked(operation=operation):
                self.operation = operation
                effects.append(Choose("side", 2))
            case Chosen(value=value):
                effects.append(Complete(self.operation, {"side": value, "answers": self.answers}))
            case Answered(call=call):
                self.answers += 1
                if self.answers % 10 == 0:
                    effects.append(Record(MetaImage(self.answers, call)))
                self._again(self.waiting.pop(call), call, effects)
            case Failed(call=call, reason=reason):
                effects.append(Record(ErrorSeen("", "ApiVersions", 0, 0, reason)))
                target = self.waiting.pop(call)
                effects.append(SetTimer(f"retry/{target}/{call}", 50, 100))
            case TimedOut(timer=timer):
                self._call(timer.split("/")[1], effects)
            case _:
                pass
        return effects

    def _again(self, target: str, call: int, effects: list[AnyEffect]) -> None:
        if self.pause_max_ms:
            effects.append(SetTimer(f"again/{target}/{call}", 0, self.pause_max_ms))
        else:
            self._call(target, effects)

    def _call(self, target: str, effects: list[AnyEffect]) -> None:
        self.calls += 1
        self.waiting[self.calls] = target
        request = ApiVersionsRequest(client_software_name=self.name)
        header = request.header
        header.api_key = 18
        header.correlation_id = self.calls
        effects.append(Call(self.calls, target, "client", request, self.timeout_ms))


class PongNode(msgspec.Struct):
    """Answers every request, every fiftieth only after a Sync; every tenth is recorded."""

    served: int = 0
    written: int = 0
    syncing: dict[int, str] = {}

    def step(self, now_ms: int, event: AnyEvent) -> list[AnyEffect]:
        """Take one event."""
        match event:
            case Received(connection=connection, request=request):
                return self._serve(connection, request.header.correlation_id)
            case Synced(upto=upto):
                done = [number for number in self.syncing if number <= upto]
                return [Reply(self.syncing.pop(number), say(number % 100)) for number in done]
            case _:
                return []

    def _serve(self, connection: str, correlation_id: int) -> list[AnyEffect]:
        self.served += 1
        effects: list[AnyEffect] = []
        if self.served % 10 == 0:
            effects.append(Record(MetaImage(self.served, correlation_id)))
        if self.served % 50:
            return [*effects, Reply(connection, say())]
        self.written += 1
        self.syncing[self.written] = connection
        return [*effects, Write("log", self.written, Append([b"%d" % self.served])), Sync("log")]


def new_toy(role: Role) -> PingNode | PongNode:
    """Brokers pong, the others ping."""
    return PongNode() if role == "broker" else PingNode()


def ping_pong_specs(pings: int = 2, pongs: int = 2, depth: int = 5, pause_max_ms: int = 0) -> list[NodeSpec]:
    """A cluster of toys."""
    targets = [f"broker-{n + 1}" for n in range(pongs)]
    workload = {"targets": targets, "depth": depth, "pause_max_ms": pause_max_ms}
    return [
        *(toy_spec(name) for name in targets),
        *(toy_spec(f"producer-{n + 1}", "producer", workload=workload) for n in range(pings)),
    ]
