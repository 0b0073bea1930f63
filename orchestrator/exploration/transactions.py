"""The moves of brokers that commit a transaction: its coordinator, the leaders of its partitions, their followers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from actors.broker.coordinator_common.partitions import TRANSACTION_STATE_TOPIC
from actors.node.messages import AnyRequest, api_of
from actors.node.spec import NodeSpec
from actors.trace.events import AnyTraceEvent
from krift.v1.produce import ProduceRequest
from krift.v1.producer_ids import InitProducerIdRequest
from krift.v1.records import Record, RecordBatch
from krift.v1.transactions import EndTxnRequest, EndTxnResponse, WriteTxnMarkersRequest
from orchestrator.exploration.broker import ExploredBroker
from orchestrator.exploration.broker_facts import BrokerFacts, Brokers, client
from orchestrator.exploration.cluster import CRASH, DROP, FIRST, LAST, Claim, Cluster, State, Step
from orchestrator.exploration.place import Input
from orchestrator.exploration.published import Planned, Published
from orchestrator.exploration.transaction_story import TransactionWords
from orchestrator.exploration.wire import FREE, Move

ELECTED, ASKED = FIRST, LAST
"""Budgets: elections, requests of producers."""

TRANSACTIONAL_ID = "t"
TOPIC = "orders"
COMMIT, ANOTHER = "commit", "another"
INIT = "init"
WITHOUT_BUDGET = (False, False, False, False)
MARKERS, TOLD = "markers", "told"
"""Claims: what is in a marker that is sent; how a transaction ended, as its producer is told."""


def requests_of(partitions: Sequence[Planned]) -> dict[str, AnyRequest]:
    """What producers ask by name: the first producer begins, produces to each partition, and commits; another one with
    its transactional id begins."""
    init = InitProducerIdRequest(transactional_id=TRANSACTIONAL_ID, transaction_timeout_ms=60_000)
    found: dict[str, AnyRequest] = {INIT: _of(init, 5)}
    for each in partitions:
        batch = RecordBatch(
            producer_id=0,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=True,
            records=[Record(timestamp_ms=0, uid=f"u{each.index}", value=b"v")],
        )
        data = ProduceRequest.TopicProduceData(topic_id=f"id-{TOPIC}")
        data.partition_data.append(ProduceRequest.PartitionProduceData(index=each.index, records=batch))
        produce = ProduceRequest(transactional_id=TRANSACTIONAL_ID, acks=-1, timeout_ms=30_000, topic_data=[data])
        found[f"produce-{each.index}"] = _of(produce, 13)
    commit = EndTxnRequest(transactional_id=TRANSACTIONAL_ID, producer_id=0, producer_epoch=0, committed=True)
    found[COMMIT] = _of(commit, 5)
    another = InitProducerIdRequest(transactional_id=TRANSACTIONAL_ID, transaction_timeout_ms=60_000)
    found[ANOTHER] = _of(another, 5)
    return found


def _of(request: Any, version: int) -> AnyRequest:
    request.header.api_key, request.header.api_version = int(api_of(request)), version
    request.header.client_id = "producer-1"
    asked: AnyRequest = request
    return asked


class TransactionCluster(Cluster[ExploredBroker, BrokerFacts]):
    """The moves of brokers. ``logs``: replicas of the partition of the transaction log, the first of which coordinates;
    ``data``: those of each partition in the transaction."""

    words = TransactionWords()
    family = "T"

    def __init__(
        self, specs: Sequence[NodeSpec], logs: tuple[int, ...], data: tuple[tuple[int, ...], ...], version: int
    ) -> None:
        partitions = [Planned(TOPIC, index, replicas) for index, replicas in enumerate(data)]
        planned = [Planned(TRANSACTION_STATE_TOPIC, 0, logs), *partitions]
        self.metadata = Published([spec.node_id for spec in specs], planned, version)
        requests = requests_of(partitions)
        super().__init__(specs, Brokers(specs, self.metadata, requests))
        leaders = {f"produce-{each.index}": each.replicas[0] for each in partitions}
        self._script = [(INIT, logs[0]), *leaders.items()]

    def published(self, before: int, after: int) -> list[AnyTraceEvent]:
        """Partitions that are created, or change."""
        return self.metadata.events(before, after)

    def opening_move(self, state: State, opening: Sequence[Step]) -> Move | None:
        """A producer begins, and produces to each partition; all that comes of a request happens before the next."""
        for move in self.moves(state, WITHOUT_BUDGET):
            return move
        asked = sum(step.move.kind == "ask" for step in opening)
        if asked == len(self._script):
            return None
        name, broker = self._script[asked]
        return self._ask(state[len(self.names)], self.ids.index(broker), name)

    def moves(self, state: State, left: Sequence[bool]) -> Iterator[Move]:
        """What can happen in a state. ``left``: which budgets are not used up."""
        nodes = len(self.names)
        wire, control = state[nodes], state[nodes + 1]
        all_facts = [self.places.facts[place] for place in state[:nodes]]
        for index, facts in enumerate(all_facts):
            batch = self.metadata.next_batch(control, facts.metadata)
            if batch is not None:
                yield Move("learn", FREE, wire, ((index, ("learn", batch)),))
            for kind, cost, event in self._local(state[index]):
                yield Move(kind, cost, wire, ((index, event),))
        yield from self.wires.moves(wire)
        if left[ASKED]:
            for index, facts in enumerate(all_facts):
                if any(loaded for _, _, loaded in facts.coordinates):
                    yield from (self._ask(wire, index, name, ASKED) for name in (COMMIT, ANOTHER))
        if left[ELECTED]:
            for change, leader, after in self.metadata.elections(control):
                yield Move("elected", ELECTED, wire, (), (change, leader), after)
        if left[CRASH]:
            for index, broker in enumerate(self.ids):
                after = self.metadata.after_crash(control, broker)
                yield self._crash(wire, index, ("restart", after))._replace(control=after)
        if left[DROP]:
            yield from self.wires.drops(wire, DROP)

    def _ask(self, wire: int, index: int, name: str, cost: int = FREE) -> Move:
        return Move("ask", cost, wire, ((index, ("ask", name)),), (name,))

    def _moves_of_place(self, number: int) -> Iterator[tuple[str, int, Input]]:
        for timer in self.places.all[number].timers:
            yield ("timer", FREE, ("timer", timer))

    def _asked(self, index: int, request: int) -> list[Claim]:
        """What markers say."""
        asked = self.places.messages.all[request]
        if not isinstance(asked, WriteTxnMarkersRequest):
            return []
        return [
            (MARKERS, index, each.producer_id, each.producer_epoch, each.transaction_result, each.coordinator_epoch)
            for each in asked.markers
        ]

    def _answered(self, index: int, name: str, response: int) -> list[Claim]:
        """A producer is told that its transaction is committed."""
        told = self.places.messages.all[response]
        if name != client(COMMIT) or not isinstance(told, EndTxnResponse) or told.error_code:
            return []
        return [(TOLD, index, told.producer_id, told.producer_epoch, True)]
