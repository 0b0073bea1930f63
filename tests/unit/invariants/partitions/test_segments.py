"""P29 and L17: that logs begin new segments and keep the full ones, and that old ones go."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from actors.trace.events import (
    ClockSet,
    ConfigChange,
    CtlFault,
    DiskRuleChange,
    LogAppend,
    LogDrop,
    LogLocalStart,
    LogRoll,
    LogStart,
    NodeDown,
    NodeUp,
    PartRemove,
    TierSegment,
)
from actors.trace.tier_events import FINISHED
from orchestrator.invariants.folds.bounds import bound_us
from orchestrator.invariants.folds.fold import Profile
from tests.unit.invariants.trace_builder import TP, TraceBuilder

BATCH_BYTES = 71
"""What a batch of one record has at least."""
LIMITS = {"log.retention.check.interval.ms": 1000, "log.initial.task.delay.ms": 1000}


class Segments(TraceBuilder):
    """A log of broker-1, which leads, with the limits of its topic."""

    def __init__(self, **limits: Any) -> None:
        config = {key.replace("_", "."): value for key, value in limits.items()}
        super().__init__(config=LIMITS, topics={"orders": {"replicas": 3, "config": config}})
        self.lead(1)

    def write(self, at_ms: int = -1, broker: int = 1, size: int = 0) -> None:
        """A batch of one record."""
        uid = f"r{self.log_end(broker)}"
        self.append(f"broker-{broker}", uid, role="leader" if broker == 1 else "follower", size=size)
        if at_ms >= 0:
            body = self.events[-1].body
            assert isinstance(body, LogAppend)
            body = msgspec.structs.replace(body, timestamps=[at_ms])
            self.events[-1] = msgspec.structs.replace(self.events[-1], body=body)

    def roll(self, broker: int = 1) -> str:
        """A new segment begins at the log end."""
        return self.emit(f"broker-{broker}", LogRoll(TP, self.log_end(broker)))

    def three(self, size: int = 0, broker: int = 1) -> None:
        """Two full segments of two batches each, all committed, and an active one with a batch."""
        for _ in range(2):
            self.write(size=size, broker=broker)
            self.write(size=size, broker=broker)
            self.roll(broker)
        self.write(size=size, broker=broker)
        self.high_watermark(f"broker-{broker}", 4)

    def comes_back(self, lost: int | None = None) -> None:
        """Broker-1 is killed, or its machine loses power, and it leads again."""
        self.emit("broker-1", NodeDown("crash") if lost is None else NodeDown("lossy", lost={TP: lost}))
        self.incarnations["broker-1"] = 1
        self.emit("broker-1", NodeUp("broker", 1, "d", False, False))
        self.lead(1, 1)

    def begins(self, new: int, reason: Any = "retention-bytes", broker: int = 1) -> str:
        return self.emit(f"broker-{broker}", LogStart(TP, new, reason, 0))

    def waits(self, bounds: float) -> None:
        """Time passes, of bounds of L17."""
        self.wall += int(bounds * bound_us(Profile(config=LIMITS), "L17"))
        self.emit("driver", CtlFault("other", "drop", "start", [], {}))


# ---- P29 -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("segment_bytes", "violated"), [(2 * BATCH_BYTES, 0), (2 * BATCH_BYTES - 1, 1)])
def test_a_segment_that_is_full(segment_bytes: int, violated: int) -> None:
    """Shows that a batch which does not fit into the active segment violates P29, at a follower as well."""
    trace = Segments(segment_bytes=segment_bytes)
    for broker in (1, 2):
        trace.write(broker=broker)
        trace.write(broker=broker)
    result = trace.result("P29")
    assert (result.violated, result.tested) == (2 * violated, 2)
    assert not violated or result.violations[0].sentence.startswith(
        "broker-1 appended 1 of orders-0 to a segment of 71 "
    )


@pytest.mark.parametrize(("age_ms", "violated"), [(1000, 0), (1001, 1)])
def test_a_segment_that_is_old(age_ms: int, violated: int) -> None:
    """Shows that the timestamp of the active segment's first batch counts, and that a follower has the leader's."""
    trace = Segments(segment_ms=1000)
    trace.write(100)
    for broker in (1, 2):
        if broker == 2:
            trace.write(broker=2)
        trace.write(100 + age_ms, broker=broker)
    assert trace.result("P29").violated == 2 * violated


@pytest.mark.parametrize(("node", "violated"), [("broker-1", 0), ("broker-2", 1)])
def test_a_marker_of_a_leader_whose_clock_was_set(node: str, violated: int) -> None:
    """Shows that what a leader writes by its own clock, a marker, has no known age once that clock was set; that of
    another broker makes no difference."""
    trace = Segments(segment_ms=1000)
    trace.emit(node, ClockSet("f", "start", -40_000_000, 0))
    trace.write(0)
    trace.wall += 2_000_000
    trace.write()
    assert trace.result("P29").violated == violated


def test_segments_that_are_rolled() -> None:
    """Shows that the size and the age begin anew with a segment; what is left after a cut or a restart is not known."""
    trace = Segments(segment_bytes=2 * BATCH_BYTES, segment_ms=1000)
    trace.write(0)
    trace.write(0)
    trace.roll()
    trace.write(5000)
    trace.write(5000)
    trace.truncate("broker-1", 3)
    trace.write(9000)
    assert trace.result("P29").violated == 0
    trace = Segments(segment_bytes=2 * BATCH_BYTES)
    trace.write()
    trace.write()
    trace.down("broker-1")
    trace.up("broker-1")
    trace.write()
    assert trace.result("P29").violated == 0


@pytest.mark.parametrize(
    ("limits", "size", "age_ms", "violated"),
    [
        ({"segment_bytes": 300}, 100, 0, 1),
        ({"segment_bytes": 299}, 100, 0, 0),
        ({"segment_bytes": 300}, 101, 0, 0),
        ({"segment_ms": 1000}, 100, 1000, 1),
        ({"segment_ms": 1000}, 100, 1001, 0),
        ({}, 0, 0, 0),
    ],
)
@pytest.mark.parametrize("broker", [1, 2])
def test_a_segment_that_begins_too_soon(
    limits: dict[str, int], size: int, age_ms: int, violated: int, broker: int
) -> None:
    """Shows that a batch which fits goes into the active segment, at a follower as well."""
    trace = Segments(**limits)
    for number in range(1, broker + 1):
        trace.write(100, number, size=100)
        trace.write(500, number, size=100)
        trace.req = "r"
        rolled = trace.roll(number)
        trace.write(100 + age_ms, number, size=size)
        trace.req = ""
    result = trace.result("P29")
    assert (result.violated, result.tested) == (broker * violated, broker * (2 if size else 1))
    if violated:
        assert rolled in result.violations[-1].events
        assert result.violations[-1].sentence.startswith(
            f"broker-{broker} began a new segment of orders-0 for the batch from 2 on, although the one before would "
            "have 300 bytes with it, with segment.bytes ="
        )


@pytest.mark.parametrize(
    "hindrance", ["refused", "retention", "between", "marker", "first-marker", "cut", "restart", "empty"]
)
def test_why_a_segment_may_begin_too_soon(hindrance: str) -> None:
    """Shows that a segment which does not begin for the batch that comes into it first is not judged, nor one before
    which the size or the age is not known."""
    trace = Segments()
    trace.write(-1 if hindrance == "first-marker" else 100, size=100)
    trace.write(100, size=100)
    if hindrance == "cut":
        trace.truncate("broker-1", 1)
    elif hindrance == "restart":
        trace.comes_back()
    elif hindrance == "empty":
        trace.begins(2, "out-of-range")
    trace.req = "" if hindrance == "retention" else "r"
    trace.roll()
    if hindrance == "refused":
        trace.req = "another"
    elif hindrance == "between":
        trace.high_watermark("broker-1", 1)
    trace.write(-1 if hindrance == "marker" else 100, size=100)
    assert trace.result("P29").violated == 0


def loses(trace: Segments, lost: int | None, wiped: bool = False) -> str:
    """The machine of broker-1 loses power, and the broker comes back."""
    event = trace.down("broker-1", "lossy", lost={"bills-0": 0} if lost is None else {TP: lost})
    trace.up("broker-1", wiped=wiped)
    return event


def full(after_us: int = 2_000_000) -> Segments:
    """A full segment of two batches, for so long, and the active one with a batch."""
    trace = Segments()
    trace.write()
    trace.write()
    trace.roll()
    trace.wall += after_us
    trace.write()
    return trace


def test_a_loss_of_power_that_takes_of_a_full_segment() -> None:
    """Shows that what is before the active segment must be on the disk, and that the roll and the loss are the
    evidence; no loss of this log tests P29, too."""
    trace = Segments()
    trace.write()
    trace.write()
    rolled = trace.roll()
    trace.wall += 2_000_000
    trace.write()
    down = loses(trace, 1)
    (finding,) = trace.result("P29").violations
    assert finding.events == [rolled, down]
    assert finding.sentence == (
        "broker-1 lost the records of orders-0 from 1 on with its machine's power, although a new segment had begun at "
        "2 more than a second before"
    )
    for lost in (2, None):
        trace = full()
        before = trace.result("P29").tested
        loses(trace, lost)
        result = trace.result("P29")
        assert (result.violated, result.tested) == (0, before + 1)


@pytest.mark.parametrize(
    ("case", "violated"),
    [
        ("", 1),
        ("soon", 0),
        ("wiped", 0),
        ("crash", 0),
        ("former-life", 0),
        ("at-start", 0),
        ("cut", 0),
        ("cut-less", 1),
        ("anew", 0),
        ("older", 1),
    ],
)
def test_what_a_loss_of_power_may_take(case: str, violated: int) -> None:
    """Shows that a Sync has a second, that a wiped disk loses all, and that a process which is killed loses nothing; a
    segment that was full in a life before, or that a process finds, is not judged, nor is what was cut or begins anew;
    but the last segment that is full for long enough counts, whatever began since."""
    trace = full(900_000 if case == "soon" else 2_000_000)
    if case == "crash":
        trace.down("broker-1", "crash", lost={TP: 1})
        trace.up("broker-1")
    elif case in ("former-life", "at-start"):
        trace.down("broker-1")
        trace.up("broker-1")
        if case == "at-start":
            trace.roll()
            trace.wall += 2_000_000
        trace.lead(1, 1)
    elif case in ("cut", "cut-less"):
        trace.truncate("broker-1", 1 if case == "cut" else 2)
    elif case == "anew":
        trace.begins(9, "out-of-range")
    elif case == "older":
        trace.roll()
    loses(trace, 1, wiped=case == "wiped")
    assert trace.result("P29").violated == violated


@pytest.mark.parametrize(
    ("node", "kind", "when", "violated"),
    [
        ("broker-1", "slow-disk", "before", 0),
        ("broker-1", "slow-disk", "just-before", 0),
        ("broker-1", "slow-disk", "long-before", 1),
        ("broker-1", "slow-disk", "just-after", 0),
        ("broker-1", "slow-disk", "after", 1),
        ("broker-1", "pause", "before", 0),
        ("broker-1", "pause", "just-after", 0),
        ("broker-1", "pause", "after", 1),
        ("broker-1", "drop", "before", 1),
        ("broker-2", "pause", "before", 1),
    ],
)
def test_syncs_that_take_longer(node: str, kind: str, when: str, violated: int) -> None:
    """Shows that a segment which becomes full while its disk is slow or its broker stopped, or whose Sync that holds
    up, is not judged; and that a hindrance which is over before, with what it held up, or comes later, is no excuse."""
    trace = Segments()

    def hinders(phase: Any) -> None:
        if kind == "slow-disk":
            trace.emit(node, DiskRuleChange("f/1", phase, 1_000_000, 2_000_000, 0))
        else:
            trace.emit("driver", CtlFault("f", kind, phase, [node], {}))

    trace.write()
    trace.write()
    if when.endswith("before"):
        hinders("start")
        if when != "before":
            hinders("stop")
            trace.wall += 5_000_000 if when == "long-before" else 2_000_000
    trace.roll()
    if when == "just-after":
        hinders("start")
    trace.wall += 2_000_000
    if when == "after":
        hinders("start")
    trace.write()
    loses(trace, 1)
    assert trace.result("P29").violated == violated


# ---- L17 -------------------------------------------------------------------------------------------------------


def test_what_retention_deletes_in_time() -> None:
    """Shows that each deletion that was due tests L17, by size and by age."""
    trace = Segments(retention_bytes=2 * BATCH_BYTES, retention_ms=1)
    trace.three()
    trace.waits(0.9)
    trace.begins(2)
    trace.begins(4, "retention-ms")
    result = trace.result("L17")
    assert (result.status, result.tested) == ("held", 3)


@pytest.mark.parametrize(
    ("limits", "violated"),
    [
        ({"retention_bytes": 3 * BATCH_BYTES}, 1),
        ({"retention_bytes": 3 * BATCH_BYTES + 1}, 0),
        ({"retention_ms": 1}, 1),
        ({"retention_ms": 600_000}, 0),
        ({"retention_ms": -1, "retention_bytes": -1}, 0),
    ],
)
def test_what_retention_does_not_delete(limits: dict[str, int], violated: int) -> None:
    """Shows that a segment stays no longer than the bound once the others alone are too large, or it is too old."""
    trace = Segments(**limits)
    trace.three()
    trace.waits(1.1)
    found = trace.result("L17").violations
    assert len(found) == violated
    assert not found or found[0].sentence.startswith(
        "broker-1 did not delete the segment of orders-0 up to 2 within 4 s"
    )


@pytest.mark.parametrize(
    ("limits", "violated"),
    [
        ({"retention_ms": 1000}, 1),
        ({"retention_ms": 600_000}, 0),
        ({"retention_ms": -1}, 0),
        ({"retention_ms": -1, "retention_bytes": 0}, 1),
        ({"retention_ms": -1, "retention_bytes": 1}, 0),
    ],
)
@pytest.mark.parametrize("broker", [1, 2])
def test_an_active_segment_that_is_not_deleted(limits: dict[str, int], violated: int, broker: int) -> None:
    """Shows that the active segment stays no longer than the bound when all in it is too old, or nothing is to be kept,
    at a follower as well; that it goes with a new one that begins at its end; and that this tests L17."""
    for deletes in (False, True)[: 1 + violated]:
        trace = Segments(**limits)
        trace.assume(2, 0, leader=1)
        for number in range(1, broker + 1):
            trace.write(0, number)
        trace.wall = 1_000_000
        event = trace.high_watermark(f"broker-{broker}", 1)
        trace.waits(0.9)
        if deletes:
            trace.roll(broker)
            trace.begins(1, "retention-ms" if limits["retention_ms"] > 0 else "retention-bytes", broker)
        trace.waits(0.2)
        result = trace.result("L17")
        assert (result.violated, result.tested) == (violated * (not deletes), violated * deletes)
        for finding in result.violations:
            assert event in finding.events
            assert finding.sentence.startswith(
                f"broker-{broker} did not delete the active segment of orders-0 up to 1 within 4 s, although "
            )
    assert violated or result.status == "vacuous"


@pytest.mark.parametrize(
    ("case", "violated"),
    [
        ("", 1),
        ("empty", 0),
        ("uncommitted", 0),
        ("watermark-back", 0),
        ("watermark-again", 1),
        ("appended", 0),
        ("appended-old", 1),
        ("appended-soon", 0),
        ("future", 0),
        ("rolled", 1),
        ("marker", 1),
        ("clock", 0),
        ("cut", 0),
        ("cut-and-appended", 1),
        ("deleted-records", 0),
        ("no-role", 0),
        ("killed", 1),
        ("killed-soon", 0),
        ("gap", 0),
        ("unknown-past", 0),
        ("unknown-tail", 0),
        ("pause", 0),
        ("topic-removed", 0),
    ],
)
def test_which_active_segments_have_to_go(case: str, violated: int) -> None:
    """Shows that an active segment stays while it may be empty, is not committed to its end, or has a batch that is not
    old enough, or that the trace does not tell of; and that its time begins anew with each batch and each process."""
    trace = Segments(retention_ms=1000)
    if case == "unknown-past":
        trace.logs[TP, "broker-1"] = [(0, 0), (1, 1)]
    if case != "empty":
        trace.write(-1 if case == "marker" else 9_000_000 if case == "future" else 0)
    end = trace.log_end(1)
    if case == "gap":
        trace.append("broker-1", "x", hole=1)
    trace.wall = 2_000_000
    if case not in ("uncommitted", "empty"):
        trace.high_watermark("broker-1", end)
    trace.waits(0.6)
    if case.startswith("watermark"):
        trace.high_watermark("broker-1", 0)
        if case == "watermark-again":
            trace.waits(0.6)
            trace.high_watermark("broker-1", end)
            trace.waits(0.6)
    elif case.startswith("appended"):
        trace.write(trace.wall // 1000 if case == "appended" else 0)
        trace.high_watermark("broker-1", 2)
        trace.waits(0.6 if case == "appended-old" else 0)
    elif case == "rolled":
        trace.roll()
        trace.write(0)
    elif case == "clock":
        trace.emit("producer-1", ClockSet("f", "start", 1, 0))
    elif case.startswith("cut"):
        trace.truncate("broker-1", 0)
        if case == "cut-and-appended":
            trace.write(0)
            trace.high_watermark("broker-1", 1)
            trace.waits(0.6)
    elif case == "deleted-records":
        trace.begins(1, "delete-records")
    elif case == "no-role":
        trace.down("broker-1")
        trace.up("broker-1")
        trace.waits(1)
    elif case.startswith("killed"):
        trace.comes_back()
        trace.high_watermark("broker-1", 1, epoch=1)
        trace.waits(0.6 if case == "killed" else 0)
    elif case == "unknown-tail":
        trace.logs[TP, "broker-1"].append((0, 1))
        trace.comes_back()
        trace.high_watermark("broker-1", trace.log_end(1), epoch=1)
        trace.waits(1)
    elif case == "pause":
        trace.emit("driver", CtlFault("p", "pause", "start", ["broker-1"], {}))
    elif case == "topic-removed":
        trace.emit("controller-101", PartRemove(TP, 9, 1, "t"))
    trace.waits(0.5)
    assert trace.result("L17").violated == violated


@pytest.mark.parametrize(
    ("case", "violated"),
    [("", 1), ("in-time", 0), ("full-first", 0), ("copied", 1), ("clock", 0), ("appended", 0), ("limit", 0)],
)
def test_the_active_segment_of_a_tiered_log(case: str, violated: int) -> None:
    """Shows that a replica has to begin a new segment in time when the active one has to go, as it must be copied
    first; not while a full one is before it, and not once a batch was appended."""
    trace = Segments(
        remote_storage_enable=True, local_retention_ms=600_000 if case == "limit" else 1000, retention_ms=-1
    )
    trace.write(0)
    if case in ("full-first", "copied"):
        trace.roll()
        trace.write(0)
    trace.wall = 2_000_000
    if case == "copied":
        trace.emit("broker-1", TierSegment(TP, "a", "known", FINISHED, 0, 0, {"0": 0}))
        trace.begins(0, "remote")
        trace.emit("broker-1", LogLocalStart(TP, 1, "retention-ms", 0))
    trace.high_watermark("broker-1", trace.log_end(1))
    trace.waits(0.6)
    if case == "in-time":
        trace.roll()
    elif case == "clock":
        trace.emit("producer-1", ClockSet("f", "start", 1, 0))
    elif case == "appended":
        trace.write(0)
    trace.waits(0.5)
    result = trace.result("L17")
    assert (result.violated, result.tested) == (violated, case == "in-time")
    for finding in result.violations:
        assert "did not begin a new segment of orders-0 at " in finding.sentence
        assert finding.sentence.endswith(
            " within 4 s, so that the active one can be copied, although it is too old by local.retention.ms = 1,000"
        )


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
@pytest.mark.parametrize("broker", [1, 2])
def test_what_retention_deletes_too_soon(limits: dict[str, int], reason: Any, violated: int, broker: int) -> None:
    """Shows that nothing goes by a limit that keeps all, and no segment before its newest record is older than the
    limit: the leader's timestamps count at a follower as well."""
    trace = Segments(**limits)
    trace.assume(2, 0, leader=1)
    for number in (1, 2):
        trace.write(400, broker=number)
        trace.write(300, broker=number)
        trace.roll(number)
    trace.wall = 1_000_999 - trace.apart
    trace.begins(2, reason, broker)
    found = trace.result("L17").violations
    assert len(found) == violated
    if found and reason == "retention-ms" and limits["retention_ms"] >= 0:
        assert found[0].sentence == (
            f"broker-{broker} deleted segments of orders-0 up to 2 by retention.ms = 600, although the newest record "
            "in them was 600 ms old"
        )


