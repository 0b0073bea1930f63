"""R13: that copies which need not be retained go."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from actors.trace.events import ClockSet, CtlFault, LogAppend, LogRoll, LogStart, PartRemove, TierPhase, TierSegment
from actors.trace.tier_events import DELETED, DELETION_STARTED, FINISHED, STARTED
from orchestrator.invariants.folds.bounds import bound_us
from orchestrator.invariants.folds.fold import Profile
from tests.unit.invariants.trace_builder import TP, TraceBuilder

BATCH_BYTES = 71


class Copies(TraceBuilder):
    """A tiered log of broker-1, which leads: three segments of two batches each; of the first two there are copies."""

    def __init__(self, **limits: int) -> None:
        config = {key.replace("_", "."): value for key, value in limits.items()}
        topics = {"orders": {"replicas": 3, "config": {"remote.storage.enable": True, **config}}}
        super().__init__(topics=topics)
        self.lead(1)
        for number in range(6):
            self.append("broker-1", f"r{number}", size=BATCH_BYTES)
            if number in (1, 3):
                self.emit("broker-1", LogRoll(TP, number + 1))
        self.high_watermark("broker-1", 6)
        self.tier("known", "a", 0)
        self.tier("known", "b", 2)
        self.begins(0, "remote")

    def tier(self, phase: TierPhase, segment: str, start: int, state: str = FINISHED, end: int = -1) -> str:
        """Something becomes of the copy of two offsets, or of those up to ``end``."""
        last = start + 1 if end < 0 else end
        size = (last - start + 1) * BATCH_BYTES
        return self.emit("broker-1", TierSegment(TP, segment, phase, state, start, last, {"0": start}, 0, size=size))

    def leaves(self, state: str, start: int = 0) -> str:
        """The log begins behind the first copy, which is gone, and something is left of another one."""
        self.begins(2, "delete-records")
        self.deletes("a", 0)
        return self.tier("known", "c", start, state)

    def deletes(self, segment: str, start: int) -> None:
        """A deletion from its beginning to its end."""
        self.tier("deleting", segment, start)
        self.tier("known", segment, start, DELETION_STARTED)
        self.tier("deleted", segment, start)
        self.tier("known", segment, start, DELETED)

    def begins(self, new: int, reason: Any = "retention-bytes") -> str:
        """The log start moves."""
        return self.emit("broker-1", LogStart(TP, new, reason, 0))

    def waits(self, bounds: float) -> None:
        """Time passes, of bounds of R13."""
        self.wall += int(bounds * bound_us(Profile(), "R13"))
        self.emit("driver", CtlFault("f", "drop", "start", [], {}))


@pytest.mark.parametrize(
    ("limits", "violated"),
    [
        ({"retention_bytes": 4 * BATCH_BYTES}, 1),
        ({"retention_bytes": 4 * BATCH_BYTES + 1}, 0),
        ({"retention_ms": 1}, 1),
        ({"retention_ms": 86_400_000}, 0),
    ],
)
def test_a_log_start_that_stays(limits: dict[str, int], violated: int) -> None:
    """Shows that the log start has to pass the first copy once what follows is too large alone, or it is too old."""
    trace = Copies(**limits)
    trace.waits(1.1)
    found = trace.result("R13").violations
    assert len(found) == violated
    assert not found or found[0].sentence.startswith(
        "broker-1 did not move the log start of orders-0 to 2, past a copy"
    )


def test_a_log_start_that_moves() -> None:
    """Shows that a move in time tests R13, as does the deletion of the copy; one that was not due tests nothing."""
    trace = Copies(retention_bytes=4 * BATCH_BYTES)
    trace.waits(0.9)
    trace.begins(2)
    trace.waits(0.5)
    trace.deletes("a", 0)
    trace.begins(4, "delete-records")
    trace.deletes("b", 2)
    trace.waits(2)
    result = trace.result("R13")
    assert (result.status, result.tested) == ("held", 3)


@pytest.mark.parametrize(
    ("limits", "reason", "violated"),
    [
        ({"retention_ms": -1}, "retention-ms", 1),
        ({"retention_bytes": -1}, "retention-bytes", 1),
        ({"retention_bytes": 0}, "retention-bytes", 0),
        ({"retention_ms": -1}, "delete-records", 0),
        ({"retention_ms": 600}, "retention-ms", 1),
        ({"retention_ms": 599}, "retention-ms", 0),
    ],
)
def test_a_log_start_that_moves_too_soon(limits: dict[str, int], reason: Any, violated: int) -> None:
    """Shows that the log start moves past no copy by a limit that keeps all, or before the copy is older than that."""
    trace = Copies(**limits)
    trace.wall = 600_999 - trace.apart
    trace.begins(2, reason)
    found = trace.result("R13").violations
    assert len(found) == violated
    assert not found or found[0].sentence.startswith(
        "broker-1 moved the log start of orders-0 to 2, past a copy, by retention."
    )


@pytest.mark.parametrize(
    ("hindrance", "left", "violated"),
    [
        ("", 4, 1),
        ("copied", 4, 1),
        ("copied-not-here", 6, 1),
        ("twice", 8, 1),
        ("unfinished", 6, 1),
        ("behind-twice", 6, 1),
        ("below", 4, 1),
        ("unsized", 99, 0),
        ("not-copied", 99, 0),
        ("another-leader", 99, 0),
        ("unready", 99, 0),
        ("went-back", 99, 0),
        ("removed", 99, 0),
    ],
)
def test_a_log_start_that_moves_too_far(hindrance: str, left: int, violated: int) -> None:
    """Shows that what a leader has copied and what it has not copied count together, at most: copies below the log
    start and one that may have stayed count as well; and that R13 does not judge where it does not know them all."""
    for more in (0, 1):
        trace = Copies(retention_bytes=left * BATCH_BYTES + more)
        if hindrance == "copied":
            trace.append("broker-1", "r6", size=2 * BATCH_BYTES)
            trace.emit("broker-1", LogRoll(TP, 6))
            trace.tier("copied", "c", 4)
            trace.tier("known", "c", 4)
        elif hindrance == "copied-not-here":
            trace.tier("known", "c", 4)
        elif hindrance in ("twice", "unfinished"):
            trace.tier("known", "a2", 0, STARTED if hindrance == "unfinished" else FINISHED)
        elif hindrance == "behind-twice":
            trace.tier("known", "b2", 2)
        elif hindrance == "below":
            trace.begins(2, "delete-records")
        elif hindrance == "unsized":
            trace.emit("broker-1", TierSegment(TP, "c", "known", FINISHED, 4, 5, {"0": 4}))
        elif hindrance == "another-leader":
            trace.lead(2, 1)
        elif hindrance == "unready":
            trace.lead(1, 1)
        elif hindrance == "went-back":
            trace.begins(2, "delete-records")
            trace.lead(1, 1)
            trace.begins(0, "remote")
        elif hindrance == "removed":
            trace.emit("controller-101", PartRemove(TP, 9, 1, "t"))
        passes = {"below": 4, "not-copied": 6}.get(hindrance, 2)
        if hindrance == "not-copied":
            trace.tier("known", "c", 4)
        trace.begins(passes)
        found = trace.result("R13").violations
        assert len(found) == (violated and more), more
        assert not found or found[0].sentence == (
            f"broker-1 moved the log start of orders-0 to {passes}, past a copy, by retention.bytes = "
            f"{left * BATCH_BYTES + more:,}, although what is left has {left * BATCH_BYTES:,} bytes at most"
        )


@pytest.mark.parametrize("hindrance", ["clock", "unfinished", "twice", "gone", "lost"])
def test_when_nobody_knows_how_old_a_copy_is(hindrance: str) -> None:
    """Shows that R13 takes no move for too soon after a clock was set or records may be lost, or if another copy that
    ends there may be the one that is old enough: a copy that nobody finished goes as well."""
    trace = Copies(retention_ms=1000)
    known = TierSegment(TP, "c", "known", FINISHED, 4, 5, {"0": 4}, 1_000)
    trace.wall = 1_500_000
    if hindrance == "twice":
        trace.emit("broker-1", known)
    trace.emit("broker-1", msgspec.structs.replace(known, segment="d", state=STARTED, max_timestamp=0))
    if hindrance == "clock":
        trace.emit("broker-2", ClockSet("c", "start", 1, 0))
    elif hindrance == "lost":
        trace.change(1, 1, cause="unclean")
    if hindrance == "gone":
        trace.begins(4, "retention-ms")
        trace.tier("known", "d", 4, DELETION_STARTED)
        trace.tier("known", "d", 4, DELETED)
    trace.begins(6, "retention-ms")
    assert trace.result("R13").violated == 0


@pytest.mark.parametrize(
    ("told", "end", "violated"), [(400, 1, 0), (401, 1, 0), (399, 1, 1), (399, 2, 0), (299, 3, 1), (-1, 5, 0)]
)
def test_the_age_of_a_copy(told: int, end: int, violated: int) -> None:
    """Shows that a leader tells no smaller timestamp of a copy than its newest record's; of what is no segment R13
    knows nothing."""
    trace = Copies()
    for number, event in enumerate(trace.events):
        if isinstance(event.body, LogAppend):
            body = msgspec.structs.replace(event.body, timestamps=[400 - 50 * event.body.base])
            trace.events[number] = msgspec.structs.replace(event, body=body)
    start = 2 * (end // 2)
    trace.emit("broker-1", TierSegment(TP, "c", "copying", "COPY_SEGMENT_STARTED", start, end, {"0": 0}, told))
    found = trace.result("R13").violations
    assert len(found) == violated
    assert not found or f"with {told} as their greatest timestamp, but a record in them has" in found[0].sentence


def test_a_copy_below_the_log_start() -> None:
    """Shows that a leader has to begin with the deletion of a copy which the log begins behind, and has time for it
    from when another deletion is over."""
    trace = Copies()
    trace.begins(2, "delete-records")
    trace.waits(1.1)
    (finding,) = trace.result("R13").violations
    assert finding.sentence.startswith(
        "broker-1 did not begin to delete a copy of orders-0 below its log start, 2, within"
    )
    for failed, violated in ((False, 0), (True, 1)):
        trace = Copies()
        trace.tier("deleting", "x", 0)
        trace.begins(2, "delete-records")
        trace.waits(1.1)
        if failed:
            trace.tier("delete-failed", "x", 0)
            trace.waits(0.9)
            assert trace.result("R13").violated == 0
            trace.waits(0.2)
        assert trace.result("R13").violated == violated


def test_a_copy_that_failed_is_deleted_meanwhile() -> None:
    """Shows that the deletion of an expired copy still goes on when that of a copy which failed is over."""
    trace = Copies()
    trace.tier("deleting", "x", 0)
    trace.begins(2, "delete-records")
    trace.tier("deleting", "failed", 4)
    trace.tier("deleted", "failed", 4)
    trace.waits(1.1)
    assert trace.result("R13").violated == 0
    trace.tier("deleted", "x", 0)
    trace.waits(1.1)
    assert trace.result("R13").violated == 1


@pytest.mark.parametrize("state", [STARTED, DELETION_STARTED])
def test_what_is_left_of_a_copy(state: str) -> None:
    """Shows that a leader has to begin, in time, with the deletion of what somebody has left half made or half deleted
    below the log start, and that this tests R13."""
    trace = Copies()
    event = trace.leaves(state)
    trace.waits(1.1)
    (finding,) = trace.result("R13").violations
    assert finding.sentence.startswith(
        "broker-1 did not begin to delete what is left of a copy of orders-0 below its log start, 2, within"
    )
    assert event in finding.events
    trace = Copies()
    trace.leaves(state)
    trace.waits(0.9)
    trace.deletes("c", 0)
    trace.waits(2)
    result = trace.result("R13")
    assert (result.status, result.tested) == ("held", 2)


@pytest.mark.parametrize(
    ("hindrance", "violated"),
    [
        ("in-the-log", 0),
        ("ends-in-the-log", 0),
        ("own-copy", 0),
        ("own-copy-failed", 1),
        ("own-copy-behind", 1),
        ("longer-copy", 0),
        ("longer-copy-behind", 1),
        ("high-watermark", 0),
        ("below-high-watermark", 1),
        ("deleted", 0),
        ("unready", 0),
        ("unclean", 0),
        ("pause", 0),
    ],
)
def test_what_may_be_left_of_a_copy(hindrance: str, violated: int) -> None:
    """Shows that a leader goes no further than to the first copy that stays, or that it makes itself, and deletes
    nothing that its high watermark is not behind; and that nothing is judged where R13 judges no copies."""
    trace = Copies()
    trace.leaves(STARTED, {"in-the-log": 2, "ends-in-the-log": 1}.get(hindrance, 0))
    if "own-copy" in hindrance:
        trace.tier("copying", "d", 1 if "behind" in hindrance else 0)
        if "failed" in hindrance:
            trace.tier("copy-failed", "d", 0)
    elif "longer-copy" in hindrance:
        trace.tier("known", "d", 1 if "behind" in hindrance else 0, STARTED, end=3)
    elif "high-watermark" in hindrance:
        trace.tier("known", "d", 4, end=5 if "below" in hindrance else 6)
    elif hindrance == "deleted":
        trace.tier("known", "c", 0, DELETED)
    elif hindrance == "unready":
        trace.lead(1, 1)
    elif hindrance == "unclean":
        trace.change(1, 1, cause="unclean")
    elif hindrance == "pause":
        trace.emit("driver", CtlFault("p", "pause", "start", ["broker-1"], {}))
    trace.waits(1.1)
    assert trace.result("R13").violated == violated


@pytest.mark.parametrize(("failed", "violated"), [(False, 1), (True, 0)])
def test_what_is_left_beside_other_deletions(failed: bool, violated: int) -> None:
    """Shows that the time in which a leader deletes other copies does not count, and that the one between them does,
    unless such a deletion fails: then the next run of its task has all the time."""
    trace = Copies()
    trace.leaves(DELETION_STARTED)
    for _ in range(2):
        trace.waits(0.4)
        trace.tier("deleting", "x", 4)
        trace.waits(3)
        trace.tier("delete-failed" if failed else "deleted", "x", 4)
        assert trace.result("R13").violated == 0
    trace.waits(0.4)
    assert trace.result("R13").violated == violated


@pytest.mark.parametrize("hindrance", ["pause", "unclean", "lost", "metadata", "clock", "leader", "down", "unready"])
def test_what_may_stay(hindrance: str) -> None:
    """Shows that nothing is judged after a loss, or of a leader that is stopped or gone, or knows no copies yet."""
    trace = Copies(**({"retention_ms": 1} if hindrance == "clock" else {"retention_bytes": 4 * BATCH_BYTES}))
    if hindrance == "unclean":
        trace.change(1, 1, cause="unclean")
    elif hindrance == "lost":
        trace.down("broker-2", "lossy", lost={TP: 5})
    elif hindrance == "metadata":
        trace.change(2, 1, cause="unclean", tp="__remote_log_metadata-0")
    elif hindrance == "clock":
        trace.emit("broker-2", ClockSet("c", "start", 1, 0))
    elif hindrance == "leader":
        trace.lead(2, 1)
    elif hindrance == "pause":
        trace.emit("driver", CtlFault("p", "pause", "start", ["broker-1"], {}))
    elif hindrance == "down":
        trace.down("broker-1")
    elif hindrance == "unready":
        trace.lead(1, 1)
        trace.tier("known", "c", 4)
    trace.waits(1.1)
    assert trace.result("R13").violated == 0


@pytest.mark.parametrize("lost", ["another", "too-few"])
def test_what_a_loss_does_not_excuse(lost: str) -> None:
    """Shows that copies have to go though another partition was elected uncleanly, or one disk of two lost a part."""
    trace = Copies(retention_bytes=4 * BATCH_BYTES, min_insync_replicas=2 if lost == "too-few" else 1)
    if lost == "another":
        trace.change(2, 1, cause="unclean", tp="other-0")
        trace.down("broker-2", "lossy", lost={"other-0": 5})
    else:
        trace.down("broker-2", "lossy", lost={TP: 5})
    trace.waits(1.1)
    assert trace.result("R13").violated == 1


@pytest.mark.parametrize(
    ("hindrance", "left", "violated"),
    [("", 4, 1), ("unknown", 4, 0), ("unknown", 2, 1), ("late", 4, 0), ("unfinished", 4, 0), ("unfinished", 2, 1)],
)
def test_what_a_leader_cannot_count(hindrance: str, left: int, violated: int) -> None:
    """Shows that no copy counts of which the leader knows nothing, or that has gone meanwhile, nor one of its own
    segments that others have copied; and that a copy which nobody finished is first taken from what is too much."""
    trace = Copies(retention_bytes=left * BATCH_BYTES)
    if hindrance == "unknown":
        trace.tier("known", "b", 2, DELETION_STARTED)
        trace.tier("known", "b", 2, DELETED)
    elif hindrance == "late":
        trace.tier("known", "b", 2, DELETION_STARTED)
        trace.tier("known", "c", 4)
    elif hindrance == "unfinished":
        trace.tier("known", "a2", 0, STARTED)
    trace.waits(1.1)
    assert trace.result("R13").violated == violated
