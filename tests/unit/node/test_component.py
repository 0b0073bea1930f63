"""How timers, answers and choices find who takes them."""

from __future__ import annotations

import pytest

from actors.broker.broker_node import COMPONENTS as BROKER
from actors.client.admin import AdminNode
from actors.client.consumer import ConsumerNode
from actors.client.list_offsets_prober import ListOffsetsNode
from actors.client.producer import ProducerNode
from actors.controller.controller_node import COMPONENTS as CONTROLLER
from actors.node.component import Component, Components
from actors.node.events import Chosen
from actors.node.network_client import Ended
from krift.v1.metadata import MetadataRequest

Heard = list[tuple[object, ...]]

RETRIES: Component[Heard, str] = Component(
    timers={
        "retry/": lambda heard, turn, argument: heard.append((turn, "retry", argument)),
        "retries/expiry": lambda heard, turn, argument: heard.append((turn, "expiry", argument)),
    },
    answers={"asked/": lambda heard, turn, ended, argument: heard.append((turn, ended.call, argument))},
    choices={"who": lambda heard, turn, value, argument: heard.append((turn, value, argument))},
)


def node() -> Components[dict[str, Heard], str]:
    """Those of a node that has its retries under the name "retries"."""
    components: Components[dict[str, Heard], str] = Components()
    components.add(RETRIES, lambda node: node["retries"])
    return components


def test_a_component_takes_what_it_has_declared() -> None:
    """Shows that a name finds its component, by itself or by a prefix, whose rest is handed over whatever is in it."""
    components, state = node(), {"retries": Heard()}
    components.on_timer(state, "turn", "retries/expiry")
    components.on_timer(state, "turn", "retry/orders-0/7")
    ended = Ended(3, "broker-1", "c", 3, 0, "asked/broker-1", MetadataRequest(), None, "timeout")
    components.on_ended(state, "turn", ended)
    components.on_ended(state, "turn", None)
    components.on_chosen(state, "turn", Chosen("who", 2))
    told = [("expiry", ""), ("retry", "orders-0/7"), (3, "broker-1"), (2, "")]
    assert state["retries"] == [("turn", *each) for each in told]


@pytest.mark.parametrize("name", ["retry", "retries/other", "expiry", ""])
def test_nobody_takes_what_nobody_has_declared(name: str) -> None:
    """Shows that a timer of nobody's is a mistake, not silence."""
    with pytest.raises(AssertionError, match="no component handles"):
        node().on_timer({"retries": []}, "turn", name)


@pytest.mark.parametrize("name", ["retry/", "retry/again", "retries/"])
def test_no_two_components_share_a_name(name: str) -> None:
    """Shows that a name is refused that another component has, or that one of another would be found under."""
    with pytest.raises(AssertionError, match="another component has declared"):
        node().add(Component[Heard, str](timers={name: lambda heard, turn, argument: None}), lambda node: node["other"])


def test_every_node_has_the_connections_among_its_components() -> None:
    """Shows that each class of nodes takes the timers of its network client."""
    for components in (BROKER, CONTROLLER, *(each.components for each in CLIENTS)):
        with pytest.raises(KeyError, match="broker-9/c"):
            components.on_timer(Unconnected(), None, "reconnect/broker-9/c")  # type: ignore[arg-type]


CLIENTS = (AdminNode, ConsumerNode, ListOffsetsNode, ProducerNode)


class Unconnected:
    """A node that has connected to nobody."""

    def __init__(self) -> None:
        self.net = AdminNode().net
