"""A run's phases, as the conductor takes it through them."""

from __future__ import annotations

import pytest

from actors.control import Invoke, RecordEvent
from actors.trace.events import (
    BrokerReg,
    ClockSet,
    ConsOwn,
    CtlFault,
    CtlPhase,
    CtlWindow,
    NodeDown,
    PartChange,
    PartRemove,
    QRole,
    Stall,
)
from tests.unit.chaos.stage import SECOND, Stage, plan_of

CRASH = """
chaos:
  - when: {at: 2s}
    fault: {crash: leader(orders-0)}
    for: 3s
"""


def test_a_run_without_faults_goes_through_every_phase() -> None:
    """Shows the phases of a healthy run in order, and that consumers stop only after producers have."""
    stage = Stage(plan_of())
    assert stage.conductor.phase == "starting"
    stage.form()
    assert stage.conductor.phase == "warming"
    assert [(i.node, i.kind) for i in stage.of(Invoke)] == [("producer-1", "start"), ("consumer-1", "start")]
    stage.now_us = SECOND
    stage.succeed(stage.plan.clients[0])
    assert stage.conductor.phase == "warming"
    stage.succeed(stage.plan.clients[1])
    assert stage.conductor.zero_us == SECOND
    stage.run_until(11 * SECOND)
    assert stage.conductor.phase == "stopping"
    stage.complete_stops()
    assert stage.conductor.phase == "draining"
    stage.complete_stops()
    assert stage.conductor.finished
    assert stage.conductor.status == "completed"
    assert stage.phases() == ["starting", "warming", "chaos", "healing", "stopping", "draining", "finished"]
    assert [i.node for i in stage.of(Invoke) if i.kind == "stop"] == ["producer-1", "consumer-1"]
    assert stage.conductor.results == {"producer-1": {"sent": 1}, "consumer-1": {"sent": 1}}
    assert stage.conductor.next_time_us() is None


def test_the_steady_state_needs_every_broker_and_every_isr() -> None:
    """Shows that workloads wait for unfenced brokers, whole ISRs, and leaders that took up their partitions."""
    stage = Stage(plan_of())
    for broker in (1, 2):
        stage.fenced(broker, False)
    stage.change(1, 0, [1, 2], "create")
    assert stage.conductor.progress().waiting_for == "fenced or not registered: broker-3"
    stage.fenced(3, False)
    assert stage.conductor.progress().waiting_for == "without its leader or its whole ISR: orders-0"
    stage.change(1, 0, [1, 2, 3], "alter-isr")
    assert stage.conductor.phase == "starting"
    stage.assume(1, 0)
    assert stage.conductor.phase == "warming"


def test_a_cluster_that_does_not_form_is_given_up_by_name() -> None:
    """Shows that the budget of the steady state ends the run, and says what was missing."""
    stage = Stage(plan_of("budgets: {steady-state: 5s}"))
    stage.fenced(1, False)
    stage.run_until(5 * SECOND)
    assert stage.conductor.finished
    assert stage.conductor.status == "did not reach the steady state"
    assert stage.conductor.detail == "starting: fenced or not registered: broker-2, broker-3"
    assert stage.recorded(CtlPhase)[-1].detail == f"{stage.conductor.status}: {stage.conductor.detail}"


def test_a_workload_that_never_succeeds_is_given_up_by_name() -> None:
    """Shows that the same budget covers the first success of each workload."""
    stage = Stage(plan_of("budgets: {steady-state: 5s}"))
    stage.form()
    stage.succeed(stage.plan.clients[0])
    stage.run_until(5 * SECOND)
    assert stage.conductor.status == "did not reach the steady state"
    assert stage.conductor.detail == "warming: consumer-1"


def test_a_crash_is_recorded_carried_out_and_ended() -> None:
    """Shows a fault from its time to its end: ctl.fault around the actions, targets by the cluster's state then."""
    stage = Stage(plan_of(CRASH))
    stage.reach_time_0()
    stage.elect(2, 1, [1, 2, 3])
    stage.run_until(2 * SECOND)
    assert stage.crashed() == ["broker-2"]
    assert stage.conductor.progress().faults == ["f1 crash"]
    assert stage.recorded(CtlFault) == [CtlFault("f1", "crash", "start", ["broker-2"], {})]
    stage.run_until(5 * SECOND)
    assert stage.restarted() == ["broker-2"]
    assert stage.recorded(CtlFault)[-1] == CtlFault("f1", "crash", "stop", ["broker-2"], {})
    assert not stage.conductor.outcomes[0].took_effect
    stage.up("broker-2", 1)
    outcome = stage.conductor.outcomes[0]
    assert (outcome.phase, outcome.started_us, outcome.ended_us) == ("ended", 2 * SECOND, 5 * SECOND)
    assert outcome.took_effect


