"""Registration, heartbeats, unfencing, controlled shutdown (``server/.../BrokerLifecycleManager.java``).

A started broker registers, catches up with the metadata log as far as its own registration, and only then takes up
its replicas and opens its doors.

A request that was asked for waits for a controller that can be reached, and is tried again where the controller moved
or the connection broke, until half a session timeout has passed (``NodeToControllerChannelManagerImpl.java``). Unlike
Kafka's, it is made anew at each attempt, so that it says what holds when it leaves.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from actors.broker.turn import Turn
from actors.node.component import Component
from actors.node.errors import KafkaError
from actors.node.messages import Api
from actors.node.network_client import Ended
from krift.v1.controller import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)

CONNECTION = "heartbeat"
"""A connection of its own, as in Kafka: an AlterPartition that waits for its commit must not hold up heartbeats."""
REGISTER = "lifecycle/register"
HEARTBEAT = "lifecycle/heartbeat"

NEXT = "lifecycle/next"
RETRY = "lifecycle/retry"
EXPIRY = "lifecycle/expiry"
REGISTRATION = "lifecycle/registration"
SHUTDOWN = "lifecycle/shutdown"

STARTING_HEARTBEAT_MS = 10
"""Until the next heartbeat of a broker that has not caught up yet."""
LEAVING_HEARTBEAT_MS = 50
"""Until the next heartbeat of a broker that was told for the first time to wait with its shutdown."""
SHUTDOWN_TIMEOUT_MS = 300_000
"""How long a broker waits for the controller's leave to stop (``KafkaBroker.shutdown``)."""

State = Literal["starting", "recovery", "running", "pending-controlled-shutdown", "shutting-down"]


