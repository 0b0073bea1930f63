"""Sessions of brokers and the states they move through (``BrokerHeartbeatManager.java``, ``BrokerHeartbeatTracker``).

Only the active controller has them; a new one begins with fresh sessions.
"""

from __future__ import annotations

from enum import Enum

import msgspec

from actors.controller.controller_state import ControllerState
from actors.metadata.registrations import BrokerRegistration
from krift.v1.controller import BrokerHeartbeatRequest


class BrokerControlState(Enum):
    """What the controller lets a broker be."""

    FENCED = "FENCED"
    UNFENCED = "UNFENCED"
    CONTROLLED_SHUTDOWN = "CONTROLLED_SHUTDOWN"
    SHUTDOWN_NOW = "SHUTDOWN_NOW"

    @property
    def fenced(self) -> bool:
        """Whether the broker may neither lead nor be in an ISR."""
        return self in (BrokerControlState.FENCED, BrokerControlState.SHUTDOWN_NOW)


class BrokerSession(msgspec.Struct, frozen=True):
    """When a broker was last heard of with this broker epoch."""

    broker_epoch: int
    contact_ms: int


class BrokerHeartbeatState(msgspec.Struct):
    """``metadata_offset``: last offset the broker said it has replayed (-1 none). ``controlled_shutdown_offset``:
    metadata offset of its last leadership's move, -1 while it is not shutting down."""

    metadata_offset: int = -1
    controlled_shutdown_offset: int = -1


class BrokerHeartbeatManager(msgspec.Struct):
    """Sessions and heartbeat states, by broker id."""

    session_timeout_ms: int = 9000
    sessions: dict[int, BrokerSession] = {}
    states: dict[int, BrokerHeartbeatState] = {}

    # ---- sessions ----------------------------------------------------------------------------------------

    def activate(self, now_ms: int, state: ControllerState) -> None:
        """This controller becomes active: every unfenced broker has just been heard of, as far as it knows."""
        self.states = {broker: BrokerHeartbeatState() for broker in state.brokers}
        self.sessions = {
            broker.id: BrokerSession(broker.epoch, now_ms) for broker in state.brokers.values() if not broker.fenced
        }

    def track(self, broker_id: int, broker_epoch: int, now_ms: int) -> None:
        """A broker was heard of."""
        self.sessions[broker_id] = BrokerSession(broker_epoch, now_ms)

    def has_valid_session(self, broker_id: int, broker_epoch: int, now_ms: int) -> bool:
        """Whether this registration was heard of within the session timeout."""
        session = self.sessions.get(broker_id)
        return session is not None and session.broker_epoch == broker_epoch and not self._expired(session, now_ms)

    def remove_session(self, broker_id: int) -> None:
        """The broker is gone for good, or a new incarnation takes its place."""
        self.sessions.pop(broker_id, None)

    def take_expired(self, now_ms: int) -> tuple[int, BrokerSession] | None:
        """Remove and return the session that has been silent for longest, if its time is over."""
        expired = [(s.contact_ms, broker) for broker, s in self.sessions.items() if self._expired(s, now_ms)]
        if not expired:
            return None
        _, broker_id = min(expired)
        return broker_id, self.sessions.pop(broker_id)

    def _expired(self, session: BrokerSession, now_ms: int) -> bool:
        return session.contact_ms + self.session_timeout_ms < now_ms

    # ---- states ------------------------------------------------------------------------------------------

    def register(self, broker_id: int, new_incarnation: bool) -> None:
        """A broker has registered: what its former heartbeats said is void, as is the session of a former
        incarnation."""
        self.states[broker_id] = BrokerHeartbeatState()
        if new_incarnation:
            self.remove_session(broker_id)

    def fence(self, broker_id: int) -> None:
        """A broker's session was over. It leaves controlled shutdown."""
        self.states[broker_id].controlled_shutdown_offset = -1

    def touch(self, broker_id: int, fenced: bool, metadata_offset: int) -> None:
        """Note a heartbeat. A broker that is fenced leaves controlled shutdown."""
        state = self.states.setdefault(broker_id, BrokerHeartbeatState())
        state.metadata_offset = metadata_offset
        if fenced:
            state.controlled_shutdown_offset = -1

    def begin_controlled_shutdown(self, broker_id: int, offset: int, anew: bool) -> None:
        """The leaderships were moved at ``offset``; only the first call counts, unless it is to begin ``anew``."""
        state = self.states.setdefault(broker_id, BrokerHeartbeatState())
        if state.controlled_shutdown_offset < 0 or anew:
            state.controlled_shutdown_offset = offset

    def lowest_active_offset(self, state: ControllerState) -> int:
        """How far the slowest active broker has replayed the log; very far if there is none."""
        offsets = [each.metadata_offset for broker, each in self.states.items() if self._is_active(broker, state)]
        return min(offsets, default=2**63 - 1)

    def _is_active(self, broker_id: int, state: ControllerState) -> bool:
        broker = state.brokers.get(broker_id)
        return broker is not None and not broker.fenced and self.states[broker_id].controlled_shutdown_offset < 0

    def current_state(self, broker: BrokerRegistration) -> BrokerControlState:
        """What a broker is now. A shutdown that a former active controller began is not known here."""
        if self.states.setdefault(broker.id, BrokerHeartbeatState()).controlled_shutdown_offset >= 0:
            return BrokerControlState.CONTROLLED_SHUTDOWN
        return BrokerControlState.FENCED if broker.fenced else BrokerControlState.UNFENCED

    def next_state(
        self, broker: BrokerRegistration, request: BrokerHeartbeatRequest, leads: bool, state: ControllerState
    ) -> BrokerControlState:
        """What a heartbeat makes of its sender. ``leads``: it leads at least one partition."""
        current = self.current_state(broker)
        if current is BrokerControlState.FENCED:
            if request.want_shut_down:
                return BrokerControlState.SHUTDOWN_NOW
            caught_up = request.current_metadata_offset >= broker.offset
            return BrokerControlState.UNFENCED if caught_up and not request.want_fence else current
        if current is BrokerControlState.UNFENCED:
            if request.want_fence:
                return BrokerControlState.SHUTDOWN_NOW if request.want_shut_down else BrokerControlState.FENCED
            if request.want_shut_down:
                return BrokerControlState.CONTROLLED_SHUTDOWN if leads else BrokerControlState.SHUTDOWN_NOW
            return current
        if leads:
            return current
        # The last leaderships have moved; wait until every active broker knows, lest it sends clients here.
        moved_at = self.states[broker.id].controlled_shutdown_offset
        return BrokerControlState.SHUTDOWN_NOW if moved_at <= self.lowest_active_offset(state) else current