def test_the_end_of_the_chaos_heals_and_waits_for_convergence() -> None:
    """Shows that a node still down at the end is restarted, and that a broker that came back must register again
    and rejoin its ISRs before the workloads are stopped."""
    stage = Stage(plan_of("chaos: [{when: {at: 9s}, fault: {crash: broker-3}, until: {seen: unclean-election}}]"))
    stage.reach_time_0()
    stage.run_until(10 * SECOND)
    assert stage.restarted() == ["broker-3"]
    assert stage.conductor.phase == "healing"
    assert stage.conductor.progress().waiting_for == "not back: broker-3"
    stage.now_us += 1
    stage.up("broker-3", 1)
    assert stage.conductor.progress().waiting_for == "fenced or not registered: broker-3"
    stage.now_us += 1
    stage.fenced(3, True)
    stage.change(1, 0, [1, 2], "fence")
    stage.fenced(3, False)
    assert stage.conductor.phase == "healing"
    stage.change(1, 0, [1, 2, 3], "alter-isr")
    assert stage.conductor.phase == "stopping"


GROUP = """
schema: krift/v1
name: staged
duration: 10s
cluster:
  topics:
    orders: {replicas: [[1, 2, 3], [2, 3, 1]]}
workload:
  - producer: {topic: orders, rate: 100/s}
  - consumer: {topic: orders, group: billing, count: 2}
chaos:
  - {when: {at: 9s}, fault: {crash: consumer-2}, for: 500ms}
budgets: {heal: 20s}
"""


def healing_of_a_group() -> Stage:
    """A run that heals, with a member that has just come back; the other one still has what both had."""
    stage = Stage(plan_of(base=GROUP))
    stage.reach_time_0()
    stage.assigned("consumer-1", 1, "orders-0")
    stage.assigned("consumer-2", 1, "orders-1")
    stage.run_until(9 * SECOND)
    stage.tell("consumer-2", NodeDown("crash"))
    stage.assigned("consumer-1", 2, "orders-0", "orders-1")
    stage.run_until(10 * SECOND)
    stage.up("consumer-2", 1)
    return stage


def test_the_healing_waits_for_groups() -> None:
    """Shows that a member that came back must be in its group, that all members must have heard of one generation, and
    that each partition must be owned, before the workloads are stopped."""
    stage = healing_of_a_group()
    waits = [stage.conductor.progress().waiting_for]
    stage.assigned("consumer-2", 2, "orders-1")  # news of the process before, late
    waits.append(stage.conductor.progress().waiting_for)
    stage.assigned("consumer-2", 3, "orders-1", incarnation=1)
    waits.append(stage.conductor.progress().waiting_for)
    stage.assigned("consumer-1", 3)
    waits.append(stage.conductor.progress().waiting_for)
    assert waits == [
        "group billing: consumer-2 was assigned nothing yet",
        "group billing: consumer-2 was assigned nothing yet",
        "group billing: its members are in more than one generation",
        "group billing: nobody owns orders-0",
    ]
    assert stage.conductor.phase == "healing"
    stage.assigned("consumer-1", 3, "orders-0")
    assert stage.conductor.phase == "stopping"


def test_who_left_its_group_is_not_waited_for() -> None:
    """Shows that a member that left of itself comes back as it pleases."""
    stage = healing_of_a_group()
    stage.tell("consumer-2", ConsOwn("billing", "m", -1, [], reason="leave"), 1)
    assert stage.conductor.phase == "stopping"


def test_groups_that_never_get_together_are_left_to_their_invariant() -> None:
    """Shows that the run goes on when the budget of the healing is spent, and groups alone are waited for."""
    stage = healing_of_a_group()
    stage.run_until(29 * SECOND)
    assert stage.conductor.phase == "healing"
    stage.run_until(31 * SECOND)
    assert stage.conductor.phase == "stopping"


