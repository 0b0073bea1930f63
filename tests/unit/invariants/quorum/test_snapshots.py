"""Q13: what snapshots of the metadata log stand for, and when they are made."""

from __future__ import annotations

from typing import Any

import pytest

from actors.node.spec import METADATA_PARTITION
from actors.trace.events import CtlFault, Kept, LogAppend, LogStart, QApply, QClean, QFreeze, QSnap
from tests.unit.invariants.quorum.test_leadership import FOLLOWER, LEADER
from tests.unit.invariants.trace_builder import TraceBuilder

DIGEST = 77


class Quorum(TraceBuilder):
    """A leader with records of epoch 1 at 0 and 1 and of epoch 2 at 2, all committed, and one at 3 that is not."""

    def __init__(self) -> None:
        super().__init__()
        self.role(LEADER, 1, "leader", 101)
        for epoch in (1, 1, 2, 2):
            self.append(LEADER, "m", epoch=epoch, tp=METADATA_PARTITION)
        self.high_watermark(LEADER, 3, 2, METADATA_PARTITION)

    def ph(self, end: int) -> int:
        """Prefix hash of the leader's log."""
        appended = (each.body for each in self.events if type(each.body) is LogAppend)
        return next((body.ph for body in appended if body.last == end - 1), None) or 5

    def snap(
        self,
        node: str,
        op: Any,
        end: int,
        epoch: int,
        digest: int = DIGEST,
        ph: int = -1,
        leads: int = -1,
        state: int = 7,
    ) -> str:
        """What became of a snapshot of that log."""
        return self.emit(node, QSnap("dir", op, end, epoch, self.ph(end) if ph < 0 else ph, digest, leads, state))

    def start(self, node: str, new: int, epoch: int, reason: Any = "retention", ph: int = -1) -> str:
        """A log begins elsewhere."""
        return self.emit(node, LogStart(METADATA_PARTITION, new, reason, epoch, self.ph(new) if ph < 0 else ph))

    def found(self) -> tuple[list[str], str]:
        """Of the violation that there must be: events, sentence."""
        (violation,) = self.result("Q13").violations
        return violation.events, violation.sentence


def test_snapshots_of_what_is_committed() -> None:
    """Shows a snapshot that is made, that a log begins at, and that is deleted after another one; one that is fetched,
    begins a log and is loaded; and that the one with which a directory is formatted tests nothing."""
    trace = Quorum()
    trace.snap(LEADER, "load", 0, 0, ph=0)
    trace.snap(LEADER, "create", 2, 1, leads=2)
    trace.start(LEADER, 2, 1)
    trace.snap(LEADER, "create", 3, 2, leads=2)
    trace.start(LEADER, 3, 2)
    trace.snap(LEADER, "delete", 2, 1)
    trace.role(FOLLOWER, 2, "follower", 101)
    trace.snap(FOLLOWER, "fetch", 3, 2)
    trace.start(FOLLOWER, 3, 2, "snapshot")
    trace.snap(FOLLOWER, "load", 3, 2)
    result = trace.result("Q13")
    assert (result.status, result.tested) == ("held", 8)
    unused = Quorum()
    unused.snap(LEADER, "load", 0, 0, ph=0)
    assert unused.result("Q13").status == "vacuous"


@pytest.mark.parametrize(
    ("end", "epoch", "more", "says"),
    [
        (4, 2, {}, "made a snapshot up to 4 while the metadata log was committed only up to 3"),
        (2, 1, {"ph": 9}, "made a snapshot up to 2 that differs from the committed entries up to there"),
        (2, 2, {}, "made a snapshot up to 2 as one of epoch 2, where the last record is of epoch 1"),
    ],
)
def test_a_snapshot_of_something_else(end: int, epoch: int, more: dict[str, int], says: str) -> None:
    """Shows one above what is committed, one of another log or with another end, and one with a wrong epoch."""
    trace = Quorum()
    made = trace.snap(FOLLOWER, "create", end, epoch, **more)
    assert trace.found() == ([made], f"{FOLLOWER} {says}")


