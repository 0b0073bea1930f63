"""The records of transactions in one partition, and those that the log of a leader lacks."""

from __future__ import annotations

import msgspec

from actors.trace.events import LogAppend, Stamped
from orchestrator.invariants.folds.fold import Witness, witness
from orchestrator.invariants.mirrors.log_prefix import Prefix


class Written(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A batch that a leader has appended, at [base, end)."""

    base: int
    end: int
    leader_epoch: int

    @property
    def records(self) -> int:
        """How many it has."""
        return self.end - self.base

    def is_in(self, log: Prefix) -> bool:
        """Whether a log has it, as far as the mirror remembers."""
        batch = log.batch_at(self.base)
        return self.base < log.floor or (batch is not None and batch.epoch == self.leader_epoch)


class Transaction(msgspec.Struct):
    """The last transaction of a producer id. ``batches``: by their base sequences, each where it was appended last: a
    producer tries again what nobody has acknowledged. ``ended``: it has a marker. ``missed``: how an unclean leader
    began without some of it; ``cut``: base sequences of those that it had, and truncated; ``told``: that a part of it
    is committed is said already."""

    producer_epoch: int
    batches: dict[int, Written] = {}
    ended: bool = False
    missed: Witness | None = None
    cut: set[int] = set()
    told: bool = False


class Half(msgspec.Struct, frozen=True, gc=False):
    """A transaction that is committed by a marker whose log has some of its records and lacks others. ``cut``: how many
    of those that it lacks its leader had when it was elected uncleanly, which is ``by``, and truncated."""

    has: int
    lacks: int
    cut: int
    by: Witness


class Transactions(msgspec.Struct):
    """By producer id, of one partition."""

    of: dict[int, Transaction] = {}

    def append(self, body: LogAppend) -> None:
        """A leader appends a batch of a transaction. Those without a sequence number, positions of groups, do not
        count."""
        if body.base_sequence < 0:
            return
        found = self.of.get(body.producer_id)
        if found is None or found.ended or found.producer_epoch != body.producer_epoch:
            found = self.of[body.producer_id] = Transaction(body.producer_epoch)
        before = found.batches.get(body.base_sequence)
        # One that was replaced may append what its successor has had long since.
        if before is None or before.leader_epoch <= body.batch_epoch:
            found.batches[body.base_sequence] = Written(body.base, body.last + 1, body.batch_epoch)

    def begin(self, event: Stamped, log: Prefix) -> None:
        """A leader that was elected uncleanly begins with this log."""
        for each in self.of.values():
            if each.missed is None and not all(batch.is_in(log) for batch in each.batches.values()):
                each.missed = witness(event)

    def cut(self, log: Prefix, to: int) -> None:
        """A leader that was elected uncleanly is about to truncate this log."""
        for each in self.of.values():
            each.cut |= {number for number, batch in each.batches.items() if batch.base >= to and batch.is_in(log)}

    def tell(self, producer_id: int, first: int) -> None:
        """That a part is committed of the transaction that begins at ``first`` is said already."""
        found = self.of.get(producer_id)
        if found is not None and any(each.base == first for each in found.batches.values()):
            found.told = True

    def end(self, body: LogAppend, log: Prefix) -> Half | None:
        """A leader appends a marker. Returns what it commits a part of."""
        found = self.of.get(body.producer_id)
        if found is None or found.producer_epoch > body.producer_epoch:
            return None
        found.ended = True
        if body.marker != "commit" or found.missed is None or found.told:
            return None
        lacking = {number: each for number, each in found.batches.items() if not each.is_in(log)}
        has = sum(each.records for number, each in found.batches.items() if number not in lacking)
        lacks = sum(each.records for each in lacking.values())
        found.told = bool(has and lacks)
        if not found.told:
            return None
        cut = sum(each.records for number, each in lacking.items() if number in found.cut)
        return Half(has, lacks, cut, found.missed)
