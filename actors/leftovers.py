"""What a node still keeps at the end of a run for something that cannot come any more: for its runtime to record."""

from __future__ import annotations

from collections.abc import Iterable

from actors.broker import alter_partition, forwarding, producer_ids
from actors.broker.broker_node import BrokerNode
from actors.client.client_base import ClientNode
from actors.client.consumer import ConsumerNode
from actors.client.group_consumer import GroupConsumerNode
from actors.client.list_offsets_prober import ListOffsetsNode
from actors.client.producer import ProducerNode
from actors.controller.controller_node import ControllerNode
from actors.node.contract import Node
from actors.node.network_client import NetworkClient

GRACE_MS = 2_000
"""What is parked for longer than its time by this much stays for ever."""


def leftovers(node: Node, now_ms: int) -> list[str]:
    """In words, each thing that waits for a call that has ended, is parked beyond its time or watched for by nobody, or
    that an application which has stopped would still wait for. Empty for a node in good order, whatever it is doing."""
    if isinstance(node, BrokerNode):
        return _of_broker(node, now_ms)
    if isinstance(node, ControllerNode):
        calls = [channel.call for channel in node.controller.channels.channels.values() if channel.call >= 0]
        return _ended("UpdateMetadata", calls, node.net)
    return _of_client(node) if isinstance(node, ClientNode) else []


def _ended(what: str, calls: Iterable[int], net: NetworkClient) -> list[str]:
    return [f"{what} of call {call}, which has ended" for call in calls if call and call not in net.in_flight]


def _of_client(node: ClientNode) -> list[str]:
    net = node.net
    found = _ended("Metadata", [node.metadata.call], net)
    if isinstance(node, ConsumerNode):
        # An application that does not poll finds what was fetched when it polls again.
        held = [each.call for each in node.held] if isinstance(node, GroupConsumerNode) else []
        found += _ended("ListOffsets", node.offsets.calls, net)
        found += _ended("OffsetForLeaderEpoch", node.validator.calls, net)
        calls = [*node.fetcher.calls, *node.fetcher.busy.values()]
        found += _ended("Fetch", (each for each in calls if each not in held), net)
    elif isinstance(node, ListOffsetsNode):
        found += _ended("ListOffsets", node.fetcher.calls, net)
        if not node.running:
            found += [f"the lookup of {lookup.tp}" for lookup in node.fetcher.lookups.values()]
    elif isinstance(node, ProducerNode):
        requests = node.sender.requests
        found += _ended("Produce", requests, net)
        if not node.running:
            # With acks=0 the application is done with a batch whose request is still under way.
            under_way = {number for call, numbers in requests.items() if call in net.in_flight for number in numbers}
            batches = node.sender.accumulator.batches
            found += [f"a batch for {batch.tp}" for number, batch in batches.items() if number not in under_way]
    return found


def _of_readers(node: BrokerNode) -> list[str]:
    """Of reads from remote storage: requests that hold a handler and wait for nothing, threads that wait for nobody,
    and tasks that wait while threads are free."""
    parked, pools = node.purgatory.parked, node.readers.pools.values()
    found = [f"a request handler for {each}" for each in node.channel.held if each not in parked]
    for pool in pools:
        if pool.queue and len(pool.running) < pool.threads:
            found.append(f"{len(pool.queue)} reads in the queue of {pool.name}, which has a free thread")
        left = [task for task in pool.running.values() if not task.given_up and task.connection not in parked]
        found += [f"read {task.number} of {task.tp}, for which nobody waits" for task in left]
    return found


def _of_broker(node: BrokerNode, now_ms: int) -> list[str]:
    late_ms = now_ms - GRACE_MS
    late = [each for each in node.purgatory.parked.values() if each.deadline_ms < late_ms]
    found = [f"a {type(each).__name__} of {each.connection}" for each in late] + node.purgatory.unwatched()
    found += _of_readers(node)
    purposes = {flight.purpose for flight in node.net.in_flight.values()}
    waits = {
        alter_partition.PURPOSE: bool(node.replicas.isr_changes.in_flight),
        forwarding.PURPOSE: bool(node.forwarding.in_flight),
        producer_ids.PURPOSE: node.producer_ids.in_flight,
    }
    return found + [
        f"the answer to {purpose}, which was asked by no call"
        for purpose, waiting in waits.items()
        if waiting and purpose not in purposes
    ]
