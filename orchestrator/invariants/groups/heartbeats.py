"""O10: that members which are heard stay in their groups."""

from __future__ import annotations

from typing import Any

import msgspec

from actors.config import CONFIG
from actors.node.errors import KafkaError
from actors.node.messages import Api
from actors.trace.events import (
    ClockSet,
    ConsOwn,
    ConsStall,
    CtlFault,
    CtlPhase,
    GrpGen,
    GrpLoad,
    GrpOut,
    NodeDown,
    NodeUp,
    Rpc,
    Stamped,
)
from orchestrator.invariants.folds.bounds import SLACK_US
from orchestrator.invariants.folds.fold import NOTHING, Emissions, KeyedInvariant, Profile, State, Witness, witness
from orchestrator.invariants.folds.pauses import EARLY_US
from orchestrator.invariants.folds.routes import NODE
from orchestrator.invariants.groups.beats import LATE_US, Beats
from orchestrator.invariants.groups.contact import COORDINATOR, Contact, contact, sent_us
from orchestrator.invariants.groups.stalls import Stalls

LIMITS = ("session.timeout.ms", "max.poll.interval.ms")
"""After which a coordinator removes a member: of which it hears nothing, or which does not join a rebalance."""
INTERVAL, INSTANCE, LEAVES = "heartbeat.interval.ms", "group.instance.id", "internal.leave.group.on.close"
OF_MEMBERS = frozenset({Api.Heartbeat.name, Api.JoinGroup.name, Api.SyncGroup.name, Api.OffsetCommit.name})


class Sign(msgspec.Struct, frozen=True):
    """That a broker knows of a member, since when at the earliest, and the event that tells so."""

    node: str
    member: str
    us: int
    by: Witness


class Formed(msgspec.Struct, frozen=True):
    """The generation in which a broker has a group, since when by any clock, and the event that tells so."""

    generation: int
    us: int
    by: Witness


class Leaving(msgspec.Struct, frozen=True):
    """A member whose application closes its consumer. at_end: as the run ends."""

    member: str
    at_end: bool
    by: Witness


class Heard(State):
    """Of a client. epsilon_us: by how much the clocks of machines may differ. group: that it is in; session_us: its
    session; member: as which it has its assignment, "" it may be another one by now. kept: whom it sent its
    last heartbeat that was answered, as which member; reader: who has read that member from its log.
    stays_us: how long it stays in its group at least when a coordinator has heard it. coordinator: who
    heard it last, "" nobody did in this membership; heard_us: when that heartbeat was sent, by: the event that tells of
    its answer. synced: it has its assignment in the present generation, so that nobody waits for its SyncGroup.
    loaded_us: broker -> when it last took up, gave up or read a partition with groups, or started. generation: in which
    it has its assignment, -1 it may be in another one by now; formed: broker -> in which it has the group. leaves: it
    leaves when it is closed; contact: whether it knows its coordinator; beats: when its next heartbeat is due. stalls:
    whether its application polls. leaving: it has yet to ask to leave. draining: the run ends. skewed: a clock was
    set."""

    epsilon_us: int = 0
    group: str = ""
    session_us: int = 0
    member: str = ""
    kept: Sign | None = None
    reader: Sign | None = None
    stays_us: int = 0
    coordinator: str = ""
    heard_us: int = -1
    by: Witness | None = None
    synced: bool = False
    loaded_us: dict[str, int] = {}
    generation: int = -1
    formed: dict[str, Formed] = {}
    leaves: bool = False
    contact: Contact = msgspec.field(default_factory=Contact)
    beats: Beats = msgspec.field(default_factory=lambda: Beats(0))
    stalls: Stalls = msgspec.field(default_factory=Stalls)
    leaving: Leaving | None = None
    draining: bool = False
    skewed: bool = False

    def forget(self) -> None:
        """Nobody has heard it as the member that it is now."""
        self.coordinator, self.heard_us, self.by, self.synced = "", -1, None, False

    def begin_anew(self) -> None:
        """It may be another member by now, or none."""
        self.forget()
        self.member, self.reader, self.generation = "", None, -1


