"""Selectors, against what is known of a cluster."""

from __future__ import annotations

import pytest

from actors.node.spec import ClusterSpec, TopicSpec
from chaos.scenario.durations import Malformed
from chaos.scenario.selectors import draw, parse_selector, select
from chaos.view import ClusterView, PartitionView, new_view

NODES = ["controller-1", "controller-2", "controller-3", "broker-1", "broker-2", "broker-3", "producer-1"]


@pytest.fixture
def view() -> ClusterView:
    """Broker-2 leads orders-0 with broker-3 in the ISR; orders-1 has no leader.
    Broker-3 coordinates groups of odd hashes, nobody the others. Controllers 1 and 2 are voters."""
    topic = TopicSpec("orders", "id", [[1, 2, 3], [3, 1]])
    view = new_view(ClusterSpec("id", [101, 102], [1, 2, 3], [topic]))
    view.partitions["orders-0"].leader = 2
    view.partitions["orders-0"].isr = [3, 2]
    for number, leader in ((0, -1), (1, 3)):
        view.partitions[f"__consumer_offsets-{number}"] = PartitionView([1, 2, 3], leader=leader)
    view.controller = "controller-1"
    view.roles = {"controller-1": "leader", "controller-2": "follower", "controller-3": "follower"}
    view.up = {"controller-1": 0, "controller-2": 0, "controller-3": 0}
    return view


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("broker-3", ["broker-3"]),
        ("brokers", ["broker-1", "broker-2", "broker-3"]),
        ("clients", ["producer-1"]),
        ("leader(orders-0)", ["broker-2"]),
        ("followers(orders-0)", ["broker-1", "broker-3"]),
        ("followers(orders-0)[1]", ["broker-3"]),
        ("isr(orders-0)", ["broker-2", "broker-3"]),
        ("isr(orders-0)[0]", ["broker-2"]),
        ("coordinator(billing)", ["broker-3"]),
        ("coordinator(other)", []),
        ("active-controller", ["controller-1"]),
        ("voters(leader)", ["controller-1"]),
        ("voters(follower)[0]", ["controller-2"]),
        ("voters(candidate)", []),
        ("voters(follower)[1]", []),
        ("observers", ["controller-3", "broker-1", "broker-2", "broker-3"]),
        ("observers[1]", ["broker-1"]),
        ("leader(orders-1)", []),
        ("followers(orders-1)", []),
        ("isr(orders-0)[2]", []),
    ],
)
def test_selectors_mean_nodes(view: ClusterView, text: str, names: list[str]) -> None:
    """Shows each selector, with followers and ISR in the order of the assignment."""
    assert select([parse_selector(text)], view, NODES) == names


def test_several_selectors_name_each_node_once(view: ClusterView) -> None:
    """Shows that a node meant twice is hit once."""
    selectors = [parse_selector(text) for text in ("leader(orders-0)", "brokers")]
    assert select(selectors, view, NODES) == ["broker-2", "broker-1", "broker-3"]


def test_any_is_drawn_from_its_own_stream() -> None:
    """Shows that a draw depends on the seed and its purpose alone, and takes nodes in the run's order."""
    selector = parse_selector("any(2)")
    first = draw(selector, NODES, 7, "chaos[0]")
    assert first == draw(selector, NODES, 7, "chaos[0]")
    assert [str(name) for name in first] == sorted(str(name) for name in first)
    drawn = {tuple(map(str, draw(selector, NODES, seed, "chaos[0]"))) for seed in range(30)}
    assert len(drawn) == 3
    assert [str(s) for s in draw(parse_selector("any(3, controllers)"), NODES, 1, "x")] == NODES[:3]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "broker",
        "broker-0",
        "leader",
        "leader()",
        "leader(orders)",
        "coordinator",
        "coordinator()",
        "transaction-coordinator()",
        "leader(o-0)[0]",
        "any(0)",
        "any(1, x)",
        "voters",
        "voters(king)",
        "observers()",
    ],
)
def test_what_is_not_a_selector(text: str) -> None:
    """Shows that nothing near a selector is taken for one."""
    with pytest.raises(Malformed):
        parse_selector(text)


@pytest.mark.parametrize(
    "text",
    [
        "leader(a.b-c-0)",
        "followers(orders-0)[12]",
        "isr(o-1)",
        "coordinator(a.b-c)",
        "transaction-coordinator(a.b-c)",
        "any(2, clients)",
        "brokers",
        "voters(resigned)",
        "voters(follower)[1]",
        "observers",
        "observers[0]",
    ],
)
def test_a_selector_is_printed_as_it_is_written(text: str) -> None:
    """Shows that resolved scenarios have selectors that can be read again."""
    assert str(parse_selector(text)) == text