def test_news_that_come_late_do_not_unsettle_the_view() -> None:
    """Shows that the clock of the events decides, where a broker's start is heard of after its registration."""
    stage = Stage(plan_of())
    stage.now_us = 10
    stage.form()
    late = BrokerReg(2, 7, "i", False, False, False, 99)
    stage.now_us = 30
    stage.tell("controller-1", late)
    stage.now_us = 20
    stage.up("broker-2", 1)
    assert stage.conductor.view.unsteady() == ""


def test_what_a_cut_off_controller_appended_never_happened() -> None:
    """Shows that fencing and elections that are missing in the log of the next quorum leader are taken back, also
    those that are heard of only after its election; and that what it kept of them stands."""
    stage = Stage(plan_of())
    stage.reach_time_0()
    stage.fenced(3, True)
    stage.change(1, 0, [1, 2], "fence")
    kept = stage.offset
    stage.fenced(1, True)
    stage.change(2, 1, [2], "fence")
    view = stage.conductor.view
    assert (view.unsteady(), view.leaders()) == (
        "fenced or not registered: broker-1, broker-3",
        {"orders-0": "broker-2"},
    )
    stage.tell("controller-2", QRole("d", 3, "leader", 102, kept + 1, [102, 103]))
    assert (view.unsteady(), view.leaders()) == ("fenced or not registered: broker-3", {"orders-0": "broker-1"})
    stage.fenced(2, True)
    stage.change(-1, 2, [2], "fence")
    assert (view.unsteady(), view.leaders()) == ("fenced or not registered: broker-3", {"orders-0": "broker-1"})
    stage.tell("controller-2", BrokerReg(3, 1, "i", False, False, False, kept + 2))
    assert view.unsteady() == "without its leader or its whole ISR: orders-0"
    stage.tell("controller-2", PartChange("orders-0", kept + 3, 3, 1, 0, 9, [1, 2, 3], [1, 2, 3], "alter-isr"))
    assert view.unsteady() == ""


def test_what_does_not_heal_has_a_name() -> None:
    """Shows that a cluster that does not converge ends the run as "did not heal"."""
    stage = Stage(plan_of(CRASH + "budgets: {heal: 4s}"))
    stage.reach_time_0()
    stage.run_until(14 * SECOND)
    assert stage.conductor.status == "did not heal"
    assert stage.conductor.detail == "healing: not back: broker-1"


def test_a_busy_machine_is_named() -> None:
    """Shows that a run which does not get on tells for how long nodes have waited for processor time in that phase, and
    which one longest; the time of earlier phases counts in its progress alone, and a moment is not told."""
    stage = Stage(plan_of("budgets: {heal: 4s}"))
    stage.reach_time_0()
    stage.tell("broker-1", Stall(5000, 6000))
    stage.change(1, 0, [1], "alter-isr")
    stage.run_until(11 * SECOND)
    assert stage.conductor.phase == "healing"
    for node, ms in (("broker-2", 900), ("controller-1", 3000), ("broker-2", 400)):
        stage.tell(node, Stall(ms, 2 * ms))
    stage.run_until(15 * SECOND)
    assert stage.conductor.status == "did not converge"
    assert stage.conductor.detail == (
        "healing: without its leader or its whole ISR: orders-0; the machine is too busy: in this phase nodes waited "
        "4 s for processor time (controller-1 longest: 3 s)"
    )
    assert stage.conductor.progress().starved_ms == 9300


def test_a_moment_of_a_busy_machine_is_not_told() -> None:
    """Shows that so little keeps no cluster from getting steady."""
    stage = Stage(plan_of("budgets: {heal: 4s}"))
    stage.reach_time_0()
    stage.change(1, 0, [1], "alter-isr")
    stage.run_until(11 * SECOND)
    stage.tell("broker-1", Stall(900, 2000))
    stage.run_until(15 * SECOND)
    assert stage.conductor.detail == "healing: without its leader or its whole ISR: orders-0"


