"""That transactions come to an end on each partition: T9."""

from __future__ import annotations

from typing import Any

import msgspec

from actors.config import CONFIG
from actors.features import KAFKA_7408
from actors.trace.events import (
    ClockSet,
    LogAppend,
    NodeDown,
    PartChange,
    PartRemove,
    Stamped,
    TxnLoad,
    TxnMarkers,
    TxnState,
)
from orchestrator.invariants.folds.fast_clocks import FastClocks
from orchestrator.invariants.folds.fold import NOTHING, Emissions, Profile
from orchestrator.invariants.folds.routes import PRODUCER_ID
from orchestrator.invariants.folds.windows import Obligation, WindowInvariant, WindowState, beta
from orchestrator.invariants.mirrors.epoch_bumps import PRODUCER_EPOCH_MAX
from orchestrator.invariants.mirrors.loss import LOST, UNCLEAN
from orchestrator.invariants.mirrors.partition_losses import LOSS_BUDGET, UNCLEAN_ELECTION, PartitionLosses
from orchestrator.invariants.transactions.decided import DECISIONS
from orchestrator.invariants.transactions.timeouts import TIMEOUT, Timeouts, longest_ms, timeouts_of

COMPLETE = "complete"
"""The obligation of what is decided; others have the names of partitions."""


class Known(msgspec.Struct, frozen=True):
    """The leader epoch in which a log had something, and how often disks had lost some of that log by then."""

    leader_epoch: int
    losses: int


class Newest(msgspec.Struct, frozen=True):
    """What the transaction log last said of a producer epoch."""

    producer_epoch: int
    known: Known


class Undecided(WindowState):
    """Of a producer id. bound_us: without its time-out. timeout_us: after which its coordinator aborts what is open, no
    longer than its producers' (timeouts). brokers: those that have been heard of; losses: of all partitions. home:
    partition of the transaction log that has it. known: obligation -> where its reason was known: that of a decision
    under the newest coordinator. newest: state of the newest producer epoch. led: partition -> newest leader epoch in
    which this producer's records, or markers, were appended there. clocks: that may have said when the transaction
    began. mended: whoever is elected uncleanly leaves no transaction open (``kafka-7408``)."""

    bound_us: int = 0
    timeout_us: int = 0
    timeouts: Timeouts = {}
    brokers: set[str] = set()
    losses: PartitionLosses = msgspec.field(default_factory=PartitionLosses)
    home: str = ""
    known: dict[str, Known] = {}
    newest: Newest | None = None
    led: dict[str, int] = {}
    clocks: FastClocks = msgspec.field(default_factory=FastClocks)
    mended: bool = False

    def log_of(self, name: str) -> str:
        """The partition whose log has the reason of an obligation."""
        return self.home if name == COMPLETE else name

    def known_in(self, name: str, leader_epoch: int) -> Known:
        """That the reason of an obligation is in its log now."""
        return Known(leader_epoch, self.losses.count(self.log_of(name)))

    def rule_of_loss(self, name: str) -> str:
        """The rule by which an obligation is one no more, "" none: the log that has its reason lost it since."""
        known, without_elections = self.known[name], self.mended and name != COMPLETE
        since_epoch = None if without_elections else known.leader_epoch
        return self.losses.rule(self.log_of(name), since_epoch, since=known.losses)


