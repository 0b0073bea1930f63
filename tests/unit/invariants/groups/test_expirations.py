"""O12: when committed positions expire."""

from __future__ import annotations

from typing import Any

import pytest

from actors.trace.events import GROUP_EXPIRED, ClockSet, GrpGen, MetaImage, PartRemove
from tests.unit.invariants.groups.stage import GROUP, OFFSETS, PRODUCER, Coordinated
from tests.unit.invariants.trace_builder import TP

KEPT_MS = 2000
REMOVED_AT = 40


class Expiring(Coordinated):
    """broker-1 coordinates a group, and keeps positions for two seconds."""

    def __init__(self, **more: Any) -> None:
        super().__init__(config={"krift.offsets.retention.ms": KEPT_MS}, **more)
        self.begins()

    def after(self, ms: int) -> None:
        """The next event comes so long after the last one."""
        self.wall += 1000 * ms - self.apart

    def drops(self, broker: int = 1, epoch: int = 0) -> str:
        """The coordinator writes a tombstone for the position."""
        at = self.writes(broker, epoch)
        return self.decides(-1, at, member="", generation=-1, epoch=epoch, broker=broker)

    def judged(self) -> tuple[int, int]:
        """How often O12 was violated, and tested."""
        result = self.result("O12")
        return result.violated, result.tested

    def said(self) -> str:
        """The sentence of the only violation."""
        (finding,) = self.result("O12").violations
        return finding.sentence


@pytest.mark.parametrize(("ms", "held"), [(1900, False), (1996, True), (2100, True)])
def test_an_empty_group_keeps_its_positions_for_a_while(ms: int, held: bool) -> None:
    """Shows that O12 is held, tested, when the positions of a group go that has had no members for the time that its
    coordinator keeps them, counted from when it became empty, and violated when they go before that."""
    trace = Expiring()
    trace.stable(1)
    trace.stores(10)
    trace.after(5000)
    emptied = trace.gen("Empty", 2, "")
    trace.after(ms)
    dropped = trace.drops()
    assert trace.judged() == (not held, 1)
    if not held:
        (finding,) = trace.result("O12").violations
        assert finding.events == [emptied, dropped]
        assert finding.sentence == (
            f"broker-1 dropped the committed offset 10 of group g for {TP} 1,901 ms after the group became empty, "
            "which is 99 ms too early"
        )


@pytest.mark.parametrize(("ms", "held"), [(1900, False), (2100, True)])
def test_without_members_the_commit_counts(ms: int, held: bool) -> None:
    """Shows that the time of a group that never had members counts from the last commit."""
    trace = Expiring()
    trace.stores(5)
    trace.after(1000)
    trace.stores(10)
    trace.after(ms)
    trace.drops()
    assert trace.judged() == (not held, 1)
    if not held:
        assert "after it was committed, which is" in trace.said()


@pytest.mark.parametrize("state", ["Stable", "PreparingRebalance", "CompletingRebalance", "another-topic", "early"])
def test_a_group_with_members_keeps_what_they_read(state: str) -> None:
    """Shows that no position goes of a topic that the members of a stable group are assigned, however old it is; that
    one of another topic goes when its last commit is old enough; and none at all in a rebalance."""
    trace = Expiring()
    trace.stores(10)
    trace.after(1000 if state == "early" else 9000)
    if state in ("another-topic", "early"):
        trace.stable(1, m1="bills-0")
    elif state == "Stable":
        trace.stable(1, m1="orders-1")
    else:
        trace.gen(state, 1)
    trace.drops()
    assert trace.judged() == (state != "another-topic", 1)
    if state == "Stable":
        assert trace.said().endswith("although members of its generation 1 read the topic")
    elif state not in ("another-topic", "early"):
        assert trace.said().endswith(f"although it was {state}")


