"""L10: the last stable offset gets on."""

from __future__ import annotations

from typing import Any

import pytest

from actors.trace.events import CtlFault, CtlWindow, LogTrunc, NodeDown
from orchestrator.invariants.folds.bounds import bound_us
from orchestrator.invariants.folds.fold import Profile
from tests.unit.invariants.trace_builder import TP
from tests.unit.invariants.transactions.stage import TransactionTrace, producers

BROKERS = ("broker-1", "broker-2", "broker-3")
TIMEOUT_US = 1_000_000


class Waiting(TransactionTrace):
    """A transaction is open at 0 of broker-1's log, and there is a plain record behind it."""

    def __init__(self, *core: str, timeout_ms: int = 1000, **profile: Any) -> None:
        super().__init__(**profile)
        self.lead(1)
        self.begins(timeout_ms=timeout_ms)
        self.emit("driver", _window(*(core or BROKERS)))
        self.write("a")
        self.append("broker-1", "b")
        self.high_watermark("broker-1", 2)

    def commits(self, replicated: bool = True) -> None:
        self.decides(True)
        self.ends("commit")
        if replicated:
            self.high_watermark("broker-1", 3)

    def passes(self, bounds: float) -> None:
        """Time passes, of bounds of L10 with the timeout of transactions."""
        self.wall += int(bounds * (bound_us(Profile(), "L10") + TIMEOUT_US))
        self.emit("driver", CtlFault("f", "drop", "start", [], {}))


def _window(*core: str) -> Any:
    return CtlWindow("w", "open", list(core))


def test_a_transaction_that_ends() -> None:
    """Shows that L10 is held, tested once, if the marker is replicated in time."""
    run = Waiting()
    run.passes(0.9)
    run.commits()
    run.passes(1)
    result = run.result("L10")
    assert (result.status, result.tested) == ("held", 1)


def test_a_transaction_that_does_not_end() -> None:
    """Shows that L10 is violated once the bound and the timeout are over, and names who is in the way."""
    run = Waiting()
    run.passes(1)
    (finding,) = run.result("L10").violations
    assert finding.sentence.startswith("the last stable offset of orders-0 did not reach 2 within ")
    assert finding.sentence.endswith(
        "on top of the transactions' timeout of 1 s: it is 0; producer id 7 has a transaction open from there on"
    )


@pytest.mark.parametrize(("profile", "violated"), [(producers(one=1000), 1), ({}, 0)])
def test_a_timeout_that_no_producer_has(profile: dict[str, Any], violated: int) -> None:
    """Shows that L10 grants a transaction no more time than its producer has asked for, where the run tells that."""
    run = Waiting(timeout_ms=900_000, **profile)
    run.passes(1)
    assert run.result("L10").violated == violated


def test_a_timeout_that_was_over_before_the_window() -> None:
    """Shows that it does not count anew in a window: the coordinator that is there knows when the transaction began."""
    run = Waiting()
    run.emit("driver", CtlWindow("w", "close", []))
    run.wall += TIMEOUT_US
    run.emit("driver", _window(*BROKERS))
    run.wall += bound_us(Profile(), "L10") - 200_000
    run.emit("driver", CtlFault("f", "drop", "start", [], {}))
    assert run.result("L10").status != "violated"
    run.wall += 400_000
    run.emit("driver", CtlFault("g", "drop", "start", [], {}))
    assert run.result("L10").status == "violated"


def test_a_marker_that_is_not_replicated() -> None:
    """Shows that the marker alone does not keep L10, as it keeps T9."""
    run = Waiting()
    run.commits(replicated=False)
    run.completes(True)
    run.passes(1)
    assert (run.result("L10").status, run.result("T9").status) == ("violated", "held")


def test_the_next_transaction() -> None:
    """Shows that one which begins above the high watermark of the moment does not count."""
    run = Waiting()
    run.passes(0.5)
    run.decides(True)
    run.ends("commit")
    run.state("CompleteCommit", "Ongoing", 4)
    run.write("c", epoch=4)
    run.high_watermark("broker-1", 4)
    run.passes(0.6)
    assert run.result("L10").status == "held"


def test_a_window_without_some_broker() -> None:
    """Shows that it says nothing: that broker may be the coordinator."""
    run = Waiting("broker-1", "broker-2")
    run.passes(1)
    assert run.result("L10").status == "vacuous"


@pytest.mark.parametrize(
    ("cause", "feature", "status"),
    [
        ("unclean", "off", "excused"),
        ("unclean", "seed", "violated"),
        ("elect", "off", "violated"),
    ],
)
def test_a_marker_that_was_lost(cause: str, feature: str, status: str) -> None:
    """Shows that an unclean election which loses the marker opens the transaction again, which is excused unless
    ``kafka-7408`` promises to mend that; no other election excuses it."""
    run = Waiting(features={"kafka-7408": feature})
    run.append("broker-2", "a", "b", role="follower", producer=7)
    run.commits()
    run.change(2, 1, isr=[2], cause=cause)
    run.assume(2, 1)
    run.high_watermark("broker-2", 2, epoch=1)
    run.passes(1)
    assert run.result("L10").status == status


def test_what_a_new_leader_cuts_off() -> None:
    """Shows that a transaction which a leader has cut off, by ``kafka-7408``, is in nobody's way, nor is what was to be
    reached above its log's end."""
    run = Waiting(features={"kafka-7408": "seed"})
    run.change(1, 1, isr=[1], cause="unclean")
    run.emit("broker-1", LogTrunc(TP, 2, 0, "last-stable-offset", 1))
    run.passes(1)
    assert not run.result("L10").violations


@pytest.mark.parametrize(
    ("lost", "least", "status"), [({TP: 0}, 1, "excused"), ({TP: 0}, 2, "violated"), ({"other-0": 0}, 1, "violated")]
)
def test_a_disk_that_lost_the_end(lost: dict[str, int], least: int, status: str) -> None:
    """Shows that what min.insync.replicas disks of this partition lost excuses what stays open, and that neither fewer
    disks do nor those of another partition."""
    run = Waiting(config={"min.insync.replicas": least})
    run.emit("broker-3", NodeDown("lossy", lost=lost))
    run.passes(1)
    assert run.result("L10").status == status


@pytest.mark.parametrize("unclean", [False, True])
def test_what_was_lost_before_the_transaction(unclean: bool) -> None:
    """Shows that neither an unclean election nor a loss excuses a transaction that begins after it."""
    run = Waiting()
    run.commits()
    if unclean:
        run.change(1, 1, isr=[1], cause="unclean")
        run.assume(1, 1, high_watermark=3)
    else:
        run.emit("broker-3", NodeDown("lossy", lost={TP: 0}))
    run.state("CompleteCommit", "Ongoing", 4)
    run.write("c", epoch=4, led=int(unclean))
    run.write("d", epoch=4, led=int(unclean))
    run.high_watermark("broker-1", run.log_end(1), epoch=int(unclean))
    run.passes(1.5)
    result = run.result("L10")
    assert (result.violated, result.excused) == (1, {})
