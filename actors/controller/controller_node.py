"""The node that is a controller: a voter of the quorum, and the controller's state machine on top of it."""

from __future__ import annotations

from typing import Any

import msgspec

from actors.config import setting
from actors.controller import controller_channels
from actors.controller.controller import Controller, ControllerRequest
from actors.controller.controller_config import controller_config
from actors.node.api_versions import api_versions_response, speaks
from actors.node.effects import AnyEffect
from actors.node.events import (
    Answered,
    AnyEvent,
    Chosen,
    ClockStepped,
    Disconnected,
    Failed,
    Invoked,
    Received,
    Started,
    Synced,
    TimedOut,
)
from actors.node.fault import FatalFault
from actors.node.files import Files
from actors.node.messages import api_of, request_version
from actors.node.network_client import NetworkClient
from actors.node.spec import ClusterSpec, NodeSpec
from actors.node.step import Step
from actors.quorum.raft_client import METADATA_LOG_FILE, RaftClient
from actors.versions import CONTROLLER_APIS
from krift.v1.api_versions import ApiVersionsRequest


def _no_spec() -> NodeSpec:
    return NodeSpec("", "controller", -1, "", ClusterSpec("", [], []))


def _no_network() -> NetworkClient:
    return NetworkClient("", {}, 1, 1, 1)


class ControllerNode(msgspec.Struct):
    """See ``actors.node.contract.Node``. Empty until Started fills it. ``closing``: the process ends with the next Sync
    of the metadata log."""

    spec: NodeSpec = msgspec.field(default_factory=_no_spec)
    incarnation: int = 0
    files: Files = msgspec.field(default_factory=Files)
    net: NetworkClient = msgspec.field(default_factory=_no_network)
    raft: RaftClient = msgspec.field(default_factory=RaftClient)
    controller: Controller = msgspec.field(default_factory=Controller)
    closing: bool = False
    wall_offset_ms: int = 0

    def step(self, now_ms: int, event: AnyEvent) -> list[AnyEffect]:
        """Take one event; see ``actors.node.contract.Node``."""
        if isinstance(event, ClockStepped):
            self.wall_offset_ms = event.offset_ms
        step = Step(now_ms, self.spec.defects, self.wall_offset_ms)
        if isinstance(event, Started):
            step = Step(now_ms, event.spec.defects)
        if self.closing:
            if isinstance(event, Synced) and event.file == METADATA_LOG_FILE:
                step.exit(clean=True)
            return step.effects
        try:
            self._go_on(step, event)
        except FatalFault as fault:
            step.exit(clean=False, detail=str(fault), fatal=True)
        return step.effects

    def _go_on(self, step: Step, event: AnyEvent) -> None:
        self._take(step, event)
        self.raft.poll(step, self.files, self.net)
        self.controller.follow(step, self.files, self.raft)
        self.controller.channels.poll(step, self.net)
        if self.raft.is_shut_down:
            self.closing = True
            self.files.sync(step, METADATA_LOG_FILE)

    def _take(self, step: Step, event: AnyEvent) -> None:
        if isinstance(event, Started):
            self._start(step, event)
        elif isinstance(event, Received):
            self._on_request(step, event.connection, event.request)
        elif isinstance(event, Answered | Failed):
            self._on_ended(step, event)
        elif isinstance(event, TimedOut):
            self._on_timer(step, event.timer)
        elif isinstance(event, Synced):
            self.raft.on_synced(step, self.files, self.net, event)
        elif isinstance(event, Disconnected):
            self.raft.on_disconnected(event.connection)
            self.controller.on_disconnected(event.connection)
        elif isinstance(event, Chosen):
            self.raft.on_chosen(step, self.files, self.net, event)
        elif isinstance(event, Invoked):
            self._invoked(step, event)

    def _invoked(self, step: Step, event: Invoked) -> None:
        if event.kind != "shutdown":
            step.complete(event.operation, {"error": f"a controller knows no operation {event.kind}"})
            return
        step.complete(event.operation, {})
        # The socket server goes on serving until another voter leads (``ControllerServer.shutdown``).
        self.raft.begin_shutdown(step)

    def _start(self, step: Step, event: Started) -> None:
        spec, config = event.spec, event.spec.config
        self.spec = spec
        self.incarnation = event.incarnation
        self.net = NetworkClient(
            spec.name,
            spec.versions,
            setting(config, "reconnect.backoff.ms"),
            setting(config, "reconnect.backoff.max.ms"),
            setting(config, "request.timeout.ms"),
        )
        self.controller.config = controller_config(spec)
        self.raft.start(step, self.files, self.net, spec, event.incarnation, event.disk)

    def _on_request(self, step: Step, connection: str, request: Any) -> None:
        if isinstance(request, ApiVersionsRequest):
            step.reply(connection, api_versions_response(self.spec, CONTROLLER_APIS, request))
        elif api_of(request) not in CONTROLLER_APIS:
            step.close(connection)
        elif self.raft.on_request(step, self.files, self.net, connection, request):
            return
        elif speaks(self.spec.versions, request):
            accepted: ControllerRequest = request
            self.controller.on_request(step, self.files, self.raft, connection, accepted, request_version(request))
        else:
            # Kafka's listener closes the connection on which an API or version arrives that it does not serve.
            step.close(connection)

    def _on_ended(self, step: Step, event: Answered | Failed) -> None:
        if isinstance(event, Answered):
            ended = self.net.on_answered(step, event)
        else:
            ended = self.net.on_failed(step, event)
        if ended is None:
            return
        if ended.purpose.startswith(controller_channels.PREFIX):
            self.controller.channels.on_ended(step, ended)
        else:
            taken = self.raft.on_ended(step, self.files, self.net, ended)
            assert taken, f"nobody takes the end of a call for {ended.purpose}"

    def _on_timer(self, step: Step, name: str) -> None:
        if self.net.on_timer(name) or self.raft.on_timer(step, self.files, self.net, name):
            return
        if not self.controller.channels.on_timer(name):
            self.controller.on_timer(step, self.files, self.raft, name)
