"""Tests of how an operator stops and starts nodes: controlled shutdowns and rolling bounces."""

from __future__ import annotations

import pytest

from actors.control import Crash, Invoke, Restart
from actors.trace.events import CtlFault, NodeDown, QRole
from tests.unit.chaos.stage import SECOND, Stage, plan_of

STOP_BROKER_1 = "chaos: [{when: {at: 1s}, action: {controlled-shutdown: {targets: broker-1}}, for: 3s}]"


def bounce(what: str) -> Stage:
    """A cluster that is to be bounced at 1 s, just before."""
    stage = Stage(plan_of(f"chaos: [{{when: {{at: 1s}}, action: {{rolling-bounce: {what}}}}}]"))
    stage.reach_time_0()
    return stage


def down(stage: Stage, name: str, mode: str = "clean", incarnation: int = 0) -> list[object]:
    """A node's process ends; what is done about it."""
    return list(stage.tell(name, NodeDown(mode), incarnation))  # type: ignore[arg-type]


def asked(stage: Stage) -> list[str]:
    """Nodes that were asked to stop so far."""
    return [invoke.node for invoke in stage.of(Invoke, lambda invoke: invoke.kind == "shutdown")]


def come_back(stage: Stage, broker: int, incarnation: int = 1) -> None:
    """A broker starts and is unfenced; its ISR never lost it as far as the stage tells."""
    stage.now_us += 1
    stage.up(f"broker-{broker}", incarnation)
    stage.now_us += 1
    stage.fenced(broker, False)


def test_a_node_that_was_stopped_comes_back_after_its_time() -> None:
    """Shows the request to stop, the end at the process's own pace, and the restart when the time is over."""
    stage = Stage(plan_of(STOP_BROKER_1))
    stage.reach_time_0()
    stage.run_until(2 * SECOND)
    assert (asked(stage), stage.restarted()) == (["broker-1"], [])
    assert down(stage, "broker-1") == []
    stage.run_until(4 * SECOND)
    assert stage.restarted() == ["broker-1"]
    stage.up("broker-1", 1)
    assert stage.conductor.outcomes[0].took_effect


def test_a_node_that_takes_longer_to_stop_is_started_as_soon_as_it_is_down() -> None:
    """Shows that nothing is started beside a process that is still there."""
    stage = Stage(plan_of(STOP_BROKER_1))
    stage.reach_time_0()
    stage.run_until(6 * SECOND)
    assert stage.restarted() == [] and not stage.conductor.outcomes[0].took_effect
    assert down(stage, "broker-1") == [Restart("broker-1")]


def test_a_node_that_a_point_kills_while_it_stops_is_started_when_that_fault_is_over() -> None:
    """Shows that such a node stays down for the time of the crash, and is started once."""
    stage = Stage(
        plan_of(
            "chaos:\n"
            "  - {when: {at: 1s}, fault: {crash: {nodes: broker-1, at: after-sync, of: orders-0}}, for: 3s}\n"
            "  - {when: {at: 2s}, action: {controlled-shutdown: {targets: broker-1}}, for: 500ms}\n"
        )
    )
    stage.reach_time_0()
    stage.run_until(3 * SECOND)
    stage.now_us = 3 * SECOND
    assert stage.tell("broker-1", NodeDown("crash", "f1/1 after-sync of orders-0")) == []
    stage.run_until(5 * SECOND)
    assert stage.restarted() == []
    stage.run_until(7 * SECOND)
    assert stage.restarted() == ["broker-1"]
    stage.up("broker-1", 1)
    assert [fault.took_effect for fault in stage.conductor.outcomes] == [True, True]