class TransactionsEnd(WindowInvariant[Undecided]):
    """A read_committed consumer reads nothing beyond an open transaction, of any producer. A transaction without an end
    stops all of them for ever.

    Example: app-1 crashes, and producer 7 has an open transaction with records in orders-0. Its timeout is over, its
    coordinator is up, so is broker-1, which leads orders-0, and no marker of producer 7 comes. Or broker-2 was elected
    as coordinator, read PrepareCommit in its log, and sends no marker. The timeout counts from the beginning of the
    transaction, so neither an application that goes on sending nor another coordinator delays its end; a decision is
    carried out without it.
    """

    id = "T9"
    title = "A transaction ends on each of its partitions, at the latest after its timeout, and is completed"
    source = "KIP-98; KIP-664; KAFKA-7408; Kafka's TransactionCoordinator.abortTimedOutTransactions, onElection"
    tested_when = (
        "in a window with all brokers a leader appends the marker after a transaction's records, or a coordinator "
        "completes a decided transaction"
    )
    route = PRODUCER_ID
    of_transactions = True
    types = (LogAppend, TxnState, TxnLoad, TxnMarkers)
    cases = {LogAppend: ("leader",)}
    exemptions = {UNCLEAN_ELECTION: UNCLEAN, LOSS_BUDGET: LOST}
    unseen = (
        "windows without some broker: it may be the coordinator, or the leader of a partition",
        "a marker that is lost with its leader: T4 checks that it is there when the coordinator counts it",
    )

    @property
    def news(self) -> tuple[type, ...]:
        return (*super().news, PartChange, PartRemove, NodeDown, ClockSet)

    def initial(self, key: str, profile: Profile) -> Undecided:
        bound_us, timeout_us = beta(profile, self.id), 1000 * int(CONFIG[TIMEOUT].default)
        state = Undecided(key, beta_us=bound_us + timeout_us, bound_us=bound_us, timeout_us=timeout_us)
        state.losses.profile, state.mended = profile, profile.feature(KAFKA_7408) not in ("", "off")
        state.timeouts = timeouts_of(profile)
        return state

    def hear(self, state: Undecided, event: Stamped) -> Emissions:
        body: Any = event.body
        kind = type(body)
        if kind is PartChange:
            state.brokers.update(f"broker-{replica}" for replica in body.replicas)
            state.losses.take(event)
        elif kind is NodeDown:
            state.losses.take(event)
        elif kind is PartRemove:
            self.void(state, body.tp)
        elif kind is ClockSet:
            state.clocks.take(event, body)
        else:
            return super().hear(state, event)
        return NOTHING

    def step(self, state: Undecided, event: Stamped) -> Emissions:
        body: Any = event.body
        kind = type(body)
        if kind is TxnState:
            if body.timeout_ms > 0:
                state.timeout_us = 1000 * longest_ms(state.timeouts, body.transactional_id, body.timeout_ms)
                state.beta_us = state.bound_us + state.timeout_us
            self._moved(state, event, body.to_state, body.producer_epoch)
        elif kind is TxnLoad:
            for each in body.transactions.values() if body.loaded else ():
                if str(each.producer_id) == state.key:
                    self._moved(state, event, each.state, each.producer_epoch)
        elif kind is TxnMarkers:
            for tp in body.partitions if body.outcome == "gone" else ():
                self.void(state, tp)
        elif body.role == "leader":
            state.brokers.add(event.node)
            if body.leader_epoch < state.led.get(body.tp, -1):
                return self.arm(state)  # of a former leader that does not know yet, and will cut it off again
            state.led[body.tp] = body.leader_epoch
            if not body.marker:
                self._due(state, body.tp, event, body.leader_epoch)
            elif state.brokers <= state.core:
                self.kept(state, body.tp)
            else:
                self.void(state, body.tp)
        return self.arm(state)

    def _due(self, state: Undecided, name: str, event: Stamped, epoch: int) -> None:
        if name not in state.due or (name == COMPLETE and epoch > state.known[name].leader_epoch):
            state.known[name] = state.known_in(name, epoch)
        self.oblige(state, name, event)

    def _moved(self, state: Undecided, event: Stamped, to_state: str, producer_epoch: int) -> None:
        """What is decided has to be completed, too: until then its producer begins no other transaction. With the last
        epoch that is told of another producer id."""
        body = event.body
        assert isinstance(body, TxnState | TxnLoad)
        state.home = body.tp
        newest = state.newest
        if newest is None or producer_epoch >= newest.producer_epoch:
            newest = state.newest = Newest(producer_epoch, state.known_in(COMPLETE, body.coordinator_epoch))
        if to_state in DECISIONS:
            if producer_epoch < PRODUCER_EPOCH_MAX - 1:
                self._due(state, COMPLETE, event, body.coordinator_epoch)
                if producer_epoch < newest.producer_epoch:
                    # Taken up again: what came after it was lost, so a partition may refuse its marker as too old.
                    state.known[COMPLETE] = newest.known
        elif state.brokers <= state.core:
            self.kept(state, COMPLETE)
        else:
            self.void(state, COMPLETE)

    def due_us(self, state: Undecided, obligation: Obligation) -> int:
        """The timeout counts from the beginning, under whatever coordinator: not anew in a window. It may have written
        the beginning down by a clock that was ahead. What is decided waits for no timeout."""
        if obligation is state.due.get(COMPLETE):
            return max(obligation.since_us, state.since_us) + state.bound_us
        over_us = obligation.since_us + state.timeout_us + state.clocks.ahead_us
        return max(over_us, state.since_us) + state.bound_us

    def next_due_us(self, state: Undecided) -> int:
        return min(self.due_us(state, each) for each in state.due.values())

    def missed(self, state: Undecided, name: str, obligation: Obligation) -> Emissions:
        if not state.brokers <= state.core:
            return NOTHING
        if name == COMPLETE:
            sentence = f"the decided transaction of producer id {state.key} was not completed {self._within(state)}"
            if rule := state.rule_of_loss(name):
                return self.excused(rule, state.key, sentence, obligation.by, state.window)
            return self.violated(state.key, sentence, obligation.by, state.window)
        sentence = (
            f"the open transaction of producer id {state.key} in {name} did not end {self._within(state)} (and after "
            f"its timeout of {state.timeout_us / 1_000_000:g} s)"
        )
        if rule := state.rule_of_loss(name):
            return self.excused(rule, state.key, sentence, obligation.by, state.window)
        return self.violated(state.key, sentence, obligation.by, state.window)

    @staticmethod
    def _within(state: Undecided) -> str:
        return f"within {state.bound_us / 1_000_000:g} s without a fault that could prevent it"
