"""What every client node has: connections, metadata, start and stop; subclasses add what they do."""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

import msgspec

from actors.client import metadata_cache
from actors.client.metadata_cache import MetadataCache
from actors.client.topic_keys import name_topics
from actors.features import FORMER_EPOCH, HUNG_BROKERS, KIP_232
from actors.node import network_client
from actors.node.component import Component, Components
from actors.node.effects import AnyEffect
from actors.node.events import (
    Answered,
    AnyEvent,
    Chosen,
    ClockStepped,
    DiskImage,
    Failed,
    Invoked,
    Started,
    TimedOut,
)
from actors.node.network_client import NetworkClient
from actors.node.spec import ClusterSpec, NodeSpec, topic_partition
from actors.node.step import Step

SETUP_TIMEOUT = "socket.connection.setup.timeout.ms"
DATA = "client"
"""Connection for Produce, Fetch and a prober's ListOffsets."""


def _no_spec() -> NodeSpec:
    return NodeSpec("", "producer", -1, "", ClusterSpec("", [], []))


def _no_network() -> NetworkClient:
    return NetworkClient("", {}, 1, 1, 1)


class ClientNode(msgspec.Struct):
    """Base of the client nodes: takes events apart, lets the subclass react, then polls everything.

    It does nothing before the operation "start"; "stop" is completed when the subclass says so. ``components``: who
    takes the timers, answers and choices of the class. ``listed``: see ``name_topics``.
    """

    components: ClassVar[Components[Any, Step]]

    spec: NodeSpec = msgspec.field(default_factory=_no_spec)
    incarnation: int = 0
    net: NetworkClient = msgspec.field(default_factory=_no_network)
    metadata: MetadataCache = msgspec.field(default_factory=MetadataCache)
    running: bool = False
    stopping: str = ""
    operations: int = 0
    wall_offset_ms: int = 0
    listed: dict[str, str] = msgspec.field(default_factory=dict)

    def step(self, now_ms: int, event: AnyEvent) -> list[AnyEffect]:
        """See ``actors.node.contract.Node``."""
        if isinstance(event, ClockStepped):
            self.wall_offset_ms = event.offset_ms
        step = Step(now_ms, self.spec.defects, self.wall_offset_ms)
        if isinstance(event, Answered):
            self.components.on_ended(self, step, self.net.on_answered(step, event))
        elif isinstance(event, TimedOut):
            self.components.on_timer(self, step, event.timer)
        elif isinstance(event, Failed):
            # NetworkClient.processDisconnection: a lost broker is a reason to look for leaders anew.
            self.metadata.request_update()
            self.components.on_ended(self, step, self.net.on_failed(step, event))
        elif isinstance(event, Chosen):
            self.components.on_chosen(self, step, event)
        elif isinstance(event, Started):
            self._on_started(step, event)
        elif isinstance(event, Invoked):
            self._on_invoked(step, event)
        self._poll(step)
        if self.metadata.recreated:
            name_topics(step.effects, self.metadata, self.listed)
        return step.effects

    # ---- for subclasses -----------------------------------------------------------------------------------

    def _restore(self, disk: DiskImage) -> None:
        """The application finds what it kept when it ran before."""

    def _configure(self, step: Step) -> None:
        """``spec`` is set: fill in the rest of the state."""

    def _begin(self, step: Step) -> None:
        """The operation "start"."""

    def _end(self, step: Step) -> None:
        """The operation "stop" begins."""

    def _stopped(self, step: Step) -> dict[str, Any] | None:
        """What "stop" is completed with, or None while there is work left."""
        return {}

    def _work(self, step: Step) -> None:
        """Do what can be done now; called after every event."""

    def _topics(self) -> list[str]:
        """Topics that metadata is asked for."""
        return [self.spec.workload["topic"]]

    def next_operation(self) -> str:
        """A name for an operation, unique in the run."""
        self.operations += 1
        return f"{self.spec.name}/{self.incarnation}/{self.operations}"

    def workload_partitions(self) -> list[str]:
        """The topic partitions the workload names."""
        topic = self.spec.workload["topic"]
        return [topic_partition(topic, partition) for partition in self.spec.workload["partitions"]]

    # ---- events -------------------------------------------------------------------------------------------

    def _on_started(self, step: Step, event: Started) -> None:
        self.spec = event.spec
        self.incarnation = event.incarnation
        config = event.spec.config
        self.net = NetworkClient(
            event.spec.name,
            event.spec.versions,
            config["reconnect.backoff.ms"],
            config["reconnect.backoff.max.ms"],
            config["request.timeout.ms"],
            config[SETUP_TIMEOUT] if event.spec.features.get(HUNG_BROKERS) == "setup-timeout" else 0,
        )
        self.metadata = MetadataCache()
        kip_232 = event.spec.features.get(KIP_232, "kafka")
        self.metadata.configure(self._topics(), event.spec.cluster, config, kip_232)
        self.metadata.former_epoch = event.spec.features.get(FORMER_EPOCH, "kafka")
        self._configure(step)
        self._restore(event.disk)

    def _on_invoked(self, step: Step, event: Invoked) -> None:
        if event.kind == "start":
            if not self.running:
                self.running = True
                self.metadata.request_update()
                self._begin(step)
            step.complete(event.operation, {})
        elif event.kind == "stop" and not self.stopping:
            self.stopping = event.operation
            if self.running:
                self._end(step)
        else:
            step.complete(event.operation, {"error": f"cannot {event.kind}"})

    def _poll(self, step: Step) -> None:
        if self.running:
            self._work(step)
            self.metadata.poll(step, self.net)
        if self.stopping:
            result = self._stopped(step)
            if result is not None:
                step.complete(self.stopping, result)
                self.stopping = ""
                self.running = False


COMPONENT: Component[ClientNode, Step] = Component(
    timers={
        metadata_cache.BACKOFF_TIMER: lambda node, step, _: node.metadata.on_backoff_over(),
        metadata_cache.AGE_TIMER: lambda node, step, _: node.metadata.on_age(),
    },
    answers={metadata_cache.PURPOSE: lambda node, step, ended, _: node.metadata.on_ended(step, ended)},
    choices={metadata_cache.CHOICE: lambda node, step, value, _: node.metadata.node.on_chosen(node.net, value)},
)
"""What every client has."""

Client = TypeVar("Client", bound=ClientNode)


def components(own: Component[Client, Step]) -> Components[Client, Step]:
    """Those of a class of clients: what every client has, and its own."""
    found: Components[Client, Step] = Components()
    found.add(network_client.COMPONENT, lambda node: node.net)
    found.add(COMPONENT, lambda node: node)
    found.add(own, lambda node: node)
    return found