def test_what_does_not_drain_has_a_name() -> None:
    """Shows that one budget covers stopping and draining, and that the client that hangs is named."""
    stage = Stage(plan_of("budgets: {drain: 7s}"))
    stage.reach_time_0()
    stage.run_until(12 * SECOND)
    stage.complete_stops()
    assert stage.conductor.phase == "draining"
    stage.run_until(17 * SECOND)
    assert stage.conductor.status == "did not drain"
    assert stage.conductor.detail == "draining: consumer-1"


def test_consumers_are_told_what_there_is_nothing_left_to_read_of() -> None:
    """Shows that the drain does not wait for a topic that an operator removed and that has not come back, and does for
    one that was made anew."""
    for made_anew in (False, True):
        stage = Stage(plan_of(""))
        stage.reach_time_0()
        stage.tell("controller-1", PartRemove("orders-0", 20, 1, "of-the-first"))
        if made_anew:
            anew = "orders-0@of-the-second"
            stage.offset = 20
            stage.elect(1, 0, [1, 2, 3], "create", anew)
        stage.run_until(12 * SECOND)
        stage.complete_stops()
        stops = {each.node: each.arguments for each in stage.of(Invoke) if each.kind == "stop"}
        assert stops == {"producer-1": {}, "consumer-1": {} if made_anew else {"gone": ["orders-0"]}}


def test_an_interrupted_run_ends_its_faults_and_restarts_nothing() -> None:
    """Shows that Ctrl-C takes the same way as healing, without bringing processes back."""
    stage = Stage(plan_of(CRASH))
    stage.reach_time_0()
    stage.run_until(3 * SECOND)
    stage.actions += stage.conductor.end(stage.now_us)
    assert stage.conductor.status == "interrupted"
    assert stage.conductor.detail == "in the phase chaos"
    assert stage.restarted() == []
    assert [event.phase for event in stage.recorded(CtlFault)] == ["start", "stop"]


def test_a_client_that_comes_back_is_started_again() -> None:
    """Shows that a crashed client's workload goes on after its restart: a node does nothing before it is told."""
    stage = Stage(plan_of("chaos: [{when: {at: 1s}, fault: {crash: producer-1}, for: 1s}]"))
    stage.reach_time_0()
    stage.run_until(2 * SECOND)
    assert stage.crashed() == stage.restarted() == ["producer-1"]
    stage.up("producer-1", 1)
    starts = [invoke.operation for invoke in stage.of(Invoke) if invoke.node == "producer-1"]
    assert starts == ["producer-1/start/0", "producer-1/start/1"]


def windows(stage: Stage) -> list[tuple[str, str, int]]:
    """The stability windows so far: id, phase, size of the core."""
    return [(event.window, event.phase, len(event.core)) for event in stage.recorded(CtlWindow)]


def test_stability_windows_lie_between_the_faults() -> None:
    """Shows a window from the start of the run to the first fault, one without the crashed node while it is away, and
    one of all from its return to the end of the run."""
    stage = Stage(plan_of(CRASH))
    names = [node.name for node in stage.plan.nodes]
    assert stage.recorded(CtlWindow) == [CtlWindow("w1", "open", names)]
    stage.reach_time_0()
    stage.run_until(6 * SECOND)
    without = [name for name in names if name != "broker-1"]
    assert stage.recorded(CtlWindow)[1:] == [CtlWindow("w1", "close", names), CtlWindow("w2", "open", without)]
    order = [type(action.event) for action in stage.of(RecordEvent) if isinstance(action.event, (CtlFault, CtlWindow))]
    assert order == [CtlWindow, CtlWindow, CtlFault, CtlWindow, CtlFault]
    stage.up("broker-1", 1)
    assert stage.recorded(CtlWindow)[3:] == [CtlWindow("w2", "close", without), CtlWindow("w3", "open", names)]
    stage.run_until(10 * SECOND)
    stage.fenced(1, False)
    stage.complete_stops()
    stage.complete_stops()
    assert stage.conductor.finished
    assert windows(stage)[-1] == ("w3", "close", len(names))


