"""The gRPC server of a node: every API on one port, with reflection and health.

gRPC promises no order among calls, so each request carries its connection and its number on it: the server hands
the next request of a connection to the node only after the one before was answered, as Kafka mutes a channel
(``SocketServer.scala``).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import grpc
import grpc.aio
import msgspec
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1.health import SERVICE_NAME as HEALTH_SERVICE, aio as health
from grpc_reflection.v1alpha import reflection

from actors.live.identity import Identity, listen
from actors.live.links import Links, Lost, Severable
from actors.live.wire import SERVER_OPTIONS, SERVICE, Arrived, Stamp, decode_request, encode_response
from actors.node.messages import REQUESTS, RESPONSES, AnyResponse, Api, api_of
from actors.trace.stamper import connection_source

ANONYMOUS = "anonymous"
"""Source of the connections of callers that are no nodes: each of their calls is a connection of its own."""


class InFlightRequest(msgspec.Struct, frozen=True):
    """A request without a response yet, and where the bytes of its response are waited for."""

    api: Api
    correlation_id: int
    response: asyncio.Future[bytes]


class ServerConnection(msgspec.Struct, eq=False):
    """A connection on which this node serves. ``next``: number of the request that it is given next. ``serving``:
    number of the one it is at work on (-1 none); ``queued``: those that arrived behind it; ``in_flight``: all of them,
    and those that have not arrived yet. ``client_closed``: the peer's socket is closed; ``end_queued``: its end has
    arrived, and has its turn after the requests that arrived before; ``tail_lost``: what was in transit when it closed
    does not arrive any more. ``told``: whether the node ever got a request of it. ``severed_at``: number of the request
    in place of whose response the rule ``severed_by`` severs the connection (-1 none)."""

    id: str
    source: str
    next: int = 0
    serving: int = -1
    queued: dict[int, Arrived] = {}
    in_flight: dict[int, InFlightRequest] = {}
    client_closed: bool = False
    server_closed: bool = False
    told: bool = False
    tail_lost: bool = False
    end_queued: bool = False
    severed_at: int = -1
    severed_by: str = ""


class Server:
    """Serves one node. ``on_request(connection, what arrived)`` and ``on_disconnect(connection)`` are called on
    the event loop; they only queue what they are given."""

    def __init__(
        self,
        node: str,
        links: Links,
        draws: random.Random,
        on_request: Callable[[str, Arrived], None],
        on_disconnect: Callable[[str], None],
    ) -> None:
        self._node = node
        self._links = links
        self._draws = draws
        self._on_request = on_request
        self._on_disconnect = on_disconnect
        self._connections: dict[str, ServerConnection] = {}
        self._latest: dict[str, str] = {}
        self._anonymous = 0
        self._stopping = False
        self._server: grpc.aio.Server | None = None

    async def start(self, host: str, identity: Identity | None = None) -> int:
        """Bind to a free port of ``host`` and serve; returns the port. ``identity``: for mutual TLS, None to serve
        whoever calls. Raises RuntimeError if that fails."""
        server = grpc.aio.server(options=SERVER_OPTIONS)
        handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
            api.name: grpc.unary_unary_rpc_method_handler(
                self._serve, request_deserializer=partial(decode_request, kind), response_serializer=None
            )
            for api, kind in REQUESTS.items()
        }
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
        servicer = health.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
        await servicer.set(SERVICE, health_pb2.HealthCheckResponse.SERVING)
        await servicer.set("", health_pb2.HealthCheckResponse.SERVING)
        reflection.enable_server_reflection((SERVICE, HEALTH_SERVICE, reflection.SERVICE_NAME), server)
        port = listen(server, f"{host}:0", identity)
        await server.start()
        self._server = server
        return port

    async def stop(self) -> None:
        """Close the port and every connection at once."""
        self._stopping = True
        if self._server is not None:
            await self._server.stop(None)

    async def _serve(self, arrived: Arrived, context: grpc.aio.ServicerContext[Any, Any]) -> bytes:
        """One call: wait until the node answers."""
        connection = self._connection(arrived.connection)
        number, api = arrived.number, api_of(arrived.request)
        if connection.server_closed or connection.client_closed or number in connection.in_flight:
            await _refuse(context)
        response: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        connection.in_flight[number] = InFlightRequest(api, arrived.correlation_id, response)
        self._links.arrive(
            ((connection.source, self._node),),
            connection.id,
            lambda: self._arrived(connection, arrived),
            Severable(number, api.name, True, lambda rule, lost: self._hit(connection, arrived, rule, lost)),
        )
        try:
            return await response
        except ConnectionAbortedError:
            await _refuse(context)
            raise
        except asyncio.CancelledError:
            self._gone(connection)
            raise
        finally:
            if connection.source == ANONYMOUS:
                self._gone(connection)

    def _connection(self, name: str) -> ServerConnection:
        """The connection of that name; one of its own for a caller that is no node (``grpcurl``)."""
        if not name:
            self._anonymous += 1
            name = f"{ANONYMOUS}>{self._node}:{self._anonymous}:0.0"
        found = self._connections.get(name)
        if found is None:
            found = self._connections[name] = ServerConnection(name, connection_source(name))
            family = name.rpartition(".")[0].rpartition(":")[0]
            before = self._connections.get(self._latest.get(family, ""))
            self._latest[family] = name
            if before is not None:
                # The peer opens a new connection of a name only when the old one is gone.
                self._gone(before)
        return found

    def _arrived(self, connection: ServerConnection, arrived: Arrived) -> None:
        if connection.server_closed:
            return
        if connection.client_closed and not connection.tail_lost:
            # It was in transit when its connection closed: TCP may still deliver it, or not, and then nothing after.
            connection.tail_lost = self._draws.random() < 0.5
        if connection.tail_lost:
            return
        connection.queued[arrived.number] = arrived
        self._hand_over(connection)

    def _hit(self, connection: ServerConnection, arrived: Arrived, rule: str, lost: Lost) -> bool:
        """A rule hits a request: it is lost, or it is served and its response is lost."""
        if connection.server_closed or connection.tail_lost or connection.severed_at >= 0:
            return False
        if lost == "request":
            self._sever(connection, arrived.number)
        else:
            connection.severed_at, connection.severed_by = arrived.number, rule
            self._arrived(connection, arrived)
        return True

    def _sever(self, connection: ServerConnection, number: int) -> None:
        """From a request on nothing arrives: the peer finds the end at once, the node after what came before."""
        connection.client_closed = connection.tail_lost = connection.end_queued = True
        connection.queued = {n: arrived for n, arrived in connection.queued.items() if n < number}
        _abort(connection)
        self._hand_over(connection)

    def rule_ended(self, rule: str) -> None:
        """Peers whose connections the rule is about to sever are told so now; what was to be served is served."""
        for connection in self._connections.values():
            if connection.severed_at >= 0 and connection.severed_by == rule:
                _abort(connection)

    def _hand_over(self, connection: ServerConnection) -> None:
        """Give the node what is next on the connection, unless it is at work for it."""
        if connection.serving >= 0:
            return
        if connection.next in connection.queued:
            number = connection.serving = connection.next
            connection.next += 1
            connection.told = True
            self._on_request(connection.id, connection.queued.pop(number))
        elif connection.end_queued:
            connection.server_closed = True
            self._connections.pop(connection.id, None)
            if connection.told:
                self._on_disconnect(connection.id)

    def reply(self, name: str, response: AnyResponse | None, stamp: Stamp) -> None:
        """Answer the request outstanding on a connection; without effect if the connection is gone. None travels
        as an empty message, as the caller's runtime must hear that the call is over."""
        connection = self._connections.get(name)
        if connection is None or connection.serving < 0:
            return
        number, connection.serving = connection.serving, -1
        if number == connection.severed_at:
            self._sever(connection, number)
            return
        request = connection.in_flight.pop(number)
        if not request.response.done():
            made = RESPONSES[request.api]() if response is None else response
            request.response.set_result(encode_response(made, request.correlation_id, stamp))
        self._hand_over(connection)

    def close(self, name: str) -> None:
        """Break a connection: what it still asked for fails at the peer."""
        connection = self._connections.pop(name, None)
        if connection is None:
            return
        connection.server_closed = True
        _abort(connection)

    def _gone(self, connection: ServerConnection) -> None:
        """The peer's end is closed: the news takes the same way as its requests did."""
        if connection.client_closed or connection.server_closed or self._stopping:
            return
        connection.client_closed = True
        self._links.arrive(((connection.source, self._node),), connection.id, lambda: self._end(connection))

    def _end(self, connection: ServerConnection) -> None:
        """The end has arrived. It waits for its turn, as Kafka does not read a muted channel."""
        if not connection.server_closed:
            connection.end_queued = True
            self._hand_over(connection)


def _abort(connection: ServerConnection) -> None:
    """End everything that the peer still waits for on a connection."""
    for request in connection.in_flight.values():
        if not request.response.done():
            request.response.set_exception(ConnectionAbortedError())


def _refuse(context: grpc.aio.ServicerContext[Any, Any]) -> Awaitable[None]:
    """End a call the way a broken connection does."""
    return context.abort(grpc.StatusCode.UNAVAILABLE, "connection closed")
