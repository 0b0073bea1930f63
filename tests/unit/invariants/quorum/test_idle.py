"""Q16: how long an active controller may append nothing."""

from __future__ import annotations

from typing import Any

import pytest

from actors.node.spec import METADATA_PARTITION
from actors.trace.events import ClockSet, CtlFault, DiskRuleChange, MetaState
from tests.unit.invariants.trace_builder import TraceBuilder

LEADER = "controller-1"
SECOND = 1_000_000
ALLOWED_US = 500_000 + 25_000 + 100_000
"""Kafka's interval of no-op records and linger, and what is added in the sim."""
SAYS = (
    "controller-1, the active controller, appended nothing to the metadata log for {:,} ms, not even a no-op record: "
)
INTERVAL = "metadata.max.idle.interval.ms"


def became_active(**config: Any) -> TraceBuilder:
    """A controller becomes active, and appends a record."""
    trace = TraceBuilder(config=config)
    trace.role(LEADER, 1, "leader", 101)
    trace.emit(LEADER, MetaState("active", 0))
    appends(trace, 1000)
    return trace


def appends(trace: TraceBuilder, after_us: int) -> None:
    """So long after the event before, the controller appends."""
    trace.wall += after_us - trace.apart
    trace.append(LEADER, "m", epoch=1, tp=METADATA_PARTITION)


def says(trace: TraceBuilder) -> str:
    """What violates Q16, "" nothing."""
    violations = trace.result("Q16").violations
    return violations[0].sentence if violations else ""


def test_a_controller_appends_in_time() -> None:
    """Shows appends as far apart as is allowed, the first one counted from when the controller became active."""
    trace = became_active()
    for _ in range(3):
        appends(trace, ALLOWED_US)
    trace.wall += ALLOWED_US - 1000
    trace.down(LEADER, "end")
    assert (says(trace), trace.result("Q16").tested) == ("", 5)


@pytest.mark.parametrize("ends", ["appends", "stands by", "resigns", "crashes", "ends", "restarts"])
def test_a_controller_that_appends_nothing(ends: str) -> None:
    """Shows a silence that is too long, whatever ends it."""
    trace = became_active()
    trace.wall += 2 * SECOND - 1000
    if ends == "appends":
        appends(trace, 1000)
    elif ends == "stands by":
        trace.emit(LEADER, MetaState("standby", 0))
    elif ends == "resigns":
        trace.role(LEADER, 1, "resigned")
    elif ends == "restarts":
        trace.up(LEADER, "controller")
    else:
        trace.down(LEADER, "end" if ends == "ends" else "crash")
    assert says(trace) == SAYS.format(2000) + f"{INTERVAL} allows 625 ms"


def test_the_first_record_is_due_too() -> None:
    """Shows a controller that appends nothing since it has been active."""
    trace = TraceBuilder()
    trace.role(LEADER, 1, "leader", 101)
    trace.emit(LEADER, MetaState("active", 0))
    trace.emit(LEADER, MetaState("snapshot", 0))
    appends(trace, SECOND)
    assert says(trace).startswith(SAYS.format(1001))


def test_who_is_not_active_need_not() -> None:
    """Shows a controller before it is active, after that, and one of which nothing is known."""
    trace = TraceBuilder()
    trace.role(LEADER, 1, "leader", 101)
    appends(trace, 5 * SECOND)
    trace.emit(LEADER, MetaState("active", 0))
    trace.emit(LEADER, MetaState("standby", 0))
    appends(trace, 5 * SECOND)
    trace.emit(LEADER, MetaState("active", 0))
    trace.down(LEADER)
    trace.wall += 5 * SECOND
    trace.up(LEADER, "controller")
    assert says(trace) == ""


@pytest.mark.parametrize(
    ("interval_ms", "linger_ms", "silent_us", "wrong"),
    [
        (0, 25, 60 * SECOND, False),
        (5000, 25, 5 * SECOND, False),
        (5000, 25, 6 * SECOND, True),
        (5000, 2000, 6 * SECOND, False),
    ],
)
def test_the_settings(interval_ms: int, linger_ms: int, silent_us: int, wrong: bool) -> None:
    """Shows that an interval of 0 means no such records, and that what is appended may linger."""
    trace = became_active(**{INTERVAL: interval_ms, "controller.quorum.append.linger.ms": linger_ms})
    appends(trace, silent_us)
    assert bool(says(trace)) == wrong


def fault(kind: str, phase: Any, **parameters: Any) -> CtlFault:
    """A fault on controller-1 begins or ends."""
    return CtlFault("f1", kind, phase, [LEADER], parameters)


@pytest.mark.parametrize(
    ("begin", "end", "late_us"),
    [
        (ClockSet("f1", "start", 0, -500_000), ClockSet("f1", "stop", 0, 0), 0),
        (ClockSet("f1", "start", 10 * SECOND, 0), ClockSet("f1", "stop", 0, 0), 10 * SECOND),
        (fault("pause", "start"), fault("pause", "stop"), 0),
        (DiskRuleChange("r1", "start", 10, SECOND, 0), DiskRuleChange("r1", "stop", 10, SECOND, 0), SECOND),
    ],
)
def test_what_falsifies_the_interval(begin: Any, end: Any, late_us: int) -> None:
    """Shows faults that make a controller late, until some time after their end."""
    trace = became_active()
    trace.emit(LEADER, begin)
    appends(trace, 20 * SECOND)
    trace.wall += SECOND
    trace.emit(LEADER, end)
    trace.wall += late_us
    appends(trace, ALLOWED_US + SECOND)
    assert says(trace) == ""
    appends(trace, SECOND)
    assert says(trace) != ""


def test_a_controller_that_is_slow_after_all() -> None:
    """Shows that what a fault excuses has an end, though the controller has appended nothing since then."""
    trace = became_active()
    trace.emit(LEADER, fault("pause", "start"))
    trace.wall += SECOND
    trace.emit(LEADER, fault("pause", "stop"))
    appends(trace, 3 * SECOND)
    assert says(trace).startswith(SAYS.format(4002))


@pytest.mark.parametrize(
    ("kind", "config", "again"),
    [
        ("controlled-shutdown", {}, True),
        ("rolling-bounce", {}, True),
        ("rolling-bounce", {"num.io.threads": 1}, True),
        ("rolling-bounce", {INTERVAL: 5000}, False),
    ],
)
def test_a_controller_that_shuts_down(kind: str, config: dict[str, Any], again: bool) -> None:
    """Shows that nothing is due of it until it is active again, and nothing at all where a bounce sets the interval."""
    trace = became_active()
    trace.emit("driver", fault(kind, "start", config=config))
    trace.wall += 5 * SECOND
    trace.role(LEADER, 1, "resigned")
    assert says(trace) == ""
    trace.role(LEADER, 2, "leader", 101)
    trace.emit(LEADER, MetaState("active", 1))
    trace.wall += 5 * SECOND
    trace.role(LEADER, 2, "resigned")
    assert bool(says(trace)) == again


def test_a_live_run() -> None:
    """Shows that a live controller may be later, and that its end may be told late."""
    trace = became_active()
    trace.live()
    appends(trace, 2 * SECOND)
    trace.wall += 5 * SECOND
    trace.down(LEADER)
    assert says(trace) == ""
    late = became_active()
    late.live()
    appends(late, 3 * SECOND)
    assert says(late) == SAYS.format(3000) + f"{INTERVAL} allows 2,525 ms"
