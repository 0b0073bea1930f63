"""Which Ray node each node of a run goes to."""

from __future__ import annotations

import pytest

from chaos.errors import RunError
from orchestrator.clusters.places import Place, distributed, set_apart

NODES = ["controller-1", "broker-1", "broker-2", "producer-1", "consumer-1"]


def places(*apart_for: str) -> list[Place]:
    """Ray nodes, one for each."""
    return [Place(f"{number:056x}", f"10.0.0.{number}", name) for number, name in enumerate(apart_for, 1)]


def test_nodes_go_to_ray_nodes_in_turn() -> None:
    """Shows that nothing but the order counts where no Ray node was set apart."""
    assert list(distributed(NODES, places("", "")).values()) == [0, 1, 0, 1, 0]


def test_a_ray_node_that_was_set_apart_has_its_node_alone() -> None:
    """Shows that each other node goes, in turn, to those that were not, and that a Ray node whose node the run does not
    have stays empty."""
    homes = distributed(NODES, places("broker-2", "", "broker-1", "", "broker-3"))
    assert homes == {"controller-1": 1, "broker-1": 2, "broker-2": 0, "producer-1": 3, "consumer-1": 1}


def test_every_ray_node_may_be_set_apart_if_every_node_has_one() -> None:
    """Shows that no shared Ray node is wanted where nobody needs it."""
    assert set(distributed(["broker-1", "broker-2"], places("broker-2", "broker-1")).values()) == {0, 1}


def test_a_node_without_a_ray_node_is_an_error() -> None:
    """Shows that a node is never put where another one was to be alone."""
    with pytest.raises(RunError, match="no Ray node is left for controller-1, producer-1, consumer-1: 2 Ray nodes"):
        distributed(NODES, places("broker-1", "broker-2"))


def test_two_ray_nodes_for_one_node_are_an_error() -> None:
    """Shows that the choice between them is the user's."""
    with pytest.raises(RunError, match=r"10\.0\.0\.1 and 10\.0\.0\.3 are both set apart for broker-1"):
        distributed(NODES, places("broker-1", "", "broker-1"))


def test_a_ray_node_says_in_its_resources_what_it_is_set_apart_for() -> None:
    """Shows the form of the resource, and that a Ray node takes one node."""
    assert set_apart({"CPU": 1.0, "memory": 1e9, "krift-node-broker-1": 1.0}) == "broker-1"
    assert set_apart({"CPU": 1.0, "node:10.0.0.1": 1.0}) == ""
    with pytest.raises(RunError, match="the resources of several nodes, broker-1, broker-2"):
        set_apart({"krift-node-broker-1": 1.0, "krift-node-broker-2": 1.0})
