"""O10: that members which are heard stay in their groups."""

from __future__ import annotations

from typing import Any

from actors.config import CONFIG
from actors.node.errors import KafkaError
from actors.node.messages import Api
from actors.trace.events import ClockSet, ConsOwn, GrpLoad, NodeDown, NodeUp, Rpc, Stamped
from orchestrator.invariants.folds.fold import NOTHING, Emissions, KeyedInvariant, Profile, State, Witness, witness
from orchestrator.invariants.folds.pauses import EARLY_US
from orchestrator.invariants.folds.routes import NODE

COORDINATOR = "coordinator"
"""Connection of a member to the coordinator of its group."""
LIMITS = ("session.timeout.ms", "max.poll.interval.ms")
"""After which a coordinator removes a member: of which it hears nothing, or which does not join a rebalance."""
OF_MEMBERS = frozenset({Api.Heartbeat.name, Api.JoinGroup.name, Api.SyncGroup.name, Api.OffsetCommit.name})


class Heard(State):
    """Of a client. stays_us: how long it stays in its group at least when a coordinator has heard it. coordinator: who
    heard it last, "" nobody did in this membership; heard_us: when that heartbeat was sent, by: the event that tells of
    its answer. synced: it has its assignment in the present generation, so that nobody waits for its SyncGroup.
    loaded_us: broker -> when it last took up, gave up or read a partition with groups, or started. skewed: a clock was
    set."""

    stays_us: int = 0
    coordinator: str = ""
    heard_us: int = -1
    by: Witness | None = None
    synced: bool = False
    loaded_us: dict[str, int] = {}
    skewed: bool = False

    def forget(self) -> None:
        """Nobody has heard it as the member that it is now."""
        self.coordinator, self.heard_us, self.by, self.synced = "", -1, None, False


class HeardMembersStay(KeyedInvariant[Heard]):
    """A heartbeat is a member's only means to say that it is alive. A coordinator that does not heed it removes a
    healthy member again and again, and the group rebalances each time.

    Example: session.timeout.ms is 45 s. Broker-1 answered the heartbeat of consumer-1 without an error, and answers the
    next one, three seconds later, with UNKNOWN_MEMBER_ID: the member was removed meanwhile. It may be removed for its
    silence after 45 s, and for a rebalance that it does not join after its max.poll.interval.ms.
    """

    id = "O10"
    title = "A coordinator keeps a member for its session timeout after its last heartbeat"
    source = "KIP-62; Kafka's GroupMetadataManager.classicGroupHeartbeat, rescheduleClassicGroupMemberHeartbeat"
    tested_when = "a coordinator that has answered a member's heartbeat answers it again"
    route = NODE
    of_groups = True
    types = (Rpc, ConsOwn)
    unseen = (
        "a member that is removed, and does not ask the same coordinator before its session would have ended anyway",
        "members without an assignment in the present generation: the coordinator may have waited long for them",
        "coordinators that read their log since the heartbeat: O7 judges that, and what was not committed is not in it",
        "members in runs in which a clock was set",
    )

    @property
    def news(self) -> tuple[type, ...]:
        return (GrpLoad, NodeUp, NodeDown, ClockSet)

    def initial(self, key: str, profile: Profile) -> Heard:
        limits = (int(profile.setting(name, key, CONFIG[name].default)) for name in LIMITS)
        return Heard(key, stays_us=1000 * min(limits))

    def hear(self, state: Heard, event: Stamped) -> Emissions:
        if type(event.body) is ClockSet:
            state.skewed = True
            return NOTHING
        state.loaded_us[event.node] = event.wall
        if event.node in (state.key, state.coordinator):
            state.forget()
        return NOTHING

    def step(self, state: Heard, event: Stamped) -> Emissions:
        body: Any = event.body
        if type(body) is ConsOwn:
            if body.reason == "leave":
                state.forget()
            return NOTHING
        if body.connection == COORDINATOR and body.api == Api.LeaveGroup.name:
            state.forget()
        if body.connection != COORDINATOR or body.outcome != "answered" or body.api not in OF_MEMBERS:
            return NOTHING
        found = self._answered(state, event, body)
        self._note(state, event, body)
        return found

    def _answered(self, state: Heard, event: Stamped, body: Rpc) -> Emissions:
        if body.dst != state.coordinator or state.skewed:
            return NOTHING
        state.tested += 1
        since_us = event.wall - state.heard_us
        if KafkaError.UNKNOWN_MEMBER_ID not in body.errors or since_us >= state.stays_us - EARLY_US:
            return NOTHING
        sentence = (
            f"{body.dst} answered the {body.api} of {state.key} with UNKNOWN_MEMBER_ID {since_us // 1000:,} ms after "
            "it was sent a heartbeat that it answered without an error, before the member's "
            f"{state.stays_us // 1000:,} ms were over"
        )
        return self.violated(state.key, sentence, state.by, event)

    def _note(self, state: Heard, event: Stamped, body: Rpc) -> None:
        if body.errors and body.api != Api.OffsetCommit.name:
            if KafkaError.REBALANCE_IN_PROGRESS not in body.errors:
                state.forget()
        elif body.api == Api.JoinGroup.name:
            state.forget()
        elif body.api == Api.SyncGroup.name:
            state.synced = True
        elif body.api == Api.Heartbeat.name and state.synced:
            sent_us = event.wall - 1000 * body.took_ms - EARLY_US
            if sent_us > state.loaded_us.get(body.dst, -1):
                state.coordinator, state.heard_us, state.by = body.dst, sent_us, witness(event)