@pytest.mark.parametrize(("limit", "violated"), [(300, 0), (301, 1)])
@pytest.mark.parametrize("broker", [1, 2])
def test_what_retention_by_size_deletes_too_soon(limit: int, violated: int, broker: int) -> None:
    """Shows that no segment goes if those that are left have less than the limit, at a follower as well."""
    trace = Segments(retention_bytes=limit)
    if broker == 2:
        trace.assume(2, 0, leader=1)
    trace.three(100, broker)
    trace.begins(2, broker=broker)
    found = trace.result("L17").violations
    assert len(found) == violated
    assert not found or found[0].sentence == (
        f"broker-{broker} deleted segments of orders-0 up to 2 by retention.bytes = 301, although what is left has 300 "
        "bytes at most"
    )


@pytest.mark.parametrize(
    ("hindrance", "limit", "violated"),
    [
        ("unsized", 301, 0),
        ("delete-records", 301, 0),
        ("cut", 500, 0),
        ("cut", 501, 1),
        ("killed", 301, 1),
        ("killed", 300, 0),
        ("lost", 500, 0),
        ("lost", 501, 1),
        ("roll-lost", 100, 0),
        ("roll-lost", 101, 1),
        ("gap", 301, 0),
        ("untold", 301, 0),
        ("later", 301, 0),
        ("inside", 500, 0),
        ("inside", 501, 1),
    ],
)
def test_when_nobody_knows_how_large_segments_are(hindrance: str, limit: int, violated: int) -> None:
    """Shows that what is left counts with the most that it may have: of what was cut, lost, or is not in the trace
    nobody knows it, but no more comes to it by a restart; and that a segment is left if its end is."""
    trace = Segments(retention_bytes=limit)
    if hindrance == "later":
        trace.logs[TP, "broker-1"] = [(0, 0), (1, 7)]
    trace.three(0 if hindrance == "unsized" else 100)
    if hindrance == "cut":
        trace.truncate("broker-1", 4)
        trace.write(size=100)
        trace.write(size=100)
    elif hindrance == "killed":
        trace.comes_back()
    elif hindrance == "lost":
        trace.logs[TP, "broker-1"].pop()
        trace.comes_back(4)
        trace.write(size=100)
        trace.write(size=100)
    elif hindrance == "roll-lost":
        trace.roll()
        trace.comes_back(5)
        trace.begins(4)
    elif hindrance in ("gap", "untold"):
        trace.logs[TP, "broker-1"].append((6, 9))
        if hindrance == "untold":
            trace.comes_back()
        else:
            trace.write(size=100)
            trace.truncate("broker-1", 6)
    reason = hindrance if hindrance == "delete-records" else "retention-bytes"
    trace.begins(1 if hindrance == "inside" else 2, reason)
    assert trace.result("L17").violated == violated


