"""That readers of committed transactions get on: L10."""

from __future__ import annotations

from typing import Any

import msgspec

from actors.config import CONFIG
from actors.features import KAFKA_7408
from actors.trace.events import (
    ClockSet,
    LogAppend,
    LogHw,
    LogTrunc,
    NodeDown,
    PartAssume,
    PartChange,
    Stamped,
    TxnState,
)
from orchestrator.invariants.folds.fast_clocks import FastClocks
from orchestrator.invariants.folds.fold import NOTHING, Emissions, Profile
from orchestrator.invariants.folds.routes import PARTITION
from orchestrator.invariants.folds.windows import Obligation, PartitionInvariant, PartitionState, beta
from orchestrator.invariants.mirrors.loss import LOST, UNCLEAN
from orchestrator.invariants.mirrors.partition_losses import LOSS_BUDGET, UNCLEAN_ELECTION, PartitionLosses
from orchestrator.invariants.mirrors.transactions_of_log import TransactionsOfLog, transactional
from orchestrator.invariants.transactions.timeouts import TIMEOUT, Timeouts, longest_ms, timeouts_of

ENDED_REMEMBERED = 1 << 12
"""Ended transactions that an unclean election may open again."""
STABLE = "stable"
"""The one obligation of a partition: its last stable offset must get there."""


class Unstable(PartitionState):
    """bound_us: without the time-out of transactions; timeout_us: the longest one that their coordinators know, no
    longer than their producers' (timeouts). epoch: the newest leader epoch; high_watermark: of its leader;
    transactions: of its log, which ends at log_end. brokers: those that have been heard of. begun: first offset of a
    transaction -> the leader epoch in which it was appended, and how often disks had lost some of the partition by
    then. losses: of the partition. clocks: that may have said when a transaction began. mended: whoever is elected
    uncleanly leaves no transaction open (``kafka-7408``)."""

    bound_us: int = 0
    timeout_us: int = 0
    timeouts: Timeouts = {}
    epoch: int = -1
    high_watermark: int = 0
    transactions: TransactionsOfLog = msgspec.field(default_factory=TransactionsOfLog)
    log_end: int = 0
    brokers: set[str] = set()
    begun: dict[int, tuple[int, int]] = {}
    losses: PartitionLosses = msgspec.field(default_factory=PartitionLosses)
    clocks: FastClocks = msgspec.field(default_factory=FastClocks)
    mended: bool = False

    def append(self, body: LogAppend) -> None:
        """A leader appended; what an earlier one had there is gone."""
        if body.base < self.log_end:
            self.transactions.cut(body.base)
        self.log_end = body.last + 1
        if body.transactional and not body.marker and body.producer_id not in self.transactions.open:
            self.begun.pop(body.base, None)
            self.begun[body.base] = (body.leader_epoch, self.losses.count(self.key))
            if len(self.begun) > ENDED_REMEMBERED:
                del self.begun[next(iter(self.begun))]
        if body.transactional or body.control:
            self.transactions.append(body.base, body.last + 1, transactional(body), body.control)
            if len(self.transactions.ended) > 2 * ENDED_REMEMBERED:
                self.transactions.forget(self.transactions.ended[ENDED_REMEMBERED].marker)

    def end_at(self, to: int) -> None:
        """The leader's log ends there, if not before. What was to be reached above is given up, as others may judge."""
        self.log_end = min(self.log_end, to)
        self.transactions.cut(self.log_end)
        if STABLE in self.due and self.due[STABLE].target > self.log_end:
            del self.due[STABLE]

    def rule_of_loss(self, first: int) -> str:
        """The rule by which the end of the transaction that begins at an offset may have been lost, "" there is none:
        of what was appended since, nothing was."""
        epoch, losses = self.begun.get(first, (-1, 0))
        return self.losses.rule(self.key, None if self.mended else epoch, since=losses)


