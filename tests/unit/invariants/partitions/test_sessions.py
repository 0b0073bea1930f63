"""P27: how long a broker's place is held."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from actors.trace.events import (
    BrokerReg,
    ClockSet,
    CtlFault,
    DiskRuleChange,
    MetaImage,
    PartChange,
    PartRemove,
    Rpc,
    Tick,
)
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
                heartbeat(trace, errors=(77,))
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


LINK = {"from": ["broker-1"], "to": [CONTROLLER], "both_ways": True, "delay_min_us": 0, "delay_max_us": 3_000_000}
"""Between broker-1 and controller-1."""
DUE_MS = TIMEOUT_MS * 9 // 8 + 2_010
"""When a broker that is gone is fenced, at the latest."""


def fault(trace: TraceBuilder, phase: Literal["start", "stop"], whom: str, kind: str = "pause", **how: Any) -> None:
    """Something befalls a node, or is over."""
    trace.emit("driver", CtlFault("g", kind, phase, [whom], how))


def killed() -> TraceBuilder:
    """controller-1 leads and has answered broker-1, which is killed then."""
    trace = running()
    later(trace, 3_000)
    trace.down("broker-1")
    return trace


def ticked(trace: TraceBuilder, ms: int) -> str:
    """So much later controller-1 is still there."""
    later(trace, ms)
    return trace.emit(CONTROLLER, Tick())


def test_who_is_gone_is_fenced_soon() -> None:
    """Shows a place that is held for too long, once, whatever has become of the broker's next process; one that is not
    held any more; and that only the controller's own time counts."""
    trace = killed()
    ticked(trace, DUE_MS - 100)
    assert trace.result("P27").status == "vacuous"
    trace.up("broker-1")
    later(trace, 200)
    trace.emit(OTHER, Tick())
    assert trace.result("P27").status == "vacuous"
    end = ticked(trace, 0)
    ticked(trace, 1_000)
    (found,) = trace.result("P27").violations
    assert (found.events[1], found.times) == (end, 1)
    assert found.sentence == (
        "controller-1 has not fenced broker-1/0 12239 ms after the last sign of it; the session timeout is 9000 ms, "
        "and it looks 8 times in that"
    )
    for life in (0, 1):
        fenced = killed()
        later(fenced, TIMEOUT_MS + 1_000)
        registered(fenced, life, fenced=True)
        ticked(fenced, 60_000)
        assert fenced.result("P27").status == "held"
    alive = running()
    ticked(alive, 60_000)
    assert alive.result("P27").status == "vacuous"


@pytest.mark.parametrize(
    ("kind", "whom", "how"),
    [
        ("pause", CONTROLLER, {}),
        ("delay", "broker-1", LINK),
        ("partition", "broker-1", LINK),
    ],
)
def test_what_makes_contact_later(kind: str, whom: str, how: dict[str, Any]) -> None:
    """Shows a controller that is paused, and a link between the two that is slow or cut, until it is over, and what was
    slowed down has arrived; not a link to another controller, and not a broker that is paused."""
    trace = killed()
    fault(trace, "start", whom, kind, **how)
    ticked(trace, 60_000)
    fault(trace, "stop", whom, kind, **how)
    arrived_ms = 3_000 if kind == "delay" else 0
    ticked(trace, DUE_MS + arrived_ms - 100)
    assert trace.result("P27").status == "vacuous"
    ticked(trace, 200)
    assert trace.result("P27").status == "violated"
    elsewhere = {**how, "to": [OTHER]} if how else {}
    other = killed()
    fault(other, "start", "broker-1", kind, **elsewhere)
    ticked(other, DUE_MS + 100)
    assert other.result("P27").status == "violated"


def test_a_controller_whose_timers_are_wrong_fences_when_it_can() -> None:
    """Shows a slow disk, and a clock that was set."""
    disk = killed()
    disk.emit(CONTROLLER, DiskRuleChange("r", "start", 0, 1_000_000, 0))
    ticked(disk, 60_000)
    disk.emit(CONTROLLER, DiskRuleChange("r", "stop", 0, 1_000_000, 0))
    ticked(disk, DUE_MS + 900)
    assert disk.result("P27").status == "vacuous"
    ticked(disk, 200)
    assert disk.result("P27").status == "violated"
    clock = killed()
    clock.emit(CONTROLLER, ClockSet("f", "start", 5, 0))
    ticked(clock, 60_000)
    assert clock.result("P27").status == "vacuous"
    bounced = killed()
    asked(bounced, OTHER, "rolling-bounce", config={"broker.session.timeout.ms": 60_000})
    ticked(bounced, 60_000)
    assert bounced.result("P27").status == "vacuous"