def test_what_a_crash_kept_off_the_disk_counts_once() -> None:
    """Shows that a batch which the trace has, and a disk has not, makes nothing too much once it is written again; nor
    before. One that is on the disk counts."""
    for again, size, violated in ((False, 400, 0), (True, 400, 0), (True, 300, 1), (False, 300, 0)):
        trace = Segments(retention_bytes=size)
        trace.three(100)
        trace.write(size=100)
        trace.logs[TP, "broker-1"].pop()
        trace.comes_back()
        if again:
            trace.write(size=100)
        trace.high_watermark("broker-1", 4, epoch=1)
        trace.waits(1.1)
        assert trace.result("L17").violated == violated, (again, size)


@pytest.mark.parametrize("hindrance", ["cut", "down", "lost", "clock", "marker", "again", "inside", "unready"])
def test_when_nobody_knows_how_old_a_segment_is(hindrance: str) -> None:
    """Shows that L17 takes nothing for too soon where records may be gone or have no timestamps, a clock was changed,
    the segments were gone before, or one stays; or the broker may not know the topic's limits yet."""
    trace = Segments(retention_ms=5000)
    trace.write(-1 if hindrance == "marker" else 0)
    if hindrance == "cut":
        trace.write(0)
        trace.truncate("broker-1", 1)
    elif hindrance in ("down", "lost"):
        lost = {TP: 1} if hindrance == "lost" else {}
        trace.emit("broker-1", NodeDown("lossy" if lost else "crash", lost=lost))
        trace.incarnations["broker-1"] = 1
        trace.emit("broker-1", NodeUp("broker", 1, "d", False, False))
        trace.lead(1, 1)
    elif hindrance == "clock":
        trace.emit("broker-1", ClockSet("f", "start", 40_000_000, 0))
    if hindrance != "inside":
        trace.roll()
    if hindrance == "again":
        trace.begins(1, "delete-records")
    elif hindrance == "unready":
        trace.down("broker-1", "clean")
        trace.up("broker-1")
    trace.begins(1, "retention-ms")
    assert trace.result("L17").violated == 0