@pytest.mark.parametrize("end", ["", "commit", "abort", "dropped"])
def test_what_waits_for_a_transaction_stays(end: str) -> None:
    """Shows that a position that an open transaction is going to replace must not go, and that the position of a
    committed transaction counts from when it was written."""
    trace = Expiring()
    trace.stores(10)
    at = trace.log_end(1, OFFSETS)
    trace.writes_in_transaction(1)
    trace.decides(20, at, producer=PRODUCER)
    trace.after(5000)
    if end == "dropped":
        trace.drops()
        trace.stores(30)
        trace.after(5000)
    elif end:
        trace.writes_in_transaction(1, "commit" if end == "commit" else "abort")
    trace.drops()
    assert trace.judged() == ((1, 1) if not end else (1, 2) if end == "dropped" else (0, 1))
    if end in ("", "dropped"):
        assert f"although an open transaction has 20, at {at}" in trace.said()


def test_what_a_request_says_counts() -> None:
    """Shows that a position whose request has said when it expires goes then, and not before."""
    for ms, held in ((500, False), (1100, True)):
        trace = Expiring()
        at = trace.writes()
        trace.decides(10, at, expires_ms=trace.wall // 1000 + 1000)
        trace.after(ms)
        trace.drops()
        assert trace.judged() == (not held, 1)


@pytest.mark.parametrize("why", ["removed", "another", "earlier-step", "clock", "former", "unknown"])
def test_what_says_nothing_of_expiry(why: str) -> None:
    """Shows that nothing is said of a tombstone in the step in which the broker hears that the topic was removed, after
    a clock was set, of a coordinator that was replaced or of which nobody knows what it has; another topic's removal,
    or one that the broker had heard of before, is no reason."""
    trace = Expiring()
    trace.stores(10)
    trace.after(100)
    if why in ("removed", "another", "earlier-step"):
        tp = "bills-0" if why == "another" else TP
        trace.emit("broker-1", MetaImage(REMOVED_AT))
        trace.emit("controller-1", PartRemove(f"{tp}@t1", REMOVED_AT, 1, "t1"))
        trace.emit("broker-1", MetaImage(REMOVED_AT + 1))
        if why == "earlier-step":
            trace.emit("broker-1", MetaImage(REMOVED_AT + 2))
        trace.apart = 0
    elif why == "clock":
        trace.emit("broker-2", ClockSet("c", "start", 1, 0))
    elif why == "former":
        trace.leads(2, 1, 1)
    else:
        trace.unloads()
    trace.drops()
    wrong = why in ("another", "earlier-step")
    assert trace.judged() == (wrong, wrong)


@pytest.mark.parametrize(("ms", "held"), [(900, False), (1100, True)])
def test_the_next_coordinator_goes_on_counting(ms: int, held: bool) -> None:
    """Shows that the time of a group that was read from the log counts from when it became empty, at another broker."""
    trace = Expiring()
    trace.stable(1)
    trace.stores(10)
    trace.gen("Empty", 2, "")
    trace.after(1000)
    trace.leads(1, 1, follows=True)
    trace.unloads()
    trace.leads(2, 1, 1)
    trace.loads(1, [10, 0, -1], 1, 2, g=("Empty", 2))
    trace.after(ms)
    trace.drops(2, 1)
    assert trace.judged() == (not held, 1)


@pytest.mark.parametrize(("generation", "removed", "wrong"), [(2, True, 1), (2, False, 0), (7, True, 0)])
def test_a_group_that_begins_anew(generation: int, removed: bool, wrong: int) -> None:
    """Shows that a group which was removed is not taken for the next one of its name, in the same generation; that of
    two times at which a generation may have been formed the earlier one counts; and that nothing is said of a group of
    which nobody knows when it became empty."""
    trace = Expiring()
    trace.gen("Empty", 2, "")
    trace.after(5000)
    if removed:
        trace.emit("broker-1", GrpGen(OFFSETS, GROUP, "Dead", 2, 0, reason=GROUP_EXPIRED))
    trace.stores(10)
    trace.gen("Stable", 1)
    trace.gen("Empty", 2, "", epoch=1)
    trace.leads(2, 2, 1)
    trace.loads(1, [10, 0, -1], 2, 2, g=("Empty", generation))
    trace.drops(2, 2)
    assert trace.judged() == (wrong, generation == 2)
