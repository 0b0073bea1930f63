"""L19: that preferred replicas lead again."""

from __future__ import annotations

from typing import Any

import pytest

from actors.trace.events import BrokerReg, ClockSet, CtlFault, CtlPhase, PartRemove
from orchestrator.invariants.folds.bounds import bound_us
from orchestrator.invariants.folds.fold import Profile
from tests.unit.invariants.trace_builder import TP, TraceBuilder

SECOND = 1_000_000
CONFIG = {"leader.imbalance.check.interval.seconds": 5}
BOUND_US = bound_us(Profile(config=CONFIG), "L19")
CORE = ("broker-1", "broker-2", "broker-3", "controller-1")


def led_by_another(*core: str, leader: int = 2, isr: tuple[int, ...] = (1, 2, 3), **config: Any) -> TraceBuilder:
    """All brokers are active, broker-1 is the preferred replica, and another one leads. A window opens."""
    trace = TraceBuilder(config={**CONFIG, **config})
    trace.role("controller-1", 1, "leader", 101)
    trace.registered(1, 2, 3)
    trace.change(leader, 1, isr)
    trace.window("open", *(core or CORE))
    return trace


def later(trace: TraceBuilder, us: int) -> str:
    """Time goes by: what violates L19 then, "" nothing."""
    trace.wall += us
    trace.emit("driver", CtlPhase("running"))
    violations = trace.result("L19").violations
    return violations[0].sentence if violations else ""


def stands(trace: TraceBuilder, fenced: bool = False, stops: bool = False) -> None:
    """A controller writes what has become of broker-1."""
    trace.emit("controller-1", BrokerReg(1, 7, "broker-1/0", fenced, stops, False, 20))


def test_the_bound() -> None:
    """Shows Kafka's interval, in seconds, and an election of the quorum before it."""
    assert BOUND_US - bound_us(Profile(), "L1") == 5 * SECOND
    assert bound_us(Profile(), "L19") > 300 * SECOND


def test_who_is_preferred_leads_again() -> None:
    """Shows an election in time, one that does not come, and one that was held for another reason."""
    trace = led_by_another()
    later(trace, BOUND_US - SECOND)
    trace.change(1, 2, cause="preferred")
    assert later(trace, 60 * SECOND) == ""
    assert (trace.result("L19").status, trace.result("L19").tested) == ("held", 1)
    for_another_reason = led_by_another()
    for_another_reason.change(1, 2, cause="fence")
    assert later(for_another_reason, 60 * SECOND) == ""
    assert for_another_reason.result("L19").tested == 0
    late = led_by_another()
    assert later(late, BOUND_US - SECOND) == ""
    assert later(late, 2 * SECOND) == (
        f"broker-1, the preferred replica of {TP}, was not elected within {BOUND_US / SECOND:g} s without a fault that "
        "could prevent it: broker-2 leads it, although broker-1 is active and in the ISR"
    )


@pytest.mark.parametrize(
    ("core", "how"),
    [
        (("broker-2", "broker-3"), {}),
        ((), {"isr": (2, 3)}),
        ((), {"leader": -1}),
        ((), {"leader": 1}),
        ((), {"auto.leader.rebalance.enable": False}),
        ((), {"leader.imbalance.check.interval.seconds": 300}),
    ],
)
def test_who_need_not_lead(core: tuple[str, ...], how: dict[str, Any]) -> None:
    """Shows a replica that is not in the core, one that is out of the ISR, a partition without a leader, one that is
    led as it should be, and controllers that do not look, or not yet."""
    assert later(led_by_another(*core, **how), BOUND_US + SECOND) == ""


@pytest.mark.parametrize("how", [{"fenced": True}, {"stops": True}])
def test_who_is_not_active(how: dict[str, bool]) -> None:
    """Shows a replica that is fenced, or shuts down; its time begins when it is active again."""
    trace = led_by_another()
    stands(trace, **how)
    assert later(trace, BOUND_US + SECOND) == ""
    stands(trace)
    assert later(trace, BOUND_US - SECOND) == ""
    assert later(trace, 2 * SECOND) != ""


def test_a_new_controller_begins_anew() -> None:
    """Shows that its interval begins when it becomes active, and that a follower changes nothing."""
    for role, violated in (("leader", False), ("follower", True)):
        trace = led_by_another()
        later(trace, BOUND_US - SECOND)
        trace.role("controller-2", 2, role, 102, log_end=1_000)
        assert (later(trace, 2 * SECOND) != "") == violated
        assert later(trace, BOUND_US) != ""


def test_what_a_controller_may_not_have_told() -> None:
    """Shows one that ended abruptly; what the next one writes of the partition and of the broker is told whole."""
    for mode, again, violated in (("crash", "", False), ("clean", "", True), ("crash", "both", True)):
        trace = led_by_another()
        trace.down("controller-1", "crash" if mode == "crash" else "clean")
        trace.role("controller-2", 2, "leader", 102, log_end=1_000)
        if again:
            trace.registered(1, node="controller-2", offset=1_001)
            trace.change(2, 1, (1, 2), "alter-isr", 2, 2, "controller-2", offset=1_002)
        assert (later(trace, BOUND_US + SECOND) != "") == violated


def test_what_is_not_judged() -> None:
    """Shows a topic that is gone, a controller whose clock was set, and a bounce that sets the interval; not a broker's
    clock, and no other bounce."""
    removed, clock, bounced, of_broker, other = [led_by_another() for _ in range(5)]
    removed.emit("controller-1", PartRemove(TP, 30, 1, "id"))
    clock.emit("controller-1", ClockSet("f", "start", 5, 0))
    of_broker.emit("broker-1", ClockSet("f", "start", 5, 0))
    for trace, key in ((bounced, "leader.imbalance.check.interval.seconds"), (other, "num.io.threads")):
        trace.emit("driver", CtlFault("f", "rolling-bounce", "start", ["controller-1"], {"config": {key: 9}}))
    for trace in (removed, clock, bounced, of_broker, other):
        assert (later(trace, BOUND_US + SECOND) != "") == (trace in (of_broker, other))