@pytest.mark.parametrize(("crashed", "stopped"), [("500ms", "3s"), ("3s", "2s")])
def test_a_node_that_two_faults_stopped_is_started_once(crashed: str, stopped: str) -> None:
    """Shows that of a shutdown and a point on the way down from it, the one that is over first has the node started:
    the end of the other starts nobody, and nobody waits for another incarnation."""
    stage = Stage(
        plan_of(
            "chaos:\n"
            f"  - {{when: {{at: 1s}}, fault: {{crash: {{nodes: broker-1, at: after-write}}}}, for: {crashed}}}\n"
            f"  - {{when: {{at: 2s}}, action: {{controlled-shutdown: {{targets: broker-1}}}}, for: {stopped}}}\n"
        )
    )
    stage.reach_time_0()
    stage.run_until(3 * SECOND)
    stage.tell("broker-1", NodeDown("crash", "f1/1 after-write of orders-0, number 1"))
    stage.run_until(4 * SECOND)
    assert stage.restarted() == ["broker-1"]
    stage.up("broker-1", 1)
    stage.run_until(7 * SECOND)
    assert stage.restarted() == ["broker-1"]
    assert [(each.phase, each.took_effect) for each in stage.conductor.outcomes] == [("ended", True)] * 2
    assert stage.conductor.injector.awaited == {}
    assert stage.conductor.injector.leaving == {}


def test_no_other_fault_stops_a_node_that_is_stopping() -> None:
    """Shows that a crash passes over a node which an operator has stopped, until it is back."""
    crash = "  - {when: {at: 2s}, fault: {crash: brokers}, for: 1s}\n"
    action = "  - {when: {at: 1s}, action: {controlled-shutdown: {targets: broker-1}}, for: 3s}\n"
    stage = Stage(plan_of(f"chaos:\n{action}{crash}"))
    stage.reach_time_0()
    stage.run_until(2 * SECOND)
    assert stage.crashed() == ["broker-2", "broker-3"]


def test_a_bounce_goes_from_node_to_node_as_each_is_back() -> None:
    """Shows one node at a time: asked to stop, started with its new settings when it is down, and the next one only
    when it is unfenced."""
    stage = bounce("{targets: [broker-2, broker-1], config: {num.io.threads: 4}, versions: {Fetch: 4-12}}")
    stage.run_until(2 * SECOND)
    assert asked(stage) == ["broker-2"]
    (restart,) = down(stage, "broker-2")
    assert isinstance(restart, Restart) and restart.spec is not None
    assert (restart.spec.config["num.io.threads"], restart.spec.versions["Fetch"]) == (4, [4, 12])
    stage.now_us += 1
    stage.up("broker-2", 1)
    assert asked(stage) == ["broker-2"], "it is up, and not unfenced yet"
    stage.now_us += 1
    stage.fenced(2, False)
    assert asked(stage) == ["broker-2", "broker-1"]
    down(stage, "broker-1")
    come_back(stage, 1)
    outcome = stage.conductor.outcomes[0]
    assert (outcome.phase, outcome.took_effect, outcome.late) == ("ended", True, [])
    assert [event.phase for event in stage.recorded(CtlFault)] == ["start", "stop"]


def test_a_bounce_starts_a_node_that_a_point_kills_while_it_stops() -> None:
    """Shows that the fault whose point it was does not start it a second time, nor wait for it."""
    stage = Stage(
        plan_of(
            "chaos:\n"
            "  - {when: {at: 1s}, fault: {crash: {nodes: broker-2, at: after-sync, of: orders-0}}, for: 3s}\n"
            "  - {when: {at: 2s}, action: {rolling-bounce: {targets: broker-2}}}\n"
        )
    )
    stage.reach_time_0()
    stage.run_until(3 * SECOND)
    stage.now_us = 3 * SECOND
    stage.tell("broker-2", NodeDown("crash", "f1/1 after-sync of orders-0"))
    assert stage.restarted() == ["broker-2"]
    come_back(stage, 2)
    stage.run_until(8 * SECOND)
    assert stage.restarted() == ["broker-2"]
    assert stage.conductor.injector.awaited == {}
    assert [fault.took_effect for fault in stage.conductor.outcomes] == [True, True]