@pytest.mark.parametrize(("local_ms", "violated"), [(5000, 1), (0, 0)])
def test_local_retention_that_takes_too_much(local_ms: int, violated: int) -> None:
    """Shows that of a tiered log the local limit decides what a replica itself deletes, and that L17 does not judge
    when its log start moves."""
    trace = Segments(remote_storage_enable=True, local_retention_ms=local_ms, retention_ms=-1)
    trace.write(1)
    trace.roll()
    trace.emit("broker-1", LogLocalStart(TP, 1, "retention-ms", 0))
    trace.begins(1, "retention-ms")
    found = trace.result("L17").violations
    assert len(found) == violated
    assert not found or "by local.retention.ms = 5,000, although" in found[0].sentence


def test_who_may_not_delete() -> None:
    """Shows that nobody deletes what is not committed, and that a broker which is stopped or gone has no time."""
    for hindrance, violated in (("", 1), ("watermark", 0), ("pause", 0), ("ended-pause", 0), ("down", 0), ("begin", 0)):
        trace = Segments(retention_bytes=BATCH_BYTES)
        trace.write()
        trace.write()
        trace.roll()
        trace.write()
        trace.high_watermark("broker-1", 1 if hindrance == "watermark" else 2)
        if hindrance == "pause":
            trace.emit("driver", CtlFault("p", "pause", "start", ["broker-1"], {}))
        elif hindrance == "ended-pause":
            trace.emit("driver", CtlFault("p", "pause", "start", ["broker-1"], {}))
            trace.waits(2)
            trace.emit("driver", CtlFault("p", "pause", "stop", ["broker-1"], {}))
            trace.waits(-0.2)
        elif hindrance == "down":
            trace.down("broker-1")
        elif hindrance == "begin":
            trace.begins(2, "delete-records")
            trace.emit("broker-1", LogDrop(TP, 2))
        trace.waits(1.1)
        assert trace.result("L17").violated == violated, hindrance


