"""O11: that members which commit by themselves do so in time, and before they give partitions up."""

from __future__ import annotations

from typing import Any

import msgspec

from actors.node.messages import Api
from actors.trace.events import (
    ClockSet,
    CommitInvoke,
    CommitReturn,
    ConsClose,
    ConsOwn,
    ConsPos,
    ErrorSeen,
    MetaView,
    NodeDown,
    NodeUp,
    PollReturn,
    Rpc,
    Stamped,
)
from orchestrator.invariants.folds.fold import NOTHING, Emissions, KeyedInvariant, Profile, State, Witness, witness
from orchestrator.invariants.folds.routes import NODE
from orchestrator.invariants.groups.contact import COORDINATOR, Contact, contact, sent_us

INTERVAL, HEARTBEAT, SESSION = "auto.commit.interval.ms", "heartbeat.interval.ms", "session.timeout.ms"
LATE_US = 1_000_000
"""For the timer of a process that was stopped, when it goes on."""
SETTLED = 2
"""After so many polls that returned records of a partition, its position is checked against the leader that the client
knows: the Fetch of the second one was sent after the first one."""


class Given(msgspec.Struct):
    """Of a partition that a member owns. polls: how often its application was given records of it since the client
    heard of leaders, or of an error there; by: the last time. committed: the member has asked to commit that."""

    polls: int
    by: Witness
    committed: bool = False


class Overdue(msgspec.Struct, frozen=True):
    """A member ought to have committed by itself before, or in the step of, an event."""

    us: int
    by: Witness


class Owned(State):
    """Of a client. automatic: it has committed by itself in this run, and so does it always. given: by partition.
    interval_us: of its commits; since_us: when it began to wait for the next one, -1 it may not wait for one. open: its
    commits that have not ended. contact: whether it knows its coordinator. overdue: None it is not known to be late.
    skewed: a clock was set. closing: what it has to commit before it is closed, None it is not being closed."""

    automatic: bool = False
    given: dict[str, Given] = {}
    interval_us: int = 0
    since_us: int = -1
    open: set[str] = set()
    contact: Contact = msgspec.field(default_factory=Contact)
    overdue: Overdue | None = None
    skewed: bool = False
    closing: dict[str, Given] | None = None


