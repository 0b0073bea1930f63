"""L21: that leaders come to copy what they begin to copy."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from actors.trace.events import ConfigChange, CtlFault, LogStart, PartRemove
from orchestrator.invariants.folds.bounds import bound_us
from orchestrator.invariants.folds.fold import Profile
from tests.unit.invariants.tiers.test_copies import Tiers
from tests.unit.invariants.trace_builder import TP

METADATA = "__remote_log_metadata-3"
BROKERS = ("broker-1", "broker-2", "broker-3")


class Copying(Tiers):
    """Broker-1 leads; broker-2 leads the metadata."""

    def __init__(self) -> None:
        super().__init__()
        self.change(2, 0, tp=METADATA)

    def opens(self, *core: str) -> None:
        """A window, by default with all who have the partitions."""
        self.window("open", *(core or BROKERS))

    def begins(self, segment: str = "a", start: int = 0) -> str:
        """Broker-1 begins to copy."""
        return self.told("copying", segment, start)

    def past(self) -> None:
        """The bound goes by, and one event more."""
        self.wall += bound_us(Profile(), "L21")
        self.fault("start", "drop")

    def fault(self, phase: str, kind: str = "failing-store") -> None:
        """A fault begins, or ends."""
        where = {"from": [], "to": [], "both_ways": False, "delay_max_us": 0}
        self.emit("driver", CtlFault("f", kind, "start" if phase == "start" else "stop", [], where))

    def status(self) -> tuple[str, int]:
        """And how often it was tested."""
        found = self.result("L21")
        return found.status, found.tested


def test_a_copy_that_is_finished() -> None:
    """Shows that a copy which was begun in a window, and finished in time, tests L21, be it in the second try; one that
    was begun before the window does not."""
    run = Copying()
    run.begins()
    run.opens()
    run.told("copied", "a", 0)
    run.past()
    assert run.status() == ("vacuous", 0)
    run = Copying()
    run.opens()
    run.begins()
    run.told("copy-failed", "a", 0)
    run.begins("b")
    run.told("copied", "b", 0)
    run.past()
    assert run.status() == ("held", 1)


def test_copies_that_all_fail() -> None:
    """Shows that the time counts from the first of them on, and what is said of that."""
    run = Copying()
    run.opens()
    first = run.begins()
    run.wall += bound_us(Profile(), "L21") - 10_000
    run.told("copy-failed", "a", 0)
    run.begins("b")
    assert run.status()[0] != "violated"
    run.past()
    (finding,) = run.result("L21").violations
    assert finding.events[0] == first
    assert finding.sentence.startswith(
        "broker-1 has begun to copy the segment of orders-0 up to 10, and has not finished any copy of it within "
    )


VOID: dict[str, Callable[[Copying], object]] = {
    "the window is over": lambda run: run.window("close"),
    "a broker is away that has the partition": lambda run: run.opens("broker-1", "broker-2"),
    "a replica of the partition is not in sync": lambda run: run.change(1, 0, (1, 2), partition_epoch=1),
    "a replica of the metadata is not in sync": lambda run: run.change(2, 1, (2,), tp=METADATA),
    "the store answers with errors": lambda run: run.fault("start"),
    "it is taken up anew": lambda run: run.assume(1, 1),
    "its log is cut": lambda run: run.truncate("broker-1", 4),
    "retention is faster": lambda run: run.emit("broker-1", LogStart(TP, 10, "retention-ms", 0)),
    "it ends": lambda run: run.down("broker-1"),
    "an operator changes something": lambda run: run.emit(
        "controller-1", ConfigChange("topic/orders", "remote.copy.lag.ms", "9", 50, 1)
    ),
    "the topic is removed": lambda run: run.emit("controller-1", PartRemove(TP, 50, 1, "t")),
    "records may be lost": lambda run: run.change(2, 1, (2,), cause="unclean"),
    "the metadata may be lost": lambda run: run.change(2, 1, (2,), tp=METADATA, cause="unclean"),
}


@pytest.mark.parametrize("why", VOID)
def test_copies_that_need_not_succeed(why: str) -> None:
    """Shows what takes the obligation away."""
    run = Copying()
    run.opens()
    run.begins()
    VOID[why](run)
    run.past()
    assert run.status() == ("vacuous", 0) or run.status()[0] == "inconclusive"


def test_a_copy_without_a_window() -> None:
    """Shows that nobody owes anything while the store answers with errors, also if that began before the window, and
    that a copy after that counts again."""
    run = Copying()
    run.fault("start")
    run.opens()
    run.begins()
    run.past()
    assert run.status() == ("vacuous", 0)
    run.fault("stop")
    run.begins("b")
    run.past()
    assert run.status()[0] == "violated"