@pytest.mark.parametrize("reason", ["delete-records", "leader"])
def test_files_below_the_log_start(reason: str) -> None:
    """Shows that a replica has to remove the full segments below its log start in time, and that this tests L17."""
    trace = Segments()
    trace.three()
    event = trace.begins(3, reason)
    trace.waits(0.9)
    assert trace.result("L17").violated == 0
    trace.waits(0.2)
    (finding,) = trace.result("L17").violations
    assert finding.sentence == (
        "broker-1 did not remove the segments of orders-0 up to 2 within 4 s, although its log begins at 3"
    )
    assert event in finding.events
    trace = Segments()
    trace.three()
    trace.begins(3, reason)
    trace.waits(0.9)
    trace.emit("broker-1", LogDrop(TP, 2))
    trace.waits(2)
    result = trace.result("L17")
    assert (result.status, result.tested) == ("held", 1)


@pytest.mark.parametrize(
    ("case", "violated"),
    [
        ("removed-less", 1),
        ("inside", 0),
        ("active", 1),
        ("uncommitted", 0),
        ("pause", 0),
        ("down", 0),
        ("load", 0),
        ("again", 1),
        ("anew", 0),
        ("cut", 0),
        ("cut-before", 1),
        ("removed-before", 0),
        ("not-there", 0),
        ("no-segment", 0),
        ("topic-removed", 0),
    ],
)
def test_which_files_have_to_go(case: str, violated: int) -> None:
    """Shows that only full and committed segments have to go, of a process that left them there itself; and that the
    time for it begins anew with a cut, and not with the next move."""
    trace = Segments(remote_storage_enable=case == "not-there")
    if case == "no-segment":
        trace.logs[TP, "broker-1"] = [(0, 0), (2, 7)]
    trace.three()
    if case == "uncommitted":
        trace.high_watermark("broker-1", 1)
    elif case == "removed-before":
        trace.emit("broker-1", LogDrop(TP, 2))
    elif case == "not-there":
        trace.comes_back()
        trace.emit("broker-1", LogLocalStart(TP, 2, "load", 0))
        trace.high_watermark("broker-1", 4, epoch=1)
    elif case == "load":
        trace.comes_back()
    start = {"inside": 1, "active": 5, "removed-less": 4, "no-segment": 3}.get(case, 2)
    trace.begins(start, "load" if case == "load" else "delete-records")
    if case == "pause":
        trace.emit("driver", CtlFault("p", "pause", "start", ["broker-1"], {}))
    elif case in ("down", "load"):
        if case == "down":
            trace.comes_back()
        trace.high_watermark("broker-1", 4, epoch=1)
    trace.waits(0.6)
    if case == "removed-less":
        trace.emit("broker-1", LogDrop(TP, 2))
        trace.waits(0.6)
    elif case == "again":
        trace.begins(3, "delete-records")
    elif case == "anew":
        trace.begins(9, "out-of-range")
    elif case.startswith("cut"):
        trace.truncate("broker-1", 4)
        trace.waits(0.6 if case == "cut-before" else 0)
    elif case == "topic-removed":
        trace.emit("controller-101", PartRemove(TP, 9, 1, "t"))
    trace.waits(0.5)
    assert trace.result("L17").violated == violated