def test_another_state_for_the_same_log() -> None:
    """Shows that the contents of snapshots that end at one offset are compared, whoever made them."""
    trace = Quorum()
    first = trace.snap(LEADER, "create", 2, 1)
    other = trace.snap("broker-1", "create", 2, 1, digest=DIGEST + 1)
    events, sentence = trace.found()
    assert events == [first, other]
    assert sentence.endswith("which has another state than the snapshot of controller-1 up to the same offset")


def test_other_records_for_the_same_state() -> None:
    """Shows that what is in snapshots that end at one offset is compared, too, not only what they say they were made
    of."""
    trace = Quorum()
    first = trace.snap(LEADER, "create", 2, 1)
    other = trace.snap("broker-1", "create", 2, 1, state=8)
    events, sentence = trace.found()
    assert events == [first, other]
    assert sentence.endswith("in the snapshot of controller-1 up to the same offset")


def test_an_active_leader_keeps_its_state() -> None:
    """Shows that an active leader neither loads nor fetches a snapshot, and that one which is elected and not yet
    active may load its own."""
    trace = Quorum()
    trace.snap(LEADER, "load", 3, 2)
    assert trace.result("Q13").status == "held"
    loaded = trace.snap(LEADER, "load", 3, 2, leads=2)
    assert trace.found() == (
        [loaded],
        "controller-1, the active leader of epoch 2, loaded a snapshot up to 3 in place of its own state",
    )


def test_a_log_begins_where_a_snapshot_ends() -> None:
    """Shows a log that begins where none of its own ends, whatever others have, and one whose snapshot is deleted."""
    trace = Quorum()
    trace.snap(LEADER, "create", 3, 2)
    started = trace.start(FOLLOWER, 3, 2)
    assert trace.found() == ([started], "controller-2 began its log at 3, but it has no snapshot that ends there")
    trace = Quorum()
    trace.snap(LEADER, "create", 3, 2)
    started = trace.start(LEADER, 3, 2)
    deleted = trace.snap(LEADER, "delete", 3, 2)
    assert trace.found() == (
        [started, deleted],
        "controller-1 deleted the snapshot up to 3 while its log began at 3",
    )


def test_a_process_that_died_before_it_could_tell() -> None:
    """Shows that a member may find a snapshot on its disk that it never told of, if it is one of what is committed; and
    that it may not begin there once it has taken up a role, nor after its disk was wiped."""
    trace = Quorum()
    trace.role(FOLLOWER, 2, "follower", 101)
    trace.up(FOLLOWER, "controller")
    trace.start(FOLLOWER, 3, 2, "snapshot")
    trace.role(FOLLOWER, 2, "follower", 101)
    trace.start(FOLLOWER, 3, 2)
    assert trace.result("Q13").status == "held"
    trace.up(FOLLOWER, "controller", wiped=True)
    trace.role(FOLLOWER, 2, "follower", 101)
    trace.start(FOLLOWER, 3, 2, "snapshot")
    assert "but it has no snapshot that ends there" in trace.found()[1]
    wrong = Quorum()
    wrong.start(FOLLOWER, 3, 2, "snapshot", ph=9)
    assert wrong.found()[1] == "controller-2 began its log at 3 that differs from the committed entries up to there"


def test_what_went_with_the_disks() -> None:
    """Shows that a snapshot of what wiped voters took away with them is excused."""
    trace = Quorum()
    for node in (LEADER, FOLLOWER):
        trace.flush(node, 3)
        trace.down(node, "lossy", lost={METADATA_PARTITION: 0})
    trace.logs.clear()
    trace.role(FOLLOWER, 3, "leader", 102)
    trace.append(FOLLOWER, "n", epoch=3, tp=METADATA_PARTITION)
    trace.high_watermark(FOLLOWER, 1, 3, METADATA_PARTITION)
    trace.snap("controller-3", "load", 3, 2)
    assert trace.result("Q13").excused == {"loss-budget": 1}


def test_what_is_below_what_went_with_the_disks() -> None:
    """Shows that such a loss does not excuse a snapshot of what nobody lost."""
    trace = Quorum()
    for node in (LEADER, FOLLOWER):
        if node == FOLLOWER:
            for epoch in (1, 1, 2):
                trace.append(node, "m", epoch=epoch, tp=METADATA_PARTITION, role="follower")
        trace.flush(node, 3)
        trace.down(node, "lossy", lost={METADATA_PARTITION: 2})
        trace.logs[METADATA_PARTITION, node] = trace.logs[METADATA_PARTITION, node][:3]
    trace.role(FOLLOWER, 3, "leader", 102, 2)
    trace.snap("controller-3", "load", 3, 2)
    assert trace.result("Q13").excused == {"loss-budget": 1}
    trace.snap("controller-3", "load", 2, 1, ph=4711)
    assert trace.result("Q13").status == "violated"


