"""What an application asks of its transactional producer, and what the trace tells of it (``KafkaProducer.java``
initTransactions, beginTransaction, sendOffsetsToTransaction, commitTransaction, abortTransaction, close)."""

from __future__ import annotations

from typing import Any, Literal, Protocol

import msgspec
from msgspec import UNSET, UnsetType

from actors.client.sender import Sender
from actors.client.sending import SendingNode, new_sender, send_record
from actors.client.transactions import transaction
from actors.client.transactions.requests import GroupMetadata
from actors.client.workload import Every
from actors.features import ENDLESS_ABORTS
from actors.node.component import Component
from actors.node.errors import KafkaError
from actors.node.step import Step
from actors.trace.events import (
    BeginInvoke,
    BeginReturn,
    EndInvoke,
    EndReturn,
    InitInvoke,
    InitReturn,
    Outcome,
    SendOffsetsInvoke,
    SendOffsetsReturn,
)
from actors.trace.group_events import Entry

RESTART = "transactions/restart"
"""Timer: an application whose producer was of no use has started again."""
RESTART_MS = 1000
HOLD = "transactions/hold"
"""Timer: it is to stay in its next transaction for a while; or has."""

Phase = Literal["closed", "starting", "ready", "open", "offsets", "ending"]


class TransactionalNode(SendingNode, Protocol):
    """A client whose sends are in transactions."""

    session: TransactionalSession
    running: bool

    def next_operation(self) -> str:
        """A name for an operation of the application."""


