"""What clients get in the end: an answer, and everything there is to read. Of sends, see ``sends``."""

from __future__ import annotations

from typing import Any

import msgspec

from actors.node.isolation import READ_COMMITTED, READ_UNCOMMITTED
from actors.node.list_timestamps import LATEST
from actors.node.spec import is_recreated, node_name, partition_name
from actors.trace.events import (
    AdminInvoke,
    AdminReturn,
    CommitInvoke,
    CommitReturn,
    ConsOwn,
    ConsPos,
    CtlFault,
    CtlPhase,
    ListInvoke,
    ListReturn,
    LogAppend,
    LogHw,
    NodeDown,
    OpReturn,
    PartAssume,
    PartChange,
    PollReturn,
    SendInvoke,
    SendReturn,
    Stamped,
)
from orchestrator.invariants.folds.bounds import SLACK_US
from orchestrator.invariants.folds.fault_kinds import LINK_FAULTS
from orchestrator.invariants.folds.fold import NOTHING, Emissions, Profile, Witness, committed_alone, witness
from orchestrator.invariants.folds.known_findings import former_epoch, known_as
from orchestrator.invariants.folds.memory import CHANGES_REMEMBERED
from orchestrator.invariants.folds.routes import NODE, PARTITION
from orchestrator.invariants.folds.windows import (
    Obligation,
    PartitionInvariant,
    PartitionState,
    WindowInvariant,
    WindowState,
    beta,
)
from orchestrator.invariants.liveness.cluster import NO_MEMBER
from orchestrator.invariants.liveness.lost_decisions import (
    LOST_DECISIONS,
    LOST_DECISIONS_RULE,
    TELL_OF_LOST_DECISIONS,
    LostDecisions,
)
from orchestrator.invariants.mirrors.hung_brokers import HungBrokers
from orchestrator.invariants.mirrors.late_pushes import LATE_PUSH, LATE_PUSH_RULE, LatePushes
from orchestrator.invariants.mirrors.loss import LOST
from orchestrator.invariants.mirrors.transactions_of_log import TransactionsOfLog, transactional


class DiskLoss(msgspec.Struct, frozen=True, gc=False):
    """A disk lost what it had from ``first`` on, when ``epoch`` was the newest leader epoch."""

    first: int
    epoch: int


class Reading(PartitionState):
    """members: consumers of groups. positions: consumer -> its position. high_watermark, told: of the leader of the
    newest leader epoch. unclean: newest leader epoch of an unclean election, -1 none. losses: of disks; reduced: newest
    leader epoch whose leader began without what they had lost, -1 none. pursued: consumer -> leader epoch
    of the high watermark that it is to reach. waits: consumer -> bounds that it has for that, or has had. hung: what is
    known of brokers that hang; known: the finding about them, if it is one here. pushes: of UpdateMetadata. taken_up:
    consumer -> leader epoch of the position that it took up and has not read on from; former: the finding about those
    of a former topic, if it is one here. transactions: of what leaders appended; log_end: of that.
    committed_alone: consumers that read committed records. draining: consumers are to stop at the end; ends: consumer
    -> where that is, as it looked it up then. processors: consumers that send in transactions; lost: by the
    transaction log."""

    members: set[str] = set()
    positions: dict[str, int] = {}
    taken_up: dict[str, int] = {}
    former: str = ""
    high_watermark: int = 0
    epoch: int = -1
    told: Witness | None = None
    unclean: int = -1
    losses: list[DiskLoss] = []
    reduced: int = -1
    pursued: dict[str, int] = {}
    waits: dict[str, int] = {}
    hung: HungBrokers = msgspec.field(default_factory=HungBrokers)
    known: str = ""
    pushes: LatePushes = msgspec.field(default_factory=LatePushes)
    transactions: TransactionsOfLog = msgspec.field(default_factory=TransactionsOfLog)
    log_end: int = 0
    committed_alone: set[str] = set()
    draining: bool = False
    ends: dict[str, int] = {}
    processors: set[str] = set()
    lost: LostDecisions = msgspec.field(default_factory=LostDecisions)

    def append(self, body: LogAppend) -> None:
        """A leader appended; what an earlier one had there is gone."""
        if body.base < self.log_end:
            self.transactions.cut(body.base)
        self.log_end = body.last + 1
        if body.transactional or body.control:
            self.transactions.append(body.base, body.last + 1, transactional(body), body.control)
            self.transactions.forget_ended(self.high_watermark)

    def lose(self, first: int) -> None:
        """A disk lost what it had of the partition from an offset on."""
        newest = self.newest.change.leader_epoch if self.newest is not None else -1
        self.losses = [*(each for each in self.losses if each.epoch >= self.epoch), DiskLoss(first, newest)]
        del self.losses[:-CHANGES_REMEMBERED]

    def limit(self, consumer: str) -> int:
        """Up to where there is something to read for it, before it stops."""
        end = self.high_watermark
        if consumer in self.committed_alone and self.transactions.any:
            end = self.transactions.stable_offset(self.high_watermark)
        return min(end, self.ends.get(consumer, end))

    def place(self, consumer: str) -> int:
        """Where the next record is that it may get."""
        position = self.positions[consumer]
        if not self.transactions.any:
            return position
        isolation = READ_COMMITTED if consumer in self.committed_alone else READ_UNCOMMITTED
        return self.transactions.hidden_until(position, isolation)


