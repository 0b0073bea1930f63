"""Toy nodes for tests of the runtimes: a server that counts on its disk what it is asked, and a client that asks."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from actors.node.contract import Node
from actors.node.effects import AnyEffect
from actors.node.events import Answered, AnyEvent, Failed, Invoked, Received, Started, Synced, TimedOut
from actors.node.files import Files
from actors.node.messages import Api
from actors.node.spec import ClusterSpec, NodeSpec, Role
from actors.node.step import Step
from actors.trace.events import ListReturn, LogAppend, LogFlush, Rpc
from krift.v1.metadata import MetadataRequest, MetadataResponse

PINGS = "pings-0"


class ToyServer(msgspec.Struct):
    """Answers Metadata with how many requests it ever got (``controller_id``), from its disk on. A topic named
    "raise" makes it raise, one named "park" makes it answer after 50 ms, one named "answer" before it records."""

    name: str = ""
    count: int = 0
    files: Files = msgspec.field(default_factory=Files)
    parked: str = ""

    def step(self, now_ms: int, event: AnyEvent) -> list[AnyEffect]:
        step = Step(now_ms)
        match event:
            case Started(spec, _, disk):
                self.name = spec.name
                self.count = len(disk.get("pings", []))
            case Received(connection, request):
                assert isinstance(request, MetadataRequest)
                wish = request.topics[0].name if request.topics else ""
                assert wish != "raise", "asked to raise"
                if wish == "answer":
                    step.reply(connection, MetadataResponse(controller_id=self.count + 1))
                step.record(LogAppend(PINGS, "leader", self.count, self.count, 0, 0, -1, -1, -1, False, [wish]))
                self.files.append(step, "pings", [b"%d" % self.count])
                self.files.sync(step, "pings")
                self.count += 1
                if wish == "park":
                    self.parked = connection
                    step.set_timer("unpark", 50)
                elif wish != "answer":
                    step.reply(connection, MetadataResponse(controller_id=self.count))
            case TimedOut():
                step.reply(self.parked, MetadataResponse(controller_id=self.count))
            case Synced():
                step.record(LogFlush(PINGS, event.upto))
            case _:
                pass
        return step.effects


class ToyClient(msgspec.Struct):
    """Operation "ask" asks ``workload["peer"]`` every ``every_ms`` with the given ``wish``, ``burst`` calls at a time,
    and is complete after ``enough`` calls ended (it goes on asking); "stop" stops it. Both tell what was answered,
    in order, and how the other calls failed."""

    spec: NodeSpec | None = None
    incarnation: int = 0
    wish: str = ""
    burst: int = 1
    calls: int = 0
    answers: list[int] = []
    failures: list[str] = []
    enough: int = -1
    operation: str = ""

    def step(self, now_ms: int, event: AnyEvent) -> list[AnyEffect]:
        step = Step(now_ms)
        match event:
            case Started(spec, incarnation, _):
                self.spec, self.incarnation = spec, incarnation
            case Invoked(operation, "stop"):
                step.cancel_timer("ask")
                step.complete(operation, self.result())
            case Invoked(operation, _, arguments):
                self.wish, self.burst = arguments.get("wish", ""), arguments.get("burst", 1)
                self.operation, self.enough = operation, arguments.get("enough", -1)
                self.ask(step)
            case TimedOut():
                self.ask(step)
            case Answered(call, response):
                assert isinstance(response, MetadataResponse)
                self.answers.append(response.controller_id)
                self.note(step, call, "answered")
                step.record(ListReturn(f"ask:{call}", "ok", 0, PINGS, timestamp=0, offset=response.controller_id))
            case Failed(call, reason):
                self.failures.append(reason)
                self.note(step, call, reason)
            case _:
                pass
        return step.effects

    def ask(self, step: Step) -> None:
        """Send a burst of calls, and come back."""
        assert self.spec is not None
        for _ in range(self.burst):
            self.calls += 1
            request = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=self.wish)])
            request.header.correlation_id = self.calls
            step.call(self.calls, self.spec.workload["peer"], "toy", request, self.spec.workload["timeout_ms"])
        step.set_timer("ask", self.spec.workload["every_ms"])

    def note(self, step: Step, call: int, outcome: Literal["answered", "disconnect", "timeout"]) -> None:
        """Record the end of a call."""
        assert self.spec is not None
        step.record(Rpc(Api.Metadata.name, 0, self.spec.workload["peer"], "toy", call, outcome, []))
        self.enough -= 1
        if self.enough == 0:
            step.complete(self.operation, self.result())

    def result(self) -> dict[str, Any]:
        """What was answered, and how the other calls failed."""
        return {"answers": list(self.answers), "failures": list(self.failures)}


def new_toy(role: Role) -> Node:
    """A server for a broker, a client for a client."""
    return ToyServer() if role == "broker" else ToyClient()


CLUSTER = ClusterSpec("toys", [], [1])


def server_spec(number: int = 1, defects: list[str] | None = None) -> NodeSpec:
    """Spec of the server ``broker-<number>``."""
    return NodeSpec(f"broker-{number}", "broker", number, f"dir-{number}", CLUSTER, defects=defects or [])


def client_spec(name: str, peer: str, every_ms: int = 10, timeout_ms: int = 1000) -> NodeSpec:
    """Spec of a client that asks ``peer``."""
    workload = {"peer": peer, "every_ms": every_ms, "timeout_ms": timeout_ms}
    return NodeSpec(name, "producer", -1, f"dir-{name}", CLUSTER, workload=workload)