class BrokerLifecycle(msgspec.Struct):
    """Where this broker stands with the controller.

    starting: not registered, or its image lacks its own registration; recovery: caught up, and never unfenced yet;
    running: it was unfenced (and may have been fenced since); pending-controlled-shutdown: asks to leave;
    shutting-down: sends nothing more. ``failure``: why it is shutting down if nobody asked for it.

    asked: a request is wanted or on its way. sent: it is on its way. resting: it waits before it is tried again.
    expired: it is not tried again. urgent: the next one follows at once if this one succeeds.
    """

    state: State = "starting"
    incarnation_id: str = ""
    previous_broker_epoch: int = -1
    broker_epoch: int = -1
    ready_to_unfence: bool = False
    told_to_wait: bool = False
    asked: bool = False
    sent: bool = False
    resting: bool = False
    expired: bool = False
    urgent: bool = False
    failure: str = ""

    def start(self, turn: Turn, incarnation_id: str, previous_broker_epoch: int) -> None:
        """Begin to register. ``previous_broker_epoch``: of the incarnation before if it ended well, else -1."""
        self.incarnation_id = incarnation_id
        self.previous_broker_epoch = previous_broker_epoch
        turn.step.set_timer(REGISTRATION, turn.settings.initial_registration_timeout_ms)
        self.ask(turn)

    @property
    def is_caught_up(self) -> bool:
        """Whether the controller saw this broker's image pass its registration: it may take up its replicas and serve,
        even while it is fenced."""
        return self.state in ("recovery", "running")

    @property
    def is_shutting_down(self) -> bool:
        """Whether nothing is left to do but to end the process."""
        return self.state == "shutting-down"

    # ---- sending -----------------------------------------------------------------------------------------

    def ask(self, turn: Turn) -> None:
        """The registration or a heartbeat is due."""
        self.asked, self.expired = True, False
        turn.step.set_timer(EXPIRY, self._retry_timeout_ms(turn))

    def _retry_timeout_ms(self, turn: Turn) -> int:
        return max(1, turn.settings.session_timeout_ms // 2)

    def poll(self, turn: Turn) -> None:
        """Send what is due, if the controller can be reached."""
        if not self.asked or self.sent or self.resting:
            return
        registered = self.broker_epoch >= 0
        target = turn.reachable_controller(CONNECTION, Api.BrokerHeartbeat if registered else Api.BrokerRegistration)
        if target is None:
            return
        controller, version = target
        request = self._heartbeat(turn) if registered else self._registration(turn, version)
        purpose = HEARTBEAT if registered else REGISTER
        turn.net.send(turn.step, controller, CONNECTION, request, version, purpose, self._retry_timeout_ms(turn))
        self.sent = True

    def _registration(self, turn: Turn, version: int) -> BrokerRegistrationRequest:
        request = BrokerRegistrationRequest(
            broker_id=turn.settings.node_id,
            cluster_id=turn.settings.cluster.cluster_id,
            incarnation_id=self.incarnation_id,
        )
        if version >= 3 and "clean-shutdown-untold" not in turn.step.defects:
            request.previous_broker_epoch = self.previous_broker_epoch
        return request

    def _heartbeat(self, turn: Turn) -> BrokerHeartbeatRequest:
        return BrokerHeartbeatRequest(
            broker_id=turn.settings.node_id,
            broker_epoch=self.broker_epoch,
            current_metadata_offset=turn.image.last_applied_offset,
            want_fence=not self.ready_to_unfence,
            want_shut_down=self.state == "pending-controlled-shutdown",
        )

    def set_ready_to_unfence(self, turn: Turn) -> None:
        """The replicas are taken up: the controller may let clients come."""
        self.ready_to_unfence = True
        self._communicate_now(turn)

    def _communicate_now(self, turn: Turn) -> None:
        if self.asked:
            self.urgent = True
        else:
            self._schedule(turn, 0)

    def _schedule(self, turn: Turn, delay_ms: int) -> None:
        """The next request goes out after ``delay_ms``."""
        if delay_ms == 0 or self.urgent:
            self.urgent = False
            turn.step.cancel_timer(NEXT)
            self.ask(turn)
        else:
            turn.step.set_timer(NEXT, delay_ms)

    # ---- receiving ---------------------------------------------------------------------------------------

    def on_retry(self) -> None:
        """The pause before a request is tried again is over."""
        self.resting = False

    def on_expiry(self, turn: Turn) -> None:
        """A request is tried no more."""
        self.expired = True
        if not self.sent:
            self._failed(turn)

    def on_registration_timeout(self, turn: Turn) -> None:
        """Registering has taken as long as it may."""
        if self.broker_epoch < 0:
            self.failure = f"not registered within {turn.settings.initial_registration_timeout_ms} ms"
            self.state = "shutting-down"

    def on_shutdown_timeout(self) -> None:
        """The controller has not let this broker go in time."""
        self.state = "shutting-down"

    def on_ended(self, turn: Turn, ended: Ended) -> None:
        """Take an answer of the controller, or its absence. An error of the controller's waits for the heartbeat
        interval, whatever it is (STALE_BROKER_EPOCH, BROKER_ID_NOT_REGISTERED, DUPLICATE_BROKER_REGISTRATION): an
        incarnation never registers twice."""
        self.sent = False
        error = KafkaError.NONE if ended.response is None else KafkaError(ended.response.error_code)
        if ended.response is None or error == KafkaError.NOT_CONTROLLER:
            self._try_again(turn, moved=ended.response is not None)
        elif error:
            self._failed(turn)
        else:
            self.asked = False
            turn.step.cancel_timer(EXPIRY)
            if ended.purpose == REGISTER:
                self._registered(turn, ended.response)
            else:
                self._heard(turn, ended.response)

    def _try_again(self, turn: Turn, moved: bool) -> None:
        """The connection broke, or the controller is another by now. Kafka closes the connection to one that says so,
        and waits before it makes the next."""
        if self.expired:
            self._failed(turn)
        elif moved:
            self.resting = True
            turn.step.set_timer(RETRY, turn.settings.reconnect_backoff_ms)

    def _failed(self, turn: Turn) -> None:
        """Never at once, whatever was wanted."""
        self.asked = self.urgent = self.resting = False
        turn.step.cancel_timer(RETRY)
        turn.step.cancel_timer(EXPIRY)
        self._schedule(turn, turn.settings.heartbeat_interval_ms)

    def _registered(self, turn: Turn, response: BrokerRegistrationResponse) -> None:
        self.broker_epoch = response.broker_epoch
        turn.step.cancel_timer(REGISTRATION)
        self._schedule(turn, 0)

    def _heard(self, turn: Turn, response: BrokerHeartbeatResponse) -> None:
        delay_ms = turn.settings.heartbeat_interval_ms
        if "broker-beats-rarely" in turn.step.defects:
            delay_ms = 2 * turn.settings.session_timeout_ms
        if self.state == "starting":
            if response.is_caught_up or "takes-up-before-it-knows" in turn.step.defects:
                self.state = "recovery"
            delay_ms = STARTING_HEARTBEAT_MS
        elif self.state == "recovery":
            if not response.is_fenced:
                self.state = "running"
        elif self.state == "pending-controlled-shutdown":
            if response.should_shut_down:
                self.state = "shutting-down"
                return
            if not self.told_to_wait:
                delay_ms = LEAVING_HEARTBEAT_MS
            self.told_to_wait = True
        self._schedule(turn, delay_ms)

    # ---- shutdown ----------------------------------------------------------------------------------------

    def begin_shutdown(self, turn: Turn) -> None:
        """Ask the controller to move leadership away and wait for its leave, but not for ever; not at all where this
        broker never ran, or is not to ask."""
        if self.state == "pending-controlled-shutdown":
            return
        asks = turn.settings.controlled_shutdown and "shutdown-unasked" not in turn.step.defects
        if self.state != "running" or not asks:
            self.state = "shutting-down"
            return
        self.state = "pending-controlled-shutdown"
        turn.step.set_timer(SHUTDOWN, SHUTDOWN_TIMEOUT_MS)
        self._communicate_now(turn)


COMPONENT: Component[BrokerLifecycle, Turn] = Component(
    timers={
        NEXT: lambda lifecycle, turn, _: lifecycle.ask(turn),
        RETRY: lambda lifecycle, turn, _: lifecycle.on_retry(),
        EXPIRY: lambda lifecycle, turn, _: lifecycle.on_expiry(turn),
        REGISTRATION: lambda lifecycle, turn, _: lifecycle.on_registration_timeout(turn),
        SHUTDOWN: lambda lifecycle, turn, _: lifecycle.on_shutdown_timeout(),
    }
)
"""The broker takes what the controller answers, as more than this depends on it."""