def test_a_controller_is_back_though_another_stands_in_vain() -> None:
    """Shows that a voter that is cut off, in an epoch that nobody leads, holds up no bounce."""
    stage = bounce("{targets: [controller-2, broker-1]}")
    stage.up("controller-2")
    stage.tell("controller-1", QRole("d", 1, "leader", 101, 0, []))
    stage.tell("controller-2", QRole("d", 1, "follower", 101, 0, []))
    stage.run_until(SECOND)
    assert asked(stage) == ["controller-2"]
    stage.tell("controller-3", QRole("d", 2, "candidate", -1, 0, []))
    down(stage, "controller-2")
    stage.up("controller-2", 1)
    stage.tell("controller-2", QRole("d", 1, "follower", 101, 0, []), 1)
    assert asked(stage) == ["controller-2", "broker-1"]


def test_a_bounce_waits_for_the_isr() -> None:
    """Shows that an unfenced broker holds up the others until it is in the ISRs of all its partitions."""
    stage = bounce("{targets: [broker-2, broker-1]}")
    stage.run_until(2 * SECOND)
    stage.change(1, 0, [1, 3], "controlled-shutdown")
    down(stage, "broker-2")
    come_back(stage, 2)
    assert asked(stage) == ["broker-2"]
    stage.change(1, 0, [1, 3, 2], "alter-isr")
    assert asked(stage) == ["broker-2", "broker-1"]


def test_the_active_controller_comes_last_of_the_controllers() -> None:
    """Shows the order of a bounce of everything, and that a controller is back when it is in the quorum."""
    stage = Stage(plan_of("chaos: [{when: {at: 1s}, action: {rolling-bounce: {targets: all}}}]"))
    for name in ("controller-2", "controller-3"):
        stage.tell(name, QRole("d", 1, "follower", 101, 0, []))
    stage.reach_time_0()
    stage.run_until(2 * SECOND)
    start = stage.recorded(CtlFault)[0]
    assert start.targets == ["controller-2", "controller-3", "controller-1", "broker-1", "broker-2", "broker-3"]
    assert asked(stage) == []
    stage.tell("controller-2", QRole("d", 1, "follower", 101, 0, []))
    assert asked(stage) == ["controller-2"]
    down(stage, "controller-2")
    stage.up("controller-2", 1)
    stage.tell("controller-3", QRole("d", 1, "follower", 101, 0, []))
    assert asked(stage) == ["controller-2"], "it has not found its leader"
    stage.tell("controller-2", QRole("d", 1, "follower", 101, 0, []), 1)
    assert asked(stage) == ["controller-2", "controller-3"]


def test_a_bounce_does_not_wait_for_ever() -> None:
    """Shows that a node which does not stop in time is killed, that one which does not come back is left behind, and
    that both are told by name."""
    stage = bounce("{targets: [broker-1, broker-2, broker-3], timeout: 2s}")
    stage.run_until(2 * SECOND)
    stage.run_until(3 * SECOND)
    assert stage.of(Crash) == [Crash("broker-1")]
    assert len(down(stage, "broker-1", "crash")) == 1
    come_back(stage, 1)
    assert asked(stage) == ["broker-1", "broker-2"]
    down(stage, "broker-2")
    stage.run_until(6 * SECOND)
    assert asked(stage) == ["broker-1", "broker-2", "broker-3"]
    down(stage, "broker-3")
    come_back(stage, 3)
    assert stage.conductor.outcomes[0].late == ["broker-1", "broker-2"]
    assert stage.recorded(CtlFault)[-1].parameters["late"] == ["broker-1", "broker-2"]


def test_a_bounce_goes_on_while_the_cluster_heals() -> None:
    """Shows that the end of the chaos does not stop a bounce, and that the healing waits for it, and says so."""
    stage = bounce("{targets: brokers}")
    stage.run_until(10 * SECOND)
    assert stage.conductor.phase == "healing"
    assert stage.conductor.progress().waiting_for == "not over: f1 (broker-1)"
    for broker in (1, 2, 3):
        down(stage, f"broker-{broker}")
        come_back(stage, broker)
    assert stage.conductor.phase == "stopping"