def test_only_who_acts_as_the_active_controller_fences() -> None:
    """Shows a controller that has led for long, and has not shown yet that its log is committed; and what a controller
    wrote that ended abruptly, maybe before it told of more."""
    trace = killed()
    trace.vote(OTHER, 2, 102, asks=(1, 1000), has=(1, 1000))
    trace.role(OTHER, 2, "leader", 102, log_end=1000)
    later(trace, 60_000)
    trace.emit(OTHER, Tick())
    assert trace.result("P27").status == "vacuous"
    trace.emit("broker-2", Rpc("BrokerHeartbeat", 1, OTHER, "c", 1, "answered", []))
    later(trace, DUE_MS - 100)
    trace.emit(OTHER, Tick())
    assert trace.result("P27").status == "vacuous"
    abrupt = killed()
    abrupt.events = [*trace.events]
    abrupt.wall, abrupt.seqs = trace.wall, {**trace.seqs}
    abrupt.down(CONTROLLER)
    for each, status in ((trace, "violated"), (abrupt, "vacuous")):
        later(each, 1_000)
        each.emit(OTHER, Tick())
        assert each.result("P27").status == status


def beaten(**profile: Any) -> TraceBuilder:
    """Broker-1 has got an answer to a heartbeat, and sends no other until its session is over."""
    trace = running(**profile)
    later(trace, 5_000)
    heartbeat(trace)
    return trace


def test_who_is_healthy_sends_heartbeats() -> None:
    """Shows a broker that is fenced for its silence although nothing kept it from sending; one whose interval is too
    long to tell; and one that did send, in vain."""
    trace = beaten()
    later(trace, TIMEOUT_MS + 1_000)
    end = registered(trace, 0, fenced=True)
    result = trace.result("P27")
    (found,) = result.violations
    assert (result.tested, found.events[1]) == (1, end)
    assert found.sentence == (
        "controller-1 fenced broker-1/0, which sent no heartbeat in the 10001 ms after one was answered, though "
        "nothing befell the two; broker.heartbeat.interval.ms is 2000"
    )
    rare = beaten(config={"broker.heartbeat.interval.ms": 6_000})
    later(rare, TIMEOUT_MS + 1_000)
    registered(rare, 0, fenced=True)
    assert rare.result("P27").status == "held"
    vain = beaten()
    later(vain, TIMEOUT_MS)
    vain.emit("broker-1", Rpc("BrokerHeartbeat", 1, CONTROLLER, "c", 2, "timeout", [], took_ms=4_500))
    registered(vain, 0, fenced=True)
    assert vain.result("P27").status == "held"


@pytest.mark.parametrize("when", ["before", "since", "in force"])
@pytest.mark.parametrize("whom", ["broker-1", CONTROLLER, "broker-2"])
def test_what_keeps_heartbeats_back(when: str, whom: str) -> None:
    """Shows that a fault on the broker or on the controller, since the last heartbeat, says why it sends none; not one
    that was over before, and not one on others."""
    trace = running()
    later(trace, 5_000)
    if when != "since":
        fault(trace, "start", whom)
    if when == "before":
        fault(trace, "stop", whom)
    later(trace, 1_000)
    heartbeat(trace)
    if when == "since":
        fault(trace, "start", whom)
        fault(trace, "stop", whom)
    later(trace, TIMEOUT_MS + 1_000)
    registered(trace, 0, fenced=True)
    healthy = when == "before" or whom == "broker-2"
    assert trace.result("P27").status == ("violated" if healthy else "held")


