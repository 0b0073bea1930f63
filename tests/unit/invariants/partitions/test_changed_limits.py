"""L17 and P29, where an operator changes limits: they go by what each broker has applied."""

from __future__ import annotations

from typing import Any

import pytest

from actors.trace.events import AnyTraceEvent, ConfigChange, LogLocalStart, MetaImage
from tests.unit.invariants.partitions.test_segments import BATCH_BYTES, Segments, Tiered
from tests.unit.invariants.trace_builder import TP, TraceBuilder

TOPIC = "topic/orders"


class Changes:
    """The configuration records of a trace, and who applies them."""

    def __init__(self, trace: TraceBuilder) -> None:
        self.trace, self.end = trace, 20
        self.applies()

    def sets(self, key: str, value: Any, resource: str = TOPIC) -> None:
        """A controller writes a record; None unsets the key."""
        text = None if value is None else str(value)
        self.trace.emit("controller-101", ConfigChange(self.end, 1, resource, key, text))
        self.end += 1

    def applies(self, *within: AnyTraceEvent, node: str = "broker-1") -> None:
        """A broker applies all records, and does something else in the same step."""
        self.trace.req = f"{node}>controller-101#{self.end}"
        for body in (MetaImage(self.end), *within):
            self.trace.emit(node, body)
        self.trace.req = ""

    def applies_around(self, body: AnyTraceEvent, when: str) -> None:
        """Broker-1 does something "before" it applies all records, in that "step", or "after" it."""
        if when == "before":
            self.trace.emit("broker-1", body)
        self.applies(*([body] if when == "step" else []))
        if when == "after":
            self.trace.emit("broker-1", body)


# ---- P29 -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("applied", "violated"), [(False, 0), (True, 1)])
def test_a_smaller_segment(applied: bool, violated: int) -> None:
    """Shows that a broker goes by another size of segments once it has applied the record, and not before."""
    trace = Segments(segment_bytes=1000)
    changes = Changes(trace)
    trace.write()
    trace.write(broker=2)
    changes.sets("segment.bytes", 100)
    if applied:
        changes.applies()
    trace.write()
    trace.write(broker=2)
    result = trace.result("P29")
    assert (result.violated, result.tested) == (violated, 2)
    assert not violated or "with segment.bytes = 100" in result.violations[0].sentence


@pytest.mark.parametrize(
    ("settings", "violated"),
    [
        ([(TOPIC, 1000), ("broker/1", 100), ("broker/", 100)], 0),
        ([(TOPIC, 100), ("broker/1", 1000), ("broker/", 1000)], 1),
        ([("broker/1", 1000), ("broker/", 100)], 0),
        ([("broker/", 1000), ("broker/1", 100)], 1),
        ([("broker/2", 100)], 0),
        ([("broker/", 100)], 1),
        ([(TOPIC, 100), (TOPIC, None), ("broker/", 1000)], 0),
        ([("topic/bills", 100)], 0),
    ],
)
def test_what_goes_before(settings: list[tuple[str, int | None]], violated: int) -> None:
    """Shows that the topic goes before the broker, this before all brokers, and these before what it started with."""
    trace = Segments()
    changes = Changes(trace)
    for resource, value in settings:
        changes.sets("segment.bytes" if resource.startswith("topic") else "log.segment.bytes", value, resource)
    changes.applies()
    trace.write()
    trace.write()
    assert trace.result("P29").violated == violated


def test_a_topic_that_loses_its_own_size() -> None:
    """Shows that a topic whose own value is deleted goes by that of brokers, whatever it was created with."""
    for deleted in (False, True):
        trace = Segments(segment_bytes=100)
        changes = Changes(trace)
        if deleted:
            changes.sets("segment.bytes", None)
            changes.applies()
        trace.write()
        trace.write()
        assert trace.result("P29").violated == (not deleted)


@pytest.mark.parametrize(("before", "now", "violated"), [(100, 1000, 0), (1000, 100, 0), (100, 110, 1)])
def test_the_step_that_takes_a_size_over(before: int, now: int, violated: int) -> None:
    """Shows that in the step in which a broker applies the record both sizes may hold."""
    trace = Segments(segment_bytes=before)
    changes = Changes(trace)
    trace.write()
    changes.sets("segment.bytes", now)
    trace.write()
    second = trace.events.pop().body
    changes.applies(second)
    assert trace.result("P29").violated == violated


# ---- L17: deletions --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tiered", [False, True])
def test_an_active_segment_and_another_limit(tiered: bool) -> None:
    """Shows that an active segment has time anew by another limit, and need not go by one that it was due by before."""
    for limit_ms, waits, violated in ((1000, 0.6, 1), (600_000, 0.6, 0), (1001, 0.6, 0), (1001, 1.1, 1)):
        trace = Segments(retention_ms=1000, remote_storage_enable=tiered)
        changes = Changes(trace)
        trace.write(0)
        trace.wall = 2_000_000
        trace.high_watermark("broker-1", 1)
        trace.waits(0.6)
        if limit_ms != 1000:
            changes.sets("retention.ms", limit_ms)
            changes.applies()
        trace.waits(waits)
        assert trace.result("L17").violated == violated, limit_ms