class Busy(TraceBuilder):
    """A member that has to make a snapshot after 100 bytes."""

    def __init__(self, limit: int = 100) -> None:
        super().__init__(config={"metadata.log.max.record.bytes.between.snapshots": limit})
        self.up(FOLLOWER, "controller")
        self.end_offset = 0

    def applies(self, *sizes: int, node: str = FOLLOWER) -> str:
        """Batches of these sizes, of a record each, are handed out one by one."""
        found = ""
        for size in sizes:
            found = self.emit(node, QApply(self.end_offset, self.end_offset + 1, 1, size))
            self.end_offset += 1
        return found

    def freeze(self, op: Any = "create") -> str:
        """It begins to write a snapshot of what it has applied."""
        return self.emit(FOLLOWER, QFreeze(op, self.end_offset))

    def snap(self, op: Any, end: int = -1) -> str:
        """What became of one."""
        return self.emit(FOLLOWER, QSnap("dir", op, self.end_offset if end < 0 else end, 1, 1, DIGEST))

    def missed(self) -> list[list[str]]:
        """Events of each snapshot that was not made."""
        return [each.events for each in self.result("Q13").violations if "and made none" in each.sentence]


def test_a_snapshot_is_begun_when_so_much_is_applied() -> None:
    """Shows that bytes count from one snapshot to the next, made or loaded, or from a start; and that one which is due
    at the end of a trace tests nothing wrong."""
    trace = Busy()
    trace.applies(60, 39)
    trace.applies(1)
    trace.freeze()
    trace.applies(99)
    trace.snap("create", 3)
    trace.snap("load", 4)
    trace.applies(99)
    trace.up(FOLLOWER, "controller")
    trace.snap("load", 4)
    trace.applies(99, 1)
    trace.freeze()
    trace.applies(99)
    assert trace.missed() == []
    assert trace.result("Q13").tested == 5  # two that were due, one that became durable, and two that were loaded


def test_a_snapshot_that_is_due_is_not_begun() -> None:
    """Shows each step that leaves one out, told with its bytes and by the event that follows."""
    trace = Busy()
    trace.applies(60)
    due = trace.applies(40)
    late = trace.applies(1)
    last = trace.applies(1)
    assert trace.missed() == [[due, late], [late, last]]
    assert trace.result("Q13").violations[0].sentence == (
        "controller-2 had applied 100 bytes of the metadata log up to 2 without a snapshot, and made none; "
        "metadata.log.max.record.bytes.between.snapshots is 100"
    )
    assert Busy(limit=1000).result("Q13").status == "vacuous"


def test_none_is_expected_once_a_bounce_sets_the_bytes() -> None:
    """Shows that it is not known then which members have other limits."""
    trace = Busy()
    config = {"metadata.log.max.record.bytes.between.snapshots": 1000}
    trace.emit("driver", CtlFault("f", "rolling-bounce", "start", [], {"config": config}))
    trace.applies(100)
    trace.applies(1)
    assert trace.result("Q13").status == "vacuous"


def test_none_is_begun_while_another_one_is_written() -> None:
    """Shows that nothing is due until the disk has the last one, and is from then on."""
    trace = Busy()
    trace.applies(100)
    trace.freeze()
    trace.applies(100, 100)
    assert trace.missed() == []
    trace.snap("create", 1)
    due = trace.applies(1)
    late = trace.applies(1)
    assert trace.missed() == [[due, late]]


def test_none_is_begun_while_a_fetched_one_is_written() -> None:
    """Shows that nothing is due either while a snapshot from the leader gets to the disk, and is once it has."""
    trace = Busy()
    trace.freeze("fetch")
    trace.applies(100, 100)
    assert trace.missed() == []
    trace.snap("fetch", 1)
    due = trace.applies(1)
    late = trace.applies(1)
    assert trace.missed() == [[due, late]]


