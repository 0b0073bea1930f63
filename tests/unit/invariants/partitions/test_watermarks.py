"""P18: what a leader commits in the step in which all that count have it. folds/test_windows is about its windows."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from actors.trace.events import BrokerReg, ClockSet, CtlFault, LogAppend, MetaImage, PartAssume
from tests.unit.invariants.trace_builder import TraceBuilder

SECOND = 1_000_000
LEADER, CONTROLLER = "broker-1", "controller-1"


class Leader(TraceBuilder):
    """Broker-1 leads; the ISR is 1, 2. Every step has a request of its own. ``begins_s``: when it begins, ``knows``: by
    which partition epoch."""

    def __init__(
        self, isr: tuple[int, ...] = (1, 2), has: int = 0, begins_s: int = 0, knows: int = 0, **config: int
    ) -> None:
        super().__init__(config={"replica.lag.time.max.ms": 4000, **config})
        self.role(CONTROLLER, 1, "leader", 101)
        self.registered(1, 2, 3)
        for number in range(has):
            self.append(LEADER, f"old{number}", role="follower")
        self.later(begins_s)
        self.change(1, 0, isr=isr)
        self.emit(LEADER, MetaImage(11))
        self.assume(1, 0)
        body = self.events[-1].body
        assert isinstance(body, PartAssume)
        self.events[-1] = msgspec.structs.replace(
            self.events[-1], body=msgspec.structs.replace(body, partition_epoch=knows)
        )

    def step(self) -> None:
        """Another request."""
        self.req = f"c#{len(self.events)}"

    def later(self, seconds: float = 5) -> None:
        """By default the lag time is over."""
        self.wall += int(seconds * SECOND)

    def writes(self, *uids: str) -> str:
        """Broker-1 appends a batch."""
        self.step()
        return self.append(LEADER, *uids)

    def reads(self, follower: int, offset: int) -> str:
        """A follower fetches."""
        self.step()
        return self.fetched(1, follower, offset)

    def moves(self, new: int) -> str:
        """In the same step the high watermark moves."""
        return self.high_watermark(LEADER, new, counted=(1, 2))

    def fences(self, broker: int, applied: int) -> None:
        """A controller fences a broker at offset 12, and broker-1 knows the metadata log up to somewhere."""
        self.emit(CONTROLLER, BrokerReg(broker, 7, "i", True, False, False, 12))
        self.emit(LEADER, MetaImage(applied))

    @property
    def p18(self) -> tuple[int, int]:
        """Violations and tests."""
        self.writes("end")
        result = self.result("P18")
        return result.violated, result.tested


def waits(**how: Any) -> Leader:
    """Broker-2 is at 0, broker-3 does not fetch; the lag time is over, and broker-1 has two records."""
    trace = Leader(**how)
    trace.reads(2, 0)
    trace.later()
    trace.writes("a")
    trace.writes("b")
    return trace


def test_what_every_member_has_is_committed_at_once() -> None:
    """Shows that a fetch of the last member moves the high watermark in its step, or violates P18, with the fetch and
    the next step as evidence; the same position again moves nothing."""
    trace = waits()
    trace.reads(2, 1)
    trace.moves(1)
    trace.reads(2, 1)
    assert trace.p18 == (0, 1)
    trace = waits()
    fetch = trace.reads(2, 2)
    then = trace.reads(3, 0)
    (finding,) = trace.result("P18").violations
    assert finding.events == [fetch, then]
    assert finding.sentence == (
        "broker-1, leader of orders-0 in leader epoch 0, left its high watermark at 0 in a step after which every "
        "replica that counts had the log up to 2"
    )


def test_who_lags_does_not_count() -> None:
    """Shows that a replica outside the ISR which has not caught up for the lag time is named as one that does not hold
    the high watermark back; one that had everything within that time does."""
    for seconds, violated in ((3.9, 0), (5, 1)):
        trace = Leader()
        trace.reads(2, 0)
        trace.later()
        trace.reads(3, 0)
        trace.writes("a")
        trace.later(seconds)
        trace.reads(2, 1)
        assert trace.p18 == (violated, 0)
    assert trace.result("P18").violations[0].sentence.endswith("up to 1; broker-3 had less, and does not count")


@pytest.mark.parametrize(
    ("isr", "asks", "violated"), [((1, 2), True, 1), ((1, 2), False, 1), ((1, 2, 3), True, 0), ((1, 2, 3), False, 0)]
)
def test_who_had_everything_when_the_leader_began(isr: tuple[int, ...], asks: bool, violated: int) -> None:
    """Shows that the ISR with which a leader begins counts for the lag time, also after it has shrunk, and nobody else,
    whether or not the leader has heard of it."""
    trace = Leader(isr, has=2, begins_s=60)
    if asks:
        trace.reads(3, 1)
    trace.writes("a")
    if 3 in isr:
        trace.change(1, 0, isr=(1, 2), cause="alter-isr", partition_epoch=1, offset=14)
        trace.emit(LEADER, MetaImage(15))
    trace.reads(2, 2)
    trace.reads(2, 3)
    assert trace.p18 == (violated, 0)


def test_a_leader_that_begins_with_an_unknown_isr() -> None:
    """Shows that everybody counts for the lag time if the trace does not tell with which ISR a leader began: its
    partition epoch is another, or a controller may not have told of all that it appended."""
    for knows, violated in ((0, 1), (1, 0)):
        trace = Leader(has=2, begins_s=60, knows=knows)
        trace.reads(2, 2)
        trace.writes("a")
        trace.reads(2, 3)
        assert trace.p18 == (violated, 0)
    trace = Leader(has=2, begins_s=60, knows=1)
    trace.later()
    trace.reads(2, 2)
    trace.writes("a")
    trace.reads(2, 3)
    assert trace.p18 == (1, 0)


@pytest.mark.parametrize(
    ("places", "counts"),
    [((2, 3, 4), False), ((2, 5), True), ((2, 4, 5), False), ((5, 5), True), ((3, 5, 6), True)],
)
def test_who_makes_progress_has_not_caught_up(places: tuple[int, ...], counts: bool) -> None:
    """Shows that a follower outside the ISR counts when it has all that the log had at its last fetch, and not while it
    makes less progress than that."""
    trace = Leader(has=2, begins_s=60)
    trace.reads(2, 2)
    trace.moves(2)
    for uid in "abc":
        trace.writes(uid)
    for place in places:
        trace.reads(3, place)
        trace.writes(f"after-{len(trace.events)}")
    trace.reads(2, trace.log_end(1))
    trace.writes("end")
    (finding,) = trace.result("P18").violations
    target = places[-1] if counts else trace.log_end(1) - 1
    assert f"had the log up to {target}" in finding.sentence


@pytest.mark.parametrize(("applied", "ends", "violated"), [(13, "", 1), (12, "", 0), (13, "crash", 0)])
def test_who_may_not_join_does_not_count(applied: int, ends: str, violated: int) -> None:
    """Shows that a replica of which the leader knows that it is fenced holds nothing back, unless a controller may have
    written of it since."""
    trace = Leader()
    trace.reads(2, 0)
    trace.reads(3, 0)
    trace.writes("a")
    trace.fences(3, applied)
    if ends:
        trace.down(CONTROLLER, "crash")
        trace.propose(1, (1, 2))
    trace.reads(2, 1)
    assert trace.p18 == (violated, 0)


@pytest.mark.parametrize(
    ("outcome", "changes", "violated"), [("", False, 0), ("", True, 1), ("INVALID_REQUEST", False, 0)]
)
def test_who_is_proposed_counts(outcome: str, changes: bool, violated: int) -> None:
    """Shows that the ISR which the leader has proposed counts until it knows a later one."""
    trace = waits()
    trace.propose(1, (1, 2, 3))
    if outcome:
        trace.propose(1, (1, 2, 3), outcome=outcome)
    if changes:
        trace.change(1, 0, isr=(1, 2), cause="alter-isr", partition_epoch=1, offset=14)
        trace.emit(LEADER, MetaImage(15))
    trace.reads(2, 1)
    assert trace.p18 == (violated, 0)


def test_who_fetches_may_be_proposed_in_that_step() -> None:
    """Shows that the follower which fetches counts, as it may join the ISR in this step: the leader owes what that has,
    and no more."""
    for moves in (True, False):
        trace = Leader()
        trace.reads(2, 0)
        trace.reads(3, 0)
        trace.later()
        trace.writes("a")
        trace.writes("b")
        trace.down(CONTROLLER, "crash")
        trace.reads(2, 2)
        trace.propose(1, (1, 2))
        trace.reads(3, 1)
        if moves:
            trace.moves(1)
        assert trace.p18 == (int(not moves), int(moves))
        assert moves or "up to 1" in trace.result("P18").violations[0].sentence


@pytest.mark.parametrize(
    ("mode", "proposes", "violated"), [("crash", None, 0), ("clean", None, 1), ("crash", 0, 1), ("crash", 1, 0)]
)
def test_a_controller_that_may_not_have_told_all(mode: Any, proposes: int | None, violated: int) -> None:
    """Shows that after the abrupt end of a controller nothing is owed until a proposal shows that the leader knows the
    ISR that the trace has."""
    trace = waits()
    trace.down(CONTROLLER, mode)
    if proposes is not None:
        trace.propose(1, (1, 2), partition_epoch=proposes)
    trace.reads(2, 1)
    assert trace.p18 == (violated, 0)


@pytest.mark.parametrize(("least", "violated"), [(2, 1), (3, 0)])
def test_a_small_isr_commits_nothing(least: int, violated: int) -> None:
    """Shows that nothing is owed while the ISR is smaller than min.insync.replicas."""
    trace = waits(**{"min.insync.replicas": least})
    trace.reads(2, 1)
    assert trace.p18 == (violated, 0)


@pytest.mark.parametrize(
    ("node", "kind", "after_s", "violated"),
    [
        (LEADER, "clock", -1, 0),
        (LEADER, "clock", 3, 0),
        (LEADER, "clock", 9, 1),
        (LEADER, "pause", 3, 0),
        (LEADER, "pause", 9, 1),
        ("broker-2", "clock", -1, 1),
        (LEADER, "drop", 3, 1),
    ],
)
def test_a_leader_with_the_wrong_time(node: str, kind: str, after_s: int, violated: int) -> None:
    """Shows that nobody is known to lag while a clock or a pause falsifies the leader's time, and for the lag time and
    a bit more after it."""

    def hinders(phase: Any) -> None:
        if kind == "clock":
            trace.emit(node, ClockSet("f", phase, 9 if phase == "start" else 0, 0))
        else:
            trace.emit("driver", CtlFault("f", kind, phase, [node], {}))

    trace = Leader()
    trace.reads(2, 0)
    trace.later()
    hinders("start")
    if after_s >= 0:
        hinders("stop")
        trace.later(after_s)
    trace.writes("a")
    trace.reads(2, 1)
    assert trace.p18 == (violated, 0)


@pytest.mark.parametrize("ends", ["down", "up", "other-life"])
def test_a_leader_that_ends_in_the_step(ends: str) -> None:
    """Shows that a process which ends before it tells more owes nothing."""
    trace = waits()
    trace.reads(2, 1)
    if ends == "down":
        trace.down(LEADER)
    elif ends == "up":
        trace.up(LEADER)
    else:
        trace.incarnations[LEADER] = 1
    assert trace.p18 == (0, 0)


@pytest.mark.parametrize(("isr", "transactional", "violated"), [((1,), False, 1), ((1,), True, 0), ((1, 2), False, 0)])
def test_the_only_member_commits_what_it_appends(isr: tuple[int, ...], transactional: bool, violated: int) -> None:
    """Shows that an append moves the high watermark of a leader that is the whole ISR, but for the batches of
    transactions, which a coordinator may write without that."""
    trace = Leader(isr)
    trace.later()
    trace.writes("a")
    body = trace.events[-1].body
    assert isinstance(body, LogAppend)
    body = msgspec.structs.replace(body, transactional=transactional)
    trace.events[-1] = msgspec.structs.replace(trace.events[-1], body=body)
    trace.reads(3, 0)
    assert trace.result("P18").violated == violated


@pytest.mark.parametrize(
    ("isr", "how", "violated"),
    [
        ((1,), {}, 1),
        ((1, 2), {}, 0),
        ((1,), {"knows": 1}, 0),
        ((1,), {"min.insync.replicas": 2}, 0),
        ((1,), {"begins_s": 0}, 0),
    ],
)
def test_what_a_leader_commits_that_begins_alone(isr: tuple[int, ...], how: dict[str, int], violated: int) -> None:
    """Shows that a leader that is the whole ISR commits its log in the step in which it begins, unless it is not known
    to be alone, the ISR is too small, or a replica outside may count, as no lag time has passed since time 0."""
    for moves in (False, True):
        trace = Leader(isr, has=2, **{"begins_s": 60, **how})
        began = trace.events[-1].id
        if moves:
            trace.moves(2)
        then = trace.reads(2, 0)
        result = trace.result("P18")
        assert (result.violated, result.tested) == (int(violated and not moves), int(violated and moves))
        if result.violated:
            assert result.violations[0].events == [began, then]
            assert "left its high watermark at 0 in a step after which" in result.violations[0].sentence


@pytest.mark.parametrize("ends", ["down", "up", "other-life"])
def test_a_leader_that_begins_alone_and_ends(ends: str) -> None:
    """Shows that a process which ends in the step in which it begins to lead owes nothing."""
    trace = Leader((1,), has=2, begins_s=60)
    if ends == "down":
        trace.down(LEADER)
    elif ends == "up":
        trace.up(LEADER)
    else:
        trace.incarnations[LEADER] = 1
    trace.reads(2, 0)
    assert trace.result("P18").violated == 0


@pytest.mark.parametrize(("isr", "violated"), [((1,), 1), ((1, 2), 0), ((1, 3), 0)])
def test_what_an_accepted_proposal_frees(isr: tuple[int, ...], violated: int) -> None:
    """Shows that a leader which learns that its ISR has changed commits at once what the rest of it has."""
    for moves in (False, True):
        trace = waits()
        trace.later()
        trace.step()
        trace.propose(1, isr)
        trace.propose(1, isr, outcome="accepted")
        if moves and violated:
            trace.moves(2)
        trace.reads(3, 0)
        assert trace.result("P18").violated == (violated and not moves)


def test_high_watermarks_are_at_the_ends_of_batches() -> None:
    """Shows that a position within a batch stands for the end of the batch before, and that nothing is owed below the
    start of the leader epoch."""
    trace = Leader(has=2)
    trace.reads(2, 0)
    trace.later()
    trace.writes("a", "b")
    trace.writes("c", "d")
    trace.reads(2, 1)
    assert trace.p18 == (0, 0)
    for offset, says in ((3, "up to 2"), (4, "up to 4"), (5, "up to 4")):
        trace = Leader(has=2)
        trace.reads(2, 0)
        trace.later()
        trace.writes("a", "b")
        trace.writes("c", "d")
        trace.reads(2, offset)
        trace.writes("e")
        assert says in trace.result("P18").violations[0].sentence
