"""One caller of the remote store: one request at a time, on a connection of its own."""

from __future__ import annotations

from typing import Any

import msgspec

from actors.broker.turn import Turn
from actors.node.messages import AnyRequest, api_of
from actors.node.network_client import Ended, GivenResponse, SentRequest
from actors.node.spec import REMOTE_STORE


class StoreCall(msgspec.Struct):
    """request: what is asked now, None nothing. call: its number, 0 not sent. answered: whether it ended; response:
    None if that failed."""

    request: SentRequest | None = None
    call: int = 0
    answered: bool = False
    response: GivenResponse = None

    def ask(self, request: AnyRequest) -> None:
        """Ask something, as soon as the connection is there."""
        assert self.request is None, "one request at a time"
        self.request, self.call, self.answered, self.response = request, 0, False, None

    def advance(self, turn: Turn, purpose: str) -> bool:
        """Send what is asked, if it can be sent; True: it ended. Each ``purpose`` has a connection."""
        connection, request = connection_of(purpose), self.request
        assert request is not None, "something is asked"
        if self.answered or self.call or not turn.net.ready(turn.step, REMOTE_STORE, connection):
            return self.answered
        version = turn.net.version(REMOTE_STORE, connection, api_of(request))
        if version is None:
            self.answered = True
        else:
            timeout_ms = turn.settings.readers.store_timeout_ms
            self.call = turn.net.send(turn.step, REMOTE_STORE, connection, request, version, purpose, timeout_ms)
        return self.answered

    def on_ended(self, ended: Ended) -> None:
        """A call ended; one that nobody waits for any more is let go."""
        if ended.call == self.call:
            self.answered = True
            self.response = ended.response if ended.response is not None and not ended.response.error_code else None

    def take(self) -> Any:
        """The answer; None: there is none, or it is an error, and nobody knows what was done."""
        assert self.answered, "it has not ended"
        response, self.request = self.response, None
        self.call, self.answered, self.response = 0, False, None
        return response


def connection_of(purpose: str) -> str:
    """The name of the connection for calls of a purpose."""
    return purpose.replace("/", "-")