class TransactionalSession(msgspec.Struct):
    """One application with one producer at a time. Each call that has to wait blocks it.

    number: of the transaction that is going on, or of the last one. phase: what it is at: closed, it has no producer
    and waits until it starts again; starting, offsets, ending: it waits for that operation. operation: its name;
    committing: what kind of end it is; offsets, group: what it sent. identity: producer id and epoch with which the
    transaction began. acked: records of producers that it closed. commits, aborts: transactions that it ended
    so. closes: producers that it closed. aborts_percent: share of the transactions that it aborts of its own will,
    spread evenly. hold_ms: how long it stays in a transaction, each ``holds``, 0 never; hold_after: when that many of
    its records are sent, 0 all of them; hold_due: it will in the next one; holding: it does. last_hold_ms: the same of
    one that is open when the application is to stop.
    """

    transactional_id: str = ""
    phase: Phase = "closed"
    number: int = 0
    operation: str = ""
    committing: bool = False
    offsets: dict[str, Entry] = {}
    group: GroupMetadata | None = None
    identity: tuple[int, int] = (-1, -1)
    acked: int = 0
    commits: int = 0
    aborts: int = 0
    closes: int = 0
    aborts_percent: int = 0
    hold_ms: int = 0
    hold_after: int = 0
    last_hold_ms: int = 0
    holds: Every = msgspec.field(default_factory=Every)
    hold_due: bool = False
    holding: bool = False

    # ---- when it ends a transaction ----------------------------------------------------------------------

    def begin_work(self, step: Step, workload: dict[str, Any]) -> None:
        """The application starts, with the ``workload`` of its spec: aborts_percent, hold_every_ms, hold_ms, hold_after
        and last_hold_ms."""
        self.aborts_percent, self.hold_ms = workload["aborts_percent"], workload["hold_ms"]
        self.hold_after = workload["hold_after"]
        self.last_hold_ms = workload["last_hold_ms"]
        if workload["hold_every_ms"]:
            self.holds = Every(workload["hold_every_ms"], step.now_ms)
            step.set_timer(HOLD, workload["hold_every_ms"])

    def end_work(self, step: Step) -> None:
        """The application is to stop: it stays nowhere but in its last transaction, and a producer that it has closed
        was its last."""
        step.cancel_timer(HOLD)
        step.cancel_timer(RESTART)
        self.hold_due, self.hold_ms, self.holding = False, 0, self.last_hold_ms > 0 and self.phase == "open"
        if self.holding:
            step.set_timer(HOLD, self.last_hold_ms)

    def stays(self, step: Step, sent: int, of: int) -> bool:
        """``sent`` records ``of`` its transaction's are sent: whether it stays in it now."""
        if self.hold_due and sent == min(self.hold_after or of, of):
            self.hold_due, self.holding = False, True
            step.set_timer(HOLD, self.hold_ms)
        return self.holding

    def on_hold(self, step: Step) -> None:
        """The timer ``HOLD`` fired."""
        if self.holding:
            self.holding = False
            if self.hold_ms:
                step.set_timer(HOLD, self.holds.delay_ms(step.now_ms))
        else:
            self.hold_due = True

    @property
    def means_to_abort(self) -> bool:
        """Whether it aborts this transaction of its own will: its number is one at which the share makes one more."""
        return self.number * self.aborts_percent // 100 > (self.number - 1) * self.aborts_percent // 100

    # ---- what it may do ----------------------------------------------------------------------------------

    def open_producer(self, step: Step, node: TransactionalNode) -> None:
        """Make a producer and initialize its transactions."""
        assert self.phase == "closed", self.phase
        manager = node.sender.transactions
        self.phase, self.operation = "starting", node.next_operation()
        step.record(InitInvoke(self.operation, self.transactional_id, manager.transaction.timeout_ms))
        manager.transaction.begin_init(manager)

    def on_restart(self, step: Step, node: TransactionalNode) -> None:
        """The timer ``RESTART`` fired: make another producer, unless the application has stopped meanwhile."""
        if node.running:
            self.open_producer(step, node)

    def begin(self, step: Step, node: TransactionalNode) -> None:
        """Begin the next transaction."""
        assert self.phase == "ready", self.phase
        manager = node.sender.transactions
        operation = node.next_operation()
        self.number += 1
        self.phase, self.identity = "open", (manager.producer_id, manager.epoch)
        version = 2 if manager.transaction.v2 else 1
        step.record(BeginInvoke(operation, self.transactional_id, self.number, *self.identity, version))
        manager.transaction.begin()
        node.sender.number = self.number
        step.record(BeginReturn(operation, "ok", 0, self.transactional_id, self.number))

    def told_of_error(self, node: TransactionalNode) -> bool:
        """Whether the next call of the application would throw, other than to abort."""
        return node.sender.transactions.transaction.failed

    def send(
        self,
        step: Step,
        node: TransactionalNode,
        tp: str,
        number: int,
        made_of: str = "",
        amount: int | UnsetType = UNSET,
    ) -> None:
        """Send a record in the transaction."""
        assert self.phase == "open", self.phase
        node.sender.transactions.transaction.add_partition(tp)
        of = (self.transactional_id, self.number)
        send_record(node, step, tp, number, made_of or UNSET, of, amount)

    def send_offsets(
        self, step: Step, node: TransactionalNode, offsets: dict[str, Entry], group: GroupMetadata
    ) -> None:
        """Send positions of a group to the transaction."""
        assert self.phase == "open", self.phase
        manager = node.sender.transactions
        self.phase, self.operation = "offsets", node.next_operation()
        self.offsets, self.group = dict(offsets), group
        step.record(
            SendOffsetsInvoke(
                self.operation,
                self.transactional_id,
                self.number,
                group.group,
                group.member,
                group.generation,
                dict(offsets),
            )
        )
        if manager.transaction.failed:
            self._offsets_over(step, manager.transaction.error)
        else:
            sent = dict(offsets)
            if "positions-without-epoch" in step.defects:
                sent = {tp: [offset, -1, metadata_epoch] for tp, (offset, _, metadata_epoch) in offsets.items()}
            manager.transaction.send_offsets(manager, sent, group)

    def end(self, step: Step, node: TransactionalNode, commit: bool) -> None:
        """Commit or abort. Of an error the producer tells at once, unless it is one to abort for."""
        assert self.phase == "open", self.phase
        manager = node.sender.transactions
        self.phase, self.operation, self.committing = "ending", node.next_operation(), commit
        step.record(EndInvoke(self.operation, self.transactional_id, self.number, *self.identity, commit))
        state = manager.transaction.state
        if state == "FATAL_ERROR" or (state == "ABORTABLE_ERROR" and commit):
            manager.transaction.end_sent = False
            manager.transaction.results["commit" if commit else "abort"] = manager.transaction.error
        else:
            if "epoch-not-raised" in step.defects:
                manager.transaction.raise_epoch = False
            manager.transaction.begin_end(manager, node.net, commit)

    # ---- what comes of it --------------------------------------------------------------------------------

    def poll(self, step: Step, node: TransactionalNode) -> bool:
        """Take what an operation came to; True if something changed. As its documentation demands, the application
        aborts what it could not commit, and closes a producer that cannot do that, to make a new one."""
        results = node.sender.transactions.transaction.results
        match self.phase:
            case "starting" if "init" in results:
                self._started(step, node, results.pop("init"))
            case "offsets" if "offsets" in results:
                self._offsets_over(step, results.pop("offsets"))
            case "ending" if ("commit" if self.committing else "abort") in results:
                self._ended(step, node, results.pop("commit" if self.committing else "abort"))
            case _:
                return False
        return True

    def _started(self, step: Step, node: TransactionalNode, error: int) -> None:
        manager = node.sender.transactions
        tid = self.transactional_id
        if error:
            # Some attempt may have fenced whoever had the id before, and raised the epoch.
            step.record(InitReturn(self.operation, "unknown", error, tid))
            self.close(step, node)
            return
        manager.transaction.initialized(node.net)
        step.record(InitReturn(self.operation, "ok", 0, tid, manager.producer_id, manager.epoch))
        self.phase = "ready"

    def give_up_init(self, step: Step, node: TransactionalNode) -> None:
        """The application is to stop: it closes the producer that initializes its transactions, and makes no other."""
        step.record(InitReturn(self.operation, "unknown", KafkaError.UNKNOWN_SERVER_ERROR, self.transactional_id))
        self.close(step, node)
        step.cancel_timer(RESTART)

    def _offsets_over(self, step: Step, error: int) -> None:
        assert self.group is not None
        outcome: Outcome = "unknown" if error else "ok"
        step.record(
            SendOffsetsReturn(
                self.operation, outcome, error, self.transactional_id, self.number, self.group.group, self.offsets
            )
        )
        self.phase = "open"

    def _ended(self, step: Step, node: TransactionalNode, error: int) -> None:
        manager = node.sender.transactions
        asked = manager.transaction.end_sent
        outcome: Outcome = "ok"
        if error:
            outcome = "unknown" if asked and manager.transaction.end_undecided else "fail"
        step.record(
            EndReturn(
                self.operation,
                outcome,
                error,
                self.transactional_id,
                self.number,
                *self.identity,
                self.committing,
                asked,
                *((-1, -1) if error else (manager.producer_id, manager.epoch)),
                manager.transaction.end_unanswered or UNSET,
            )
        )
        if not error:
            self.phase = "ready"
            self.commits, self.aborts = self.commits + self.committing, self.aborts + (not self.committing)
            if manager.transaction.state != "READY":
                # It turned out only while the transaction was being ended that the epoch must be raised, which nobody
                # does any more: beginTransaction would throw an IllegalStateException for ever.
                self.close(step, node)
        elif self.committing and manager.transaction.state == "ABORTABLE_ERROR":
            self.phase = "open"
            self.end(step, node, commit=False)
        else:
            self.close(step, node)

    def close(self, step: Step, node: TransactionalNode) -> None:
        """Close the producer without waiting for anything, and start again a little later."""
        former = node.sender
        self.phase = "closed"
        self.closes += 1
        former.give_up_all(step, former.transactions.fatal or KafkaError.UNKNOWN_SERVER_ERROR)
        self.acked += former.acked
        node.net.renew(step, former.connection)
        step.cancel_timer(transaction.RETRY)
        node.sender = self.new_sender(node, former)
        step.set_timer(RESTART, RESTART_MS)

    def new_sender(self, node: TransactionalNode, former: Sender | None = None) -> Sender:
        """A producer. Its batches are numbered on from the ``former`` one's: timers are named after them."""
        made = new_sender(node.spec.config, self.transactional_id)
        made.transactions.transaction.endless_aborts = node.spec.features.get(ENDLESS_ABORTS, "kafka")
        if former is not None:
            made.connection, made.accumulator.count = former.connection, former.accumulator.count
        return made


COMPONENT: Component[TransactionalNode, Step] = Component(
    timers={
        RESTART: lambda node, step, _: node.session.on_restart(step, node),
        HOLD: lambda node, step, _: node.session.on_hold(step),
    }
)
"""What every client with transactions has, beside what every client has that sends."""