class ConsumersCatchUp(PartitionInvariant[Reading]):
    """A consumer that stops before the end looks like a consumer without records to read: no error appears.

    Example: consumer-1 is at 900 of orders-0, the high watermark is 1,310, the leader is up and in reach, and
    consumer-1 never fetches again. The obligation is to reach the high watermark of the moment; then the next one
    begins. A consumer at read_committed must reach the last stable offset; markers and aborted records at its end do
    not count. If several brokers hang, the consumer may wait for each in turn.
    """

    id = "L6"
    title = "A consumer reads to the high watermark"
    source = "KIP-74; Fetcher.java"
    tested_when = "a consumer reaches, in a window, the high watermark from the time when it was behind"
    route = PARTITION
    types = (LogAppend, LogHw, PollReturn, ConsPos, ListReturn, PartChange, PartAssume)
    unseen = (
        "the time that a consumer waits for hung brokers, below the bound for each of them",
        "what others write at the end of the run after a consumer has looked up where it is to stop",
    )
    cases = {LogAppend: ("leader",), LogHw: ("leader",)}
    exemptions = {
        "isr-away": NO_MEMBER,
        "unclean-election": "An unclean election since then gave up the records that the consumer had to read.",
        "loss-budget": LOST,
        LATE_PUSH_RULE: LATE_PUSH,
        LOST_DECISIONS: f"{LOST_DECISIONS_RULE} Its application waits for that, and polls no more.",
    }

    def initial(self, key: str, profile: Profile) -> Reading:
        hung, known = HungBrokers.among(profile), known_as(profile, "finding-hung-brokers")
        state = Reading(key, beta_us=beta(profile, self.id), hung=hung, known=known, pushes=LatePushes.of(profile))
        state.former = former_epoch(profile)
        state.members = {each for group in profile.groups.values() for each in group.get("members", [])}
        state.committed_alone = committed_alone(profile)
        state.processors = set(profile.transactional)
        return state

    @property
    def news(self) -> tuple[type, ...]:
        return (*super().news, *TELL_OF_LOST_DECISIONS, ConsOwn, CtlPhase)

    def hear(self, state: Reading, event: Stamped) -> Emissions:
        body: Any = event.body
        kind = type(body)
        if isinstance(body, TELL_OF_LOST_DECISIONS):
            state.lost.take(event)
            if kind is PartChange:
                return NOTHING
        if kind is NodeDown or kind is ConsOwn:
            if kind is NodeDown and state.key in body.lost:
                state.lose(body.lost[state.key])
            # A member is to read what it is assigned, if it is assigned anything when it is back; by its name, whatever
            # topic of that name there is.
            if event.node in state.members and (kind is NodeDown or partition_name(state.key) not in body.owned):
                state.positions.pop(event.node, None)
                self.void(state, event.node)
            return NOTHING
        if kind is CtlPhase:
            state.draining |= body.phase == "draining"
            return NOTHING
        if kind is CtlFault:
            state.hung.take(body, event.wall)
            state.pushes.take(body)
        return super().hear(state, event)

    def step(self, state: Reading, event: Stamped) -> Emissions:
        body: Any = event.body
        kind = type(body)
        if kind is LogAppend:
            if body.role == "leader" and body.leader_epoch >= state.epoch:
                state.append(body)
            return NOTHING
        if kind is LogHw:
            if body.role != "leader" or body.leader_epoch < state.epoch:
                return NOTHING
            state.high_watermark, state.epoch, state.told = body.new, body.leader_epoch, witness(event)
            if state.transactions.any:
                self._hidden(state)
            if len(state.due) < len(state.positions):
                for consumer in state.positions:
                    self._pursue(state, consumer, event)
                return NOTHING if state.armed_us >= 0 else self.arm(state)
            return NOTHING
        if kind is PartAssume:
            if body.role == "leader" and body.leader_epoch > state.epoch:
                self._led_anew(state, body)
            return NOTHING
        if kind is PollReturn:
            if body.outcome != "ok":
                # auto.offset.reset=none: the application was informed that there is no position.
                state.positions.pop(event.node, None)
                self.void(state, event.node)
            elif body.records:
                state.taken_up.pop(event.node, None)
                self._moved(state, event, body.records[-1].offset + 1)
            return NOTHING if state.armed_us >= 0 else self.arm(state)
        if kind is ListReturn:
            if state.draining and body.outcome == "ok" and body.timestamp == LATEST:
                self._stops(state, event.node, body.offset)
            return NOTHING
        if kind is ConsPos:
            if body.reason == "seek":
                self.void(state, event.node)  # the application has it read again what it may have read
            state.taken_up[event.node] = body.epoch
            self._moved(state, event, body.new)
        else:
            state.take(event, body)
            if body.cause == "unclean":
                state.unclean = max(state.unclean, body.leader_epoch)
                if body.leader_epoch > state.epoch:
                    state.high_watermark = 0  # until the new leader has told how much of it is left
        return self.arm(state)

    def _led_anew(self, state: Reading, body: PartAssume) -> None:
        """Without what disks have lost since the high watermark was told, there may be less to read."""
        first = min((each.first for each in state.losses if each.epoch >= state.epoch), default=state.high_watermark)
        if first < state.high_watermark and body.log_end < state.high_watermark:
            state.high_watermark, state.reduced = body.log_end, body.leader_epoch

    def look(self, state: Reading, event: Stamped) -> None:
        for consumer in state.positions:
            if consumer not in state.core:
                self.void(state, consumer)
            else:
                self._pursue(state, consumer, event)

    def _pursue(self, state: Reading, consumer: str, event: Stamped) -> None:
        if consumer in state.core and state.place(consumer) < (limit := state.limit(consumer)):
            if consumer not in state.due:
                state.pursued[consumer] = state.epoch
                state.waits[consumer] = 1
            self.oblige(state, consumer, event, limit)

    def _stops(self, state: Reading, consumer: str, end: int) -> None:
        """A consumer has looked up where the end is, and stops once it is there."""
        state.ends[consumer] = end
        known = state.due.get(consumer)
        if known is not None and known.target > end:
            known.target = end
            self._hidden(state)

    def _hidden(self, state: Reading) -> None:
        """What a consumer was still to read may be aborted by now, or be markers."""
        for consumer, known in list(state.due.items()):
            if state.place(consumer) >= known.target:
                self.kept(state, consumer)

    def _moved(self, state: Reading, event: Stamped, position: int) -> None:
        consumer = event.node
        state.positions[consumer] = position
        known = state.due.get(consumer)
        if known is not None and state.place(consumer) >= known.target:
            self.kept(state, consumer)
        self._pursue(state, consumer, event)

    def missed(self, state: Reading, name: str, obligation: Obligation) -> Emissions:
        sentence = (
            f"{name} did not read {state.key} up to {obligation.target:,} {self.within(state)}: its position is "
            f"{state.positions[name]:,}"
        )
        newest = state.newest.by if state.newest is not None else None
        if state.unclean > state.pursued[name] and state.high_watermark < obligation.target:
            return self.excused("unclean-election", state.key, sentence, obligation.by, newest)
        if state.reduced > state.pursued[name] and state.high_watermark < obligation.target:
            return self.excused("loss-budget", state.key, sentence, obligation.by, newest)
        if not any(node_name(member) in state.core for member in state.isr):
            return self.excused("isr-away", state.key, sentence, obligation.by, newest)
        hung = state.hung.of(name, state.core)
        if state.waits[name] < len(hung):
            # It may wait for each of them, one after the other, and the bound is for one.
            state.waits[name] += 1
            since_us = max(obligation.since_us, state.since_us) + state.beta_us
            state.due[name] = Obligation(since_us, obligation.by, obligation.target)
            return NOTHING
        if state.pushes.possible:
            return self.excused(LATE_PUSH_RULE, state.key, sentence, obligation.by, newest)
        if name in state.processors and state.lost.any:
            return self.excused(LOST_DECISIONS, state.key, sentence, obligation.by, newest)
        if len(hung) > 1:
            sentence += f"; the bound was extended once for each of {', '.join(hung)}, which hang"
            return self.violated(state.key, sentence, state.told, obligation.by, known=state.known)
        taken_up, epoch = state.taken_up.get(name, -1), state.newest.change.leader_epoch if state.newest else -1
        former = is_recreated(state.key) and taken_up > epoch
        if former:
            sentence += f", a position of leader epoch {taken_up}, but the partition is in leader epoch {epoch}"
        return self.violated(state.key, sentence, state.told, obligation.by, known=state.former if former else "")