def test_what_else_keeps_heartbeats_back() -> None:
    """Shows an election, a broker that ended, a slow link that was over before, a clock, and a late heartbeat."""
    elected, ended, slow, clock, asks = traces = [running(heard=False) for _ in range(5)]
    asks.emit("broker-1", Rpc("BrokerHeartbeat", 1, CONTROLLER, "c", 1, "answered", []))
    fault(slow, "start", "broker-2", "delay", **{**LINK, "delay_max_us": 8_000_000})
    fault(slow, "stop", "broker-2", "delay", **{**LINK, "delay_max_us": 8_000_000})
    for trace in traces:
        later(trace, 5_000)
        heartbeat(trace)
    elected.role(OTHER, 2, "candidate")
    ended.down("broker-1")
    clock.emit("broker-1", ClockSet("f", "start", 5, 0))
    for trace in traces:
        later(trace, TIMEOUT_MS + 1_000)
        registered(trace, 0, fenced=True)
        assert trace.result("P27").status == ("violated" if trace is asks else "held")


REQ = "broker-1>controller-1:heartbeat:0.0#"
"""How the names of broker-1's requests begin."""


def served(trace: TraceBuilder, number: int, fenced: bool, stops: bool, offset: int, life: int = 0) -> str:
    """controller-1 serves a heartbeat of broker-1, and writes what has become of it."""
    trace.req = f"{REQ}{number}"
    end = trace.emit(CONTROLLER, BrokerReg(1, 7 + life, f"broker-1/{life}", fenced, stops, False, offset))
    trace.req = ""
    return end


def moved(
    trace: TraceBuilder, number: int, cause: Any, offset: int, leader: int = 2, epochs: tuple[int, int] = (1, 1)
) -> str:
    """In the same step, the controller gives orders-0 another leader."""
    trace.req = f"{REQ}{number}"
    end = trace.emit(CONTROLLER, PartChange("orders-0", offset, 1, leader, *epochs, [2, 3], [1, 2, 3], cause))
    trace.req = ""
    return end


def leading() -> TraceBuilder:
    """Three brokers are unfenced, the first leads orders-0, and is asked to stop. Each has applied all so far."""
    trace = running()
    trace.registered(2, 3, offset=10)
    trace.change(1, 0, offset=11)
    for broker in ("broker-2", "broker-3"):
        trace.emit(broker, MetaImage(12, 0))
    heartbeat(trace)
    asked(trace)
    return trace


def test_who_leads_is_not_let_go() -> None:
    """Shows a broker that is fenced at its own request with a leadership, whether it was registered as shutting down or
    not; and one that is fenced so because its session is over, or whom nobody stops, or whose leadership had moved."""
    for registered_first in (False, True):
        trace = leading()
        if registered_first:
            served(trace, 1, False, True, 20)
        lost = moved(trace, 2, "fence", 21)
        end = served(trace, 2, True, registered_first, 22)
        (found,) = trace.result("P27").violations
        assert found.events == [lost, end]
        assert found.sentence == "controller-1 fenced broker-1/0, which asked to stop, although it still led orders-0"
    expired, follower, skipped, anew, other = [leading() for _ in range(5)]
    expired.emit(CONTROLLER, PartChange("orders-0", 21, 1, 2, 1, 1, [2, 3], [1, 2, 3], "fence"))
    expired.emit(CONTROLLER, BrokerReg(1, 7, "broker-1/0", True, False, False, 22))
    moved(follower, 2, "fence", 21, leader=1, epochs=(0, 1))
    served(follower, 2, True, False, 22)
    moved(skipped, 2, "fence", 21, epochs=(1, 2))
    served(skipped, 2, True, False, 22)
    moved(anew, 2, "fence", 21)
    served(anew, 2, True, False, 22, life=1)
    moved(other, 1, "fence", 21)
    served(other, 2, True, False, 22)
    for trace in (expired, follower, skipped, other):
        assert trace.result("P27").status == "vacuous"
    assert "asked to stop" not in str(anew.result("P27").violations)


def test_who_shuts_down_waits_until_all_know() -> None:
    """Shows that all active brokers have applied what moved the leaderships: not who is fenced, and not who shuts down,
    too."""
    for at, third, held in (
        (22, "behind", False),
        (21, "behind", False),
        (22, "known", True),
        (22, "fenced", True),
        (22, "stops", True),
        (22, "anew", True),
    ):
        trace = leading()
        first = served(trace, 1, False, True, 20)
        moved(trace, 1, "controlled-shutdown", 21)
        trace.emit("broker-2", MetaImage(at, 0))
        if third == "known":
            trace.emit("broker-3", MetaImage(22, 0))
        elif third == "anew":
            trace.emit("broker-3", MetaImage(22, 0))
            trace.up("broker-3")
            trace.emit("broker-3", MetaImage(12, 0))
        elif third != "behind":
            trace.emit(CONTROLLER, BrokerReg(3, 7, "broker-3/0", third == "fenced", third == "stops", False, 23))
        end = served(trace, 2, True, True, 24)
        found = next((each for each in trace.result("P27").violations if "asked to stop" in each.sentence), None)
        assert (found is None) == held, third
        if found is not None:
            late = 3 if at == 22 else 2
            assert found.events == [first, end]
            assert found.sentence == (
                f"controller-1 fenced broker-1/0, which asked to stop, although broker-{late} had not applied the "
                "metadata log beyond offset 21, where the last of its leaderships was moved"
            )


