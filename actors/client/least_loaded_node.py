"""Choice of the broker for requests that any broker can answer (``NetworkClient.java`` leastLoadedNode)."""

from __future__ import annotations

import msgspec

from actors.node.network_client import NetworkClient
from actors.node.spec import node_name
from actors.node.step import Step


class LeastLoadedNode(msgspec.Struct):
    """Finds a broker to talk to on ``connection`` and keeps to it until its request is sent or it is lost.

    Kafka starts at a random position of its list of nodes and takes the connected one with the fewest requests in
    flight, else one it is connecting to (on whichever connection: Kafka has one for all), else one it may connect to.
    So a client never turns from two brokers that hang to a third (finding hung-brokers); with the mend one that it has
    been connecting to for too long comes last. The random position is asked for with the choice ``name``.
    """

    name: str
    connection: str
    candidates: list[int] = []
    choosing: bool = False
    target: int = -1

    def ready(self, step: Step, net: NetworkClient, brokers: list[int]) -> str | None:
        """Name of a broker with a ready connection, or None: the node polls again when that may have changed."""
        if self.target >= 0:
            peer = node_name(self.target)
            if net.ready(step, peer, self.connection):
                return peer
            if net.usable(peer, self.connection) and not self._better(net, peer, brokers):
                return None
            self.target = -1
        if self.choosing:
            return None
        self.candidates = [b for b in brokers if net.usable(node_name(b), self.connection)]
        if self.candidates:
            self.choosing = True
            step.choose(self.name, len(self.candidates))
        return None

    def on_chosen(self, net: NetworkClient, value: int) -> None:
        """Take the random position."""
        if self.choosing:
            self.choosing = False
            order = self.candidates[value:] + self.candidates[:value]
            self.target = min(order, key=lambda broker: self._load(net, broker))

    def release(self) -> None:
        """The request is sent: the next one looks again."""
        self.target = -1

    def _better(self, net: NetworkClient, peer: str, brokers: list[int]) -> bool:
        """Whether ``peer`` is slow, and there is somebody who is not."""
        if not net.slow(peer):
            return False
        others = [node_name(broker) for broker in brokers]
        return any(net.usable(each, self.connection) and not net.slow(each) for each in others)

    def _load(self, net: NetworkClient, broker: int) -> tuple[int, int]:
        peer = node_name(broker)
        if net.connected(peer, self.connection):
            return 0, net.pending(peer, self.connection)
        if net.slow(peer):
            return 3, 0
        return (1 if net.connecting(peer) else 2), 0
