"""A broker under exploration: without the quorum and without heartbeats, and its normal form.

What the metadata log says comes to it as an input, as far as somebody lets it come. All else is the broker's own code.

Two histories that end in the same situation must end in the same bytes, or there would be no end of states. So numbers
that only have to be unique begin again when nobody remembers one, and what only counts is forgotten. None of that is
something a broker decides on.
"""

from __future__ import annotations

from actors.broker.broker_node import BrokerNode
from actors.broker.producer_ids import ProducerIdBlock
from actors.broker.transaction_coordinator import markers
from actors.broker.turn import Turn
from actors.node.events import Invoked, Started
from actors.node.network_client import NetworkClient
from actors.node.often import Often
from actors.node.step import Step

LEARN = "learn"
"""Kind of the operation that hands a broker batches of the metadata log."""

PRODUCER_IDS = 1000
"""Size of the block of producer ids that each broker has from the start."""


class ExploredBroker(BrokerNode):
    """See ``actors.broker.broker_node.BrokerNode``."""

    def _start(self, step: Step, event: Started) -> None:
        """As a broker's start, but for what concerns the controller. Its replicas wait for the first batches."""
        self._configure(step, event.spec)
        self._load(Turn(step, self), f"{event.spec.name}/{event.incarnation}", event.disk)
        self.producer_ids.block = ProducerIdBlock((event.spec.node_id - 1) * PRODUCER_IDS, PRODUCER_IDS)

    def _invoked(self, turn: Turn, event: Invoked) -> None:
        """Batches of the metadata log, the first of which hold this broker's registration."""
        assert event.kind == LEARN, event.kind
        self.image.apply(turn.step, event.arguments["batches"])
        if self.published:
            self._publish(turn)
            return
        self.lifecycle.state = "running"
        self.lifecycle.broker_epoch = turn.broker_epoch = self.image.brokers[self.settings.node_id].epoch
        self._take_up(turn)

    def _poll_quorum(self, turn: Turn) -> None:
        """What the quorum says comes as an input."""


def normalise(node: ExploredBroker) -> dict[int, int]:
    """Bring a broker into its normal form; returns old number -> new number of its calls."""
    node.requests = node.replicas.appends = 0
    node.purgatory.due_ms = {}
    _settle_fetchers(node)
    _settle_markers(node)
    if not node.purgatory.parked and not node.transactions.adding:
        node.transactions.ids = 0
    return _settle_calls(node.net)


def _settle_calls(net: NetworkClient) -> dict[int, int]:
    """Calls are numbered by connection and age."""
    flights = net.in_flight
    order = sorted(flights, key=lambda call: (flights[call].peer, flights[call].connection, call))
    names = {call: number for number, call in enumerate(order, 1)}
    net.in_flight = {names[call]: flights[call] for call in order}
    for call, flight in net.in_flight.items():
        flight.call = call
    net.calls = len(order)
    net.quiet = Often()
    net.connections = {key: net.connections[key] for key in sorted(net.connections)}
    for connection in net.connections.values():
        connection.failures = 0
    return names


def _settle_fetchers(node: ExploredBroker) -> None:
    """Attempts at following are numbered by their age; pauses are over."""
    manager = node.replicas.fetchers
    manager.fetchers = {leader: manager.fetchers[leader] for leader in sorted(manager.fetchers)}
    fetchers = manager.fetchers.values()
    runs = {state.run for fetcher in fetchers for state in fetcher.states.values()}
    runs |= {run for fetcher in fetchers for run, _ in fetcher.sent.values()}
    names = {run: number for number, run in enumerate(sorted(runs), 1)}
    manager.runs = len(names)
    for fetcher in fetchers:
        fetcher.sent = {tp: (names[run], fetcher.sent[tp][1]) for tp, run in _runs(fetcher.sent)}
        for state in fetcher.states.values():
            state.run, state.delay_ms = names[state.run], 0


def _runs(sent: dict[str, tuple[int, int]]) -> list[tuple[str, int]]:
    return [(tp, run) for tp, (run, _) in sent.items()]


def _settle_markers(node: ExploredBroker) -> None:
    """Requests with markers are numbered by their age."""
    manager = node.transactions.markers
    names = {number: str(index) for index, number in enumerate(sorted(manager.in_flight, key=int), 1)}
    for flight in node.net.in_flight.values():
        if flight.purpose.startswith(markers.PURPOSE):
            flight.purpose = f"{markers.PURPOSE}{names[flight.purpose.removeprefix(markers.PURPOSE)]}"
    manager.in_flight = {names[number]: manager.in_flight[number] for number in names}
    manager.numbers = len(names)
