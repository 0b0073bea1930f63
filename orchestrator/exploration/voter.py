"""A voter under exploration: the member of the quorum alone, without the controller on top, and its normal form.

Two histories that end in the same situation must end in the same bytes, or there would be no end of states. So numbers
that only have to be unique (calls, writes) begin again at 1, what only lengthens a pause is forgotten, and what is used
as a set is sorted. None of that is something a voter decides on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from actors.config import setting
from actors.log.batch import Batch
from actors.node import network_client
from actors.node.component import Components
from actors.node.effects import AnyEffect
from actors.node.events import (
    Answered,
    AnyEvent,
    Chosen,
    Disconnected,
    Failed,
    Invoked,
    Received,
    Started,
    Synced,
    TimedOut,
)
from actors.node.files import Files
from actors.node.network_client import NetworkClient
from actors.node.spec import ClusterSpec, NodeSpec
from actors.node.step import Step
from actors.node.turn import NodeTurn
from actors.quorum import raft_client
from actors.quorum.raft_client import RaftClient
from krift.v1.message import Message
from krift.v1.records import MetadataRecord, NoOpRecord

APPEND = "append"
"""Kind of the operation that has a leader append a record."""


def _no_spec() -> NodeSpec:
    return NodeSpec("", "controller", -1, "", ClusterSpec("", [], []))


def _no_network() -> NetworkClient:
    return NetworkClient("", {}, 1, 1, 1)


class VoterNode(msgspec.Struct):
    """See ``actors.node.contract.Node``. Empty until Started fills it."""

    spec: NodeSpec = msgspec.field(default_factory=_no_spec)
    files: Files = msgspec.field(default_factory=Files)
    net: NetworkClient = msgspec.field(default_factory=_no_network)
    raft: RaftClient = msgspec.field(default_factory=RaftClient)

    def step(self, now_ms: int, event: AnyEvent) -> list[AnyEffect]:
        """Take one event; as a controller's node does, without what concerns its controller."""
        spec = event.spec if isinstance(event, Started) else self.spec
        step = Step(now_ms, tuple(spec.defects))
        if isinstance(event, Started):
            self._start(event)
        raft, net, turn = self.raft, self.net, NodeTurn(step, self.files, self.net)
        if isinstance(event, Started):
            raft.start(turn, spec, event.disk)
        elif isinstance(event, Received):
            raft.on_request(turn, event.connection, event.request)
        elif isinstance(event, Answered):
            COMPONENTS.on_ended(self, turn, net.on_answered(step, event))
        elif isinstance(event, Failed):
            COMPONENTS.on_ended(self, turn, net.on_failed(step, event))
        elif isinstance(event, TimedOut):
            COMPONENTS.on_timer(self, turn, event.timer)
        elif isinstance(event, Synced):
            raft.on_synced(turn, event)
        elif isinstance(event, Disconnected):
            raft.on_disconnected(event.connection)
        elif isinstance(event, Chosen):
            COMPONENTS.on_chosen(self, turn, event)
        elif isinstance(event, Invoked):
            raft.append(turn, [MetadataRecord(no_op=NoOpRecord())])
        raft.poll(turn)
        return step.effects

    def _start(self, event: Started) -> None:
        self.spec = event.spec
        config = event.spec.config
        self.net = NetworkClient(
            event.spec.name,
            event.spec.versions,
            setting(config, "reconnect.backoff.ms"),
            setting(config, "reconnect.backoff.max.ms"),
            setting(config, "request.timeout.ms"),
        )


COMPONENTS: Components[VoterNode, NodeTurn] = Components()
COMPONENTS.add(network_client.COMPONENT, lambda node: node.net)
COMPONENTS.add(raft_client.COMPONENT, lambda node: node.raft)

_FORGOTTEN: Mapping[str, Any] = {"failures": 0, "retries": 1}
"""Counters that lengthen a pause and do nothing else; with a frozen clock all pauses are alike."""

_SETS = frozenset({"granting", "rejecting", "fetched", "backing_off", "begin_due"})
"""Lists that the voter uses as sets."""

_LEAVES = (str, bytes, int, Message, Batch, NodeSpec)


def normalise(node: VoterNode) -> dict[int, int]:
    """Bring a voter into its normal form; returns old number -> new number of its calls."""
    net = node.net
    mentioned: set[int] = set(net.in_flight)
    _collect(node.raft, mentioned)
    order = sorted(mentioned, key=lambda call: _place(net, call))
    names = {call: number for number, call in enumerate(order, 1)}
    net.in_flight = {names[call]: net.in_flight[call] for call in order if call in net.in_flight}
    net.calls = len(order)
    _normal(net, names)
    _normal(node.raft, names)
    return names


def _place(net: NetworkClient, call: int) -> tuple[str, str, int]:
    """Calls in flight by connection and age; then those that have ended and whose end waits."""
    flight = net.in_flight.get(call)
    return ("~", "", call) if flight is None else (flight.peer, flight.connection, call)


def _collect(value: Any, found: set[int]) -> None:
    if isinstance(value, _LEAVES) or value is None:
        return
    if isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            child = getattr(value, name)
            if name == "call":
                found.add(child)
            else:
                _collect(child, found)
    elif isinstance(value, dict):
        for child in value.values():
            _collect(child, found)
    elif isinstance(value, list | tuple):
        for child in value:
            _collect(child, found)


def _normal(value: Any, names: Mapping[int, int]) -> Any:
    """``value`` in its normal form; what can be changed in place is."""
    if isinstance(value, _LEAVES) or value is None:
        return value
    if isinstance(value, msgspec.Struct):
        return _normal_struct(value, names)
    if isinstance(value, dict):
        for key in sorted(value):
            value[key] = _normal(value.pop(key), names)
    elif isinstance(value, list):
        value[:] = [_normal(child, names) for child in value]
    return value


def _normal_struct(value: Any, names: Mapping[int, int]) -> Any:
    changed: dict[str, Any] = {}
    for name in value.__struct_fields__:
        old = getattr(value, name)
        new: Any
        if name == "call":
            new = names[old]
        elif name in _FORGOTTEN:
            new = _FORGOTTEN[name]
        elif name in _SETS and isinstance(old, list):
            new = sorted(old)
        else:
            new = _normal(old, names)
        if new is not old:
            changed[name] = new
    if value.__struct_config__.frozen:
        return msgspec.structs.replace(value, **changed) if changed else value
    for name, new in changed.items():
        setattr(value, name, new)
    return value
