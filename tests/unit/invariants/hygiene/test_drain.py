"""X6: at the end nothing waits for what cannot come."""

from __future__ import annotations

import pytest

from actors.broker.broker_node import BrokerNode
from actors.broker.fetch import DelayedFetch
from actors.broker.fetch_request import FetchParams
from actors.client.consumer import ConsumerNode
from actors.client.group_consumer import GroupConsumerNode
from actors.client.list_offsets_prober import ListOffsetsNode
from actors.client.offset_fetcher import Lookup
from actors.client.producer import ProducerNode
from actors.client.record_accumulator import ProducerBatch
from actors.controller.controller_channels import Channel
from actors.controller.controller_node import ControllerNode
from actors.leftovers import leftovers
from actors.node.contract import Node
from actors.node.network_client import Ended, InFlight
from actors.nodes import NODE_TYPES, new_node
from krift.v1.fetch import FetchRequest, FetchResponse
from krift.v1.list_offsets import ListOffsetsRequest
from tests.unit.invariants.trace_builder import TraceBuilder


def test_what_a_node_keeps_at_the_end() -> None:
    """Shows that each node that the runtime ends tests X6, that something left violates it, and that nothing is said
    of one that was killed."""
    trace = TraceBuilder()
    trace.down("consumer-1", "end")
    trace.down("consumer-2", "crash", waiting=["x"])
    assert (trace.result("X6").status, trace.result("X6").tested) == ("held", 1)
    trace.down("broker-1", "end", waiting=["a DelayedProduce of c", "a DelayedFetch of d"])
    (finding,) = trace.result("X6").violations
    assert (
        finding.sentence == "requests still waited in broker-1 at the end: a DelayedProduce of c; a DelayedFetch of d"
    )


@pytest.mark.parametrize("role", NODE_TYPES)
def test_a_node_in_good_order(role: str) -> None:
    """Shows that nothing is left in a node that does nothing."""
    assert leftovers(new_node(role), 0) == []  # type: ignore[arg-type]  # the keys are roles


def _in_flight(node: ConsumerNode | ProducerNode, call: int) -> None:
    node.net.in_flight[call] = InFlight(call, "broker-1", "c", 2, 7, "list-offsets", ListOffsetsRequest())


def test_what_waits_for_a_call() -> None:
    """Shows that each map of a client's calls may name those in flight, and no others."""
    consumer = ConsumerNode()
    for call in (1, 2, 3, 4, 5):
        _in_flight(consumer, call)
    consumer.metadata.call = 1
    consumer.offsets.calls = {2: []}
    consumer.validator.calls = {3: []}
    consumer.fetcher.calls, consumer.fetcher.busy = {4: {}}, {"broker-1": 5}
    assert leftovers(consumer, 0) == []
    consumer.net.in_flight = {}
    assert [each.partition(" of call ")[0] for each in leftovers(consumer, 0)] == [
        "Metadata",
        "ListOffsets",
        "OffsetForLeaderEpoch",
        "Fetch",
        "Fetch",
    ]


def test_what_was_fetched_for_an_application_that_does_not_poll() -> None:
    """Shows that an answer which the application has not taken yet is no call that waits."""
    consumer = GroupConsumerNode()
    consumer.fetcher.calls, consumer.fetcher.busy = {4: {}}, {"broker-1": 4}
    assert leftovers(consumer, 0) == ["Fetch of call 4, which has ended"] * 2
    consumer.held.append(Ended(4, "broker-1", "c", 1, 16, "fetch", FetchRequest(), FetchResponse(), None))
    assert leftovers(consumer, 0) == []
    controller = ControllerNode()
    controller.controller.channels.channels = {1: Channel(call=7), 2: Channel()}
    assert leftovers(controller, 0) == ["UpdateMetadata of call 7, which has ended"]


def test_what_an_application_that_has_stopped_leaves() -> None:
    """Shows that lookups are left over once the application has stopped."""
    prober = ListOffsetsNode(running=True)
    prober.fetcher.lookups = {1: Lookup(1, "orders-0", -1, 0, -1, "call")}
    assert leftovers(prober, 0) == []
    prober.running = False
    assert leftovers(prober, 0) == ["the lookup of orders-0"]
    producer = ProducerNode()
    producer.sender.requests = {9: []}
    assert leftovers(producer, 0) == ["Produce of call 9, which has ended"]
    producer.sender.requests, producer.sender.accumulator.batches = {9: [1]}, {1: ProducerBatch(1, "orders-0", 0)}
    _in_flight(producer, 9)
    assert leftovers(producer, 0) == [], "acks=0: the application is done with it, the connection is not"
    producer.sender.requests = {9: []}
    assert leftovers(producer, 0) == ["a batch for orders-0"]


def test_what_is_parked_at_a_broker() -> None:
    """Shows that a parked request may stay for its time, that nobody watches for one that is over, and that an answer
    is waited for only while the call is under way."""
    broker = BrokerNode()
    broker.purgatory.parked = {"c": DelayedFetch("c", 500, _params(deadline_ms=500), [], [])}
    broker.purgatory.watchers = {"readable": {"orders-0": ["c"]}}
    assert leftovers(broker, 2_400) == []
    assert leftovers(broker, 2_501) == ["a DelayedFetch of c"]
    broker.purgatory.parked = {}
    broker.producer_ids.in_flight = True
    assert leftovers(broker, 0) == [
        "the request of c, which is over, for orders-0",
        "the answer to producer-ids, which was asked by no call",
    ]


def _params(deadline_ms: int) -> FetchParams:
    return FetchParams("c", 12, 1, -1, -1, 0, 1, 1000, deadline_ms, "none", 0, -1, False, True)


def test_a_node_of_another_kind() -> None:
    """Shows that nothing is said of what is no node of Kafka's."""

    class Toy:
        def step(self, now_ms: int, event: object) -> list[object]:
            return []

    toy: Node = Toy()  # type: ignore[assignment]  # it takes any event
    assert leftovers(toy, 0) == []
