"""The links between the nodes of a sim run. They carry connections, as TCP does.

* What travels is the message itself, or its bytes (``actors.sim.carriage``). The runtime's stamps (clock, cause,
  connection, number) travel beside it.
* Each direction of a connection is a queue. Every message draws its latency, but none overtakes another of its
  direction; connections overtake one another freely.
* A server is handed the next request of a connection once the one before was answered, as Kafka mutes a channel; the
  end of the connection waits for its turn as well, as Kafka does not read a muted channel.
* A server is reached only by connections that were opened to its present process: a first request that comes late,
  after a cut, is refused by a process that was started meanwhile, as live nodes get a new address with every process.
* ``hold`` keeps what arrives in that direction, data and ends of connections alike, until the rule is removed. What is
  held of a connection that its client has closed meanwhile is lost from a drawn point on, as TCP can lose only a tail.
* ``drop`` and ``duplicate`` sever connections where a message of theirs arrives: in its place the target finds the end
  of the connection, and so does the source. Neither is told of anything that was sent behind it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from actors.control import LinkRule
from actors.machine_clock import Change
from actors.node.effects import Call, Close, Reply
from actors.node.events import Answered, Disconnected, Failed, Received
from actors.node.messages import API_OF_REQUEST, API_OF_RESPONSE, RESPONSES, AnyMessage
from actors.sim.draws import uniform
from actors.sim.links import LinkRules
from actors.sim.queue import EventQueue
from actors.trace.events import LinkHit
from actors.trace.stamper import connection_id, request_id

if TYPE_CHECKING:
    from actors.sim.host import Host

NEVER = 1 << 62

InTransit = tuple[AnyMessage, int, int, str, int] | None
"""A message, clock (wall, logical) and cause of the sender, and the number of the request on its connection. None: the
end of the connection."""


InFlightRequest = tuple[int, int, int]
"""A request without a response yet: its call, its number on its connection, and when its time is over (us)."""


class ContractError(AssertionError):
    """A node asked for something that the contract does not allow."""


class NetworkModel(msgspec.Struct, frozen=True):
    """Latency of a message, one way, drawn evenly from [latency_min_us, latency_max_us]."""

    latency_min_us: int = 150
    latency_max_us: int = 750


class Direction:
    """One direction of a connection. in_transit: in order. last_us: nothing later arrives before this moment. held:
    arrivals that a rule has kept back. waiting: how many, the first ones, have reached the machine of a process that is
    paused."""

    __slots__ = ("connection", "held", "in_transit", "last_us", "link", "source", "target", "to_server", "waiting")

    def __init__(self, connection: Connection, source: Host, target: Host, to_server: bool) -> None:
        self.connection = connection
        self.source = source
        self.target = target
        self.link = (source.name, target.name)
        self.to_server = to_server
        self.in_transit: deque[InTransit] = deque()
        self.last_us = 0
        self.held = 0
        self.waiting = 0


class Connection:
    """A connection, named by its client, which opens a new one under the same name after this one broke.

    in_flight: requests without a response yet, in order. check_at_us: when the client next looks for one that has run
    out of time. incarnation: of the server's process that it leads to. serving: number and class of the request the
    server is at work on, None if there is none. queued: what arrived behind it. broken: its end has reached the client
    while nothing was in flight. severed_at: number of the request in place of whose response a rule severs the
    connection.
    """

    __slots__ = (
        "broken",
        "check_at_us",
        "client",
        "client_closed",
        "id",
        "in_flight",
        "incarnation",
        "name",
        "number",
        "queued",
        "server",
        "server_closed",
        "serving",
        "severed_at",
        "to_client",
        "to_server",
    )

    def __init__(self, identity: str, name: str, client: Host, server: Host) -> None:
        self.id = identity
        self.name = name
        self.client = client
        self.server = server
        self.number = 0
        self.incarnation = max(server.incarnation, 0)
        self.severed_at: int | None = None
        self.in_flight: deque[InFlightRequest] = deque()
        self.check_at_us = NEVER
        self.broken = False
        self.client_closed = False
        self.server_closed = False
        self.serving: tuple[int, type[Any]] | None = None
        self.queued: deque[InTransit] = deque()
        self.to_server = Direction(self, client, server, True)
        self.to_client = Direction(self, server, client, False)


class Network:
    """All connections between the hosts, under the link rules in force. ``delivered`` counts messages; ``on_hit``
    hears of every connection that a rule severs; ``carriage`` makes of what is sent (sender, receiver, message) what
    arrives, None: the message itself does."""

    def __init__(
        self,
        queue: EventQueue,
        model: NetworkModel,
        draws: Random,
        link_draws: Random,
        link_stream: Callable[[str, str], Random],
        on_hit: Callable[[LinkHit], None],
        carriage: Callable[[str, str, AnyMessage], AnyMessage] | None = None,
    ) -> None:
        self.hosts: dict[str, Host] = {}
        self.delivered = 0
        self._carriage = carriage
        self._queue = queue
        self._latency_us = model.latency_min_us
        self._spread_us = model.latency_max_us - model.latency_min_us + 1
        self._draw = draws.random
        self._link_draws = link_draws
        self._rules = LinkRules(link_draws, link_stream)
        self._on_hit = on_hit
        self._held: dict[Direction, None] = {}
        self._severing: dict[str, list[Connection]] = {}

    # ---- link rules ----------------------------------------------------------------------------------------

    def install(self, rule: LinkRule) -> None:
        """Put a rule in force: for what arrives (hold, drop, duplicate) or is sent (delay, reorder) from now on."""
        self._rules.install(rule)

    def remove(self, rule_id: str) -> tuple[LinkRule, int]:
        """End a rule; what no other rule keeps back is on its way again, and clients whose connections it is about to
        sever are told so now. Returns it and how many messages it concerned."""
        removed = self._rules.remove(rule_id)
        for direction in [held for held in self._held if held.link not in self._rules.holds]:
            del self._held[direction]
            self._release(direction)
        for connection in self._severing.pop(rule_id, ()):
            if connection.severed_at is not None and not connection.server_closed:
                self._send(connection.to_client, None)
        return removed

    def _release(self, direction: Direction) -> None:
        count, direction.held = direction.held, 0
        if direction.to_server and direction.connection.client_closed:
            self._lose_tail(direction, count)
        held = list(direction.in_transit)[direction.waiting : direction.waiting + count]
        for sent in [*held, *[None] * (count - len(held))]:
            self._schedule(direction, sent)

    def _lose_tail(self, direction: Direction, count: int) -> None:
        """Of the requests held back on a closed connection a drawn number still arrives, and then its end; what is
        behind a lost one is lost as well."""
        in_transit = list(direction.in_transit)
        first = direction.waiting
        requests = sum(sent is not None for sent in in_transit[first : first + count])
        arriving = uniform(self._link_draws, 0, requests)
        if arriving < requests:
            ends = [sent for sent in in_transit if sent is None]
            direction.in_transit = deque([*in_transit[: first + arriving], *ends])

    def _hit(self, direction: Direction) -> None:
        """Draw whether what has just arrived, the first behind what waits, severs its connection."""
        connection, place = direction.connection, direction.waiting
        closed = connection.server_closed if direction.to_server else connection.client_closed
        sent = direction.in_transit[place] if len(direction.in_transit) > place else None
        if sent is None or closed or connection.severed_at is not None:
            return
        api = _api_of(sent)
        hit = self._rules.hit(direction.link, api, direction.to_server)
        if hit is None:
            return
        (rule, lost), number = hit, sent[4]
        if direction.to_server and lost == "reply":
            connection.severed_at = number
            self._severing.setdefault(rule.id, []).append(connection)
        else:
            direction.in_transit[place] = None
            self._send(connection.to_client if direction.to_server else connection.to_server, None)
        kind: Literal["drop", "duplicate"] = "duplicate" if rule.kind == "duplicate" else "drop"
        self._on_hit(LinkHit(rule.id, kind, connection.id, number, api, lost))

    def _sever(self, connection: Connection) -> None:
        """The request was served, and a rule severs its connection: both ends find nothing more than the end."""
        connection.severed_at = None
        connection.queued.clear()
        connection.queued.append(None)
        self._send(connection.to_client, None)
        self._queue.at(self._queue.now_us, self._serve_next, connection)

    # ---- in transit ----------------------------------------------------------------------------------------

    def _send(self, direction: Direction, sent: InTransit) -> None:
        direction.in_transit.append(sent)
        self._schedule(direction, sent)

    def _schedule(self, direction: Direction, sent: InTransit) -> None:
        """Something of this direction arrives after a drawn latency, and not before those ahead of it."""
        queue = self._queue
        due_us = queue.now_us + self._latency_us + int(self._draw() * self._spread_us)
        if self._rules.slows:
            due_us += self._rules.delay_us(direction.link, _api_of(sent))
        if due_us < direction.last_us:
            due_us = direction.last_us
        direction.last_us = due_us
        queue.at(due_us, self._arrive, direction)

    def _arrive(self, direction: Direction) -> None:
        rules = self._rules
        if rules.holds and direction.link in rules.holds and not direction.target.leaks:
            rules.count_held(direction.link)
            direction.held += 1
            self._held[direction] = None
            return
        if rules.severs and direction.link in rules.severs:
            self._hit(direction)
        self._accept(direction)

    def _accept(self, direction: Direction) -> None:
        """The first that is in transit has reached the target's machine."""
        host = direction.target
        if host.paused:
            direction.waiting += 1
            host.arrivals.append((self._accept_late, direction))
        elif direction.in_transit:  # a tail that was lost has left its arrivals behind
            sent = direction.in_transit.popleft()
            if direction.to_server:
                self._at_server(direction.connection, host, sent)
            else:
                self._at_client(direction.connection, host, sent)

    def _accept_late(self, direction: Direction) -> None:
        """The same, after the target was paused for a while."""
        direction.waiting -= 1
        self._accept(direction)

    # ---- client --------------------------------------------------------------------------------------------

    def call(self, host: Host, effect: Call) -> None:
        """Carry out a Call."""
        key = (effect.peer, effect.connection)
        connection = host.outbound.get(key)
        if connection is None:
            connection = host.outbound[key] = self._open(host, effect)
        now_us = self._queue.now_us
        clock = host.clock
        clock.tick(now_us)
        number = connection.number
        connection.number = number + 1
        if connection.broken:
            if not connection.in_flight:
                self._queue.at(now_us, self._find_broken, connection)
            connection.in_flight.append((effect.call, number, NEVER))
            return
        request: Any = effect.request
        if self._carriage is not None:
            request = self._carriage(host.name, effect.peer, request)
        sent = (request, clock.wall_us, clock.logical, host.last_id(), number)
        to_server = connection.to_server
        to_server.in_transit.append(sent)
        self._schedule(to_server, sent)
        deadline_us = now_us + host.machine.true_us(effect.timeout_ms * 1000)
        connection.in_flight.append((effect.call, number, deadline_us))
        if deadline_us < connection.check_at_us:
            connection.check_at_us = deadline_us
            self._queue.at(deadline_us, self._check_deadlines, (connection, deadline_us))

    def _open(self, host: Host, effect: Call) -> Connection:
        server = self.hosts.get(effect.peer)
        if server is None:
            raise ContractError(f"{host.name} calls {effect.peer}, which is no node of this run")
        key = (effect.peer, effect.connection)
        count = host.opened.get(key, 0)
        host.opened[key] = count + 1
        identity = connection_id(host.name, effect.peer, effect.connection, host.incarnation, count)
        return Connection(identity, effect.connection, host, server)

    def _at_client(self, connection: Connection, host: Host, sent: InTransit) -> None:
        if connection.client_closed:
            return
        if sent is None:
            connection.broken = True
            if connection.in_flight:
                self._find_broken(connection)
            return
        response: Any
        response, wall_us, logical, cause, number = sent
        call, answered, _ = connection.in_flight.popleft()
        assert answered == number, f"{connection.id}: an answer to {number} where {answered} was next"
        host.clock.merge(self._queue.now_us, wall_us, logical)
        self.delivered += 1
        host.take(Answered(call, response), cause, connection.id, number)

    def _find_broken(self, connection: Connection) -> None:
        """The client learns that a connection is gone, which it does when it waits for an answer on it, or asks."""
        host = connection.client
        if host.paused:
            host.arrivals.append((self._find_broken, connection))
        elif not connection.client_closed:
            self._client_closes(connection)
            self._fail(host, connection, None)

    def _check_deadlines(self, check: tuple[Connection, int]) -> None:
        connection, at_us = check
        if connection.client_closed or at_us != connection.check_at_us:
            return
        host = connection.client
        if host.paused:
            host.overdue.append((self._check_deadlines, check))
            return
        now_us = self._queue.now_us
        next_us = min((deadline for _, _, deadline in connection.in_flight), default=NEVER)
        if next_us <= now_us:
            late = next(request for request in connection.in_flight if request[2] <= now_us)
            self._client_closes(connection)
            self._send(connection.to_server, None)
            self._fail(host, connection, late)
            return
        connection.check_at_us = next_us
        if next_us < NEVER:
            self._queue.at(next_us, self._check_deadlines, (connection, next_us))

    def overdue(self, host: Host) -> list[str]:
        """Calls of a host ("connection#number") whose time-out is over, though it runs and they have not ended."""
        if host.halted:
            return []
        return [
            request_id(connection.id, number)
            for connection in host.outbound.values()
            for _, number, deadline_us in connection.in_flight
            if deadline_us < self._queue.now_us
        ]

    def clock_changed(self, host: Host, change: Change) -> None:
        """The clock of a host was changed: the time-outs of its calls are measured by its wall clock."""
        now_us = self._queue.now_us
        for connection in host.outbound.values():
            connection.in_flight = deque(
                (call, number, now_us + change.left_us(due_us - now_us, True))
                for call, number, due_us in connection.in_flight
            )
            next_us = min((due_us for _, _, due_us in connection.in_flight), default=NEVER)
            if next_us != connection.check_at_us:
                connection.check_at_us = next_us
                if next_us < NEVER:
                    self._queue.at(next_us, self._check_deadlines, (connection, next_us))

    def _client_closes(self, connection: Connection) -> None:
        connection.client_closed = True
        host = connection.client
        key = (connection.server.name, connection.name)
        if host.outbound.get(key) is connection:
            del host.outbound[key]

    def _fail(self, host: Host, connection: Connection, late: InFlightRequest | None) -> None:
        """The connection broke: every call on it ends, first the one whose time-out broke it."""
        identity = connection.id
        if late is not None:
            host.soon.append((Failed(late[0], "timeout"), "", identity, late[1]))
        for request in connection.in_flight:
            if request is not late:
                host.soon.append((Failed(request[0], "disconnect"), "", identity, request[1]))
        connection.in_flight.clear()
        host.take_soon()

    # ---- server --------------------------------------------------------------------------------------------

    def _at_server(self, connection: Connection, host: Host, sent: InTransit) -> None:
        if connection.server_closed:
            return
        if host.node is None or host.incarnation != connection.incarnation:
            if sent is not None:  # nobody listens, or another process does: the connection is refused
                connection.server_closed = True
                self._send(connection.to_client, None)
            return
        if connection.serving is not None or connection.queued:
            connection.queued.append(sent)
        else:
            self._serve(connection, host, sent)

    def _serve(self, connection: Connection, host: Host, sent: InTransit) -> None:
        identity = connection.id
        if sent is None:
            connection.server_closed = True
            if host.inbound.pop(identity, None) is not None:
                host.take(Disconnected(identity), "", "", 0)
            return
        request: Any
        request, wall_us, logical, cause, number = sent
        host.inbound[identity] = connection
        connection.serving = (number, request.__class__)
        host.clock.merge(self._queue.now_us, wall_us, logical)
        self.delivered += 1
        host.take(Received(identity, request), cause, identity, number)

    def _serve_next(self, connection: Connection) -> None:
        host = connection.server
        if host.paused:
            host.arrivals.append((self._serve_next, connection))
        elif not connection.server_closed and connection.serving is None and connection.queued:
            self._serve(connection, host, connection.queued.popleft())

    def reply(self, host: Host, effect: Reply) -> None:
        """Carry out a Reply. It is ignored if the connection is gone. Raises ContractError if nothing was asked."""
        connection = host.inbound.get(effect.connection)
        if connection is None:
            return
        if connection.serving is None:
            raise ContractError(f"{host.name} answers on {connection.id}, where no request is outstanding")
        number, asked = connection.serving
        connection.serving = None
        if connection.severed_at == number:
            self._sever(connection)
            return
        response: Any = effect.response
        if response is None:
            # Travels as an empty message, as live: the client's runtime must hear that the call is over.
            response = RESPONSES[API_OF_REQUEST[asked]]()
        clock = host.clock
        clock.tick(self._queue.now_us)
        if self._carriage is not None:
            response = self._carriage(host.name, connection.client.name, response)
        sent = (response, clock.wall_us, clock.logical, host.last_id(), number)
        to_client = connection.to_client
        to_client.in_transit.append(sent)
        self._schedule(to_client, sent)
        if connection.queued:
            self._queue.at(self._queue.now_us, self._serve_next, connection)

    def close(self, host: Host, effect: Close) -> None:
        """Carry out a Close; it is ignored if the connection is gone."""
        connection = host.inbound.pop(effect.connection, None)
        if connection is not None:
            self._server_closes(connection)

    def _server_closes(self, connection: Connection) -> None:
        connection.server_closed = True
        connection.serving = None
        connection.queued.clear()
        self._send(connection.to_client, None)

    def process_died(self, host: Host) -> None:
        """Reset all connections of a host: the operating system tells the other ends, where the links let it."""
        for connection in list(host.outbound.values()):
            self._client_closes(connection)
            connection.in_flight.clear()
            self._send(connection.to_server, None)
        for connection in host.inbound.values():
            self._server_closes(connection)
        host.inbound.clear()


def _api_of(sent: InTransit) -> str:
    """Name of the API of a message, "" for the end of a connection."""
    if sent is None:
        return ""
    kind = type(sent[0])
    api = API_OF_REQUEST.get(kind)
    return API_OF_RESPONSE[kind].name if api is None else api.name
