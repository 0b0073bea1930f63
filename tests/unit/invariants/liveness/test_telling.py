"""L14: what followers learn without records. Tests on hand-written traces; folds/test_windows is about records."""

from __future__ import annotations

from typing import Any

import pytest

from actors.node.spec import REMOTE_STORE
from actors.trace.events import ClockSet, CtlFault, CtlWindow, LogStart, PartRemove
from tests.unit.invariants.trace_builder import TP, TraceBuilder

SECOND = 1_000_000
BROKERS = ("broker-1", "broker-2", "broker-3")
BOUND_S = 2.2
"""Two waits of a tenth of a second, and two seconds."""


class Led(TraceBuilder):
    """Broker-1 leads, the others follow it, all have two records, and the window is open."""

    def __init__(self, *more: str, without: tuple[str, ...] = ()) -> None:
        super().__init__(config={"replica.fetch.wait.max.ms": 100})
        self.lead(1, 0)
        for follower in (2, 3):
            self.assume(follower, 0, leader=1)
        self.core = [name for name in (*BROKERS, *more) if name not in without]
        self.opens()
        for node in BROKERS:
            self.append(node, "a", "b", role="leader" if node == "broker-1" else "follower")

    def opens(self) -> None:
        """The window opens."""
        self.emit("driver", CtlWindow("w", "open", self.core))

    def reads(self, *followers: int, **more: Any) -> str:
        """Followers fetch from the log end."""
        found = ""
        for follower in followers or (2, 3):
            found = self.fetched(1, follower, 2, **more)
        return found

    def learns(self, *followers: int, to: int = 2) -> None:
        """Followers move their high watermarks."""
        for follower in followers:
            self.high_watermark(f"broker-{follower}", to, role="follower")

    def starts(self, node: str, new: int, reason: Any = "retention-ms") -> str:
        """A log begins later."""
        return self.emit(node, LogStart(TP, new, reason, 0))

    def later(self, seconds: float = BOUND_S) -> None:
        """Time goes by, and something happens that concerns nobody."""
        self.wall += int(seconds * SECOND)
        self.emit("producer-1", ClockSet("f", "start", 0, 0))

    @property
    def violated(self) -> int:
        """How often L14 is violated, when the time is over."""
        self.later()
        return self.result("L14").violated


def test_who_does_not_learn_of_a_high_watermark() -> None:
    """Shows that a follower learns within two waits that the leader's high watermark has moved, or violates L14, with
    its fetch and that as evidence; and that it tests nothing of records."""
    run = Led()
    fetch = run.reads(3, 2)
    moved = run.high_watermark("broker-1", 2)
    run.learns(3)
    kept, at = len(run.events), run.wall
    run.later(BOUND_S - 0.1)
    assert run.result("L14").status == "vacuous"
    run.later(0.2)
    (finding,) = run.result("L14").violations
    assert finding.events == [fetch, moved]
    assert finding.sentence == (
        "broker-2 did not learn within 2.2 s without a fault that the high watermark of broker-1, from which it "
        "fetches orders-0 in leader epoch 0, had moved to 2: its own is 0"
    )
    del run.events[kept:]
    run.wall = at
    run.learns(2)
    assert run.violated == 0
    assert run.result("L14").status == "vacuous"


def test_a_follower_learns_in_parts() -> None:
    """Shows that what counts is the first move of the leader's that a follower does not know, and that it may learn of
    that with a later one."""
    for to, violated in ((0, 1), (2, 0)):
        run = Led()
        run.reads()
        run.high_watermark("broker-1", 2)
        run.learns(3)
        run.later(1)
        if to:
            run.learns(2)
        run.append("broker-1", "c")
        run.high_watermark("broker-1", 3)
        run.later(1.3)
        assert run.result("L14").violated == violated


def test_no_follower_gets_beyond_its_own_log() -> None:
    """Shows that a follower whose log ends below the leader's high watermark learns of no more than it has."""
    for to, violated in ((0, 1), (2, 0)):
        run = Led(without=("broker-3",))
        run.reads(2)
        run.append("broker-1", "c")
        run.high_watermark("broker-1", 3)
        if to:
            run.learns(2, to=to)
        assert run.violated == violated


