"""One replica of a partition, as the trace tells of it."""

from __future__ import annotations

import msgspec

from orchestrator.invariants.mirrors.log_prefix import BatchFacts, Prefix
from orchestrator.invariants.mirrors.loss_budget import Loss
from orchestrator.invariants.mirrors.transactions_of_log import TransactionsOfLog

STARTS_REMEMBERED = 16
"""Log starts of a replica that are remembered, for followers that were told of them."""


class Replica(msgspec.Struct):
    """One replica. ``leads``: leader epoch it leads now, -1 none; ``follows``: leader epoch under which it appended
    last as a follower, -1 if its log was cut since; ``incarnation``: of the process that recorded last;
    ``high_watermark``: its own; ``flushed``: end of what is on its disk (metadata log only); ``losses``: what it has
    lost, until it has it again; ``kept``: its log below what it lost last, if nothing was left from its local start on:
    where that lies inside a segment, the disk has what is before it; ``away``: it has lost something, and its next
    process has not taken up a role yet; ``start``: where its log begins, as the process of the incarnation
    ``started_in`` has said; ``local_start``: where what it has itself; ``began``: where it began anew last, without
    what it knew of producers, 0 never; ``heard``: the highest log start that this process has had, or was told by a
    leader; ``had``: the highest that any of its processes has had; ``starts``: incarnation, number of the event, and
    where it began from then on, the newest ones; ``left_behind``: the batches above its high watermark that it had when
    its leader's log began where its own ended, which it gave up then, and whose producers it still knows."""

    log: Prefix = msgspec.field(default_factory=Prefix)
    leads: int = -1
    follows: int = -1
    incarnation: int = 0
    away: bool = False
    start: int = 0
    local_start: int = 0
    started_in: int = 0
    began: int = 0
    heard: int = 0
    had: int = 0
    starts: list[tuple[int, int, int]] = []
    high_watermark: int = 0
    flushed: int = 0
    losses: list[Loss] = []
    left_behind: list[BatchFacts] = []
    kept: Prefix | None = None
    transactions: TransactionsOfLog = msgspec.field(default_factory=TransactionsOfLog)

    @property
    def last_stable_offset(self) -> int:
        """How far a reader of committed transactions may go, as its log tells. An open transaction that began before
        the log ends that at its start (``UnifiedLog.maybeIncrementFirstUnstableOffset``)."""
        stable = self.transactions.stable_offset(self.high_watermark)
        return min(max(stable, self.start), self.high_watermark)

    def begin(self, incarnation: int, number: int, start: int, anew: bool) -> None:
        """A process has its log begin at ``start``, as it says in an event with this number; ``anew``: whatever was
        before."""
        if anew or self.started_in != incarnation:
            self.heard = 0
        self.start, self.started_in = start, incarnation
        self.heard, self.had = max(self.heard, start), max(self.had, start)
        self.starts = [*self.starts[1 - STARTS_REMEMBERED :], (incarnation, number, start)]

    def hear(self, incarnation: int, start: int) -> None:
        """A process was told of a log start."""
        self.heard = max(self.heard if self.started_in == incarnation else 0, start)

    def start_at(self, incarnation: int, number: int) -> int:
        """Where the log of a process began at one of its events, 0 also where that was forgotten."""
        known = (start for of, since, start in reversed(self.starts) if of == incarnation and since <= number)
        return next(known, 0)

    def append(self, batch: BatchFacts) -> None:
        """A batch came to the end of its log."""
        self.log.append(batch)
        if batch.control or batch.txn is not None:
            self.transactions.append(batch.base, batch.end, batch.txn, batch.control)

    def cut(self, to: int) -> None:
        """Its log ends at ``to`` now."""
        self.log.cut(to)
        self.transactions.cut(to)

    def regain(self, high_watermark: int) -> None:
        """Up to its high watermark it has what its leader has. What disks had taken is no loss once it is there again:
        another log up to the same end does not make it good."""
        if self.losses:
            self.losses = [
                each for each in self.losses if each.end > high_watermark or not self.log.matches(each.end, each.ph)
            ]

    def undo_cut(self, to: int) -> None:
        """The cut that was the last change of its log took place down to an end, and no further: some of its segments
        were not removed."""
        batches = [batch for batch in self.log.cut_off if batch.end <= to]
        self.log.undo_cut(to)
        for batch in batches:
            if batch.control or batch.txn is not None:
                self.transactions.append(batch.base, batch.end, batch.txn, batch.control)