def test_ages_by_wrong_clocks() -> None:
    """Shows that L17 judges no age in a run in which a clock was set, and sizes all the same."""
    for limits, violated in (({"retention_ms": 1}, 0), ({"retention_bytes": BATCH_BYTES}, 1)):
        trace = Segments(**limits)
        trace.emit("producer-1", ClockSet("f", "start", 1, 0))
        trace.three()
        trace.waits(1.1)
        assert trace.result("L17").violated == violated


@pytest.mark.parametrize(("copied", "violated"), [(False, 0), (True, 1)])
def test_local_retention_of_a_tiered_log(copied: bool, violated: int) -> None:
    """Shows that local limits count for a tiered log, once the segment is copied; what is deleted is the local part."""
    limits = {"remote_storage_enable": True, "local_retention_bytes": BATCH_BYTES, "retention_bytes": 1_000_000}
    for deletes in (False, True):
        trace = Segments(**limits)
        trace.three()
        if copied:
            trace.emit("broker-1", TierSegment(TP, "a", "known", FINISHED, 0, 1, {"0": 0}))
        trace.begins(0, "remote")
        if deletes:
            trace.emit("broker-1", LogLocalStart(TP, 2, "retention-bytes", 0))
        trace.waits(1.1)
        result = trace.result("L17")
        assert (result.violated, result.tested) == (violated * (not deletes), int(copied and deletes))


@pytest.mark.parametrize(
    ("phase", "looks_first", "again", "violated"),
    [
        ("known", True, "", 0),
        ("known", False, "", 1),
        ("copied", True, "", 1),
        ("known", True, "leader", 1),
        ("known", True, "follower", 1),
    ],
)
def test_a_leader_goes_by_the_copies_that_it_knew_and_makes(
    phase: Any, looks_first: bool, again: str, violated: int
) -> None:
    """Shows that a leader which has looked how far the log is copied takes no notice of what others have copied, until
    it follows, or leads in another leader epoch."""
    trace = Segments(remote_storage_enable=True, local_retention_bytes=BATCH_BYTES, retention_bytes=1_000_000)
    trace.three()
    if looks_first:
        trace.begins(0, "remote")
    trace.emit("broker-1", TierSegment(TP, "a", phase, FINISHED, 0, 1, {"0": 0}))
    if not looks_first:
        trace.begins(0, "remote")
    if again == "leader":
        trace.lead(1, 1)
        trace.begins(0, "remote")
        trace.high_watermark("broker-1", 5, epoch=1)
    elif again == "follower":
        trace.assume(1, 1, leader=2, high_watermark=4)
    trace.waits(1.1)
    assert trace.result("L17").violated == violated


def test_a_role_that_stays_gives_no_more_time() -> None:
    """Shows that a leader which takes up the same leader epoch once more has no more time for what it has to delete."""
    trace = Segments(remote_storage_enable=True, local_retention_bytes=BATCH_BYTES, retention_bytes=1_000_000)
    trace.three()
    trace.emit("broker-1", TierSegment(TP, "a", "known", FINISHED, 0, 1, {"0": 0}))
    trace.begins(0, "remote")
    trace.waits(0.6)
    trace.assume(1, 0, high_watermark=4)
    trace.waits(0.5)
    assert trace.result("L17").violated == 1


