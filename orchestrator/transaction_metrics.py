"""What became of transactions: those that nobody ends, and committed ones of which a part is left.

* A transaction *dangles* if it is open in the log of a partition's last leader when the run is over, and no coordinator
  has it open, or is still to tell that partition how it ended: it stays open for ever.
* A transaction is *committed* if its application was told so. It is *halved* if some of its records are in the logs of
  the last leaders when the run is over, and others are not; *halved in a log* if that is so of one partition, counted
  for each. It is *lost* if none of its records is there.
* A leader that was elected uncleanly cuts its log to what is stable (``kafka-7408``). Of the records that it cuts off
  some are in open transactions, and the others are *of others*: in ended transactions, or in none. Partitions of
  internal topics count apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Set
from typing import Any

from msgspec import UNSET

from actors.trace.events import (
    EndReturn,
    LogAppend,
    LogTrunc,
    NodeDown,
    PartAssume,
    SendInvoke,
    Stamped,
    TraceEvent,
    TxnLoad,
    TxnLoaded,
    TxnState,
)
from orchestrator.invariants.mirrors.transactions_of_log import TransactionsOfLog, transactional

UNDECIDED = frozenset({"Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"})
"""States in which a coordinator is still to tell the partitions of a transaction how it ended."""

Transaction = tuple[str, int, str, int]
"""Node, incarnation, transactional id, number."""


class TransactionMetrics:
    """Observes clients, logs and coordinators; ``orchestrator.metrics`` has what comes of it among its measures."""

    def __init__(self) -> None:
        self._sent: dict[Transaction, dict[str, list[str]]] = {}
        self._committed: list[Transaction] = []
        self._logs: dict[tuple[str, str], TransactionsOfLog] = {}
        self._coordinated: dict[str, dict[str, TxnLoaded]] = {}
        self._cut: Counter[str] = Counter()
        self.by_type: dict[type[TraceEvent], Callable[[Stamped, Any], None]] = {
            SendInvoke: self._send,
            EndReturn: self._end,
            LogAppend: self._append,
            LogTrunc: self._truncate,
            NodeDown: self._down,
            PartAssume: self._assume,
            TxnState: self._state,
            TxnLoad: self._load,
        }

    def _send(self, event: Stamped, body: SendInvoke) -> None:
        if body.transactional_id is not UNSET and body.transaction is not UNSET:
            key = (event.node, event.incarnation, body.transactional_id, body.transaction)
            self._sent.setdefault(key, {}).setdefault(body.tp, []).append(body.uid)

    def _end(self, event: Stamped, body: EndReturn) -> None:
        if body.commit and body.outcome == "ok":
            self._committed.append((event.node, event.incarnation, body.transactional_id, body.transaction))

    def _log(self, node: str, tp: str) -> TransactionsOfLog:
        return self._logs.setdefault((node, tp), TransactionsOfLog())

    def _append(self, event: Stamped, body: LogAppend) -> None:
        what = transactional(body)
        if what is not None or body.control:
            self._log(event.node, body.tp).append(body.base, body.last + 1, what, body.control)

    def _truncate(self, event: Stamped, body: LogTrunc) -> None:
        log = self._log(event.node, body.tp)
        if body.reason == "last-stable-offset":
            internal = body.tp.startswith("__")
            opened = sum(_above(body.to, span.ranges) for span in log.open.values())
            others = body.was - body.to - opened - _above(body.to, log.control)
            self._cut["records.cut-internal" if internal else "records.cut-open"] += opened
            self._cut["records.cut-internal" if internal else "records.cut-of-others"] += others
        log.cut(body.to)

    def _down(self, event: Stamped, body: NodeDown) -> None:
        for tp, first in body.lost.items():
            self._log(event.node, tp).cut(first)

    def _assume(self, event: Stamped, body: PartAssume) -> None:
        self._log(event.node, body.tp).cut(body.log_end)  # what a killed process recorded last it may not have kept

    def _state(self, _: Stamped, body: TxnState) -> None:
        known = TxnLoaded(body.to_state, body.producer_id, body.producer_epoch, body.partitions)
        self._coordinated.setdefault(body.tp, {})[body.transactional_id] = known

    def _load(self, _: Stamped, body: TxnLoad) -> None:
        if body.loaded:
            self._coordinated[body.tp] = dict(body.transactions)

    def metrics(self, leaders: Mapping[str, str], kept: Callable[[str], Set[str]]) -> dict[str, float]:
        """The measures of a run that is over, none if it had no transactions. ``leaders``: partition -> last leader;
        ``kept``: the uids in the log of a partition's last leader."""
        if not self._sent and not self._coordinated:
            return {}
        found = Counter({"transactions.committed": len(self._committed), "transactions.dangling": 0})
        found.update(self._cut)
        for tp, node in leaders.items():
            log = self._logs.get((node, tp), TransactionsOfLog())
            found["transactions.dangling"] += sum(not self._is_due(tp, producer_id) for producer_id in log.open)
        for each in self._committed:
            left = [(sum(uid in kept(tp) for uid in uids), len(uids)) for tp, uids in self._sent.get(each, {}).items()]
            has, had = sum(there for there, _ in left), sum(number for _, number in left)
            found["transactions.halved"] += 0 < has < had
            found["transactions.lost"] += 0 == has < had
            found["transactions.halved-in-log"] += sum(0 < there < number for there, number in left)
        return {name: float(number) for name, number in found.items()}

    def _is_due(self, tp: str, producer_id: int) -> bool:
        """Whether some coordinator is still to tell a partition how a producer's transaction ended."""
        known = (each for some in self._coordinated.values() for each in some.values())
        return any(
            each.producer_id == producer_id and each.state in UNDECIDED and tp in each.partitions for each in known
        )


def _above(offset: int, ranges: list[tuple[int, int]]) -> int:
    """How many offsets of some ranges are at or above an offset."""
    return sum(end - max(base, offset) for base, end in ranges if end > offset)