@pytest.mark.parametrize(("to", "known", "violated"), [(0, 2, 1), (1, 2, 0), (0, 0, 0)])
def test_who_does_not_learn_of_a_log_start(to: int, known: int, violated: int) -> None:
    """Shows the same of the log start, which does not get beyond the follower's high watermark."""
    run = Led(without=("broker-3",))
    run.high_watermark("broker-1", 2)
    if known:
        run.learns(2, to=known)
    fetch = run.reads(2)
    moved = run.starts("broker-1", 1)
    if to:
        run.starts("broker-2", to, "leader")
    assert run.violated == violated
    if violated:
        (finding,) = run.result("L14").violations
        assert finding.events == [fetch, moved]
        assert "that the log start of broker-1, from which" in finding.sentence


@pytest.mark.parametrize(
    "how",
    ["no-fetch", "fault", "window", "closed", "crash", "starts", "removed", "refused", "diverges", "other-epoch"],
)
def test_who_may_not_be_following(how: str) -> None:
    """Shows that nothing is due to a follower that has not fetched since something stood in the way, or whose last
    fetch was refused, or told it that the logs part."""
    run = Led()
    if how != "no-fetch":
        run.reads()
    if how == "fault":
        run.emit("driver", CtlFault("f", "drop", "start", [], {"from": [], "to": [], "both_ways": False}))
    elif how == "window":
        run.opens()
    elif how == "closed":
        run.emit("driver", CtlWindow("w", "close", run.core))
        run.reads()
    elif how == "crash":
        run.down("broker-2")
    elif how == "starts":
        run.up("broker-2")
    elif how == "removed":
        run.emit("controller-1", PartRemove(TP, 20, 1, "t"))
        run.reads()
    elif how == "refused":
        run.reads(error=74)
    elif how == "diverges":
        run.reads(diverging_epoch=0)
    elif how == "other-epoch":
        run.reads(follower_epoch=1)
    run.high_watermark("broker-1", 2)
    assert run.violated == 0


@pytest.mark.parametrize(
    "how", ["fault", "crash", "truncated", "follower-truncated", "next-epoch", "other-leader", "follows-other"]
)
def test_what_comes_between(how: str) -> None:
    """Shows that what was due is not any more after a fault, an end, a truncation, or another role."""
    run = Led()
    run.reads()
    run.high_watermark("broker-1", 2)
    run.learns(3)
    if how == "fault":
        run.emit("driver", CtlFault("f", "drop", "start", [], {"from": [], "to": [], "both_ways": False}))
    elif how == "crash":
        run.down("broker-1")
    elif how == "truncated":
        run.truncate("broker-1", 0)
    elif how == "follower-truncated":
        run.truncate("broker-2", 0)
    elif how == "next-epoch":
        run.lead(1, 1)
    elif how == "other-leader":
        run.lead(3, 1)
    elif how == "follows-other":
        run.assume(2, 1, leader=3)
    assert run.violated == 0


def test_roles_by_the_brokers_own_word() -> None:
    """Shows that a leader tells those who follow it in its leader epoch: not who has not heard of it, nor by what a
    former leader notes."""
    run = Led()
    run.lead(1, 1)
    run.assume(2, 1, leader=1)
    run.reads(epoch=1)
    run.high_watermark("broker-1", 2, epoch=1)
    run.later()
    (finding,) = run.result("L14").violations
    assert "broker-2" in finding.sentence
    former = Led()
    former.lead(3, 1)
    former.assume(2, 1, leader=3)
    former.reads(2)
    former.high_watermark("broker-1", 2)
    assert former.violated == 0


@pytest.mark.parametrize(("more", "without"), [((REMOTE_STORE,), ()), ((), ("broker-2",)), ((), ("broker-1",))])
def test_who_is_out_of_reach(more: tuple[str, ...], without: tuple[str, ...]) -> None:
    """Shows that nothing is asked of or for a broker outside the core, nor of one that a remote store may hold up."""
    run = Led(*more, without=without)
    run.reads()
    run.high_watermark("broker-1", 2)
    run.learns(3)
    assert run.violated == 0
