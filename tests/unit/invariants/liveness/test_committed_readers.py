"""L6 for who reads committed records: an open transaction is to be waited for."""

from __future__ import annotations

import pytest

from actors.trace.events import ConsPos, CtlFault, CtlPhase, CtlWindow, ListReturn, NodeDown
from orchestrator.invariants.folds.bounds import bound_us
from orchestrator.invariants.folds.fold import Profile
from tests.unit.invariants.trace_builder import TP
from tests.unit.invariants.transactions.stage import TransactionTrace


@pytest.mark.parametrize(
    ("isolation", "end", "expected"),
    [
        ("read_uncommitted", "", "violated"),
        ("read_committed", "", "vacuous"),
        ("read_committed", "abort", "vacuous"),
        ("read_committed", "commit", "violated"),
    ],
)
def test_who_has_not_polled_yet(isolation: str, end: str, expected: str) -> None:
    """Shows that a consumer is known to read committed records before its first poll returns: in an open transaction,
    and in an aborted one, there is nothing for it to read, in a committed one there is."""
    run = TransactionTrace(nodes={"consumer-1": {"config": {"isolation.level": isolation}}})
    run.lead(1, 0)
    run.emit("consumer-1", ConsPos(TP, -1, 0, -1, "assign"))
    run.write("a", "b")
    run.emit("driver", CtlWindow("w", "open", ["broker-1", "consumer-1"]))
    run.high_watermark("broker-1", 2)
    if end == "abort":
        run.write(epoch=4, marker="abort")
    elif end == "commit":
        run.write(epoch=4, marker="commit")
    if end:
        run.high_watermark("broker-1", 3)
    run.wall += bound_us(Profile(), "L6")
    run.emit("driver", CtlFault("f", "drop", "start", [], {}))
    assert run.result("L6").status == expected


@pytest.mark.parametrize(
    ("phase", "end", "expected"),
    [("draining", 2, "held"), ("draining", 3, "violated"), ("stopping", 2, "violated"), ("draining", None, "violated")],
)
def test_who_stops_at_the_end_of_the_run(phase: str, end: int | None, expected: str) -> None:
    """Shows that a consumer which has looked up where it stops need not read what others write after that, and must
    get so far; before the end of the run a look-up stops nobody."""
    run = TransactionTrace(nodes={"consumer-1": {"config": {}}})
    run.lead(1, 0)
    run.emit("consumer-1", ConsPos(TP, -1, 0, -1, "assign"))
    run.write("a", "b")
    run.emit("driver", CtlWindow("w", "open", ["broker-1", "consumer-1"]))
    run.high_watermark("broker-1", 2)
    run.emit("driver", CtlPhase(phase))
    if end is not None:
        run.emit("consumer-1", ListReturn("l", "ok", 0, TP, -1, offset=end, leader_epoch=0, broker="broker-1"))
    run.write("c")
    run.high_watermark("broker-1", 3)
    run.polled("consumer-1", (0, "a"), (1, "b"), broker=1, epoch=0)
    run.wall += bound_us(Profile(), "L6")
    run.emit("driver", CtlFault("f", "drop", "start", [], {}))
    assert run.result("L6").status == expected


@pytest.mark.parametrize(
    ("lost", "told", "expected"),
    [({TP: 0}, False, "excused"), ({TP: 1}, False, "violated"), ({TP: 0}, True, "violated")],
)
def test_who_is_to_read_what_disks_have_lost(lost: dict[str, int], told: bool, expected: str) -> None:
    """Shows that a consumer need not read what its new leader does not have as disks have lost it; but it must where
    they have lost something else, or a later leader has told how much there is."""
    run = TransactionTrace(nodes={"consumer-1": {"config": {}}})
    run.lead(1, 0)
    run.emit("consumer-1", ConsPos(TP, -1, 0, -1, "assign"))
    run.write("a")
    if told:
        run.emit("broker-1", NodeDown("lossy", lost=lost))
        run.lead(3, 1)
    run.emit("driver", CtlWindow("w", "open", ["broker-1", "broker-2", "consumer-1"]))
    run.high_watermark("broker-1", 1, epoch=int(told))
    if not told:
        run.emit("broker-1", NodeDown("lossy", lost=lost))
    run.lead(2, 2)
    run.wall += bound_us(Profile(), "L6")
    run.emit("driver", CtlFault("f", "drop", "start", [], {}))
    assert run.result("L6").status == expected