class Operations(WindowState):
    """profile-made: send_us, list_us: how long operations of this node may take; rebalance_us: how long a member may
    take to join again. joining: commits that may take that long. frozen: faults that stop its clock."""

    send_us: int = 0
    list_us: int = 0
    rebalance_us: int = 0
    joining: set[str] = set()
    frozen: set[str] = set()


class OperationsReturn(WindowInvariant[Operations]):
    """A timeout is a promise to the application: whatever happens to the cluster, the call returns.

    Example: the partition of a batch has no leader, delivery.timeout.ms is over, and the sends in it are still open.
    The timeouts run on the client's own clock, so this promise needs no window; a client that a fault stopped starts
    again. A member's own commit before it joins again may take max.poll.interval.ms.
    """

    id = "L7"
    title = "Every operation of a client returns before its own timeout"
    source = "KIP-91 (delivery.timeout.ms); KIP-266 (default.api.timeout.ms)"
    tested_when = "a send, a lookup or a commit returns"
    route = NODE
    types = (
        *(SendInvoke, ListInvoke, AdminInvoke, CommitInvoke, NodeDown),
        *(SendReturn, ListReturn, AdminReturn, CommitReturn),
    )
    unseen = (
        "polls, which return in the step that invokes them",
        "look-ups of committed positions, which a consumer goes on with from poll to poll: L18 judges them",
    )

    @property
    def news(self) -> tuple[type, ...]:
        return (CtlFault,)

    def initial(self, key: str, profile: Profile) -> Operations:
        def own_us(name: str) -> int:
            return 1000 * profile.number(name, key) + SLACK_US

        return Operations(
            key,
            since_us=0,
            send_us=own_us("delivery.timeout.ms"),
            list_us=own_us("default.api.timeout.ms"),
            rebalance_us=own_us("max.poll.interval.ms"),
        )

    def hear(self, state: Operations, event: Stamped) -> Emissions:
        body = event.body
        assert type(body) is CtlFault
        if state.key not in body.targets or body.kind in LINK_FAULTS:
            return NOTHING
        if body.phase == "start":
            state.frozen.add(body.fault)
        else:
            state.frozen.discard(body.fault)
        state.since_us = -1 if state.frozen else event.wall
        return self.arm(state)

    def step(self, state: Operations, event: Stamped) -> Emissions:
        body: Any = event.body
        kind = type(body)
        if kind is NodeDown:
            state.due.clear()
            state.joining.clear()
            return NOTHING
        if isinstance(body, OpReturn):
            state.joining.discard(body.op)
            if state.due.pop(body.op, None) is not None:
                state.tested += 1
            return NOTHING
        if kind is CommitInvoke and body.how == "auto" and state.rebalance_us > state.list_us:
            state.joining.add(body.op)
        # A node has operations of one time-out, so that the oldest is the first to be due.
        state.beta_us = state.send_us if body.kind == "send" else state.list_us
        self.oblige(state, body.op, event)
        return NOTHING if state.armed_us >= 0 else self.arm(state)

    def missed(self, state: Operations, name: str, obligation: Obligation) -> Emissions:
        if name in state.joining:
            state.joining.remove(name)
            since_us = obligation.since_us + state.rebalance_us - state.list_us
            state.due[name] = Obligation(since_us, obligation.by, obligation.target)
            return NOTHING
        seconds = (state.beta_us - SLACK_US) / 1_000_000
        return self.violated(
            state.key,
            f"the operation {name} of {state.key} did not return within {seconds:g} s, its timeout",
            obligation.by,
        )
