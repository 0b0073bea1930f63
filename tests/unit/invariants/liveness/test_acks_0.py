"""X2: Produces with acks=0, which have no answer."""

from __future__ import annotations

from typing import Any

import pytest

from actors.trace.events import Rpc
from tests.unit.invariants.trace_builder import TraceBuilder

CLIENT = "producer-1"


def produced(
    acks: Any = 0,
    appended: bool = True,
    outcome: Any = "answered",
    api: str = "Produce",
    number: int = 4,
    **config: Any,
) -> TraceBuilder:
    """A producer sent a request, of which broker-1 appended something; it ended. ``number``: of the request that the
    append was for."""
    trace = TraceBuilder(nodes={CLIENT: {"config": {"acks": acks}}}, config=config)
    trace.lead(1, 0)
    sent = trace.sends(CLIENT, "a", acks=0)
    if appended:
        trace.cause, trace.req = sent, f"{CLIENT}>broker-1:data:0.0#{number}"
        trace.append("broker-1", "a")
    trace.cause, trace.req = trace.events[-1].id, f"{CLIENT}>broker-1:data:0.0#4"
    trace.emit(CLIENT, Rpc(api, 9, "broker-1", "data", 4, outcome, [], 1000, 1))
    return trace


def test_a_produce_without_an_answer_that_nobody_took() -> None:
    """Shows that a connection which a broker keeps violates X2, if the broker has appended nothing of the request."""
    (finding,) = produced(appended=False).result("X2").violations
    assert finding.sentence == (
        "broker-1 kept the connection of a Produce of producer-1 with acks=0, and appended nothing of it"
    )
    assert produced(number=3).result("X2").violated == 1, "that was another request"


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"outcome": "disconnect"},
        {"outcome": "timeout"},
        {"acks": "all"},
        {"acks": 1},
        {"api": "Metadata"},
        {"krift.request.service.us": 100},
        {"remote.log.storage.system.enable": True},
    ],
    ids=str,
)
def test_a_produce_that_ended_well(how: dict[str, Any]) -> None:
    """Shows that X2 holds where something was appended, or the connection ended, or the broker answers, or where the
    trace does not tell what is appended for a request."""
    result = produced(appended=not how, **how).result("X2")
    assert (result.status, result.tested) == ("held", 1)


def test_each_request_is_judged_by_itself() -> None:
    """Shows that what was appended for one request is not counted for the next one."""
    trace = produced()
    trace.emit(CLIENT, Rpc("Produce", 9, "broker-1", "data", 4, "answered", [], 1000, 1))
    assert trace.result("X2").violated == 1
