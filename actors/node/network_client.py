"""One node's outgoing connections, as Kafka's NetworkClient keeps them: version negotiation on every new
connection, requests in flight, reconnect back-off (``clients/.../NetworkClient.java``).

A component asks ``ready`` before it sends; when that is False the client is already working on it and the node
polls its components again after the event that changes it (an answer, a failure, the timer ``reconnect/...``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from actors.node.backoff import backoff_range
from actors.node.component import Component
from actors.node.events import Answered, Failed, FailureReason
from actors.node.messages import API_NAMES, AnyRequest, AnyResponse, Api, api_of, check_fields, response_errors
from actors.node.often import TOLD, Often
from actors.node.step import Step
from actors.trace.events import Rpc, RpcQuiet
from actors.versions import Ranges, negotiate
from krift.v1.api_versions import ApiVersionsRequest, ApiVersionsResponse
from krift.v1.fetch import FetchResponse

RECONNECT = "reconnect/"
SETUP = "setup/"
"""Prefixes of the timers this module sets: ``reconnect/<peer>/<connection>``."""


NEVER_MS = 1 << 40
"""A time-out that does not come."""


class PeerConnection(msgspec.Struct):
    """State of one connection. ``ranges`` None: ApiVersions is still under way or was never sent. ``slow``: it has been
    under way for longer than a connection should take."""

    peer: str
    connection: str
    negotiating: bool = False
    ranges: Ranges | None = None
    failures: int = 0
    backing_off: bool = False
    slow: bool = False


class InFlight(msgspec.Struct, gc=False):
    """A call that has not ended. ``purpose`` names the component and how it goes on, e.g. ``replica-fetch/2``.
    ``sent_ms``, ``timeout_ms``: when it was sent, and how long it may take."""

    call: int
    peer: str
    connection: str
    api: int
    version: int
    purpose: str
    request: AnyRequest
    sent_ms: int = 0
    timeout_ms: int = 0


if TYPE_CHECKING:
    # Whoever takes the end of a call knows by its purpose what was asked and answered.
    SentRequest: TypeAlias = Any
    GivenResponse: TypeAlias = Any
else:
    SentRequest = AnyRequest
    GivenResponse = AnyResponse | None


class Ended(msgspec.Struct, frozen=True, gc=False):
    """How a call ended: ``response`` is None when it failed for ``reason``."""

    call: int
    peer: str
    connection: str
    api: int
    version: int
    purpose: str
    request: SentRequest
    response: GivenResponse
    reason: FailureReason | None


class NetworkClient(msgspec.Struct):
    """All outgoing connections of a node.

    client_id: what requests carry. ranges: what this node speaks. The pause before a lost connection is made again
    grows from ``backoff_ms`` to ``backoff_max_ms`` until a connection is ready again. setup_timeout_ms: after which a
    connection that is being made for the first time is slow; 0, as in Kafka, never: a time-out ends the making of a TCP
    connection there, and a process that hangs still accepts one. renewed: how often connections of a name were given up
    for new ones. finalized_features: level by name, as whoever has the newest metadata said when a connection to it was
    made; ``features_epoch``: how far that metadata reached, -1 nobody has said (``ApiVersions.java``).
    """

    client_id: str
    ranges: Ranges
    backoff_ms: int
    backoff_max_ms: int
    request_timeout_ms: int
    setup_timeout_ms: int = 0
    connections: dict[str, PeerConnection] = {}
    in_flight: dict[int, InFlight] = {}
    calls: int = 0
    renewed: dict[str, int] = {}
    finalized_features: dict[str, int] = {}
    features_epoch: int = -1
    quiet: Often = msgspec.field(default_factory=Often)

    def _connection(self, peer: str, connection: str) -> PeerConnection:
        key = f"{peer}/{connection}"
        found = self.connections.get(key)
        if found is None:
            found = self.connections[key] = PeerConnection(peer, connection)
        return found

    def ready(self, step: Step, peer: str, connection: str) -> bool:
        """Whether a request can be sent now; starts connecting if that is what it takes."""
        state = self._connection(peer, connection)
        if state.ranges is not None:
            return True
        if not state.negotiating and not state.backing_off:
            state.negotiating = True
            if self.setup_timeout_ms:
                step.set_timer(f"{SETUP}{peer}/{connection}", self.setup_timeout_ms)
            self._send_api_versions(step, state, self.ranges[Api.ApiVersions.name][1])
        return False

    def version(self, peer: str, connection: str, api: Api) -> int | None:
        """The version to use for ``api`` on a ready connection; None: the peer does not speak it."""
        state = self._connection(peer, connection)
        return None if state.ranges is None else negotiate(self.ranges, state.ranges, api)

    def usable(self, peer: str, connection: str) -> bool:
        """Whether the connection is ready or may be tried now (not backing off)."""
        return not self._connection(peer, connection).backing_off

    def connected(self, peer: str, connection: str) -> bool:
        """Whether a request could be sent now; unlike ``ready`` it starts nothing."""
        return self._connection(peer, connection).ranges is not None

    def connecting(self, peer: str) -> bool:
        """Whether some connection to a peer is being made."""
        return any(each.negotiating for each in self.connections.values() if each.peer == peer)

    def slow(self, peer: str) -> bool:
        """Whether some connection to a peer has been being made for too long, or is made again after it failed."""
        if not self.setup_timeout_ms:
            return False
        mine = (each for each in self.connections.values() if each.peer == peer)
        return any(each.slow or (each.negotiating and each.failures > 0) for each in mine)

    def pending(self, peer: str, connection: str) -> int:
        """Number of calls in flight on a connection."""
        return sum(1 for c in self.in_flight.values() if c.peer == peer and c.connection == connection)

    def send(
        self,
        step: Step,
        peer: str,
        connection: str,
        request: AnyRequest,
        version: int,
        purpose: str,
        timeout_ms: int | None = None,
    ) -> int:
        """Send ``request`` at ``version`` on a ready connection; returns the number of the call.

        Raises VersionError if the request sets a field that the version lacks.
        """
        self.calls += 1
        header = request.header
        api = api_of(request)
        header.api_key = int(api)
        header.api_version = version
        header.client_id = self.client_id
        header.correlation_id = self.calls
        check_fields(request, version)
        timeout = self.request_timeout_ms if timeout_ms is None else timeout_ms
        self.in_flight[self.calls] = InFlight(
            self.calls, peer, connection, int(api), version, purpose, request, step.now_ms, timeout
        )
        if "no-request-timeout" in step.defects:
            timeout = NEVER_MS
        renewed = self.renewed.get(connection, 0)
        step.call(self.calls, peer, f"{connection}.{renewed}" if renewed else connection, request, timeout)
        return self.calls

    def renew(self, step: Step, connection: str) -> None:
        """Close all connections of this name: what is under way on them has failed, nobody waits behind it, and what
        comes next goes on new ones."""
        self.renewed[connection] = self.renewed.get(connection, 0) + 1
        for call in [call for call, flight in self.in_flight.items() if flight.connection == connection]:
            self._record(step, self.in_flight.pop(call), None, "disconnect")
        for key in [key for key, state in self.connections.items() if state.connection == connection]:
            state = self.connections.pop(key)
            self._made(step, state)
            if state.backing_off:
                step.cancel_timer(f"{RECONNECT}{key}")

    def on_answered(self, step: Step, event: Answered) -> Ended | None:
        """Take an answer. None: it was this client's own (version negotiation)."""
        flight = self.in_flight.pop(event.call, None)
        if flight is None:
            return None
        self._record(step, flight, event.response, None)
        if isinstance(event.response, ApiVersionsResponse):
            self._on_api_versions(step, self._connection(flight.peer, flight.connection), flight, event.response)
            return None
        return self._ended(flight, event.response, None)

    def on_failed(self, step: Step, event: Failed) -> Ended | None:
        """Take a failure: the connection is gone and is tried again after the back-off. None: the call was this
        client's own."""
        flight = self.in_flight.pop(event.call, None)
        if flight is None:
            return None
        self._record(step, flight, None, event.reason)
        state = self._connection(flight.peer, flight.connection)
        if state.ranges is not None or state.negotiating:
            self._back_off(step, state)
        if flight.api == Api.ApiVersions:
            return None
        return self._ended(flight, None, event.reason)

    def on_reconnect(self, connection: str) -> None:
        """The pause before a connection (``<peer>/<connection>``) is made again is over."""
        self.connections[connection].backing_off = False

    def on_setup_timeout(self, connection: str) -> None:
        """A connection takes longer to be made than it should."""
        self.connections[connection].slow = True

    def _ended(self, flight: InFlight, response: AnyResponse | None, reason: FailureReason | None) -> Ended:
        return Ended(
            flight.call,
            flight.peer,
            flight.connection,
            flight.api,
            flight.version,
            flight.purpose,
            flight.request,
            response,
            reason,
        )

    def _send_api_versions(self, step: Step, state: PeerConnection, version: int) -> None:
        request = ApiVersionsRequest()
        if version >= 3:
            request.client_software_name = "krift"
            request.client_software_version = "1"
        self.send(step, state.peer, state.connection, request, version, "api-versions")

    def _on_api_versions(
        self, step: Step, state: PeerConnection, flight: InFlight, response: ApiVersionsResponse
    ) -> None:
        theirs: Ranges = {}
        for api in response.api_keys:
            if api.api_key in Api._value2member_map_:
                theirs[Api(api.api_key).name] = [api.min_version, api.max_version]
        if response.error_code:
            # UNSUPPORTED_VERSION comes with the peer's own range of ApiVersions: ask again within it.
            version = negotiate(self.ranges, theirs, Api.ApiVersions)
            if version is None or version == flight.version:
                self._back_off(step, state)
                return
            self._send_api_versions(step, state, version)
            return
        state.ranges = theirs
        if response.finalized_features_epoch > self.features_epoch:
            self.features_epoch = response.finalized_features_epoch
            self.finalized_features = {each.name: each.max_version_level for each in response.finalized_features}
        self._made(step, state)
        state.failures = 0

    def _made(self, step: Step, state: PeerConnection) -> None:
        """The connection is there, or will not be."""
        state.negotiating = state.slow = False
        if self.setup_timeout_ms:
            step.cancel_timer(f"{SETUP}{state.peer}/{state.connection}")

    def _back_off(self, step: Step, state: PeerConnection) -> None:
        state.ranges = None
        self._made(step, state)
        if state.backing_off:
            return
        failures = 0 if "reconnect-backoff-stays" in step.defects else state.failures
        low, high = backoff_range(self.backoff_ms, self.backoff_max_ms, failures)
        if "no-reconnect-backoff" in step.defects:
            low = high = 0
        state.failures += 1
        state.backing_off = True
        step.set_timer(f"{RECONNECT}{state.peer}/{state.connection}", low, high)

    def _record(self, step: Step, flight: InFlight, response: AnyResponse | None, reason: FailureReason | None) -> None:
        errors: list[int] = []
        if response is not None:
            errors = response_errors(response)
            if isinstance(response, FetchResponse) and not errors and not _has_news(response):
                self._count_quiet(step)
                return
        step.record(
            Rpc(
                API_NAMES[flight.api],
                flight.version,
                flight.peer,
                flight.connection,
                flight.call,
                reason or "answered",
                errors,
                flight.timeout_ms,
                step.now_ms - flight.sent_ms,
            )
        )

    def _count_quiet(self, step: Step) -> None:
        """A Fetch brought nothing: there are many of these."""
        if self.quiet.count(step.now_ms):
            step.record(RpcQuiet(TOLD))


COMPONENT: Component[NetworkClient, Any] = Component(
    timers={
        RECONNECT: lambda net, turn, connection: net.on_reconnect(connection),
        SETUP: lambda net, turn, connection: net.on_setup_timeout(connection),
    }
)


def _has_news(response: FetchResponse) -> bool:
    for topic in response.responses:
        for data in topic.partitions:
            if data.records or data.diverging_epoch is not None:
                return True
    return False