def told(
    trace: TraceBuilder, broker: int, outcome: Literal["answered", "timeout"] = "answered", to: str = CONTROLLER
) -> None:
    """A heartbeat of another broker is over, half a second later."""
    later(trace, 500)
    trace.emit(f"broker-{broker}", Rpc("BrokerHeartbeat", 1, to, "c", 1, outcome, [], took_ms=10))


def waiting() -> tuple[TraceBuilder, str]:
    """Broker-1 asks to stop, and what it led is moved at offset 21; broker-3 has applied less than that."""
    trace = leading()
    first = served(trace, 1, False, True, 20)
    moved(trace, 1, "controlled-shutdown", 21)
    trace.emit("broker-2", MetaImage(22, 0))
    told(trace, 2)
    return trace, first


def asks_again(trace: TraceBuilder, let_go: bool = False, took_ms: int = 10) -> str:
    """Half a second later broker-1 gets an answer to its next heartbeat."""
    later(trace, 500)
    if let_go:
        served(trace, 9, True, True, 90)
    return trace.emit("broker-1", Rpc("BrokerHeartbeat", 1, CONTROLLER, "c", 1, "answered", [], took_ms=took_ms))


def held_back(trace: TraceBuilder) -> list[Any]:
    """What P27 says of a broker that waits for too long."""
    return [each for each in trace.result("P27").violations if "did not let" in each.sentence]


def test_who_shuts_down_waits_for_no_more_than_that_all_know() -> None:
    """Shows a broker that is held back when all others have said that they know, or are fenced; one that is let go, and
    one that waits for who has not said so."""
    for third in ("said", "fenced"):
        trace, first = waiting()
        if third == "said":
            trace.emit("broker-3", MetaImage(22, 0))
            told(trace, 3)
        else:
            trace.emit(CONTROLLER, BrokerReg(3, 7, "broker-3/0", True, False, False, 23))
        end = asks_again(trace)
        asks_again(trace)
        (found,) = held_back(trace)
        assert (found.events, found.times) == ([first, end], 1)
        assert found.sentence == (
            "controller-1 did not let broker-1/0 stop, although it leads nothing, and all active brokers had said that "
            "they know the metadata log up to offset 21, where the last of its leaderships was moved"
        )
    trace, _ = waiting()
    before = trace.result("P27").tested
    trace.emit("broker-3", MetaImage(22, 0))
    told(trace, 3)
    asks_again(trace, let_go=True)
    result = trace.result("P27")
    assert (result.violated, result.tested) == (0, before + 1)
    trace, _ = waiting()
    asks_again(trace)
    assert not held_back(trace)


