"""P27: how long a broker's place is held."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from actors.trace.events import BrokerReg, ClockSet, CtlFault, Rpc
from tests.unit.invariants.trace_builder import TraceBuilder

CONTROLLER, OTHER = "controller-1", "controller-2"
TIMEOUT_MS = 9000
"""Kafka's default."""


def heartbeat(trace: TraceBuilder, errors: tuple[int, ...] = (), to: str = CONTROLLER) -> None:
    """broker-1 has got an answer to a heartbeat."""
    trace.emit("broker-1", Rpc("BrokerHeartbeat", 1, to, "c", 1, "answered", list(errors)))


def registered(trace: TraceBuilder, life: int, fenced: bool, node: str = CONTROLLER, stops: bool = False) -> str:
    """The controller writes what has become of broker-1."""
    return trace.emit(node, BrokerReg(1, 7 + life, f"broker-1/{life}", fenced, stops, False, 3 + len(trace.events)))


def later(trace: TraceBuilder, ms: int) -> None:
    """Time goes by."""
    trace.wall += ms * 1000


def unfenced() -> TraceBuilder:
    """controller-1 leads, and broker-1 is unfenced 20 s later."""
    trace = TraceBuilder()
    trace.role(CONTROLLER, 1, "leader", 101)
    later(trace, 20_000)
    registered(trace, 0, fenced=False)
    return trace


