"""A node's outgoing connections: one gRPC channel, and so one socket, for each.

A connection is used until it breaks or one of its calls runs into its time-out, as in Kafka's NetworkClient; then all
its calls fail and the next Call opens a new one. Responses are handed over in the order of the requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import grpc
import grpc.aio
import msgspec

from actors.control import Link
from actors.live.identity import Identity, channel_to
from actors.live.links import Links, Severable
from actors.live.timers import PatientTimer
from actors.live.wire import NO_STAMP, Stamp, decode_response, encode_request, method_path
from actors.machine_clock import Change
from actors.node.effects import Call
from actors.node.events import Answered, Failed
from actors.node.messages import AnyResponse, Api, api_of
from actors.trace.stamper import connection_id, request_id

Deliver = Callable[[Answered | Failed, Stamp, str], None]
"""Takes how a call ended, the peer's stamp, and ``req``."""


OVERDUE_S = 1.0
"""How late the event loop may be."""


class InFlightRequest(msgspec.Struct, eq=False):
    """A request without a response yet: its call, its name in the trace and its time-out."""

    call: int
    req: str
    timer: PatientTimer


class Connection:
    """One connection. in_flight: by number; responses: those that came before their turn."""

    def __init__(self, name: str, peer: str, channel: grpc.aio.Channel | None) -> None:
        self.id = name
        self.peer = peer
        self.channel = channel
        self.sent = 0
        self.ended = 0
        self.in_flight: dict[int, InFlightRequest] = {}
        self.responses: dict[int, tuple[AnyResponse, Stamp]] = {}
        self.tasks: set[asyncio.Task[None]] = set()
        self.methods: dict[Api, grpc.aio.UnaryUnaryMultiCallable[Any, Any]] = {}
        self.established = False
        self.client_closed = False

    def method(self, api: Api) -> grpc.aio.UnaryUnaryMultiCallable[Any, Any]:
        """The gRPC method of an API on this channel; messages are passed as bytes."""
        assert self.channel is not None
        found = self.methods.get(api)
        if found is None:
            found = self.methods[api] = self.channel.unary_unary(
                method_path(api), request_serializer=None, response_deserializer=None
            )
        return found


class Connections:
    """All outgoing connections of one incarnation. ``addresses`` says where the nodes listen; it may change.
    ``true_s``: seconds of a time-out in ms. ``identity``: for mutual TLS, None to talk in the clear."""

    def __init__(
        self,
        node: str,
        incarnation: int,
        links: Links,
        addresses: Mapping[str, str],
        deliver: Deliver,
        true_s: Callable[[int], float] = lambda delay_ms: delay_ms / 1000,
        identity: Identity | None = None,
    ) -> None:
        self._node = node
        self._incarnation = incarnation
        self._links = links
        self._addresses = addresses
        self._deliver = deliver
        self._true_s = true_s
        self._identity = identity
        self._open: dict[tuple[str, str], Connection] = {}
        self._counts: dict[tuple[str, str], int] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()

    def call(self, effect: Call, stamp: Stamp) -> None:
        """Carry out a Call; it ends in exactly one ``deliver``."""
        connection = self._connection(effect.peer, effect.connection)
        number = connection.sent
        connection.sent += 1
        timer = PatientTimer(self._loop, self._true_s(effect.timeout_ms), self._time_out, connection, number)
        connection.in_flight[number] = InFlightRequest(effect.call, request_id(connection.id, number), timer)
        if connection.channel is None:
            self._loop.call_soon(self._broken, connection)
            return
        data = encode_request(effect.request, connection.id, number, stamp)
        task = self._loop.create_task(self._exchange(connection, number, api_of(effect.request), data))
        connection.tasks.add(task)
        task.add_done_callback(connection.tasks.discard)

    def overdue(self) -> list[str]:
        """Calls ("connection#number") whose time-out has been over for longer than the event loop needs to see it."""
        late = self._loop.time() - OVERDUE_S
        return [
            call.req
            for connection in self._open.values()
            for call in connection.in_flight.values()
            if call.timer.when() < late
        ]

    def clock_changed(self, change: Change) -> None:
        """Go on by the machine's clock as it is now; time-outs are measured by its wall clock."""
        for connection in self._open.values():
            for call in connection.in_flight.values():
                call.timer.adjust(change, True)

    async def close(self) -> None:
        """Close every connection; nothing is delivered any more."""
        for connection in list(self._open.values()):
            self._close(connection)
            for call in connection.in_flight.values():
                call.timer.cancel()
        await asyncio.gather(*self._closing)

    def _connection(self, peer: str, name: str) -> Connection:
        found = self._open.get((peer, name))
        if found is None:
            count = self._counts.get((peer, name), 0)
            self._counts[peer, name] = count + 1
            address = self._addresses.get(peer)
            channel = None if address is None else channel_to(peer, address, self._identity)
            full_name = connection_id(self._node, peer, name, self._incarnation, count)
            found = self._open[peer, name] = Connection(full_name, peer, channel)
        return found

    async def _exchange(self, connection: Connection, number: int, api: Api, data: bytes) -> None:
        try:
            answer = await connection.method(api)(data)
        except grpc.aio.AioRpcError:
            self._broken(connection)
            return
        connection.established = True
        response, stamp = decode_response(api, answer)
        self._links.arrive(
            ((connection.peer, self._node),),
            connection.id,
            lambda: self._answered(connection, number, response, stamp),
            Severable(number, api.name, False, lambda rule, lost: self._sever(connection)),
        )

    def _sever(self, connection: Connection) -> bool:
        """A rule severs the connection of a response; the peer finds the socket closed."""
        if connection.client_closed:
            return False
        self._disconnect(connection)
        return True

    def _broken(self, connection: Connection) -> None:
        """The socket is closed, or was refused; the refusal of a first call travelled both ways."""
        if connection.client_closed:
            return
        links: tuple[Link, ...] = ((connection.peer, self._node),)
        if not connection.established:
            links += ((self._node, connection.peer),)
        self._links.arrive(links, connection.id, lambda: self._disconnect(connection))

    def _answered(self, connection: Connection, number: int, response: AnyResponse, stamp: Stamp) -> None:
        if connection.client_closed:
            return
        connection.responses[number] = (response, stamp)
        while connection.ended in connection.responses:
            answer, stamp = connection.responses.pop(connection.ended)
            call = connection.in_flight.pop(connection.ended)
            connection.ended += 1
            call.timer.cancel()
            self._deliver(Answered(call.call, answer), stamp, call.req)

    def _time_out(self, connection: Connection, number: int) -> None:
        call = connection.in_flight.pop(number)
        self._close(connection)
        self._deliver(Failed(call.call, "timeout"), NO_STAMP, call.req)
        self._fail_rest(connection)

    def _disconnect(self, connection: Connection) -> None:
        if not connection.client_closed:
            self._close(connection)
            self._fail_rest(connection)

    def _fail_rest(self, connection: Connection) -> None:
        for number in sorted(connection.in_flight):
            call = connection.in_flight.pop(number)
            call.timer.cancel()
            self._deliver(Failed(call.call, "disconnect"), NO_STAMP, call.req)

    def _close(self, connection: Connection) -> None:
        connection.client_closed = True
        for key, value in list(self._open.items()):
            if value is connection:
                del self._open[key]
        for task in connection.tasks:
            if task is not asyncio.current_task():
                task.cancel()
        if connection.channel is not None:
            task = self._loop.create_task(connection.channel.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