@pytest.mark.parametrize(
    "why",
    ["unsaid", "less", "late", "elsewhere", "early", "anew", "unfenced", "sent before", "fenced later", "copied"],
)
def test_who_may_not_have_said_that_it_knows(why: str) -> None:
    """Shows a broker that knows and has not said so, one that has applied less, one of which another heartbeat may come
    late, one that told another controller, or sent it before it knew; a new process, a broker that was unfenced after
    it had said so; a request of before it had, or of before the other broker was fenced; and heartbeats that may be
    copied."""
    trace, _ = waiting()
    if why == "late":
        told(trace, 3, "timeout")
    elif why == "copied":
        fault(trace, "start", "broker-3", "duplicate", **{"from": ["broker-3"], "to": [CONTROLLER], "both_ways": False})
    if why != "early":
        later(trace, 500)
    if why != "fenced later":
        trace.emit("broker-3", MetaImage(21 if why == "less" else 22, 0))
    if why == "early":
        trace.emit("broker-3", Rpc("BrokerHeartbeat", 1, CONTROLLER, "c", 1, "answered", [], took_ms=10))
    elif why not in ("unsaid", "fenced later"):
        told(trace, 3, to=OTHER if why == "elsewhere" else CONTROLLER)
    if why == "anew":
        trace.up("broker-3")
        trace.emit("broker-3", MetaImage(22, 0))
    elif why == "unfenced":
        trace.emit(CONTROLLER, BrokerReg(3, 7, "broker-3/0", True, False, False, 23))
        trace.emit(CONTROLLER, BrokerReg(3, 7, "broker-3/0", False, False, False, 24))
    elif why == "fenced later":
        trace.emit(CONTROLLER, BrokerReg(3, 7, "broker-3/0", True, False, False, 23))
    asks_again(trace, took_ms=700 if why in ("sent before", "fenced later") else 10)
    assert not held_back(trace)
    if why in ("late", "copied"):
        return
    if why in ("elsewhere", "unsaid", "early", "unfenced"):
        told(trace, 3)
    elif why == "less":
        trace.emit("broker-3", MetaImage(22, 0))
        told(trace, 3)
    elif why == "anew":
        trace.emit(CONTROLLER, BrokerReg(3, 8, "broker-3/1", False, False, False, 25))
        told(trace, 3)
    asks_again(trace)
    assert len(held_back(trace)) == 1


@pytest.mark.parametrize("why", ["leads", "led", "removed", "abrupt", "elected", "clock", "other clock", "asked"])
def test_what_else_holds_a_shutdown_up(why: str) -> None:
    """Shows a broker that still leads a partition, or did when it asked, also one that was removed; a controller that
    ended abruptly, one that was elected again, clocks that were set, and a request of before the shutdown."""
    trace, _ = waiting()
    trace.emit("broker-3", MetaImage(22, 0))
    if why != "asked":
        told(trace, 3)
    if why in ("leads", "led", "removed"):
        trace.emit(CONTROLLER, PartChange("alone-0", 22, 1, 1, 0, 0, [1], [1], "create"))
    if why == "led":
        later(trace, 500)
        trace.emit(CONTROLLER, PartChange("alone-0", 23, 1, 2, 1, 1, [2], [1], "reassign"))
    elif why == "removed":
        later(trace, 500)
        trace.emit(CONTROLLER, PartRemove("alone-0", 23, 1, "id"))
    elif why == "abrupt":
        trace.down(CONTROLLER)
    elif why == "elected":
        trace.role(CONTROLLER, 2, "leader", 101, log_end=30)
    elif why in ("clock", "other clock"):
        trace.emit(CONTROLLER if why == "clock" else "broker-1", ClockSet("f", "start", 5, 0))
    asks_again(trace, took_ms=700 if why in ("led", "removed") else 10)
    assert not held_back(trace)
    if why in ("led", "removed"):
        asks_again(trace)
        assert len(held_back(trace)) == 1


def test_what_a_controller_does_not_know_of_a_shutdown() -> None:
    """Shows another controller, one that was elected again, a broker that was fenced in between or registers again, and
    a registration of which a controller that ended abruptly may have told too little."""
    for name in ("none", "other", "again", "fenced", "registers", "abrupt"):
        trace = leading()
        if name == "abrupt":
            trace.down(CONTROLLER)
            trace.vote(CONTROLLER, 2, 101, asks=(1, 15), has=(1, 15))
            trace.role(CONTROLLER, 2, "leader", 101, log_end=15)
        served(trace, 1, False, True, 20)
        by = OTHER if name == "other" else CONTROLLER
        if name in ("other", "again"):
            trace.vote(by, 2, 102 if name == "other" else 101, asks=(1, 30), has=(1, 30))
            trace.role(by, 2, "leader", 102, log_end=30)
        elif name == "fenced":
            trace.emit(CONTROLLER, BrokerReg(1, 7, "broker-1/0", True, True, False, 31))
            trace.emit(CONTROLLER, BrokerReg(1, 7, "broker-1/0", False, True, False, 32))
        elif name == "registers":
            served(trace, 2, False, True, 31)
        trace.req = f"{REQ}3"
        trace.emit(by, BrokerReg(1, 7, "broker-1/0", True, True, False, 40))
        assert ("asked to stop" in str(trace.result("P27").violations)) == (name == "none"), name


