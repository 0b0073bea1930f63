"""The node that is a controller: a voter of the quorum, and the controller's state machine on top of it."""

from __future__ import annotations

from typing import Any

import msgspec

from actors.config import setting
from actors.controller import controller, controller_channels
from actors.controller.controller import Controller
from actors.controller.controller_config import controller_config
from actors.controller.controller_turn import ControllerTurn
from actors.node import network_client
from actors.node.api_versions import api_versions_response, speaks
from actors.node.component import Components
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
from actors.node.messages import Api, api_of
from actors.node.network_client import NetworkClient
from actors.node.spec import ClusterSpec, NodeSpec
from actors.node.step import Step
from actors.quorum import raft_client
from actors.quorum.raft_client import METADATA_LOG_FILE, RaftClient
from actors.versions import CONTROLLER_APIS


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
        if isinstance(event, Started):
            self._set_up(event)
        turn = ControllerTurn(step, self)
        self._take(turn, event)
        self.raft.poll(turn)
        self.controller.follow(turn)
        self.controller.channels.poll(turn)
        if self.raft.is_shut_down:
            self.closing = True
            self.files.sync(step, METADATA_LOG_FILE)

    def _take(self, turn: ControllerTurn, event: AnyEvent) -> None:
        if isinstance(event, Started):
            self.raft.start(turn, event.spec, event.disk)
        elif isinstance(event, Received):
            self._on_request(turn, event.connection, event.request)
        elif isinstance(event, Answered):
            COMPONENTS.on_ended(self, turn, self.net.on_answered(turn.step, event))
        elif isinstance(event, Failed):
            COMPONENTS.on_ended(self, turn, self.net.on_failed(turn.step, event))
        elif isinstance(event, TimedOut):
            COMPONENTS.on_timer(self, turn, event.timer)
        elif isinstance(event, Synced):
            self.raft.on_synced(turn, event)
        elif isinstance(event, Disconnected):
            self.raft.on_disconnected(event.connection)
            self.controller.on_disconnected(event.connection)
        elif isinstance(event, Chosen):
            COMPONENTS.on_chosen(self, turn, event)
        elif isinstance(event, Invoked):
            self._invoked(turn, event)

    def _invoked(self, turn: ControllerTurn, event: Invoked) -> None:
        if event.kind != "shutdown":
            turn.step.complete(event.operation, {"error": f"a controller knows no operation {event.kind}"})
            return
        turn.step.complete(event.operation, {})
        # The socket server goes on serving until another voter leads (``ControllerServer.shutdown``).
        self.raft.begin_shutdown(turn)

    def _set_up(self, event: Started) -> None:
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

    def _on_request(self, turn: ControllerTurn, connection: str, request: Any) -> None:
        api = api_of(request)
        if api == Api.ApiVersions:
            turn.step.reply(connection, api_versions_response(self.spec, CONTROLLER_APIS, request))
        elif api in raft_client.HANDLERS:
            self.raft.on_request(turn, connection, request)
        elif api in CONTROLLER_APIS and speaks(self.spec.versions, request):
            self.controller.on_request(turn, connection, request)
        else:
            # Kafka's listener closes the connection on which an API or version arrives that it does not serve.
            turn.step.close(connection)


COMPONENTS: Components[ControllerNode, ControllerTurn] = Components()
"""Who takes the timers, answers and choices of a controller."""
COMPONENTS.add(network_client.COMPONENT, lambda node: node.net)
COMPONENTS.add(raft_client.COMPONENT, lambda node: node.raft)
COMPONENTS.add(controller.COMPONENT, lambda node: node.controller)
COMPONENTS.add(controller_channels.COMPONENT, lambda node: node.controller.channels)