class StableOffsetsAdvance(PartitionInvariant[Unstable]):
    """Readers at read_committed get no further than the last stable offset. One transaction that nobody ends stops them
    all, even for records of other producers, and no error appears.

    Example: the high watermark of orders-0 is 1,310, and the last stable offset 900, where producer 7 has begun a
    transaction. Its application is gone. Its timeout is over, its coordinator and the leader of orders-0 are up with
    all other brokers, and the last stable offset is still 900. The obligation is to reach the high watermark of the
    moment: transactions that begin later begin above it.

    T9 makes this promise for one producer, and requires the marker in the leader's log. L10 also requires that the
    marker is replicated, for all transactions that are open below a high watermark.
    """

    id = "L10"
    title = (
        "The last stable offset reaches the high watermark of the moment, at the latest after the transactions' "
        "timeouts"
    )
    source = "KIP-98; KAFKA-7408; KIP-664"
    tested_when = "the last stable offset reaches, in a window with all brokers, a high watermark that it was behind"
    route = PARTITION
    of_transactions = True
    types = (LogAppend, LogHw, LogTrunc, PartAssume, PartChange, TxnState)
    cases = {LogAppend: ("leader",), LogHw: ("leader",)}
    exemptions = {UNCLEAN_ELECTION: UNCLEAN, LOSS_BUDGET: LOST}
    unseen = (
        "windows without some broker: it may be the coordinator, or the leader",
        "the last stable offset in answers of brokers: T7 and H7 compare it with their logs",
    )

    @property
    def news(self) -> tuple[type, ...]:
        return (*super().news, NodeDown, ClockSet)

    def initial(self, key: str, profile: Profile) -> Unstable:
        bound_us, timeout_us = beta(profile, self.id), 1000 * int(CONFIG[TIMEOUT].default)
        mended = profile.feature(KAFKA_7408) not in ("", "off")
        losses = PartitionLosses(profile, (key,))
        state = Unstable(key, beta_us=bound_us + timeout_us, bound_us=bound_us, losses=losses, mended=mended)
        state.timeouts = timeouts_of(profile)
        return state

    def hear(self, state: Unstable, event: Stamped) -> Emissions:
        body = event.body
        if type(body) is NodeDown:
            state.losses.take(event)
            return NOTHING
        if type(body) is ClockSet:
            state.clocks.take(event, body)
            return NOTHING
        return super().hear(state, event)

    def step(self, state: Unstable, event: Stamped) -> Emissions:
        body: Any = event.body
        kind = type(body)
        if kind is PartChange:
            state.take(event, body)
            state.brokers.update(f"broker-{replica}" for replica in body.replicas)
            state.losses.take(event)
            return NOTHING
        if kind is TxnState:
            if body.timeout_ms > 0:
                timeout_ms = longest_ms(state.timeouts, body.transactional_id, body.timeout_ms)
                state.timeout_us = max(state.timeout_us, 1000 * timeout_ms)
                state.beta_us = state.bound_us + state.timeout_us
            state.brokers.add(event.node)
            return NOTHING
        if kind is LogTrunc:
            if event.node != state.leader:
                return NOTHING
            state.end_at(body.to)
        elif kind is PartAssume:
            if body.role != "leader" or body.leader_epoch < state.epoch:
                return NOTHING
            state.end_at(body.log_end)
            state.epoch, state.high_watermark = body.leader_epoch, body.high_watermark
        elif body.role != "leader" or body.leader_epoch < state.epoch:
            return NOTHING
        elif kind is LogAppend:
            state.append(body)
        else:
            state.high_watermark, state.epoch = body.new, body.leader_epoch
        return self._compare(state, event)

    def _compare(self, state: Unstable, event: Stamped) -> Emissions:
        """See how far it has come, and how far it has to."""
        transactions = state.transactions
        if not (transactions.open or transactions.ended or state.due):
            return NOTHING
        stable = transactions.stable_offset(state.high_watermark)
        known = state.due.get(STABLE)
        if known is not None and stable >= known.target:
            if state.brokers <= state.core:
                self.kept(state, STABLE)
            else:
                self.void(state, STABLE)
        if stable < state.high_watermark:
            self.oblige(state, STABLE, event, state.high_watermark)
        return NOTHING if state.armed_us >= 0 else self.arm(state)

    def due_us(self, state: Unstable, obligation: Obligation) -> int:
        """The timeout of a transaction counts from its beginning, under whatever coordinator: not anew in a window.
        The coordinator that wrote down the beginning may have been ahead of the one that counts."""
        timeout_us = state.beta_us - state.bound_us + state.clocks.ahead_us
        return max(obligation.since_us + timeout_us, state.since_us) + state.bound_us

    def missed(self, state: Unstable, name: str, obligation: Obligation) -> Emissions:
        if not state.brokers <= state.core:
            return NOTHING
        stable = state.transactions.stable_offset(state.high_watermark)
        sentence = (
            f"the last stable offset of {state.key} did not reach {obligation.target:,} within "
            f"{state.bound_us / 1_000_000:g} s without a fault that could prevent it, on top of the "
            f"transactions' timeout of {state.timeout_us / 1_000_000:g} s: it is {stable:,}"
        )
        for span in state.transactions.open.values():
            if span.first == stable:
                sentence += f"; producer id {span.producer_id} has a transaction open from there on"
        if rule := state.rule_of_loss(stable):
            return self.excused(rule, state.key, sentence, obligation.by, state.window)
        return self.violated(state.key, sentence, obligation.by, state.window)
