"""Requests of clients that only the active controller can serve (``ForwardingManager.scala``,
``NodeToControllerChannelManagerImpl.java``; KIP-590)."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from actors.broker.turn import Turn
from actors.node.component import Component
from actors.node.error_responses import error_response
from actors.node.errors import KafkaError
from actors.node.messages import AnyRequest, AnyResponse, api_of, check_fields, request_version, response_errors
from actors.node.network_client import Ended
from actors.node.purgatory import NEVER_MS, PREFIX as PURGATORY, DelayedOperation, Key
from krift.v1.admin import IncrementalAlterConfigsResponse
from krift.v1.common import RequestHeader

CONNECTION = "forwarding"
PURPOSE = "forwarding"
RETRY = "forwarding/retry"
RETRY_MS = 100
ANSWERED = ("answered", "")
"""What forwarded requests wait for."""


class ForwardedRequest(DelayedOperation):
    """A client's request on its way. request: as the client sent it; passed_on: as the controller gets it. expires_ms:
    when it is not tried again. refused: what this broker has answered of it by itself. response: the controller's."""

    request: AnyRequest
    passed_on: AnyRequest
    expires_ms: int
    refused: IncrementalAlterConfigsResponse | None = None
    response: AnyResponse | None = None

    timer: ClassVar[str] = f"{PURGATORY}forwarding"

    @property
    def keys(self) -> tuple[Key, ...]:
        """The controller's answer."""
        return (ANSWERED,)

    def try_complete(self, context: Turn, key: Key) -> bool:
        """Whether the controller has answered."""
        return self.response is not None

    def on_complete(self, context: Turn) -> None:
        """Hand the answer to the client."""
        _reply(context, self, self.response)

    def on_expiration(self, context: Turn) -> None:
        """No controller could be reached in time."""
        _reply(context, self, _timed_out(self))


class OwnRequest(ForwardedRequest):
    """What this broker asks of its own accord (``AutoTopicCreationManager``): whoever waits for what comes of it sees
    it in the metadata, and may ask again once it has ended."""

    def on_complete(self, context: Turn) -> None:
        """Nobody is told."""

    def on_expiration(self, context: Turn) -> None:
        """Nobody is told."""


class ForwardingManager(msgspec.Struct):
    """One request at a time, in the order in which they came. One that finds no active controller is tried again, until
    it is as old as request.timeout.ms. in_flight: connection of the client whose request was sent, "" none."""

    in_flight: str = ""
    backing_off: bool = False

    def forward(
        self,
        turn: Turn,
        connection: str,
        request: Any,
        passed_on: Any = None,
        refused: IncrementalAlterConfigsResponse | None = None,
    ) -> None:
        """Pass a request on; the client is answered when the controller has answered, or the time is over."""
        expires_ms = turn.step.now_ms + turn.net.request_timeout_ms
        asked = request if passed_on is None else passed_on
        forwarded = ForwardedRequest(connection, NEVER_MS, request, asked, expires_ms, refused)
        turn.purgatory.park(turn.step, forwarded)

    def ask(self, turn: Turn, name: str, request: Any) -> None:
        """Ask the controller something of this broker's own, at the highest version that both speak, unless what was
        asked under this ``name`` has not ended."""
        connection = f"own/{name}"
        if connection not in turn.purgatory.parked:
            expires_ms = turn.step.now_ms + turn.net.request_timeout_ms
            turn.purgatory.park(turn.step, OwnRequest(connection, NEVER_MS, request, request, expires_ms))

    def on_timer(self) -> None:
        """The pause after a failure is over."""
        self.backing_off = False

    def poll(self, turn: Turn) -> None:
        """Send what comes next, if the controller can be reached."""
        purgatory = turn.purgatory
        if not purgatory.watching(ANSWERED):
            return
        purgatory.expire(turn, ForwardedRequest.timer)
        waiting = [_forwarded(turn, connection) for connection in purgatory.watching(ANSWERED)]
        if waiting and not self.in_flight and not self.backing_off:
            self._send(turn, waiting[0])
        for each in waiting:
            # What was sent is not given up before the call ends.
            each.deadline_ms = NEVER_MS if each.connection == self.in_flight else each.expires_ms
            purgatory.cover(turn.step, each)

    def _send(self, turn: Turn, first: ForwardedRequest) -> None:
        target = turn.reachable_controller(CONNECTION, api_of(first.request))
        if target is None:
            return
        self.in_flight = first.connection
        passed_on = _with_header(first.passed_on, RequestHeader())
        # As in an envelope, the request keeps the client's version; a controller that does not know it says so.
        version = target[1] if isinstance(first, OwnRequest) else request_version(first.request)
        turn.net.send(turn.step, target[0], CONNECTION, passed_on, version, PURPOSE)

    def on_ended(self, turn: Turn, ended: Ended) -> None:
        """Hand the answer to the client, if it still waits. Without one, or if that controller is not the active one,
        try again."""
        connection, self.in_flight = self.in_flight, ""
        assert connection, "one call is in flight at a time"
        failed = ended.response is None or KafkaError.NOT_CONTROLLER in response_errors(ended.response)
        if failed:
            self.backing_off = True
            turn.step.set_timer(RETRY, RETRY_MS)
        if connection not in turn.purgatory.parked:
            return
        forwarded = _forwarded(turn, connection)
        if failed:
            forwarded.deadline_ms = forwarded.expires_ms
        else:
            forwarded.response = ended.response
            turn.purgatory.try_complete(turn, connection, ANSWERED)


COMPONENT: Component[ForwardingManager, Turn] = Component(
    timers={RETRY: lambda forwarding, turn, _: forwarding.on_timer()},
    answers={PURPOSE: lambda forwarding, turn, ended, _: forwarding.on_ended(turn, ended)},
)


def _forwarded(turn: Turn, connection: str) -> ForwardedRequest:
    found = turn.purgatory.parked[connection]
    assert isinstance(found, ForwardedRequest)
    return found


def _timed_out(forwarded: ForwardedRequest) -> Any:
    header = RequestHeader(api_version=request_version(forwarded.request))
    return error_response(_with_header(forwarded.passed_on, header), KafkaError.REQUEST_TIMED_OUT)


def _with_header(request: AnyRequest, header: RequestHeader) -> AnyRequest:
    """The same request under another header; what was sent once is not touched."""
    return msgspec.structs.replace(request, header=header)


def _reply(turn: Turn, forwarded: ForwardedRequest, answer: Any) -> None:
    response = answer
    if forwarded.refused is not None:
        response = msgspec.structs.replace(answer, responses=[*answer.responses, *forwarded.refused.responses])
    if KafkaError.UNSUPPORTED_VERSION not in response_errors(response):
        check_fields(response, request_version(forwarded.request))
    turn.step.reply(forwarded.connection, response)