def test_a_restart_and_an_unknown_past() -> None:
    """Shows that a broker which comes back is judged by what it still has, once it has taken up a role, and not by what
    a disk lost."""
    for lost, violated in (({}, 1), ({TP: 3}, 0)):
        trace = Segments(retention_bytes=2 * BATCH_BYTES)
        trace.write()
        trace.write()
        trace.roll()
        trace.write()
        trace.write()
        trace.emit("broker-1", NodeDown("lossy" if lost else "crash", lost=lost))
        trace.incarnations["broker-1"] = 1
        trace.emit("broker-1", NodeUp("broker", 1, "d", False, False))
        trace.lead(1, 1)
        trace.high_watermark("broker-1", 2, 1)
        trace.waits(1.1)
        assert trace.result("L17").violated == violated


# ---- L17: copies -----------------------------------------------------------------------------------------------


class Tiered(Segments):
    """A tiered log of broker-1, which leads, and has looked how far it is copied: up to 2, of 4 that are committed."""

    def __init__(self, **limits: Any) -> None:
        super().__init__(remote_storage_enable=True, **limits)
        self.three(100)
        self.tier("known", 0)
        self.begins(0, "remote")

    def tier(self, phase: Any, start: int, broker: int = 1, newest_ms: int = -1) -> str:
        """Something becomes of the copy of two offsets."""
        body = TierSegment(TP, f"s{start}", phase, FINISHED, start, start + 1, {"0": start}, newest_ms)
        return self.emit(f"broker-{broker}", body)

    def writes_in_transaction(self) -> None:
        """A batch of a transaction."""
        self.write()
        body = self.events[-1].body
        assert isinstance(body, LogAppend)
        body = msgspec.structs.replace(body, transactional=True)
        self.events[-1] = msgspec.structs.replace(self.events[-1], body=body)

    def waits(self, bounds: float) -> None:
        """Time passes, of bounds for a copy."""
        self.wall += int(bounds * (4_000_000 + 60_000_000))
        self.emit("driver", CtlFault("other", "drop", "start", [], {}))


def test_a_leader_begins_to_copy_what_is_full() -> None:
    """Shows that a leader has to begin with the next copy in time, and has the time anew when one has failed."""
    trace = Tiered()
    trace.waits(0.9)
    trace.tier("copying", 2)
    trace.waits(2)
    result = trace.result("L17")
    assert (result.status, result.tested) == ("held", 1)
    event = trace.tier("copy-failed", 2)
    trace.waits(0.9)
    assert trace.result("L17").status == "held"
    trace.waits(0.2)
    (finding,) = trace.result("L17").violations
    assert finding.sentence == (
        "broker-1 did not begin to copy the segment of orders-0 up to 4 within 64 s, although it is full, and "
        "committed: what is copied ends at 2"
    )
    assert event in finding.events


@pytest.mark.parametrize(
    ("hindrance", "violated"),
    [
        ("", 1),
        ("copied", 0),
        ("copied-by-another", 1),
        ("uncommitted", 0),
        ("log-start", 0),
        ("unready", 0),
        ("follower", 0),
        ("down", 0),
        ("pause", 0),
        ("transaction", 0),
        ("clock", 1),
        ("switch", 0),
        ("first-switch", 1),
        ("another-switch", 1),
        ("removed", 0),
        ("unclean", 0),
        ("roll-lost", 0),
    ],
)
def test_when_a_leader_copies_nothing(hindrance: str, violated: int) -> None:
    """Shows that nothing is to be copied of what is copied, not committed or not there any more, or by who does not
    lead, has not looked or is stopped; and that nothing is judged where the trace does not tell what may be copied."""
    trace = Tiered(remote_copy_lag_ms=0)
    if hindrance == "copied":
        trace.tier("copied", 2)
    elif hindrance == "copied-by-another":
        trace.tier("copied", 2, broker=2)
    elif hindrance == "uncommitted":
        trace.truncate("broker-1", 3)
    elif hindrance == "log-start":
        trace.begins(4, "delete-records")
        trace.emit("broker-1", LogDrop(TP, 4))
    elif hindrance == "unready":
        trace.lead(1, 1)
    elif hindrance == "follower":
        trace.assume(1, 1, leader=2, high_watermark=4)
    elif hindrance == "down":
        trace.down("broker-1")
    elif hindrance == "pause":
        trace.emit("driver", CtlFault("p", "pause", "start", ["broker-1"], {}))
    elif hindrance == "transaction":
        trace.writes_in_transaction()
    elif hindrance == "clock":
        trace.emit("broker-2", ClockSet("f", "start", 1, 0))
        trace.high_watermark("broker-1", 5)
    elif "switch" in hindrance:
        topic = "bills" if hindrance == "another-switch" else "orders"
        value = "true" if hindrance == "first-switch" else "false"
        trace.emit("controller-101", ConfigChange(5, 1, f"topic/{topic}", "remote.storage.enable", value))
    elif hindrance == "removed":
        trace.emit("controller-101", PartRemove(TP, 9, 1, "t"))
    elif hindrance == "unclean":
        trace.change(1, 1, cause="unclean")
    elif hindrance == "roll-lost":
        trace.tier("copied", 2)
        trace.roll()
        trace.high_watermark("broker-1", 5)
        trace.emit("broker-1", NodeDown("lossy"))
        trace.incarnations["broker-1"] = 1
        trace.emit("broker-1", NodeUp("broker", 1, "d", False, False))
        trace.lead(1, 1)
        trace.tier("known", 0)
        trace.tier("known", 2)
        trace.begins(0, "remote")
        trace.high_watermark("broker-1", 5, epoch=1)
    trace.waits(1.1)
    assert trace.result("L17").violated == violated


