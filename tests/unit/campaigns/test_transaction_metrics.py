"""What comparisons measure of transactions, on traces written by hand."""

from __future__ import annotations

from typing import Literal

import pytest

from actors.trace.events import (
    AnyTraceEvent,
    CtlPhase,
    EndReturn,
    LogAppend,
    LogTrunc,
    PartAssume,
    Polled,
    PollReturn,
    SendInvoke,
    Stamped,
    TxnLoad,
    TxnLoaded,
    TxnState,
)
from actors.trace.transaction_events import TransactionStateName
from chaos.scenario.loader import load_text
from chaos.scenario.resolve import resolve
from orchestrator.metrics import Metrics, RunMetrics, rank, title

SCENARIO = """
schema: krift/v1
name: small
cluster: {voters: 1, brokers: 2, topics: {orders: {replicas: [[1, 2], [1, 2]]}}}
duration: 10s
workload:
  - producer: {topic: orders, partitions: [0], rate: 10/s, config: {linger.ms: 0}, transactional: {records: 5}}
  - consumer: {topic: orders, partitions: [0], isolation: read_committed}
  - consumer: {topic: orders, partitions: [0]}
"""
TP, OTHER = "orders-0", "orders-1"
STATE = "__transaction_state-0"


class Written:
    """A trace of a chaos from 1 s to 11 s; what is written into it happens at 2 s unless told."""

    def __init__(self) -> None:
        self.metrics = RunMetrics(resolve(load_text(SCENARIO)))
        self.seq = 0
        self.put("driver", CtlPhase("chaos"), 1)

    def put(self, node: str, body: AnyTraceEvent, at: float = 2) -> None:
        self.seq += 1
        self.metrics(Stamped("run", node, 0, self.seq, round(at * 1e6), 0, "", "", body))

    def measured(self) -> Metrics:
        self.put("driver", CtlPhase("healing"), 11)
        return self.metrics.metrics()

    def transaction(self, number: int, uids: dict[str, str], outcome: Literal["ok", "unknown"] = "ok") -> None:
        """An application sends records, each to a partition, and is told that they are committed."""
        for uid, tp in uids.items():
            body = SendInvoke(uid, tp, uid, -1, True, transactional_id="app", transaction=number)
            self.put("producer-1", body)
        self.put("producer-1", EndReturn(f"e{number}", outcome, 0, "app", number, 7, 0, True, True))

    def append(
        self, base: int, *uids: str, tp: str = TP, producer: int = 7, marker: Literal["", "commit"] = ""
    ) -> None:
        names = [] if marker else list(uids)
        last = base if marker else base + len(uids) - 1
        body = LogAppend(
            *(tp, "leader", base, last, 0, 0, producer, 0, -1 if marker else 0, bool(marker), names),
            transactional=producer >= 0,
            marker=marker,
        )
        self.put("broker-1", body)

    def lead(self, end: int, tp: str = TP) -> None:
        self.put("broker-1", PartAssume(tp, "leader", 1, 1, 0, end, end, 0, 0), 9)

    def coordinated(self, state: TransactionStateName, *partitions: str) -> None:
        body = TxnState(STATE, "app", 7, 0, "Ongoing", state, list(partitions), 0, 0)
        self.put("broker-2", body)


def test_a_transaction_that_nobody_ends() -> None:
    """Shows that one which is open in the last leader's log dangles once its coordinator does not have it open: it has
    ended it, or has lost it; and not while the coordinator still is to tell the partition."""
    for state, partitions, dangling in (
        ("CompleteCommit", (), 1),
        ("PrepareCommit", (OTHER,), 1),
        ("PrepareCommit", (TP,), 0),
        ("Ongoing", (TP,), 0),
    ):
        trace = Written()
        trace.append(0, "a")
        trace.coordinated(state, *partitions)  # type: ignore[arg-type]
        trace.lead(1)
        assert trace.measured()["transactions.dangling"] == dangling
    trace = Written()
    trace.append(0, "a")
    trace.coordinated("Ongoing", TP)
    trace.put("broker-1", TxnLoad(STATE, 1, True, 0, {"app": TxnLoaded("CompleteCommit", 7, 0, [])}))
    trace.lead(1)
    assert trace.measured()["transactions.dangling"] == 1
    trace = Written()
    trace.append(0, "a")
    trace.append(1, marker="commit")
    trace.coordinated("CompleteCommit")
    trace.lead(2)
    assert trace.measured()["transactions.dangling"] == 0


def test_what_is_left_of_committed_transactions() -> None:
    """Shows that one is halved by what is missing of all its records, halved in a log by what is missing there, lost
    without any, and of no account if its application was not told that it is committed."""
    trace = Written()
    trace.transaction(1, {"a": TP, "b": OTHER})  # whole
    trace.transaction(2, {"c": TP, "d": TP})  # halved, in a log
    trace.transaction(3, {"e": TP, "f": OTHER})  # gone from one of its logs
    trace.transaction(4, {"g": TP})  # lost
    trace.transaction(5, {"h": TP, "i": TP}, "unknown")
    trace.append(0, "a", "c", "h")
    trace.append(0, "b", "f", tp=OTHER)
    trace.lead(3)
    trace.lead(2, OTHER)
    found = trace.measured()
    assert {name: found[f"transactions.{name}"] for name in ("committed", "halved", "halved-in-log", "lost")} == {
        "committed": 4,
        "halved": 2,
        "halved-in-log": 1,
        "lost": 1,
    }


def test_what_is_cut_off_with_open_transactions() -> None:
    """Shows that records of other transactions, and of none, count apart, that markers do not count, nor what is cut
    off for another reason."""
    trace = Written()
    trace.append(0, "a")
    trace.append(1, "b", "c")
    trace.append(3, "d", producer=9)
    trace.append(4, marker="commit", producer=9)
    trace.append(5, "e", producer=-1)
    trace.put("broker-1", LogTrunc(TP, 6, 1, "last-stable-offset", 0))
    trace.put("broker-1", LogTrunc(TP, 1, 0, "diverge", 0))
    trace.put("broker-1", LogTrunc(STATE, 7, 5, "last-stable-offset", 0))
    trace.transaction(1, {"z": OTHER})
    found = trace.measured()
    assert (found["records.cut-open"], found["records.cut-of-others"], found["records.cut-internal"]) == (2, 2, 2)


def test_readers_of_committed_records_wait_longer() -> None:
    """Shows that they are measured apart: one that got its last record at 2 s was without for 9 s, less its period."""
    trace = Written()
    for at in range(2, 11):
        for node in ("consumer-1", "consumer-2"):
            if at == 2 or node == "consumer-2":
                body = PollReturn(f"{node}/{at}", "ok", 0, TP, 0, 0, records=[Polled(0, 0, "a", 0)])
                trace.put(node, body, at)
    found = trace.measured()
    assert found["longest.read_committed-consumer"] == pytest.approx(9 - 0.1)
    assert found["longest.consumer"] == pytest.approx(9 - 0.1)
    assert found["unavailable.read_committed-consumer"] > found["unavailable.consumer"]
    assert title("longest.read_committed-consumer") == "read_committed-consumer without answer, longest"


def test_a_run_without_transactions_has_none_of_it() -> None:
    """Shows that such measures are not there, and where they stand else."""
    found = Written().measured()
    assert not any(name.startswith("transactions.") for name in found)
    assert sorted(["rpcs", "transactions.halved", "longest.consumer"], key=rank)[1] == "transactions.halved"
