"""Nodes that fail in ways that no scenario asks for: factories for a live cluster."""

from __future__ import annotations

import os

from actors.broker.broker_node import BrokerNode
from actors.node.contract import Node
from actors.node.effects import AnyEffect
from actors.node.events import AnyEvent, Received
from actors.node.spec import Role
from actors.nodes import new_node
from krift.v1.produce import ProduceRequest

STATUS = 7


class BrokerThatDies(BrokerNode):
    """Its process ends, without a word, at the first Produce that it gets."""

    def step(self, now_ms: int, event: AnyEvent) -> list[AnyEffect]:
        if isinstance(event, Received) and isinstance(event.request, ProduceRequest):
            os._exit(STATUS)
        return super().step(now_ms, event)


def with_dying_brokers(role: Role) -> Node:
    """The usual nodes, but for brokers."""
    return BrokerThatDies() if role == "broker" else new_node(role)


def without_brokers(role: Role) -> Node:
    """The usual nodes, but a broker cannot be made."""
    if role == "broker":
        raise ValueError("no broker can be made here")
    return new_node(role)


def with_brokers_that_die_in_the_making(role: Role) -> Node:
    """The usual nodes, but the process of a broker ends before there is one."""
    if role == "broker":
        os._exit(STATUS)
    return new_node(role)