@pytest.mark.parametrize(
    ("limits", "violated"),
    [
        ({"remote_copy_lag_ms": 0}, 1),
        ({"remote_copy_lag_ms": 10}, 1),
        ({"remote_copy_lag_ms": 10_000}, 0),
        ({"remote_copy_lag_ms": 10_000, "remote_copy_lag_bytes": 0}, 1),
        ({"remote_copy_lag_ms": -1}, 0),
        ({"remote_copy_lag_ms": -1, "local_retention_ms": 10}, 1),
        ({"remote_copy_lag_ms": -1, "local_retention_ms": -1, "retention_ms": -1}, 0),
    ],
)
def test_a_copy_that_waits(limits: dict[str, int], violated: int) -> None:
    """Shows that a segment has time until it is as old as remote.copy.lag.ms, or the local limit that this stands for,
    and no longer where any size is enough; no age is judged in a run in which a clock was set."""
    for skewed in (False, True):
        trace = Tiered(**limits)
        if skewed:
            trace.emit("broker-2", ClockSet("f", "start", 1, 0))
            trace.high_watermark("broker-1", 5)
        trace.waits(1.1)
        at_once = 0 in (limits["remote_copy_lag_ms"], limits.get("remote_copy_lag_bytes"))
        found = [each for each in trace.result("L17").violations if "did not begin to copy" in each.sentence]
        assert len(found) == (violated and (at_once or not skewed))


@pytest.mark.parametrize(
    ("limits", "newest_ms", "violated"),
    [
        ({"remote_copy_lag_ms": 601}, 400, 1),
        ({"remote_copy_lag_ms": 600}, 400, 0),
        ({"remote_copy_lag_ms": 601}, -1, 0),
        ({"remote_copy_lag_ms": 601}, 1001, 0),
        ({"remote_copy_lag_ms": 601, "remote_copy_lag_bytes": 0}, 400, 0),
        ({"remote_copy_lag_ms": 601, "remote_copy_lag_bytes": 100}, 400, 0),
        ({"remote_copy_lag_ms": 601, "local_retention_bytes": 100, "retention_bytes": 5000}, 400, 0),
        ({"remote_copy_lag_ms": -1, "local_retention_ms": 601}, 400, 1),
        ({"remote_copy_lag_ms": -1, "local_retention_ms": 600}, 400, 0),
        ({"remote_copy_lag_ms": -1, "retention_ms": 601}, 400, 1),
    ],
)
@pytest.mark.parametrize("hindrance", ["", "clock", "switch", "transaction"])
def test_a_copy_that_comes_too_soon(limits: dict[str, int], newest_ms: int, violated: int, hindrance: str) -> None:
    """Shows that a segment is copied at the age of remote.copy.lag.ms, or of the local limit that this stands for, and
    not before, unless what is behind it may be large enough; and what hinders a judgement."""
    trace = Tiered(**limits)
    if hindrance == "clock":
        trace.emit("broker-2", ClockSet("f", "start", 1, 0))
    elif hindrance == "switch":
        trace.emit("controller-101", ConfigChange(5, 1, "topic/orders", "remote.log.copy.disable", "true"))
    elif hindrance == "transaction":
        trace.writes_in_transaction()
    trace.wall = 1_000_999 - trace.apart
    event = trace.tier("copying", 2, newest_ms=newest_ms)
    found = trace.result("L17").violations
    assert len(found) == (0 if hindrance else violated)
    for finding in found:
        lag_ms = max(limits.values())
        assert finding.sentence == (
            "broker-1 began to copy the segment of orders-0 up to 4, although its newest record was 600 ms old: "
            f"remote.copy.lag.ms stands for {lag_ms} ms"
        )
        assert event in finding.events


@pytest.mark.parametrize(
    ("limits", "violated"),
    [
        ({"remote_copy_lag_ms": 601, "remote_copy_lag_bytes": 101}, 1),
        ({"remote_copy_lag_ms": 601, "local_retention_bytes": 101, "retention_bytes": 5000}, 1),
        ({"remote_copy_lag_ms": 601, "retention_bytes": 101}, 1),
        ({"remote_copy_lag_ms": 600, "remote_copy_lag_bytes": 101}, 0),
        ({"remote_copy_lag_ms": 0, "remote_copy_lag_bytes": 101}, 0),
        ({"remote_copy_lag_ms": -1, "local_retention_ms": 601, "remote_copy_lag_bytes": 101}, 1),
        ({"remote_copy_lag_ms": -1, "local_retention_ms": 600, "remote_copy_lag_bytes": 101}, 0),
        ({"remote_copy_lag_ms": -1, "local_retention_ms": 0, "remote_copy_lag_bytes": 101}, 0),
        ({"remote_copy_lag_ms": -1, "retention_ms": -1, "remote_copy_lag_bytes": 101}, 1),
        ({"remote_copy_lag_ms": -1, "retention_ms": -1, "remote_copy_lag_bytes": 100}, 0),
        ({"remote_copy_lag_ms": -1, "retention_ms": -1}, 1),
    ],
)
@pytest.mark.parametrize("hindrance", ["", "clock", "gap"])
def test_a_copy_with_too_little_behind_it(limits: dict[str, int], violated: int, hindrance: str) -> None:
    """Shows that a segment which is not old enough has to have enough behind it; that where no age counts, no clock
    does; and that nobody knows how much is behind it if the trace does not tell all of that."""
    trace = Tiered(**limits)
    no_age, no_size = (
        limits.get("retention_ms") == -1,
        "retention_ms" in limits and "remote_copy_lag_bytes" not in limits,
    )
    if hindrance == "clock":
        trace.emit("broker-2", ClockSet("f", "start", 1, 0))
        violated = violated if no_age else 0
    elif hindrance == "gap":
        trace.append("broker-1", "x", hole=1)
        violated = violated if no_size else 0
    trace.wall = 1_000_999 - trace.apart
    trace.tier("copying", 2, newest_ms=400)
    found = [each for each in trace.result("L17").violations if "began to copy" in each.sentence]
    assert len(found) == violated
    if found and not no_size:
        assert "what is behind it has 100 bytes at most: remote.copy.lag.bytes stands for 101" in found[0].sentence
    assert not found or no_age == ("although remote.copy.lag.ms stands for no age" in found[0].sentence)
