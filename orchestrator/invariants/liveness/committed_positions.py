"""That a member of a group finds what the group has committed: L18."""

from __future__ import annotations

from typing import Any

import msgspec

from actors.config import CONFIG
from actors.node.errors import KafkaError
from actors.node.messages import Api
from actors.node.spec import node_name
from actors.trace.events import (
    ClockSet,
    CommittedInvoke,
    CommittedReturn,
    CtlFault,
    ErrorSeen,
    NodeDown,
    PartChange,
    Stamped,
)
from orchestrator.invariants.folds.fast_clocks import FastClocks
from orchestrator.invariants.folds.fold import NOTHING, Emissions, Profile, Witness, witness
from orchestrator.invariants.folds.routes import NODE
from orchestrator.invariants.folds.windows import Obligation, WindowInvariant, WindowState, beta
from orchestrator.invariants.liveness.lost_decisions import (
    LOST_DECISIONS,
    LOST_DECISIONS_RULE,
    TELL_OF_LOST_DECISIONS,
    LostDecisions,
)
from orchestrator.invariants.mirrors.late_pushes import LATE_PUSH, LATE_PUSH_RULE, LatePushes
from orchestrator.invariants.transactions.timeouts import TIMEOUT

UNSTABLE = KafkaError.UNSTABLE_OFFSET_COMMIT


class LookUp(WindowState):
    """The look-up of one member that is under way. operation: "" none, asked for by ``by``; told: the error of its last
    answer, 0 none yet. extended: it was given ``open_us`` more, for as long as a transaction may be open. brokers: that
    have replicas. lost: by the transaction log. clocks: of coordinators. pushes: of UpdateMetadata."""

    operation: str = ""
    by: Witness | None = None
    told: int = 0
    extended: bool = False
    open_us: int = 0
    brokers: set[str] = set()
    lost: LostDecisions = msgspec.field(default_factory=LostDecisions)
    clocks: FastClocks = msgspec.field(default_factory=FastClocks)
    pushes: LatePushes = msgspec.field(default_factory=LatePushes)

    @property
    def unstable(self) -> bool:
        """Whether it was last told that a transaction is open."""
        return self.told == UNSTABLE


class PositionsAreFound(WindowInvariant[LookUp]):
    """A member that does not learn where its group is reads nothing. Its polls return nothing, no error appears, and it
    stays a member, as its heartbeats succeed.

    Example: the transaction with the position of orders-0 was committed, and its coordinator and all other brokers are
    up; consumer-1 asks what is committed for orders-0, and is told UNSTABLE_OFFSET_COMMIT for ever. An open transaction
    ends with its timeout at the latest, so a look-up that waits for one has that time on top of the bound, and L10's.
    """

    id = "L18"
    title = "A member of a group finds the group's committed positions"
    source = "KIP-447; ConsumerCoordinator.fetchCommittedOffsets"
    tested_when = "a look-up of committed positions returns in a window, after it was open in that window"
    route = NODE
    of_groups = True
    types = (CommittedInvoke, CommittedReturn, ErrorSeen, NodeDown)
    exemptions = {
        LATE_PUSH_RULE: LATE_PUSH,
        LOST_DECISIONS: f"{LOST_DECISIONS_RULE} Or it does not know the transaction any more, so that nobody ends it: "
        "the positions in it stay undecided, and their look-up gets UNSTABLE_OFFSET_COMMIT for ever.",
    }
    unseen = (
        "windows without some broker: it may be the group's coordinator, or that of a transaction",
        "the positions that it finds: O1 and T14 judge them",
    )

    @property
    def news(self) -> tuple[type, ...]:
        return (*super().news, *TELL_OF_LOST_DECISIONS, ClockSet)

    def initial(self, key: str, profile: Profile) -> LookUp:
        default = CONFIG[TIMEOUT].default
        timeout_ms = max((int(profile.setting(TIMEOUT, each, default)) for each in profile.transactional), default=0)
        open_us = 1000 * timeout_ms + beta(profile, "L10")
        return LookUp(key, beta_us=beta(profile, self.id), open_us=open_us, pushes=LatePushes.of(profile))

    def hear(self, state: LookUp, event: Stamped) -> Emissions:
        body = event.body
        if isinstance(body, TELL_OF_LOST_DECISIONS):
            state.lost.take(event)
            if type(body) is PartChange:
                state.brokers.update(map(node_name, body.replicas))
            return NOTHING
        if type(body) is ClockSet:
            state.clocks.take(event, body)
            return NOTHING
        if type(body) is CtlFault:
            state.pushes.take(body)
        return super().hear(state, event)

    def step(self, state: LookUp, event: Stamped) -> Emissions:
        body: Any = event.body
        kind = type(body)
        if kind is ErrorSeen:
            if body.api == Api.OffsetFetch.name:
                state.told = body.error
            return NOTHING
        if kind is CommittedInvoke:
            state.operation, state.by, state.told, state.extended = body.op, witness(event), 0, False
            self.look(state, event)
            return self.arm(state)
        if kind is CommittedReturn and body.outcome != "unknown":
            self.kept(state, state.operation)
        state.operation = ""
        state.due.clear()
        return NOTHING

    def look(self, state: LookUp, event: Stamped) -> None:
        if state.operation and state.key in state.core:
            self.oblige(state, state.operation, event)
        else:
            state.due.clear()

    def missed(self, state: LookUp, name: str, obligation: Obligation) -> Emissions:
        if state.unstable and not state.extended:
            state.extended = True
            since_us = max(obligation.since_us, state.since_us) + state.open_us + state.clocks.ahead_us
            state.due[name] = Obligation(since_us, obligation.by)
            return NOTHING
        sentence = f"{state.key} did not find the committed positions of its group {self.within(state)}"
        if state.unstable:
            sentence += f", and {state.open_us / 1_000_000:g} s for a transaction to end: it was told {UNSTABLE.name}"
            if state.lost.any:
                return self.excused(LOST_DECISIONS, state.key, sentence, state.by, state.window)
        if state.pushes.possible:
            return self.excused(LATE_PUSH_RULE, state.key, sentence, state.by, state.window)
        if not state.brokers <= state.core:
            return NOTHING
        return self.violated(state.key, sentence, state.by, state.window)
