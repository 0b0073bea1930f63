"""C10: what is moved between accounts is neither made nor lost."""

from __future__ import annotations

from typing import Any

import msgspec

from actors.trace.events import BeginInvoke, ConsPos, NodeDown, PartChange, PollReturn, SendInvoke, Stamped, TxnState
from orchestrator.invariants.folds.fold import (
    NOTHING,
    Emission,
    Emissions,
    KeyedInvariant,
    Profile,
    State,
    Witness,
    committed_alone,
    witness,
)
from orchestrator.invariants.folds.memory import SESSIONS_REMEMBERED, forget_first, remember
from orchestrator.invariants.folds.routes import RUN
from orchestrator.invariants.mirrors.loss import LOSS
from orchestrator.invariants.mirrors.partition_losses import Lost, PartitionLosses
from orchestrator.invariants.transactions.decided import EPOCH_BUMP

REMEMBERED = 1 << 12
"""Transfers that are remembered."""
READINGS_REMEMBERED = 64
"""Readings of a partition by one reader that are remembered."""


class Entry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A record of a transfer, as it is sent: what comes to the account ``tp``, or leaves it."""

    tp: str
    amount: int


class Begun(msgspec.Struct, frozen=True, gc=False):
    """A transaction. ``number``: among those of its application; ``since_us``: when it began."""

    application: str
    number: int
    transactional_id: str
    since_us: int
    by: Witness


class Transfer(msgspec.Struct, frozen=True):
    """A transaction whose amounts add up to nothing. ``entries``: uid -> what it says."""

    begun: Begun
    entries: dict[str, Entry]


class Reading(msgspec.Struct):
    """A reader in one partition, for as long as nobody moves its position: it gets whatever is to be read. ``first``,
    ``last``: application -> number of the first, and of the last transfer of which it got something here;
    ``beginning``: it began with the first record."""

    session: str
    beginning: bool
    first: dict[str, int] = {}
    last: dict[str, int] = {}

    def passed(self, transfer: Begun) -> bool:
        """Whether it has got everything that is to be got of a transfer here: it got something of a later one, and
        began before it."""
        if transfer.number >= self.last.get(transfer.application, -1):
            return False
        return self.beginning or self.first[transfer.application] < transfer.number


class Got(msgspec.Struct):
    """What one reader has of one transfer: "partition/offset" -> uid."""

    records: dict[str, str] = {}
    by: Witness | None = None


class Accounts(State):
    """``readers``: clients at read_committed. ``open``: client's incarnation -> its transaction, if it has an epoch of
    its own; ``transfers``: name -> those that have sent something; ``transfer_of``: uid -> name. ``got``: name ->
    reader -> what it has of it. ``readings``: reader and partition -> all its readings. ``homes``: transactional id ->
    the partition that holds it."""

    readers: set[str] = set()
    open: dict[str, Begun] = {}
    transfers: dict[str, Transfer] = {}
    transfer_of: dict[str, str] = {}
    got: dict[str, dict[str, Got]] = {}
    readings: dict[str, list[Reading]] = {}
    homes: dict[str, str] = {}
    losses: list[Lost] = []
    disks: PartitionLosses = msgspec.field(default_factory=PartitionLosses)

    def lose(self, losses: list[Lost]) -> None:
        """Logs may have lost their ends. What is older than every transfer that is remembered explains nothing."""
        if len(self.losses) > SESSIONS_REMEMBERED:
            begun = [*(each.begun for each in self.transfers.values()), *self.open.values()]
            since_us = min((each.since_us for each in begun), default=0)
            self.losses = [each for each in self.losses if each.at_us >= since_us]
        self.losses.extend(losses)


class NothingIsMadeOrLost(KeyedInvariant[Accounts]):
    """A transfer takes an amount from one account and adds it to another, in one transaction. A reader of all accounts
    at read_committed finds the same sum at any time: no money appears or disappears.

    Example: transaction 12 of producer-1 takes 3 from the account orders-0, by producer-1:57, and adds 3 to orders-1,
    by producer-1:58. Consumer-1 gets producer-1:57, but from orders-1 only producer-1:56 and producer-1:60, which
    belong to the transactions before and after. Its sum is 3 too low, for ever. Or it gets producer-1:58 at two
    offsets.

    The check compares the accounts of a transfer once a reader has passed it in all of them, that is, has got a later
    record of the same application from each. Until then half of a transfer is legal, because Kafka does not isolate
    partitions.
    """

    id = "C10"
    title = (
        "A reader at read_committed gets a transfer between accounts whole or not at all, so that the sum stays the "
        "same"
    )
    source = "KIP-98; redpanda's tx_money; Jepsen's bank workload"
    tested_when = "a reader at read_committed has all records of a transfer"
    route = RUN
    of_transactions = True
    types = (SendInvoke, BeginInvoke, PollReturn, ConsPos, TxnState)
    exemptions = LOSS
    unseen = (
        "Transfers below transaction.version 2: a late marker may end the next transaction there, as T4 finds.",
        "The last transfer of each application: no later record follows it.",
        f"Records of a transfer from more than {REMEMBERED:,} transfers ago.",
    )

    @property
    def news(self) -> tuple[type, ...]:
        return (PartChange, NodeDown)

    def initial(self, key: str, profile: Profile) -> Accounts:
        return Accounts(key, readers=committed_alone(profile), disks=PartitionLosses(profile))

    def hear(self, state: Accounts, event: Stamped) -> Emissions:
        state.lose(state.disks.take(event))
        return NOTHING

    def step(self, state: Accounts, event: Stamped) -> Emissions:
        body: Any = event.body
        kind = type(body)
        if kind is SendInvoke:
            if isinstance(body.amount, int):
                return self._sent(state, event, body.tp, body.uid, body.amount)
        elif kind is TxnState:
            state.homes[body.transactional_id] = body.tp
        elif kind is BeginInvoke:
            client = f"{event.node}/{event.incarnation}"
            state.open.pop(client, None)
            if body.version >= EPOCH_BUMP:
                begun = Begun(client, body.transaction, body.transactional_id, event.wall, witness(event))
                remember(state.open, client, begun, SESSIONS_REMEMBERED)  # their clients are gone
        elif state.transfers and event.node in state.readers:
            if kind is ConsPos:
                self._begun(state, event, body.tp, body.new)
            elif body.outcome == "ok" and body.records:
                self._read(state, event, body)
        return NOTHING

    def _sent(self, state: Accounts, event: Stamped, tp: str, uid: str, amount: int) -> Emissions:
        begun = state.open.get(f"{event.node}/{event.incarnation}")
        if begun is None:
            return NOTHING
        name = f"{begun.application}/{begun.number}"
        if name not in state.transfers:
            state.transfers[name] = Transfer(begun, {})
        state.transfers[name].entries[uid] = Entry(tp, amount)
        state.transfer_of[uid] = name
        return self._close(state, next(iter(state.transfers))) if len(state.transfers) > REMEMBERED else NOTHING

    def _begun(self, state: Accounts, event: Stamped, tp: str, offset: int) -> Reading:
        """A reader reads a partition from here."""
        readings = state.readings.setdefault(f"{event.node} {tp}", [])
        readings.append(Reading(f"{event.node}/{event.incarnation}", offset == 0))
        del readings[:-READINGS_REMEMBERED]
        return readings[-1]

    def _read(self, state: Accounts, event: Stamped, body: PollReturn) -> None:
        readings = state.readings.get(f"{event.node} {body.tp}", ())
        reading = readings[-1] if readings else None
        if reading is None or reading.session != f"{event.node}/{event.incarnation}":
            reading = self._begun(state, event, body.tp, body.offset)
        for record in body.records:
            name = state.transfer_of.get(record.uid)
            if name is None:
                continue
            begun = state.transfers[name].begun
            application, number = begun.application, begun.number
            reading.first[application] = min(number, reading.first.get(application, number))
            reading.last[application] = max(number, reading.last.get(application, number))
            for each in (reading.first, reading.last):
                forget_first(each, SESSIONS_REMEMBERED)
            got = state.got.setdefault(name, {}).setdefault(event.node, Got())
            got.records[f"{body.tp}/{record.offset}"], got.by = record.uid, witness(event)

    def finish(self, state: Accounts, horizon_us: int) -> Emissions:
        return [each for name in list(state.transfers) for each in self._close(state, name)]

    def _close(self, state: Accounts, name: str) -> Emissions:
        """Compare what readers have of a transfer, and forget it."""
        found: list[Emission] = []
        transfer = state.transfers.pop(name)
        for uid in transfer.entries:
            del state.transfer_of[uid]
        for reader, got in state.got.pop(name, {}).items():
            missing = set(transfer.entries) - set(got.records.values())
            balance = sum(transfer.entries[uid].amount for uid in got.records.values())
            if missing and not any(self._passed(state, reader, transfer, uid) for uid in missing):
                continue
            state.tested += 1
            if missing or balance:
                found.extend(self._judged(state, reader, transfer, got, balance, missing))
        return found

    def _passed(self, state: Accounts, reader: str, transfer: Transfer, uid: str) -> bool:
        readings = state.readings.get(f"{reader} {transfer.entries[uid].tp}", ())
        return any(reading.passed(transfer.begun) for reading in readings)

    def _judged(
        self, state: Accounts, reader: str, transfer: Transfer, got: Got, balance: int, missing: set[str]
    ) -> Emissions:
        begun = transfer.begun
        which = f"transaction {begun.number} of {begun.by.node}"
        lacks = f"did not get {', '.join(sorted(missing))}" if missing else "got a record twice"
        sentence = (
            f"{reader} got amounts of {which} with the sum {balance:+,}, but a transfer has the sum 0: it {lacks}"
        )
        tps = {entry.tp for entry in transfer.entries.values()} | {state.homes.get(begun.transactional_id, "")}
        lost = [each.rule for each in state.losses if each.tp in tps and each.at_us >= begun.since_us]
        if lost:
            return self.excused(lost[0], state.key, sentence, begun.by, got.by)
        return self.violated(state.key, sentence, begun.by, got.by)