@pytest.mark.parametrize(("life", "fenced"), [(0, True), (1, True)])
def test_a_session_is_honoured(life: int, fenced: bool) -> None:
    """Shows that a broker is fenced, and its id given to another incarnation, when its session is over and not sooner;
    heartbeats that were refused, or went to another controller, do not make it longer."""
    for ms, held in ((TIMEOUT_MS + 1, True), (TIMEOUT_MS - 500, False)):
        trace = unfenced()
        heartbeat(trace)
        later(trace, ms // 2)
        heartbeat(trace, errors=(77,))
        heartbeat(trace, to=OTHER)
        later(trace, ms - ms // 2)
        registered(trace, life, fenced)
        result = trace.result("P27")
        assert (result.status, result.tested) == ("held" if held else "violated", 1)


def test_what_is_said() -> None:
    """Shows the evidence: who was heard of, when, and by whom."""
    trace = unfenced()
    later(trace, 1_000)
    registered(trace, 1, fenced=True)
    said = trace.result("P27").violations[0].sentence
    assert said == (
        "controller-1 registered broker-1/1 in place of broker-1/0 1001 ms after the last heartbeat; the session "
        "timeout is 9000 ms"
    )


def test_a_new_active_controller_gives_every_session_anew() -> None:
    """Shows that it fences nobody before the timeout is over, whatever the one before it had heard."""
    for ms, held in ((TIMEOUT_MS + 1, True), (100, False)):
        trace = unfenced()
        later(trace, 20_000)
        trace.vote(OTHER, 2, 102, asks=(1, 1000), has=(1, 1000))
        trace.role(OTHER, 2, "leader", 102, log_end=1000)
        later(trace, ms)
        trace.emit(OTHER, BrokerReg(1, 7, "broker-1/0", True, False, False, 1001))
        assert (trace.result("P27").status == "held") == held


def test_what_is_no_test() -> None:
    """Shows that who shuts down may be fenced at once, and that clocks that were set prove nothing."""
    stops = unfenced()
    registered(stops, 0, fenced=False, stops=True)
    registered(stops, 0, fenced=True)
    told = unfenced()
    told.emit("driver", CtlFault("f", "controlled-shutdown", "start", ["broker-1"], {}))
    registered(told, 0, fenced=True)
    clock = unfenced()
    clock.emit(CONTROLLER, ClockSet("f", "start", 5, 0))
    registered(clock, 0, fenced=True)
    assert {trace.result("P27").status for trace in (stops, told, clock)} == {"vacuous"}


@pytest.mark.parametrize(
    ("whom", "steps", "violated"),
    [
        ("broker-2", ["start"], True),
        ("broker-1", ["start"], False),
        ("broker-1", ["start", "stop"], False),
        ("broker-1", ["start", "stop", "anew"], True),
        ("broker-1", ["start", "anew"], False),
        ("broker-1", ["start", "anew", "stop"], True),
        ("broker-1", ["start", "stop", "anew", "start"], False),
    ],
)
def test_a_shutdown_excuses_nobody_else(whom: str, steps: list[str], violated: bool) -> None:
    """Shows that only a broker that an operator shuts down asks to be fenced: also when the operator's part is over,
    but not once another process of it has registered after that."""
    told, process = unfenced(), 0
    for step in steps:
        if step == "anew":
            process += 1
            later(told, 20_000)
            registered(told, process, fenced=True)
            registered(told, process, fenced=False)
        elif step == "start":
            told.emit("driver", CtlFault("f", "controlled-shutdown", "start", [whom], {}))
        else:
            told.emit("driver", CtlFault("f", "controlled-shutdown", "stop", [whom], {}))
    registered(told, process, fenced=True)
    assert (told.result("P27").status == "violated") == violated


@pytest.mark.parametrize(
    ("life", "before", "outcome", "statuses"),
    [
        (0, True, "timeout", ["excused", "violated"]),
        (0, True, "answered", ["violated", "violated"]),
        (0, False, "timeout", ["violated", "violated"]),
        (1, True, "timeout", ["violated", "violated"]),
    ],
)
def test_a_heartbeat_that_comes_late(
    life: int, before: bool, outcome: Literal["answered", "timeout"], statuses: list[str]
) -> None:
    """Shows that a heartbeat without an answer, from before its broker was unfenced, excuses that it is fenced once
    more: not twice, not another incarnation, and not if it was answered, or sent later, when no broker asks for it."""
    trace = TraceBuilder()
    trace.role(CONTROLLER, 1, "leader", 101)
    later(trace, 20_000)
    if life == 0:
        trace.emit("broker-1", Rpc("BrokerHeartbeat", 1, CONTROLLER, "c", 1, "answered", []))
    sent = Rpc("BrokerHeartbeat", 1, CONTROLLER, "c", 2, outcome, [])
    if before and life == 0:
        trace.emit("broker-1", sent)
    registered(trace, life, fenced=False)
    if not before or life:
        trace.emit("broker-1", sent)
    for status in statuses:
        registered(trace, life, fenced=True)
        result = trace.result("P27")
        assert result.status == status
        registered(trace, life, fenced=False)


def asked(trace: TraceBuilder, whom: str = "broker-1", kind: str = "controlled-shutdown", **how: Any) -> None:
    """An operator stops a broker."""
    trace.emit("driver", CtlFault("f", kind, "start", [whom], how))


def running(heard: bool = True, **profile: Any) -> TraceBuilder:
    """Broker-1 is unfenced, and has heard so from a heartbeat a second later."""
    trace = TraceBuilder(**profile)
    trace.role(CONTROLLER, 1, "leader", 101)
    trace.up("broker-1")
    registered(trace, 0, fenced=True)
    registered(trace, 0, fenced=False)
    if heard:
        later(trace, 1_000)
        heartbeat(trace)
    return trace


def test_who_is_stopped_is_fenced_first() -> None:
    """Shows a broker that is fenced after it was asked to stop, or was fenced before, and one that is not."""
    for moves, status in (
        (["asked", "fenced", "down"], "held"),
        (["fenced", "asked", "down"], "held"),
        (["asked", "fenced", "unfenced", "down"], "held"),
        (["fenced", "unfenced", "asked", "down"], "violated"),
        (["asked", "down"], "violated"),
    ):
        trace = running()
        for move in moves:
            later(trace, 20_000)
            if move == "asked":
                asked(trace)
            elif move == "down":
                end = trace.down("broker-1", "clean")
            else:
                registered(trace, 0, fenced=move == "fenced")
        result = trace.result("P27")
        assert (result.status, result.tested) == (status, 1 + (moves[0] == "fenced"))
        if status == "violated":
            (finding,) = result.violations
            assert finding.events[1] == end
            assert finding.sentence == (
                "broker-1/0, which knew that it was unfenced, stopped in good order before any controller fenced it"
            )


def test_who_stops_without_asking() -> None:
    """Shows a crash, a broker whom nobody stops, one that waited for five minutes, one that is not to ask, and one
    whose clock was set."""
    cases: tuple[tuple[str, str, int, Literal["clean", "crash"]], ...] = (
        ("broker-2", "controlled-shutdown", 0, "clean"),
        ("broker-1", "crash", 0, "clean"),
        ("broker-1", "controlled-shutdown", 0, "crash"),
        ("broker-1", "controlled-shutdown", 300_000, "clean"),
    )
    for whom, kind, ms, mode in cases:
        trace = running()
        asked(trace, whom, kind)
        later(trace, ms)
        trace.down("broker-1", mode)
        assert trace.result("P27").status == "vacuous"
    off = {"controlled.shutdown.enable": False}
    for trace, config in ((running(config=off), {}), (running(), off)):
        asked(trace, kind="rolling-bounce", config=config)
        trace.down("broker-1", "clean")
        assert trace.result("P27").status == "vacuous"
    clock = running()
    clock.emit("broker-1", ClockSet("f", "start", 5, 0))
    asked(clock)
    clock.down("broker-1", "clean")
    assert clock.result("P27").status == "vacuous"
    bounced = running()
    asked(bounced, kind="rolling-bounce", config={"num.io.threads": 1})
    bounced.down("broker-1", "clean")
    assert bounced.result("P27").status == "violated"


def test_who_does_not_know_that_it_was_unfenced() -> None:
    """Shows heartbeats that do not say so: refused, to another controller, sent before, answered while the broker was
    fenced, of another incarnation, and to a controller that was elected again since."""
    refused, other, early, fenced, former, again = traces = [running(heard=False) for _ in range(6)]
    for trace in traces:
        later(trace, 10_000)
    heartbeat(refused, errors=(77,))
    heartbeat(other, to=OTHER)
    early.emit("broker-1", Rpc("BrokerHeartbeat", 1, CONTROLLER, "c", 1, "answered", [], took_ms=9_950))
    registered(fenced, 0, fenced=True)
    heartbeat(fenced)
    registered(fenced, 0, fenced=False)
    former.up("broker-1")
    heartbeat(former)
    former.incarnations["broker-1"] = 0
    again.role(CONTROLLER, 2, "leader", 101)
    heartbeat(again)
    for trace in traces:
        asked(trace)
        trace.down("broker-1", "clean")
        assert trace.result("P27").tested == (trace is fenced)  # that it was fenced
    late = running(heard=False)
    later(late, 10_000)
    late.emit("broker-1", Rpc("BrokerHeartbeat", 1, CONTROLLER, "c", 1, "answered", [], took_ms=9_800))
    asked(late)
    late.down("broker-1", "clean")
    assert late.result("P27").status == "violated"
