"""X2: a controller that is active no longer answers who asks it."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from actors.trace.events import CtlFault, Rpc
from tests.unit.invariants.trace_builder import TraceBuilder

CONTROLLER, OTHER, BROKER = "controller-1", "controller-2", "broker-1"
SECOND = 1_000_000
LINK = {"from": [BROKER], "to": [CONTROLLER], "both_ways": True, "delay_min_us": 0, "delay_max_us": 5 * SECOND}


def active() -> TraceBuilder:
    """controller-1 leads."""
    trace = TraceBuilder()
    trace.up(CONTROLLER, "controller")
    trace.up(OTHER, "controller")
    trace.role(CONTROLLER, 1, "leader", 101)
    trace.role(OTHER, 1, "follower", 101)
    trace.wall += 60 * SECOND
    return trace


def later(trace: TraceBuilder, seconds: float) -> None:
    """Time goes by."""
    trace.wall += round(seconds * SECOND)


def ends(
    trace: TraceBuilder,
    took_ms: int = 5_000,
    outcome: Literal["answered", "disconnect", "timeout"] = "timeout",
    api: str = "BrokerHeartbeat",
    dst: str = CONTROLLER,
) -> str:
    """A call of broker-1 to a controller is over."""
    return trace.emit(BROKER, Rpc(api, 1, dst, "heartbeat", 1, outcome, [], 5_000, took_ms))


def fault(trace: TraceBuilder, phase: Literal["start", "stop"], kind: str, whom: str, **how: Any) -> None:
    """Something befalls a node, or a link, or is over."""
    trace.emit("driver", CtlFault("f", kind, phase, [whom], how))


@pytest.mark.parametrize(
    ("role", "deposed_s", "how", "violated"),
    [
        ("resigned", 2, {}, True),
        ("follower", 2, {"api": "AlterPartition"}, True),
        ("follower", 20, {"api": "CreateTopics"}, True),
        ("resigned", 0.5, {}, False),
        ("resigned", 2, {"took_ms": 900}, False),
        ("resigned", 2, {"outcome": "disconnect"}, False),
        ("resigned", 2, {"api": "AddRaftVoter"}, False),
        ("resigned", 2, {"api": "Fetch"}, False),
        ("resigned", 2, {"dst": "controller-3"}, False),
        ("resigned", 2, {"dst": OTHER}, True),
        ("leader", 2, {}, False),
    ],
)
def test_who_leads_no_more_says_so(role: str, deposed_s: float, how: dict[str, Any], violated: bool) -> None:
    """Shows a call that times out though its controller has led no more for a second, or never did; which is no promise
    for one that leads, that has no role yet, or that was asked for something else."""
    trace = active()
    trace.role(CONTROLLER, 2, role)
    later(trace, deposed_s)
    end = ends(trace, **how)
    result = trace.result("X2")
    assert (result.status == "violated") == violated
    if violated:
        (found,) = result.violations
        assert found.events == [end]
        api, dst = how.get("api", "BrokerHeartbeat"), how.get("dst", CONTROLLER)
        assert found.sentence == (
            f"{dst} did not answer the {api} of broker-1 for 5,000 ms, though it was no active controller any more, "
            "and in reach"
        )


def test_who_passes_requests_on_may_take_its_time() -> None:
    """Shows a broker, which follows the quorum and asks the controller for others."""
    trace = active()
    trace.up("broker-2")
    trace.role("broker-2", 1, "follower", 101)
    later(trace, 20)
    ends(trace, api="CreateTopics", dst="broker-2")
    assert trace.result("X2").status == "held"


def test_who_leads_again_may_take_its_time() -> None:
    """Shows a controller that was elected again before the call was over."""
    trace = active()
    trace.role(CONTROLLER, 2, "resigned")
    trace.role(CONTROLLER, 3, "leader", 101)
    later(trace, 3)
    ends(trace)
    assert trace.result("X2").status == "held"


@pytest.mark.parametrize(
    ("kind", "whom", "how", "since_s", "violated"),
    [
        ("pause", CONTROLLER, {}, 3, False),
        ("pause", CONTROLLER, {}, 6, True),
        ("pause", OTHER, {}, 3, True),
        ("slow-disk", CONTROLLER, {"delay_max_us": 3 * SECOND}, 6, False),
        ("slow-disk", CONTROLLER, {"delay_max_us": 3 * SECOND}, 9, True),
        ("partition", BROKER, LINK, 9, False),
        ("partition", BROKER, LINK, 11, True),
        ("partition", BROKER, {**LINK, "to": [OTHER]}, 3, True),
        ("delay", BROKER, LINK, 14, False),
        ("delay", BROKER, LINK, 16, True),
    ],
)
def test_what_keeps_an_answer_back(kind: str, whom: str, how: dict[str, Any], since_s: int, violated: bool) -> None:
    """Shows a fault on the controller, or on the way to it, that is not over, or was so many seconds before the end of
    the call: a link must have been whole for another timeout, as it may have lost a message before this one."""
    for over in (False, True):
        trace = active()
        trace.role(CONTROLLER, 2, "resigned")
        later(trace, 30)
        fault(trace, "start", kind, whom, **how)
        if over:
            fault(trace, "stop", kind, whom, **how)
        later(trace, since_s)
        ends(trace)
        elsewhere = whom == OTHER or how.get("to") == [OTHER]
        assert (trace.result("X2").status == "violated") == (violated if over else elsewhere)


def test_a_controller_that_ends_or_begins() -> None:
    """Shows one that ended after the call began, and one that has begun since."""
    for begins in (False, True):
        trace = active()
        trace.role(CONTROLLER, 2, "resigned")
        later(trace, 3)
        trace.down(CONTROLLER)
        if begins:
            trace.up(CONTROLLER, "controller")
            trace.role(CONTROLLER, 2, "unattached")
        later(trace, 2)
        ends(trace)
        assert trace.result("X2").status == "held"