def test_a_later_bounce_keeps_what_an_earlier_one_set() -> None:
    """Shows that settings add up from bounce to bounce."""
    stage = Stage(
        plan_of(
            "chaos:\n"
            "  - {when: {at: 1s}, action: {rolling-bounce: {targets: broker-1, config: {num.io.threads: 4}}}}\n"
            "  - {when: {at: 2s}, action: {rolling-bounce: {targets: broker-1, features: {kip-207: 'off'}}}}\n"
        )
    )
    stage.reach_time_0()
    stage.run_until(SECOND)
    down(stage, "broker-1")
    come_back(stage, 1)
    stage.run_until(3 * SECOND)
    down(stage, "broker-1", incarnation=1)
    spec = stage.of(Restart)[-1].spec
    assert spec is not None and (spec.config["num.io.threads"], spec.features["kip-207"]) == (4, "off")


def test_a_node_that_ends_by_itself_comes_back_with_the_healing() -> None:
    """Shows that nobody starts a node which gave up, as long as the chaos lasts."""
    stage = Stage(plan_of())
    stage.reach_time_0()
    stage.run_until(2 * SECOND)
    down(stage, "broker-3", "crash")
    assert stage.restarted() == []
    stage.run_until(10 * SECOND)
    assert stage.restarted() == ["broker-3"]
    assert stage.conductor.progress().waiting_for == "not back: broker-3"


def test_a_node_that_does_not_come_back_is_waited_for_in_the_healing_too_no_longer_than_the_time_out() -> None:
    """Shows that a bounce which the end of the chaos finds under way goes on when its time-out is over."""
    stage = bounce("{targets: [broker-1, broker-2], timeout: 20s}")
    stage.run_until(9 * SECOND)
    down(stage, "broker-1")
    stage.run_until(28 * SECOND)
    assert (stage.conductor.phase, asked(stage)) == ("healing", ["broker-1"])
    stage.run_until(30 * SECOND)
    assert asked(stage) == ["broker-1", "broker-2"]


def test_a_stranger_has_no_place_to_take_up_again() -> None:
    """Shows that a bounce waits for a voter of another cluster to start and for nothing else."""
    stage = Stage(
        plan_of(
            "nodes: {controller-2: {cluster-id: another}}\n"
            "chaos: [{when: {at: 1s}, action: {rolling-bounce: {targets: [controller-2, controller-3]}}}]\n"
        )
    )
    stage.reach_time_0()
    stage.run_until(2 * SECOND)
    assert asked(stage) == ["controller-2"]
    down(stage, "controller-2")
    stage.up("controller-2", 1)
    stage.tell("controller-3", QRole("d", 1, "follower", 101, 0))
    assert asked(stage) == ["controller-2", "controller-3"]


def test_a_node_that_falls_while_a_bounce_waits_for_it_is_brought_back() -> None:
    """Shows that a bounce which waits for a node to be back before it stops it does not start it: the healing does."""
    stage = Stage(plan_of("chaos: [{when: {at: 1s}, action: {rolling-bounce: {targets: broker-1, timeout: 2s}}}]"))
    stage.reach_time_0()
    stage.fenced(1, True)
    stage.run_until(2 * SECOND)
    assert asked(stage) == []
    assert down(stage, "broker-1", "fatal") == []
    stage.run_until(9 * SECOND)
    assert stage.restarted() == []
    stage.run_until(10 * SECOND)
    assert stage.restarted() == ["broker-1"]


def test_the_profile_tells_what_is_bounced() -> None:
    """Shows that the features and versions that nodes have later are in the run's profile."""
    what = "{targets: broker-1, features: {kip-207: 'off'}, versions: {Fetch: 4-12}}"
    profile = plan_of(f"chaos: [{{when: {{at: 1s}}, action: {{rolling-bounce: {what}}}}}]").profile()
    assert (profile["bounced"], profile["bounced_versions"]) == ({"kip-207": ["off"]}, {"Fetch": [[4, 12]]})