@pytest.mark.parametrize(("key", "value"), [("retention.bytes", BATCH_BYTES), ("retention.ms", 1)])
def test_a_tighter_limit(key: str, value: int) -> None:
    """Shows that what has to go by a new limit has all the time from when the broker has applied it, though nothing
    else happens to its log."""
    trace = Segments(retention_bytes=-1, retention_ms=-1)
    changes = Changes(trace)
    trace.three()
    changes.sets(key, value)
    trace.waits(2)
    changes.applies()
    trace.waits(0.9)
    assert trace.result("L17").violated == 0
    trace.waits(0.2)
    assert f"{key} = {value}" in trace.result("L17").violations[0].sentence


@pytest.mark.parametrize(("key", "value"), [("retention.bytes", BATCH_BYTES), ("retention.ms", 1)])
@pytest.mark.parametrize("now", [-1, 10_000_000, 2])
def test_a_limit_that_changes_while_something_is_due(key: str, value: int, now: int) -> None:
    """Shows that what was due by a former limit need not go any more; by the new one it has all the time again."""
    trace = Segments(**{key.replace(".", "_"): value})
    changes = Changes(trace)
    trace.three()
    trace.waits(0.6)
    changes.sets(key, now)
    changes.applies()
    trace.waits(0.6)
    assert trace.result("L17").violated == 0
    trace.waits(0.6)
    assert trace.result("L17").violated == (now == 2)


def test_another_limit_that_changes() -> None:
    """Shows that what is due by one limit has no more time if another one changes, or that of another topic."""
    for resource, key in ((TOPIC, "segment.bytes"), (TOPIC, "retention.ms"), ("topic/bills", "retention.bytes")):
        trace = Segments(retention_bytes=BATCH_BYTES)
        changes = Changes(trace)
        trace.three()
        trace.waits(0.6)
        changes.sets(key, 1_000_000, resource)
        changes.applies()
        trace.waits(0.5)
        assert trace.result("L17").violated == 1


@pytest.mark.parametrize("tiered", [False, True])
@pytest.mark.parametrize(("within", "violated"), [("before", 0), ("step", 0), ("after", 1)])
def test_a_limit_that_is_raised(tiered: bool, within: str, violated: int) -> None:
    """Shows that a deletion by a former limit is too soon once the broker has taken up the new one, and not before."""
    prefix = "local." if tiered else ""
    limits = {"retention.ms": 1_000_000} | {f"{prefix}retention.ms": 1}
    trace = Segments(**{key.replace(".", "_"): value for key, value in limits.items()}, remote_storage_enable=tiered)
    changes = Changes(trace)
    trace.write(0)
    trace.roll()
    changes.sets(f"{prefix}retention.ms", 900_000)
    trace.begins(1, "retention-ms")
    deletion = trace.events.pop().body
    if tiered:
        deletion = LogLocalStart(TP, 1, "retention-ms", 0)
    changes.applies_around(deletion, within)
    assert trace.result("L17").violated == violated


# ---- L17: copies -----------------------------------------------------------------------------------------------


def test_a_lag_that_changes() -> None:
    """Shows that a segment has to be copied by the lag that its leader has applied, with all the time from then on."""
    for lag_ms, violated in ((0, 1), (1_000_000, 0)):
        trace = Tiered(remote_copy_lag_ms=500_000)
        changes = Changes(trace)
        trace.high_watermark("broker-1", 5)
        changes.sets("remote.copy.lag.ms", lag_ms)
        changes.applies()
        trace.waits(0.9)
        assert trace.result("L17").violated == 0
        trace.waits(0.2)
        assert trace.result("L17").violated == violated


@pytest.mark.parametrize(
    ("course", "violated"), [("at-once", 0), ("later", 1), ("failed", 1), ("idle", 1), ("again", 1)]
)
def test_a_run_of_copies_that_began_by_another_lag(course: str, violated: int) -> None:
    """Shows that a leader which copies goes on by the lag by which it began, with no pause between two copies, and goes
    by the new one when it looks again."""
    trace = Tiered(remote_copy_lag_ms=0)
    changes = Changes(trace)
    trace.write()
    trace.roll()
    trace.high_watermark("broker-1", 6)
    if course != "idle":
        trace.tier("copying", 2, newest_ms=1)
    changes.sets("remote.copy.lag.ms", 1_000_000)
    changes.applies()
    if course != "idle":
        trace.req = "broker-1>remote-store#7"
        trace.tier("copy-failed" if course == "failed" else "copied", 2, newest_ms=1)
    if course in ("later", "failed"):
        trace.req = "broker-1>remote-store#8"
    trace.tier("copying", 4, newest_ms=1)
    if course == "again":
        trace.tier("copied", 4, newest_ms=1)
        trace.req = ""
        trace.tier("copying", 6, newest_ms=1)
    found = [each for each in trace.result("L17").violations if "began to copy" in each.sentence]
    assert len(found) == violated