class HeardMembersStay(KeyedInvariant[Heard]):
    """A heartbeat is a member's only means to say that it is alive. A coordinator that does not heed it removes a
    healthy member again and again, and the group rebalances each time.

    Example: session.timeout.ms is 45 s. Broker-1 answered the heartbeat of consumer-1 without an error, and answers the
    next one, three seconds later, with UNKNOWN_MEMBER_ID: the member was removed meanwhile. It may be removed for its
    silence after 45 s, and for a rebalance that it does not join after its max.poll.interval.ms. A coordinator that has
    read the member from its log must know it for as long.

    A heartbeat is also a member's only means to hear of a rebalance. Example: consumer-1 is a static member, and is cut
    off while broker-1 forms generation 5 without waiting for it any longer. In its next heartbeat it says that it is in
    generation 4. If broker-1 answers that without an error, consumer-1 reads on what others have by now.

    Who does not send heartbeats any more has to say so. Example: the application of consumer-2 closes its consumer, and
    makes another one, without a LeaveGroup: nobody reads the partitions of the former one for 45 s. And who sends them
    too rarely is removed, rightly, again and again: consumer-3 sends one each 45 s instead of each 3 s.

    Who is alive and does nothing has to give up its place. Example: the application of consumer-4 has not polled for
    max.poll.interval.ms, and consumer-4 sends heartbeats all the same, so that nobody reads its partitions.
    """

    id = "O10"
    title = (
        "A coordinator keeps a member for its session timeout after its last heartbeat, if it is in the generation; a "
        "member sends heartbeats at its interval, and leaves when it is closed"
    )
    source = (
        "KIP-62; KIP-345; GroupMetadataManager.classicGroupHeartbeat, rescheduleClassicGroupMemberHeartbeat; "
        "AbstractCoordinator.maybeLeaveGroup; Heartbeat.timeToNextHeartbeat"
    )
    tested_when = (
        "a coordinator that knows a member answers it again, or puts it out for its silence, or answers a heartbeat of "
        "a former generation; and a member sends a heartbeat after a call that its coordinator has answered, or a "
        "dynamic one is closed that knows its coordinator, or one that had sent heartbeats does not poll for longer "
        "than max.poll.interval.ms"
    )
    route = NODE
    of_groups = True
    types = (Rpc, ConsOwn, ConsStall)
    unseen = (
        (
            "a member that is removed for another reason than its silence, and does not ask the same coordinator "
            "before its session would have ended anyway"
        ),
        "members without an assignment in the present generation: the coordinator may have waited long for them",
        "members that are not in the log which their coordinator read: O7 judges that, and it need not be committed",
        (
            "members that are closed without a heartbeat, answered without an error, in their last two intervals: they "
            "may have lost their coordinator"
        ),
        "the first heartbeat after a call of the member that failed, or was refused, and after a pause of its process",
        "whether a member whose application does not poll says that it leaves: it may have lost its coordinator",
        "how long an application that waits for a commit of its own does not poll",
        "members in runs in which a clock was set",
    )

    @property
    def news(self) -> tuple[type, ...]:
        return (GrpGen, GrpLoad, GrpOut, NodeUp, NodeDown, ClockSet, CtlFault, CtlPhase)

    def initial(self, key: str, profile: Profile) -> Heard:
        session_us, poll_us = (1000 * profile.number(name, key) for name in LIMITS)
        group = next((name for name, each in profile.groups.items() if key in each.get("members", ())), "")
        interval_ms = profile.number(INTERVAL, key)
        leaves = profile.setting(LEAVES, key, CONFIG[LEAVES].default) and not profile.setting(INSTANCE, key, "")
        return Heard(
            key,
            epsilon_us=profile.epsilon_us,
            group=group,
            session_us=session_us,
            stays_us=min(session_us, poll_us),
            leaves=bool(leaves),
            contact=contact(interval_ms, session_us // 1000),
            beats=Beats(1000 * interval_ms, LATE_US if profile.runtime == "sim" else SLACK_US),
            stalls=Stalls(poll_us),
        )

    # ---- coordinators -----------------------------------------------------------------------------------------

    def hear(self, state: Heard, event: Stamped) -> Emissions:
        body: Any = event.body
        kind = type(body)
        if kind is ClockSet:
            state.skewed = True
        elif kind is GrpOut:
            return self._put_out(state, event, body) if body.client == state.key else NOTHING
        elif kind is CtlPhase:
            return self._phase(state, event, body)
        elif kind is CtlFault:
            state.beats.faulted(state.key, body)
            state.stalls.faulted(state.key, body)
        elif kind is GrpGen:
            if body.group == state.group:
                self._formed(state, event, body.state != "Dead", body.generation)
        else:
            self._began(state, event)
            if kind is GrpLoad and body.loaded:
                self._loaded(state, event, body)
        return NOTHING

    @staticmethod
    def _began(state: Heard, event: Stamped) -> None:
        """A process starts or ends, or a broker knows other groups than before."""
        state.loaded_us[event.node] = event.wall
        state.formed.pop(event.node, None)
        if event.node == state.contact.broker:
            state.beats.begin_anew()
        state.contact.lose(event.node)
        if event.node == state.key:
            state.contact.broker = ""
            state.beats.begin_anew()
            state.stalls.begin_anew()
            state.begin_anew()
            state.leaving = None
        elif event.node == state.coordinator:
            state.forget()
        if state.reader is not None and state.reader.node == event.node:
            state.reader = None

    @staticmethod
    def _formed(state: Heard, event: Stamped, lives: bool, generation: int) -> None:
        """A broker has the group, in a generation, or does not have it any more."""
        known = state.formed.get(event.node)
        if not lives:
            state.formed.pop(event.node, None)
        elif known is None or known.generation != generation:
            state.formed[event.node] = Formed(generation, event.wall + state.epsilon_us, witness(event))

    def _loaded(self, state: Heard, event: Stamped, body: GrpLoad) -> None:
        if state.group in body.groups:
            self._formed(state, event, True, body.groups[state.group][1])
        if state.member and state.member in body.members.get(state.group, ()):
            state.reader = Sign(event.node, state.member, event.wall, witness(event))

    def _put_out(self, state: Heard, event: Stamped, body: GrpOut) -> Emissions:
        kept = state.kept
        if body.why != "session" or state.skewed or kept is None:
            return NOTHING
        if (kept.node, kept.member) != (event.node, body.member):
            return NOTHING
        state.tested += 1
        since_us = event.wall - kept.us
        if since_us >= state.session_us - EARLY_US:
            return NOTHING
        sentence = (
            f"{event.node} put {body.member} out of group {body.group} for its silence {since_us // 1000:,} ms after "
            f"{state.key} sent a heartbeat that was answered without an error; its session.timeout.ms is "
            f"{state.session_us // 1000:,} ms"
        )
        return self.violated(state.key, sentence, kept.by, event)

    # ---- the member -------------------------------------------------------------------------------------------

    def _phase(self, state: Heard, event: Stamped, body: CtlPhase) -> Emissions:
        """A run that is completed waits for the end of all clients' work, and with it for that of their calls."""
        if body.phase == "draining":
            state.draining = True
        completed = body.phase == "finished" and not body.detail
        return self._left_out(state, event) if completed and state.leaving and state.leaving.at_end else NOTHING

    def _left_out(self, state: Heard, event: Stamped) -> Emissions:
        leaving, state.leaving = state.leaving, None
        if leaving is None or state.skewed:
            return NOTHING
        state.tested += 1
        sentence = (
            f"{state.key} was closed, and sent no LeaveGroup for its member {leaving.member} of group {state.group}, "
            "although it knew its coordinator"
        )
        return self.violated(state.key, sentence, leaving.by, event)

    def _called(self, state: Heard, event: Stamped, body: Rpc) -> None:
        """A call to a coordinator ended: what it says of whether the member knows its coordinator."""
        if body.api == Api.LeaveGroup.name:
            state.tested += state.leaving is not None
            state.leaving = None
            state.begin_anew()
        elif body.api == Api.JoinGroup.name:
            state.generation = -1
        state.contact.called(event, body)

    def _goes(self, state: Heard, event: Stamped, body: ConsOwn) -> Emissions:
        """The application closes its consumer, or makes a new one after that."""
        if body.reason == "join":
            state.stalls.joined(event.wall)
            return self._left_out(state, event)
        knows = state.contact.is_near(event.wall) and not state.skewed
        if body.reason == "leave" and state.leaves and knows and body.member and body.generation >= 0:
            state.leaving = Leaving(body.member, state.draining, witness(event))
        return NOTHING

    def step(self, state: Heard, event: Stamped) -> Emissions:
        body: Any = event.body
        if type(body) is ConsStall:
            state.tested += state.stalls.told(event, body) and not state.skewed
            return NOTHING
        if type(body) is ConsOwn:
            found = self._goes(state, event, body)
            if body.reason == "assign":
                state.member, state.generation = body.member, body.generation
            elif body.reason != "revoke":
                state.member, state.reader, state.generation = "", None, -1
            if body.reason == "leave":
                state.forget()
            if body.reason in ("leave", "lost"):
                state.beats.begin_anew()
            return found
        if body.api == Api.FindCoordinator.name:
            state.beats.begin_anew()
        if body.connection != COORDINATOR:
            return NOTHING
        beats = self._beats(state, event, body)
        self._called(state, event, body)
        if body.outcome != "answered" or body.api not in OF_MEMBERS:
            return beats
        found = [*beats, *self._answered(state, event, body), *self._of_former(state, event, body)]
        self._note(state, event, body)
        return found

    def _beats(self, state: Heard, event: Stamped, body: Rpc) -> Emissions:
        before = state.beats.by
        waited_us = state.beats.called(event, body)
        stalled_us = state.stalls.called(event, body)
        if stalled_us >= 0 and not state.skewed:
            sentence = (
                f"{state.key} sent a heartbeat although its application had not polled for {stalled_us // 1000:,} ms, "
                f"and its {LIMITS[1]} is {state.stalls.limit_us // 1000:,} ms"
            )
            return self.violated(state.key, sentence, state.stalls.by, event)
        if waited_us < 0 or state.skewed:
            return NOTHING
        state.tested += 1
        if not state.beats.is_late(waited_us):
            return NOTHING
        sentence = (
            f"{state.key} sent a heartbeat {waited_us // 1000:,} ms after its coordinator had answered the call before,"
            f" and its {INTERVAL} is {state.beats.interval_us // 1000:,} ms"
        )
        return self.violated(state.key, sentence, before, event)

    def _answered(self, state: Heard, event: Stamped, body: Rpc) -> Emissions:
        if state.skewed:
            return NOTHING
        if body.dst != state.coordinator:
            return self._answered_by_reader(state, event, body)
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

    def _answered_by_reader(self, state: Heard, event: Stamped, body: Rpc) -> Emissions:
        reader = state.reader
        if reader is None or body.dst != reader.node or sent_us(event, body) <= reader.us:
            return NOTHING
        state.tested += 1
        since_us = event.wall - reader.us
        if KafkaError.UNKNOWN_MEMBER_ID not in body.errors or since_us >= state.stays_us - EARLY_US:
            return NOTHING
        sentence = (
            f"{body.dst} answered the {body.api} of {state.key} with UNKNOWN_MEMBER_ID {since_us // 1000:,} ms after "
            f"it had read the member {reader.member} from its log, before its {state.stays_us // 1000:,} ms were over"
        )
        return self.violated(state.key, sentence, reader.by, event)

    def _of_former(self, state: Heard, event: Stamped, body: Rpc) -> Emissions:
        """A heartbeat, sent when its coordinator had the group in a later generation already."""
        formed = state.formed.get(body.dst)
        if state.skewed or body.api != Api.Heartbeat.name or formed is None:
            return NOTHING
        if not 0 <= state.generation < formed.generation or sent_us(event, body) <= formed.us:
            return NOTHING
        state.tested += 1
        if body.errors:
            return NOTHING
        sentence = (
            f"{body.dst} answered the heartbeat of {state.key}, which was in generation {state.generation}, without an "
            f"error, although it had group {state.group} in generation {formed.generation} by then"
        )
        return self.violated(state.key, sentence, formed.by, event)

    def _note(self, state: Heard, event: Stamped, body: Rpc) -> None:
        if body.errors and body.api == Api.OffsetCommit.name:
            state.reader = None
        elif body.errors:
            if KafkaError.REBALANCE_IN_PROGRESS not in body.errors:
                state.begin_anew()
        elif body.api == Api.JoinGroup.name:
            state.begin_anew()
        elif body.api == Api.SyncGroup.name:
            state.synced = True
        elif body.api == Api.Heartbeat.name and state.synced:
            sent = sent_us(event, body)
            if sent > state.loaded_us.get(body.dst, -1):
                state.coordinator, state.heard_us, state.by = body.dst, sent, witness(event)
                if state.member:
                    state.kept = Sign(body.dst, state.member, sent, witness(event))