class AutomaticCommitsAreMade(KeyedInvariant[Owned]):
    """Before a member joins a rebalance it gives up what it owns, and commits how far it has come, if it does so by
    itself. Otherwise whoever gets its partitions gives the same records to its application once more, as many as there
    are in auto.commit.interval.ms, in each rebalance, though nobody has died.

    Example: consumer-1 has committed 40 of orders-0, its application was given the records up to 90, and consumer-2
    comes to the group. Consumer-1 revokes orders-0 without a commit, and consumer-2 begins at 40.

    Or consumer-1, whose auto.commit.interval.ms is 5 s, has committed once and never again, though it goes on to read
    and to send heartbeats. When it dies, its successor begins where it was an hour ago.

    A member that is closed commits first, too, as long as it has its place in the group. Otherwise each restart of an
    application gives its records once more, though it ended as it should.
    """

    id = "O11"
    title = (
        "A member that commits by itself does so each auto.commit.interval.ms, "
        "and before it revokes a partition or is closed"
    )
    source = "Kafka's ConsumerCoordinator.onJoinPrepare, maybeAutoCommitOffsetsAsync, close"
    tested_when = (
        "a member that commits by itself commits after its interval, or revokes a partition of which its application "
        "was given records, or is closed while it owns one"
    )
    route = NODE
    of_groups = True
    types = (CommitInvoke, CommitReturn, ConsClose, ConsOwn, ConsPos, ErrorSeen, MetaView, PollReturn, Rpc)
    unseen = (
        "commits that are late, but are made before a heartbeat has told that the member knew its coordinator",
        "members that wait for the end of a commit, and members in runs in which a clock was set",
        "members that are closed while they join, or after an error that ended their membership: they commit nothing",
        "members of which no automatic commit was seen yet: settings alone do not tell who commits by itself",
        (
            "a partition of which the application was given records less than twice since the client heard of leaders, "
            "or of an error there: a position that is being validated, or reset, is not committed"
        ),
        "what the position is, and what becomes of the commit: O3 judges the one, and O1 the other",
        "members that keep what they own while they join (cooperative): they commit as well, and give nothing up then",
    )

    @property
    def news(self) -> tuple[type, ...]:
        return (ClockSet, NodeDown, NodeUp)

    def initial(self, key: str, profile: Profile) -> Owned:
        interval_ms, heartbeat_ms, session_ms = (profile.number(name, key) for name in (INTERVAL, HEARTBEAT, SESSION))
        return Owned(key, interval_us=1000 * interval_ms, contact=contact(heartbeat_ms, session_ms))

    def hear(self, state: Owned, event: Stamped) -> Emissions:
        if type(event.body) is ClockSet:
            state.skewed = True
        elif event.node == state.key:
            state.given.clear()
            state.open.clear()
            state.closing = None
            state.contact.broker = ""
            self._begins(state, -1)
        else:
            state.contact.lose(event.node)
        return NOTHING

    @staticmethod
    def _begins(state: Owned, since_us: int) -> None:
        """It waits for its next commit from then on, or may not wait for one."""
        state.since_us, state.overdue = since_us, None

    def step(self, state: Owned, event: Stamped) -> Emissions:
        body: Any = event.body
        kind = type(body)
        if kind is PollReturn:
            self._polled(state, event, body)
        elif kind is CommitInvoke:
            self._commits(state, event, body)
        elif kind is CommitReturn:
            state.open.discard(body.op)
        elif kind is ConsClose:
            state.closing = self._sure(state) if body.stable and not body.error else None
        elif kind is ConsOwn:
            found = self._gives_up(state, event, body)
            state.given = {tp: given for tp, given in state.given.items() if tp in body.owned}
            self._begins(state, event.wall if body.reason == "assign" else -1)
            return found
        elif kind is Rpc and body.connection == COORDINATOR:
            return self._called(state, event, body)
        elif kind is MetaView or (kind is Rpc and body.api == Api.Metadata.name):
            state.overdue = None
            for given in state.given.values():
                given.polls = 0
        elif kind is not Rpc:
            state.overdue = None
            state.given.pop(body.tp, None)
        return NOTHING

    @staticmethod
    def _sure(state: Owned) -> dict[str, Given]:
        """The partitions whose positions are certainly valid, as they are now."""
        return {tp: given for tp, given in state.given.items() if given.polls >= SETTLED}

    def _commits(self, state: Owned, event: Stamped, body: CommitInvoke) -> None:
        state.automatic = state.automatic or body.how == "auto"
        for tp in body.offsets:
            for given in (state.given, state.closing or {}):
                if tp in given:
                    given[tp].committed = True
        if state.since_us >= 0:
            state.tested += body.how == "auto" and event.wall >= state.since_us + state.interval_us
            self._begins(state, event.wall)
        state.open.add(body.op)

    def _called(self, state: Owned, event: Stamped, body: Rpc) -> Emissions:
        """A call to the coordinator ended. A heartbeat tells that the member knew it when it was sent."""
        sent, answered_us, overdue = sent_us(event, body), state.contact.answered_us, state.overdue
        state.contact.called(event, body)
        if body.api == Api.JoinGroup.name:
            self._begins(state, -1)
        elif not state.contact.broker:
            state.overdue = None
        elif body.api == Api.Heartbeat.name and overdue is not None and sent > overdue.us + LATE_US:
            late_us = event.wall - state.since_us
            self._begins(state, -1)
            if sent - answered_us < state.contact.near_us:
                return self._left_out(state, event, overdue, late_us)
        return NOTHING

    def _left_out(self, state: Owned, event: Stamped, overdue: Overdue, late_us: int) -> Emissions:
        state.tested += 1
        sentence = (
            f"{state.key} has committed nothing by itself for {late_us // 1000:,} ms, though its application was given "
            f"records, and it knew its coordinator; its {INTERVAL} is {state.interval_us // 1000:,} ms"
        )
        return self.violated(state.key, sentence, overdue.by, event)

    @staticmethod
    def _polled(state: Owned, event: Stamped, body: PollReturn) -> None:
        if body.outcome != "ok":
            state.given.pop(body.tp, None)
        elif body.records:
            before = state.given.get(body.tp)
            given = state.given[body.tp] = Given(1 if before is None else before.polls + 1, witness(event))
            if state.automatic and given.polls >= SETTLED and state.overdue is None and not state.open:
                due_us = state.since_us + state.interval_us + LATE_US
                waits = state.since_us >= 0 and not state.skewed and state.contact.is_near(event.wall)
                if waits and event.wall > due_us:
                    state.overdue = Overdue(event.wall, given.by)

    def _gives_up(self, state: Owned, event: Stamped, body: ConsOwn) -> Emissions:
        closing, state.closing = state.closing, None
        if not state.automatic or body.reason not in ("revoke", "leave"):
            return NOTHING
        ready = self._sure(state) if body.reason == "revoke" else closing or {}
        sure = {tp: ready[tp] for tp in body.revoked if tp in ready}
        state.tested += bool(sure)
        left = [tp for tp, given in sure.items() if not given.committed]
        if not left:
            return NOTHING
        does = "revoked" if body.reason == "revoke" else "was closed, and gave up"
        sentence = (
            f"{state.key}, as member {body.member} of group {body.group}, {does} {', '.join(left)} without a commit "
            "after the last records that its application was given"
        )
        return self.violated(state.key, sentence, sure[left[0]].by, event)
