"""P21: how often a controller gives partitions back to their preferred leaders by the clock."""

from __future__ import annotations

from typing import Any

import pytest

from actors.trace.events import ClockSet, CtlFault, DiskRuleChange, MetaState
from tests.unit.invariants.trace_builder import TraceBuilder

SECOND = 1_000_000
INTERVAL = "leader.imbalance.check.interval.seconds"


def became_active(config: dict[str, Any] | None = None) -> TraceBuilder:
    """Brokers are registered, and a controller becomes active after that."""
    trace = TraceBuilder(config={INTERVAL: 5} if config is None else config)
    trace.role("controller-1", 1, "leader", 101)
    trace.registered(1, 2, 3)
    trace.emit("controller-1", MetaState("active", 1))
    return trace


def passes(trace: TraceBuilder, after_us: int, *partitions: str, **how: Any) -> None:
    """So long after the event before, partitions get their preferred leader in one pass."""
    trace.wall += after_us - trace.apart
    number = len(trace.events)
    for index, tp in enumerate(partitions or ("orders-0",)):
        trace.change(1, number, tp=tp, cause="preferred", offset=10 * number + index, **how)


def says(trace: TraceBuilder) -> str:
    """What violates P21, "" nothing."""
    violations = trace.result("P21").violations
    return violations[0].sentence if violations else ""


def test_passes_at_the_interval() -> None:
    """Shows passes of one and of several partitions, the first one an interval after the controller became active."""
    trace = became_active()
    passes(trace, 5 * SECOND)
    passes(trace, 5 * SECOND, "orders-0", "orders-1")
    passes(trace, 15 * SECOND, "orders-1")
    assert (says(trace), trace.result("P21").tested) == ("", 3)


def test_passes_that_come_too_often() -> None:
    """Shows one too soon after another, with whatever partition, and one too soon after the beginning."""
    trace = became_active()
    passes(trace, 5 * SECOND)
    passes(trace, SECOND // 2, "orders-1")
    assert says(trace) == (
        f"controller-1 gave orders-1 back to broker-1 500 ms after it gave partitions back, and {INTERVAL} is 5"
    )
    trace = became_active()
    passes(trace, SECOND // 2)
    assert says(trace) == (
        f"controller-1 gave orders-0 back to broker-1 500 ms after it became active, and {INTERVAL} is 5"
    )


def test_what_an_operator_asks_for_waits_for_no_interval() -> None:
    """Shows that elections which operators ask for are no passes, and begin no interval."""
    trace = became_active()
    passes(trace, 5 * SECOND)
    passes(trace, SECOND, asked=True)
    passes(trace, 4 * SECOND, "orders-1")
    assert says(trace) == ""


@pytest.mark.parametrize("active", ["active", "standby", "restarts", "dies"])
def test_another_controller_has_its_own_interval(active: Any) -> None:
    """Shows that the interval begins when a controller becomes active, and that nothing is known of it otherwise."""
    trace = became_active()
    passes(trace, 5 * SECOND)
    if active == "restarts":
        trace.up("controller-1", "controller")
    elif active == "dies":
        trace.down("controller-1")
    else:
        trace.emit("controller-1", MetaState(active, 1))
    passes(trace, SECOND)
    assert bool(says(trace)) == (active == "active")


def fault(kind: str, phase: Any, **parameters: Any) -> CtlFault:
    """A fault on controller-1 begins or ends."""
    return CtlFault("f1", kind, phase, ["controller-1"], parameters)


@pytest.mark.parametrize(
    ("begin", "end", "for_good"),
    [
        (ClockSet("f1", "start", 0, 1_000_000), ClockSet("f1", "stop", 0, 0), False),
        (ClockSet("f1", "start", 60 * SECOND, 0), ClockSet("f1", "stop", 0, 0), False),
        (fault("pause", "start"), fault("pause", "stop"), False),
        (DiskRuleChange("r1", "start", 10, SECOND, 0), DiskRuleChange("r1", "stop", 10, SECOND, 0), False),
        (
            fault("rolling-bounce", "start", config={INTERVAL: 1}),
            fault("rolling-bounce", "stop", config={INTERVAL: 1}),
            True,
        ),
    ],
)
def test_what_falsifies_the_interval(begin: Any, end: Any, for_good: bool) -> None:
    """Shows faults after which nobody knows when the next pass is due: a bounce counts for good, others until a pass
    after their end."""
    trace = became_active()
    passes(trace, 5 * SECOND)
    trace.emit("controller-1", begin)
    passes(trace, SECOND // 2)
    passes(trace, SECOND // 2)
    assert says(trace) == ""
    trace.emit("controller-1", end)
    passes(trace, SECOND // 2)
    assert says(trace) == ""
    passes(trace, SECOND // 2)
    assert bool(says(trace)) != for_good


def test_another_fault_excuses_nothing() -> None:
    """Shows a bounce that sets another key, and a clock of another node."""
    trace = became_active()
    trace.emit("driver", fault("rolling-bounce", "start", config={"num.io.threads": 1}))
    trace.emit("broker-1", ClockSet("f2", "start", 0, SECOND))
    passes(trace, SECOND // 2)
    assert says(trace) != ""


def test_a_live_machine_may_be_late() -> None:
    """Shows that a pass may have been recorded late in a live run, and that Kafka's interval is long enough to tell."""
    trace = became_active()
    trace.live()
    passes(trace, 5 * SECOND)
    passes(trace, 4 * SECOND)
    assert says(trace) == ""
    passes(trace, 2 * SECOND)
    assert says(trace) != ""
    short = became_active({INTERVAL: 1})
    short.live()
    passes(short, 10_000)
    assert (says(short), short.result("P21").tested) == ("", 0)
    default = became_active({})
    default.live()
    passes(default, 200 * SECOND)
    assert says(default) != ""
