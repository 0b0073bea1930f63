"""Requests of clients that only the active controller can serve (``ForwardingManager.scala``,
``NodeToControllerChannelManagerImpl.java``; KIP-590)."""

from __future__ import annotations

from typing import Any

import msgspec

from actors.broker.turn import Turn
from actors.node.error_responses import error_response
from actors.node.errors import KafkaError
from actors.node.messages import AnyRequest, api_of, check_fields, request_version, response_errors
from actors.node.network_client import Ended
from krift.v1.admin import IncrementalAlterConfigsResponse
from krift.v1.common import RequestHeader

CONNECTION = "forwarding"
PURPOSE = "forwarding"
PREFIX = "forwarding/"
"""Prefix of this component's timers."""
RETRY = "forwarding/retry"
EXPIRY = "forwarding/expiry"
RETRY_MS = 100


class ForwardedRequest(msgspec.Struct):
    """A client's request on its way. connection: where the client waits, "" once it is gone. request: as the client
    sent it; passed_on: as the controller gets it. refused: what this broker has answered of it by itself."""

    connection: str
    request: AnyRequest
    passed_on: AnyRequest
    expires_ms: int
    refused: IncrementalAlterConfigsResponse | None = None


class ForwardingManager(msgspec.Struct):
    """One request at a time, in the order in which they came. One that finds no active controller is tried again, until
    it is as old as request.timeout.ms."""

    waiting: list[ForwardedRequest] = []
    in_flight: ForwardedRequest | None = None
    backing_off: bool = False
    expiry_ms: int = -1

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
        self.waiting.append(ForwardedRequest(connection, request, asked, expires_ms, refused))

    def on_disconnected(self, connection: str) -> None:
        """Nobody waits for what came on ``connection`` any more. What was sent already is carried out."""
        self.waiting = [each for each in self.waiting if each.connection != connection]
        if self.in_flight is not None and self.in_flight.connection == connection:
            self.in_flight.connection = ""

    def on_timer(self, name: str) -> None:
        """A pause or somebody's time is over."""
        if name == RETRY:
            self.backing_off = False
        else:
            self.expiry_ms = -1

    def poll(self, turn: Turn) -> None:
        """Send what comes next, if the controller can be reached."""
        if not self.waiting:
            return
        for each in [each for each in self.waiting if each.expires_ms <= turn.step.now_ms]:
            self.waiting.remove(each)
            _reply(turn, each, _timed_out(each))
        if self.waiting and self.in_flight is None and not self.backing_off:
            self._send(turn, self.waiting[0])
        self._arm(turn)

    def _send(self, turn: Turn, first: ForwardedRequest) -> None:
        target = turn.reachable_controller(CONNECTION, api_of(first.request))
        if target is None:
            return
        self.waiting.pop(0)
        self.in_flight = first
        passed_on = _with_header(first.passed_on, RequestHeader())
        # As in an envelope, the request keeps the client's version; a controller that does not know it says so.
        turn.net.send(turn.step, target[0], CONNECTION, passed_on, request_version(first.request), PURPOSE)

    def _arm(self, turn: Turn) -> None:
        first_ms = min((each.expires_ms for each in self.waiting), default=-1)
        if first_ms >= 0 and self.expiry_ms != first_ms:
            self.expiry_ms = first_ms
            turn.step.set_timer(EXPIRY, max(0, first_ms - turn.step.now_ms))

    def on_ended(self, turn: Turn, ended: Ended) -> None:
        """Hand the answer to the client. Without one, or if that controller is not the active one, try again."""
        forwarded, self.in_flight = self.in_flight, None
        assert forwarded is not None, "one call is in flight at a time"
        if ended.response is None or KafkaError.NOT_CONTROLLER in response_errors(ended.response):
            self.backing_off = True
            turn.step.set_timer(RETRY, RETRY_MS)
            if forwarded.connection:
                self.waiting.insert(0, forwarded)
            return
        _reply(turn, forwarded, ended.response)


def _timed_out(forwarded: ForwardedRequest) -> Any:
    header = RequestHeader(api_version=request_version(forwarded.request))
    return error_response(_with_header(forwarded.passed_on, header), KafkaError.REQUEST_TIMED_OUT)


def _with_header(request: AnyRequest, header: RequestHeader) -> AnyRequest:
    """The same request under another header; what was sent once is not touched."""
    return msgspec.structs.replace(request, header=header)


def _reply(turn: Turn, forwarded: ForwardedRequest, answer: Any) -> None:
    if not forwarded.connection:
        return
    response = answer
    if forwarded.refused is not None:
        response = msgspec.structs.replace(answer, responses=[*answer.responses, *forwarded.refused.responses])
    if KafkaError.UNSUPPORTED_VERSION not in response_errors(response):
        check_fields(response, request_version(forwarded.request))
    turn.step.reply(forwarded.connection, response)