@pytest.mark.parametrize(
    ("fault", "away"),
    [
        ("pause: broker-1", 1),
        ("partition: {isolate: broker-1}", 1),
        ("crash: [controller-1, broker-1]", 2),
        ("crash: [controller-1, controller-2]", None),
        ("partition: {between: broker-1, and: broker-2}", None),
        ("partition: {from: broker-1, to: broker-2}", None),
        ("delay: {isolate: broker-1, by: 5ms}", None),
    ],
)
def test_only_who_is_silent_is_left_out_of_a_window(fault: str, away: int | None) -> None:
    """Shows which faults leave a window to the others, and that there is none under any other fault, nor without most
    of the voters."""
    stage = Stage(plan_of(f"chaos: [{{when: {{at: 2s}}, fault: {{{fault}}}, for: 3s}}]"))
    stage.reach_time_0()
    stage.run_until(3 * SECOND)
    everybody = len(stage.plan.nodes)
    opened = [] if away is None else [("w2", "open", everybody - away)]
    assert windows(stage) == [("w1", "open", everybody), ("w1", "close", everybody), *opened]


@pytest.mark.parametrize(
    ("began", "rate_ppm", "late_s"),
    [(5 * SECOND, 0, 5), (0, 2_000_000, 4), (-5 * SECOND, 0, 0)],
)
def test_no_window_while_timers_are_late(began: int, rate_ppm: int, late_s: int) -> None:
    """Shows that a clock that is put back, by what it was ahead, keeps the window closed for as long: its timers end
    that much later. A clock that was behind makes up for it, and a node that ends has no timers any more."""
    for ends in (False, True):
        fault = "fault: {clock-jump: {nodes: broker-1, by: +1s}}"
        stage = Stage(plan_of(f"chaos: [{{when: {{at: 1s}}, {fault}, for: 2s}}]"))
        stage.reach_time_0()
        stage.run_until(SECOND)
        stage.tell("broker-1", ClockSet("f1", "start", began, rate_ppm))
        stage.run_until(3 * SECOND)
        stage.tell("broker-1", ClockSet("f1", "stop", 0, 0))
        if ends:
            stage.tell("broker-1", NodeDown("crash"))
            stage.up("broker-1", 1)
        stage.run_until(3 * SECOND + max(0, late_s * SECOND - 1))
        assert windows(stage)[-1][1] == ("close" if late_s and not ends else "open")
        stage.run_until(3 * SECOND + late_s * SECOND)
        assert windows(stage)[-1][1] == "open"


def test_faults_that_overlap_leave_a_window_to_the_others() -> None:
    """Shows that the core shrinks and grows with the nodes that are away, and closes for a fault of another kind."""
    more = """
chaos:
  - when: {at: 1s}
    fault: {pause: broker-1}
    for: 4s
  - when: {at: 2s}
    fault: {pause: broker-2}
    for: 1s
  - when: {at: 4s}
    fault: {delay: {between: broker-2, and: broker-3, by: 1ms}}
    for: 3s
"""
    stage = Stage(plan_of(more))
    stage.reach_time_0()
    stage.run_until(8 * SECOND)
    everybody = len(stage.plan.nodes)
    sizes = [everybody, everybody - 1, everybody - 2, everybody - 1, everybody]
    assert [size for _, phase, size in windows(stage) if phase == "open"] == sizes
    assert [phase for _, phase, _ in windows(stage)] == ["open", "close"] * 4 + ["open"]


def test_what_must_happen_is_ticked_off() -> None:
    """Shows that the conductor knows which of the must-happen names were seen, before time 0 or after."""
    stage = Stage(plan_of("must-happen: [quorum-leader-elected, {leader-elected: {tp: orders-0}}]"))
    assert stage.conductor.seen == {"quorum-leader-elected": False, "leader-elected(tp=orders-0)": False}
    stage.reach_time_0()
    assert stage.conductor.seen == {"quorum-leader-elected": True, "leader-elected(tp=orders-0)": False}
    stage.elect(2, 1, [1, 2, 3])
    assert all(stage.conductor.seen.values())


def test_progress_shows_leaders_and_the_controller() -> None:
    """Shows what the status line is made of, and that a resigned controller is not shown."""
    stage = Stage(plan_of())
    assert stage.conductor.progress().time_us == -1
    stage.reach_time_0()
    stage.run_until(4 * SECOND)
    progress = stage.conductor.progress()
    assert (progress.leaders, progress.controller) == ({"orders-0": "broker-1"}, "controller-1")
    stage.tell("controller-1", QRole("d", 1, "resigned", -1, 0))
    stage.tell("controller-2", QRole("d", 0, "leader", 102, 0))
    assert stage.conductor.progress().controller == ""