def test_a_fetched_one_that_was_given_up() -> None:
    """Shows that a member which begins one of its own has none from the leader on its way to the disk any more."""
    trace = Busy()
    trace.freeze("fetch")
    trace.applies(100)
    trace.freeze()
    trace.applies(1)
    trace.snap("create", 1)
    due = trace.applies(100)
    late = trace.applies(1)
    assert trace.missed() == [[due, late]]


def test_none_is_begun_below_one_that_is_there() -> None:
    """Shows that a member which applies less than its newest snapshot has makes none, and one that comes past it
    does."""
    trace = Busy()
    trace.snap("fetch", 3)
    trace.applies(100, 100, 1)
    assert trace.missed() == []
    due = trace.applies(1)
    late = trace.applies(1)
    assert trace.missed() == [[due, late]]


def test_a_process_that_ends_before_it_begins_one() -> None:
    """Shows that a process may end in the middle of the step that makes a snapshot due, and that a trace without the
    beginning of a process says nothing about what that owes."""
    trace = Busy()
    trace.applies(100)
    trace.down(FOLLOWER)
    trace.up(FOLLOWER, "controller")
    trace.applies(1, 1)
    assert trace.missed() == []
    trace.applies(100, 100, 100, node="controller-9")
    assert trace.missed() == []


class Keeping(TraceBuilder):
    """A member that keeps 1,000 bytes for 500 ms, and has snapshots of 100 bytes up to 10, 20, 30 and 40, with 100
    bytes of the log between them and 50 behind the last."""

    def __init__(self, size: int = 1000, age_ms: int = 500, **more: int) -> None:
        config = {"metadata.max.retention.bytes": size, "metadata.max.retention.ms": age_ms, **more}
        super().__init__(config=config)
        self.up(FOLLOWER, "controller")

    def looks(self, now_ms: int, *ends: int, start: int = 0, reached: int = 45, more: int = 0) -> str:
        """It looks at those snapshots. The last record before 10 is of 10 ms, and so on. more: snapshots than that."""
        kept = [Kept(end, 100, end, 10 * (end - start)) for end in ends]
        sizes = 450 - 10 * start, 100 * (len(ends) + more)
        return self.emit(FOLLOWER, QClean(start, reached, reached, now_ms, *sizes, kept))

    def drops(self, new: int, *gone: int) -> str:
        """The log begins there from now on, and snapshots go."""
        began = self.emit(FOLLOWER, LogStart(METADATA_PARTITION, new, "retention", 1))
        for end in gone:
            self.emit(FOLLOWER, QSnap("dir", "delete", end, 1))
        return began

    def goes_on(self) -> str:
        """The next step."""
        return self.emit(FOLLOWER, QApply(45, 46))

    def found(self) -> list[tuple[list[str], str]]:
        """Events and sentences about what went or did not."""
        about = ("deleted its", "kept its", "still has its")
        violations = self.result("Q13").violations
        return [(each.events, each.sentence) for each in violations if any(words in each.sentence for words in about)]


def test_snapshots_go_when_a_limit_is_exceeded() -> None:
    """Shows what goes by size, by age and by both, one after the other, what is at its limit and stays; without limits
    nothing goes."""
    for size, age_ms, now_ms, due in (
        (1000, 500, 500, 0),
        (850, 500, 500, 0),  # as large as it may be
        (849, 500, 500, 20),
        (649, 500, 500, 20),  # 850, then 550: the log up to 20 goes with the first
        (549, 500, 500, 30),
        (0, 500, 500, 40),
        (1000, 500, 510, 0),  # as old as it may be
        (1000, 500, 511, 20),
        (849, 500, 521, 30),
        (1000, 500, 9000, 40),
        (-1, -1, 9000, 0),
        (-1, 500, 511, 20),
        (849, -1, 9000, 20),
    ):
        trace = Keeping(size, age_ms)
        trace.looks(now_ms, 10, 20, 30, 40)
        for new in range(20, due + 1, 10):
            trace.drops(new, new - 10)
        trace.goes_on()
        assert trace.found() == [], (size, age_ms, now_ms)
        assert trace.result("Q13").tested >= 1
        if due:
            late = Keeping(size, age_ms)
            look = late.looks(now_ms, 10, 20, 30, 40)
            for new in range(20, due, 10):
                late.drops(new, new - 10)
            then = late.goes_on()
            ((events, sentence),) = late.found()
            assert events == [look, then]
            assert sentence.startswith(f"{FOLLOWER} kept its snapshot up to {due - 10}, although ")
        if due < 40:
            early = Keeping(size, age_ms)
            look = early.looks(now_ms, 10, 20, 30, 40)
            dropped = early.drops(max(due, 10) + 10, max(due, 10))
            ((events, sentence),) = early.found()
            assert events == [look, dropped]
            assert sentence.startswith(f"{FOLLOWER} deleted its snapshot up to {max(due, 10)}, although ")


