"""Registration, heartbeats, unfencing, controlled shutdown (``core/.../server/BrokerLifecycleManager.scala``).

A started broker registers, catches up with the metadata log as far as its own registration, and only then takes up
its replicas and opens its doors.
"""

from __future__ import annotations

import json
from typing import Any, Literal

import msgspec

from actors.broker.turn import Turn
from actors.node.errors import KafkaError
from actors.node.events import DiskImage
from actors.node.messages import Api
from actors.node.network_client import Ended
from krift.v1.controller_pb2 import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)

CONNECTION = "heartbeat"
"""A connection of its own, as in Kafka: an AlterPartition that waits for its commit must not hold up heartbeats."""
REGISTER = "lifecycle/register"
HEARTBEAT = "lifecycle/heartbeat"
TIMER = "lifecycle"
CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"
BACKOFF_MS = 100

State = Literal["starting", "catching-up", "fenced", "running", "shutting-down", "stopped"]


class BrokerLifecycle(msgspec.Struct):
    """Where this broker stands with the controller.

    starting: not registered; catching-up: registered, but its image lacks its own registration; fenced; running;
    shutting-down: asks to leave; stopped: may stop. ``due``: something is to be sent as soon as it can be.
    """

    state: State = "starting"
    incarnation_id: str = ""
    previous_broker_epoch: int = -1
    broker_epoch: int = -1
    due: bool = True
    in_flight: bool = False
    failures: int = 0
    shutdown_operation: str = ""

    def start(self, turn: Turn, name: str, incarnation: int, disk: DiskImage) -> None:
        """Read the clean-shutdown file, and take it away: it stands for the next start only if this one ends well."""
        self.incarnation_id = f"{name}/{incarnation}"
        entries = disk.get(CLEAN_SHUTDOWN_FILE) or [b""]
        if entries[0]:
            self.previous_broker_epoch = int(json.loads(entries[0])["brokerEpoch"])
            turn.files.replace(turn.step, CLEAN_SHUTDOWN_FILE, b"")

    @property
    def is_caught_up(self) -> bool:
        """Whether the controller saw this broker's image pass its registration: it may take up its replicas and serve,
        even while it is fenced."""
        return self.state in ("fenced", "running")

    # ---- sending -----------------------------------------------------------------------------------------

    def poll(self, turn: Turn) -> None:
        """Send the registration or heartbeat that is due, if the controller can be reached."""
        if not self.due or self.in_flight or self.state == "stopped":
            return
        api = Api.BrokerRegistration if self.broker_epoch < 0 else Api.BrokerHeartbeat
        target = turn.reachable_controller(CONNECTION, api)
        if target is None:
            return
        controller, version = target
        request = self._registration(turn, version) if self.broker_epoch < 0 else self._heartbeat(turn)
        purpose = REGISTER if self.broker_epoch < 0 else HEARTBEAT
        timeout_ms = max(1, turn.settings.session_timeout_ms // 2)
        turn.net.send(turn.step, controller, CONNECTION, request, version, purpose, timeout_ms)
        self.due, self.in_flight = False, True

    def _registration(self, turn: Turn, version: int) -> BrokerRegistrationRequest:
        request = BrokerRegistrationRequest(
            broker_id=turn.settings.node_id,
            cluster_id=turn.settings.cluster.cluster_id,
            incarnation_id=self.incarnation_id,
        )
        if version >= 3:
            request.previous_broker_epoch = self.previous_broker_epoch
        return request

    def _heartbeat(self, turn: Turn) -> BrokerHeartbeatRequest:
        return BrokerHeartbeatRequest(
            broker_id=turn.settings.node_id,
            broker_epoch=self.broker_epoch,
            current_metadata_offset=turn.image.last_applied_offset,
            want_fence=self.state == "catching-up",
            want_shut_down=self.state == "shutting-down",
        )

    def _again_after(self, turn: Turn, delay_ms: int) -> None:
        turn.step.set_timer(TIMER, delay_ms)

    # ---- receiving ---------------------------------------------------------------------------------------

    def on_timer(self) -> None:
        """The next registration or heartbeat is due."""
        self.due = True

    def on_ended(self, turn: Turn, ended: Ended) -> None:
        """Take an answer of the controller, or its absence."""
        self.in_flight = False
        if ended.response is None or ended.response.error_code:
            self._failed(turn, ended)
            return
        self.failures = 0
        if ended.purpose == REGISTER:
            self._registered(ended.response)
        else:
            self._heard(turn, ended.response)

    def _failed(self, turn: Turn, ended: Ended) -> None:
        """Try again: soon where only the controller has moved, else after a growing pause."""
        if ended.response is not None and ended.response.error_code == KafkaError.NOT_CONTROLLER:
            self._again_after(turn, BACKOFF_MS)
            return
        delay_ms = min(BACKOFF_MS << min(self.failures, 10), turn.settings.heartbeat_interval_ms)
        self.failures += 1
        self._again_after(turn, max(1, delay_ms))

    def _registered(self, response: BrokerRegistrationResponse) -> None:
        self.broker_epoch = response.broker_epoch
        self.state = "catching-up"
        self.due = True

    def _heard(self, turn: Turn, response: BrokerHeartbeatResponse) -> None:
        at_once = False
        if self.state == "catching-up":
            if response.is_caught_up:
                self.state, at_once = "fenced", True
        elif self.state == "shutting-down":
            if response.should_shut_down:
                self.state = "stopped"
                return
        else:
            self.state = "fenced" if response.is_fenced else "running"
        if at_once:
            self.due = True
        else:
            self._again_after(turn, turn.settings.heartbeat_interval_ms)

    # ---- shutdown ----------------------------------------------------------------------------------------

    def begin_shutdown(self, operation: str) -> None:
        """Ask the controller to move leadership away; the operation completes when it agrees."""
        self.shutdown_operation = operation
        self.state = "shutting-down" if self.broker_epoch >= 0 else "stopped"
        self.due = True

    def clean_shutdown_content(self) -> bytes:
        """What the next incarnation reads of this one."""
        content: dict[str, Any] = {"version": 0, "brokerEpoch": self.broker_epoch}
        return json.dumps(content).encode()