def test_a_late_heartbeat_may_fence_who_is_about_to_stop() -> None:
    """Shows that one without an answer, from before its broker was unfenced, says why that is fenced as a leader."""
    outcomes: tuple[Literal["timeout", "answered"], ...] = ("timeout", "answered")
    for outcome in outcomes:
        trace = TraceBuilder()
        trace.role(CONTROLLER, 1, "leader", 101)
        registered(trace, 0, fenced=True)
        trace.emit("broker-1", Rpc("BrokerHeartbeat", 1, CONTROLLER, "c", 1, outcome, []))
        registered(trace, 0, fenced=False)
        trace.change(1, 0, offset=11)
        asked(trace)
        moved(trace, 2, "fence", 21)
        served(trace, 2, True, False, 22)
        assert ("asked to stop" in str(trace.result("P27").violations)) == (outcome == "answered")


def let_go(heard: bool = True, mode: Any = "clean", last: str = CONTROLLER, **profile: Any) -> TraceBuilder:
    """Broker-1 is asked to stop, controller-1 fences it, and it stops when a heartbeat of its was answered."""
    trace = running(heard, **profile)
    asked(trace)
    later(trace, 500)
    registered(trace, 0, fenced=True)
    heartbeat(trace, to=last)
    trace.down("broker-1", mode)
    return trace


def asks(trace: TraceBuilder, to: str = CONTROLLER, outcome: Any = "answered", error: int = 101) -> str:
    """Another process of broker-1 wants to be registered."""
    trace.up("broker-1")
    return trace.emit("broker-1", Rpc("BrokerRegistration", 4, to, "c", 1, outcome, [error] if error else []))


def test_who_was_let_go_may_come_back_at_once() -> None:
    """Shows a broker that is refused as a second process by the controller that has let it go, and one that is not."""
    trace = let_go()
    left = trace.events[-1].id
    before = trace.result("P27").tested
    refused = asks(trace)
    (found,) = trace.result("P27").violations
    assert found.events == [left, refused]
    assert found.sentence == (
        "controller-1 refused broker-1/1 as a second process, although it had let the one before it go"
    )
    for how in ({"error": 0}, {"error": 99}, {"to": OTHER}, {"outcome": "timeout", "error": 0}):
        trace = let_go()
        asks(trace, **how)
        result = trace.result("P27")
        assert (result.violated, result.tested) == (0, before + (how.get("outcome") != "timeout"))


@pytest.mark.parametrize(
    "how",
    [{"heard": False}, {"mode": "crash"}, {"last": OTHER}, {"config": {"controlled.shutdown.enable": False}}],
)
def test_who_was_not_let_go(how: dict[str, Any]) -> None:
    """Shows a broker that does not know that it was unfenced, one that is killed, one that another controller has
    answered, and one that does not ask."""
    trace = let_go(**how)
    asks(trace)
    assert trace.result("P27").violated == 0


@pytest.mark.parametrize("why", ["late", "copied", "registered", "elected", "clock", "unfenced", "twice"])
def test_a_session_that_there_may_be(why: str) -> None:
    """Shows heartbeats that may come late or twice, a process that was registered since, a controller that was elected
    again, a clock that was set, a broker that was not fenced, and a second process that did not leave in good order."""
    trace = running()
    if why == "late":
        trace.emit("broker-1", Rpc("BrokerHeartbeat", 1, CONTROLLER, "c", 2, "timeout", []))
    elif why == "copied":
        fault(trace, "start", "broker-1", "duplicate", **{"from": ["broker-1"], "to": [CONTROLLER], "both_ways": False})
    elif why == "clock":
        trace.emit(CONTROLLER, ClockSet("f", "start", 5, 0))
    asked(trace)
    later(trace, 500)
    if why != "unfenced":
        registered(trace, 0, fenced=True)
    heartbeat(trace)
    trace.down("broker-1", "clean")
    if why == "registered":
        registered(trace, 1, fenced=True)
    elif why == "elected":
        trace.role(CONTROLLER, 2, "follower", 102)
        trace.role(CONTROLLER, 3, "leader", 101)
    elif why == "twice":
        asks(trace, error=0)
        trace.down("broker-1")
    asks(trace)
    assert not [each for each in trace.result("P27").violations if "second process" in each.sentence]