def test_the_figures_of_what_went() -> None:
    """Shows what is said of a snapshot that went without a reason, after one that was to go."""
    trace = Keeping(849)
    trace.looks(500, 10, 20, 30, 40)
    trace.drops(20, 10)
    trace.drops(30, 20)
    ((_, sentence),) = trace.found()
    assert sentence == (
        f"{FOLLOWER} deleted its snapshot up to 20, although log and snapshots had 550 bytes "
        "(metadata.max.retention.bytes is 849), that one was 480 ms old (metadata.max.retention.ms is 500), and it had "
        "applied the committed log up to 45"
    )


def test_what_is_not_committed_and_applied_stays() -> None:
    """Shows that a log does not begin above what is known to be committed and applied, whatever the limits."""
    trace = Keeping(0)
    trace.looks(500, 10, 20, 30, reached=19)
    trace.looks(500, 10, 20, 30, reached=20)
    trace.drops(20, 10)
    trace.looks(500, 20, 30, start=20, reached=29)
    trace.drops(30, 20)
    ((_, sentence),) = trace.found()
    assert sentence.startswith(f"{FOLLOWER} deleted its snapshot up to 20, although ")
    assert sentence.endswith("and it had applied the committed log up to 29")


def test_a_snapshot_below_the_log() -> None:
    """Shows one that is there still, although the log begins above it."""
    trace = Keeping()
    look = trace.looks(500, 10, 20, start=20)
    trace.goes_on()
    assert trace.found() == [
        ([look], f"{FOLLOWER} still has its snapshot up to 10, although its log begins at 20"),
    ]


def test_more_snapshots_than_the_trace_tells_of() -> None:
    """Shows that nothing is said of those, and that those which it tells of have to go."""
    trace = Keeping(0)
    trace.looks(500, 10, 20, 30, 40, more=2)
    for new in (20, 30, 40, 50):
        trace.drops(new, new - 10)
    trace.goes_on()
    assert trace.found() == []
    trace.looks(500, 10, 20, 30, 40, more=2)
    trace.drops(20, 10)
    trace.goes_on()
    assert len(trace.found()) == 1


def test_a_process_that_ends_before_it_deletes() -> None:
    """Shows that a process may end in the middle of the step in which it looks, and that nothing is expected of a
    process whose start the trace lacks."""
    trace = Keeping(0)
    trace.looks(500, 10, 20)
    trace.down(FOLLOWER)
    trace.up(FOLLOWER, "controller")
    trace.goes_on()
    assert trace.found() == []
    trace.emit("controller-9", QClean(0, 45, 45, 500, 450, 200, [Kept(10, 100, 10, 100), Kept(20, 100, 20, 200)]))
    trace.emit("controller-9", QApply(45, 46))
    assert trace.found() == []
    trace.looks(500, 10, 20)
    trace.looks(500, 10, 20)
    assert len(trace.found()) == 1


def test_limits_that_a_bounce_changes() -> None:
    """Shows that nothing is expected once a bounce sets one of the limits, and is after another bounce."""
    for key, judged in (
        ("metadata.max.retention.bytes", False),
        ("metadata.max.retention.ms", False),
        ("metadata.log.max.snapshot.interval.ms", True),
    ):
        trace = Keeping(0)
        trace.emit("driver", CtlFault("f", "rolling-bounce", "start", [], {"config": {key: 1}}))
        trace.looks(500, 10, 20)
        trace.goes_on()
        assert len(trace.found()) == judged, key
