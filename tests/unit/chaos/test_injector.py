"""Faults on schedule: aimed when they fire, begun, observed and ended."""

from __future__ import annotations

from actors.control import (
    Arm,
    Crash,
    Disarm,
    DiskRule,
    InstallRule,
    Invoke,
    LinkRule,
    MendDisk,
    Pause,
    RemoveRule,
    Restart,
    Resume,
    SlowDisk,
)
from actors.crash_points import CrashPoint
from actors.trace.events import CtlFault, DiskRuleChange, LinkRuleChange, LogHw, NodeDown, QRole
from chaos.incidents import library
from chaos.scenario.resolve import resolve
from tests.unit.chaos.stage import SECOND, Stage, plan_of


def hw(new: int) -> LogHw:
    return LogHw("orders-0", "leader", 0, new, new, 0)


def test_kip_207_cuts_the_second_in_line_and_then_crashes_the_leader() -> None:
    """Shows the schedule of the incident as actions: nothing from broker-1 and broker-3 to broker-2, then broker-1
    dies, then both heal, in the order of time."""
    stage = Stage(resolve(library.load("kip-207"), "off"))
    stage.reach_time_0()
    stage.run_until(3 * SECOND)
    rule = LinkRule("f1/1", "hold", ["broker-1", "broker-3"], ["broker-2"])
    assert stage.of(InstallRule) == [InstallRule(rule)]
    stage.link("f1/1")
    stage.run_until(4_500_000)
    assert stage.crashed() == ["broker-1"]
    stage.tell("broker-1", NodeDown("crash"))
    stage.elect(2, 1, [2, 3])
    stage.run_until(11 * SECOND)
    assert stage.of(RemoveRule) == [RemoveRule("f1/1")]
    assert stage.restarted() == []
    stage.run_until(12_500_000)
    assert stage.restarted() == ["broker-1"]
    assert all(outcome.took_effect and outcome.phase == "ended" for outcome in stage.conductor.outcomes)


def test_a_seen_trigger_fires_at_once_and_only_after_time_0() -> None:
    """Shows that a match before time 0 does not count, and that the actions come back with the event itself."""
    stage = Stage(plan_of("chaos: [{when: {seen: leader-elected}, fault: {crash: broker-3}, for: 1s}]"))
    assert [barrier.predicate.name for barrier in stage.conductor.barriers] == ["leader-elected"]
    stage.form()
    stage.assume(1, 1)
    for client in stage.plan.clients:
        stage.succeed(client)
    assert stage.crashed() == []
    stage.now_us = 3 * SECOND
    assert Crash("broker-3") in stage.assume(2, 2)
    stage.run_until(4 * SECOND)
    assert stage.restarted() == ["broker-3"]


def test_a_selector_of_a_trigger_is_resolved_when_the_event_comes() -> None:
    """Shows that a trigger waits for whoever leads at that moment, and that matches of others do not count; and that a
    fault which ends with its leader's death ends when that node dies which led just before."""
    stage = Stage(
        plan_of(
            "chaos:\n"
            "  - when: {seen: {committed: {tp: orders-0, offset: 5, node: leader(orders-0)}}, nth: 2}\n"
            "    fault: {slow-disk: {nodes: broker-3, by: 1ms}}\n"
            "    until: {seen: {node-down: {node: [active-controller, leader(orders-0)]}}}\n"
        )
    )
    stage.reach_time_0()
    stage.tell("broker-1", hw(5))
    stage.elect(2, 1, [2, 3])
    stage.tell("broker-1", hw(6))
    assert stage.of(SlowDisk) == []
    stage.tell("broker-2", hw(7))
    assert len(stage.of(SlowDisk)) == 1
    stage.tell("broker-1", NodeDown("crash"))
    assert stage.of(MendDisk) == []
    stage.tell("broker-2", NodeDown("crash"))
    assert len(stage.of(MendDisk)) == 1


def test_who_is_seen_to_step_down_led_until_then() -> None:
    """Shows that an event is judged by the cluster as it was before it: whoever resigns or dies led the quorum."""
    trigger = "{seen: {quorum-role: {role: resigned, node: active-controller}}}"
    stage = Stage(plan_of(f"chaos: [{{when: {trigger}, fault: {{pause: broker-2}}, for: 1s}}]"))
    stage.reach_time_0()
    stage.tell("controller-2", QRole("d", 1, "resigned", -1, 0))
    assert stage.of(Pause) == []
    stage.tell("controller-1", QRole("d", 1, "resigned", -1, 0))
    assert stage.of(Pause) == [Pause("broker-2")]


def test_the_nth_time_with_a_delay() -> None:
    """Shows nth and delay: the second time the high watermark passes 5, and half a second later."""
    trigger = "{seen: {committed: {tp: orders-0, offset: 5}}, nth: 2, delay: 500ms}"
    stage = Stage(plan_of(f"chaos: [{{when: {trigger}, fault: {{pause: broker-2}}, for: 1s}}]"))
    stage.reach_time_0()
    stage.now_us = SECOND
    for offset in (4, 5, 6):
        assert stage.of(Pause) == []
        stage.tell("broker-1", hw(offset))
    stage.run_until(1_400_000)
    assert stage.of(Pause) == []
    stage.run_until(1_500_000)
    assert stage.of(Pause) == [Pause("broker-2")]
    stage.run_until(2_500_000)
    assert stage.of(Resume) == [Resume("broker-2")]


def test_until_something_is_seen() -> None:
    """Shows a fault whose end waits for an election; what was seen before it began does not end it."""
    stage = Stage(
        plan_of(
            "chaos: [{when: {at: 2s}, fault: {partition: {isolate: broker-1}}, until: {seen: {leader-elected: {node: "
            "broker-2}}}}]"
        )
    )
    stage.reach_time_0()
    stage.assume(2, 1)
    stage.run_until(2 * SECOND)
    rules = [action.rule for action in stage.of(InstallRule)]
    others = [name for name in stage.plan.names if name != "broker-1"]
    assert [(rule.sources, rule.targets) for rule in rules] == [(["broker-1"], others), (others, ["broker-1"])]
    stage.now_us = 3 * SECOND
    assert RemoveRule("f1/1") in stage.assume(2, 2)


def test_a_fault_without_a_target_is_told_apart() -> None:
    """Shows that a fault on the leader of a partition that has none does nothing, and that the outcome says so."""
    stage = Stage(plan_of("chaos: [{when: {at: 2s}, fault: {crash: leader(orders-0)}, for: 1s}]"))
    stage.reach_time_0()
    stage.change(-1, 1, [1], "fence")
    stage.run_until(4 * SECOND)
    outcome = stage.conductor.outcomes[0]
    assert (outcome.phase, outcome.targets, outcome.took_effect) == ("without target", [], False)
    assert stage.recorded(CtlFault) == []


def test_two_faults_never_stop_one_node_twice() -> None:
    """Shows that a node which another fault has stopped, or which is still coming back, is passed over."""
    stage = Stage(
        plan_of(
            "chaos:\n"
            "  - {when: {at: 1s}, fault: {crash: broker-1}, for: 2s}\n"
            "  - {when: {at: 2s}, fault: {pause: brokers}, for: 4s}\n"
            "  - {when: {at: 4s}, fault: {crash: brokers}, for: 1s}\n"
        )
    )
    stage.reach_time_0()
    stage.run_until(5 * SECOND)
    assert stage.of(Pause) == [Pause("broker-2"), Pause("broker-3")]
    assert stage.crashed() == ["broker-1"]
    assert stage.conductor.outcomes[2].phase == "without target"


def test_a_delay_is_drawn_between_by_and_by_plus_jitter() -> None:
    """Shows a delay both ways as two rules with the same bounds."""
    fault = "{delay: {between: broker-1, and: [broker-2, clients], by: 20ms, jitter: 5ms}}"
    stage = Stage(plan_of(f"chaos: [{{when: {{at: 0s}}, fault: {fault}, for: 1s}}]"))
    stage.reach_time_0()
    others = ["broker-2", "producer-1", "consumer-1"]
    assert [action.rule for action in stage.of(InstallRule)] == [
        LinkRule("f1/1", "delay", ["broker-1"], others, 20_000, 25_000),
        LinkRule("f1/2", "delay", others, ["broker-1"], 20_000, 25_000),
    ]


def test_a_fault_that_was_seen_when_it_should_be_over_never_begins() -> None:
    """Shows that a fault whose end is a time does nothing if what it waits for comes only after that time."""
    more = "chaos: [{when: {seen: leader-elected}, fault: {crash: broker-3}, until: {at: 2s}}]"
    stage = Stage(plan_of(more))
    stage.reach_time_0()
    stage.run_until(3 * SECOND)
    stage.assume(2, 1)
    outcome = stage.conductor.outcomes[0]
    assert (outcome.phase, outcome.took_effect) == ("cancelled", False)
    assert stage.of(Crash) == []


def test_faults_on_disks_are_crashes_that_take_something() -> None:
    """Shows what the runtimes are asked for: three kinds of ends, and rules on disks with the bounds of the delay."""
    stage = Stage(
        plan_of(
            "chaos:\n"
            "  - {when: {at: 1s}, fault: {power-loss: broker-1}, for: 1s}\n"
            "  - {when: {at: 1s}, fault: {torn-tail: [broker-2]}, for: 1s}\n"
            "  - {when: {at: 1s}, fault: {wipe: broker-3}, for: 1s}\n"
            "  - {when: {at: 1s}, fault: {slow-disk: {nodes: controllers, by: 20ms, jitter: 5ms}}, for: 1s}\n"
        )
    )
    stage.reach_time_0()
    stage.run_until(SECOND)
    crashes = [Crash("broker-1", "power-loss"), Crash("broker-2", "torn-tail"), Crash("broker-3", "wiped")]
    assert stage.of(Crash) == crashes
    rules = [DiskRule(f"f4/{n}", f"controller-{n}", 20_000, 25_000) for n in (1, 2, 3)]
    assert [action.rule for action in stage.of(SlowDisk)] == rules
    for rule in rules[:2]:
        stage.tell(rule.node, DiskRuleChange(rule.id, "start", 20_000, 25_000, 0))
    assert not stage.conductor.outcomes[3].took_effect
    stage.tell("controller-3", DiskRuleChange("f4/3", "start", 20_000, 25_000, 0))
    assert stage.conductor.outcomes[3].took_effect
    stage.run_until(2 * SECOND)
    assert stage.restarted() == ["broker-1", "broker-2", "broker-3"]
    assert stage.of(MendDisk) == [MendDisk(rule.id, rule.node) for rule in rules]


def test_a_crash_at_a_point_lasts_from_when_it_is_reached() -> None:
    """Shows that nodes are armed when the fault begins; that its time begins when the first of them goes down, and only
    those that did are restarted at its end, while the others are disarmed."""
    crash = "{power-loss: {nodes: brokers, at: after-write, of: orders-0, nth: 2}}"
    stage = Stage(plan_of(f"chaos: [{{when: {{at: 1s}}, fault: {crash}, for: 2s}}]"))
    stage.reach_time_0()
    stage.run_until(SECOND)
    points = [CrashPoint(f"f1/{n}", f"broker-{n}", "after-write", "orders-0", 2) for n in (1, 2, 3)]
    assert stage.of(Arm) == [Arm(point, "power-loss") for point in points]
    stage.run_until(4 * SECOND)
    assert not stage.conductor.outcomes[0].took_effect
    stage.tell("broker-2", NodeDown("lossy", "f1/2 after-write of orders-0, number 2"))
    stage.now_us = 5 * SECOND
    stage.tell("broker-3", NodeDown("crash"))
    assert stage.conductor.outcomes[0].took_effect
    stage.run_until(6 * SECOND)
    assert stage.of(Disarm) == [Disarm(point.id, point.node) for point in points]
    assert stage.of(Restart) == [Restart("broker-2")]


def test_a_point_that_nobody_reaches_is_told() -> None:
    """Shows that the fault stays in force to the end of the chaos, ends there, and had no effect."""
    crash = "{crash: {nodes: broker-1, at: on-becoming-leader}}"
    stage = Stage(plan_of(f"chaos: [{{when: {{at: 1s}}, fault: {crash}, for: 2s}}]"))
    stage.reach_time_0()
    stage.run_until(9 * SECOND)
    assert stage.conductor.outcomes[0].phase == "in force"
    stage.run_until(11 * SECOND)
    assert (stage.conductor.outcomes[0].phase, stage.conductor.outcomes[0].took_effect) == ("ended", False)
    assert stage.restarted() == []


ELECT = "action: {elect: {partitions: orders-0, type: unclean}}"


def answer(stage: Stage, result: dict[str, object]) -> None:
    """The admin client ends its operation."""
    (asked,) = stage.of(Invoke, lambda invoke: invoke.node == "admin-1")
    stage.actions += stage.conductor.on_complete(stage.now_us, "admin-1", asked.operation, result)


def test_an_action_is_over_when_it_is_answered() -> None:
    """Shows that an operator's action goes to the admin client, that nothing else ends it, not even the end of the
    chaos, and that healing waits for it."""
    stage = Stage(plan_of(f"chaos: [{{when: {{at: 1s}}, {ELECT}}}]"))
    stage.reach_time_0()
    stage.run_until(SECOND)
    arguments = {"type": "unclean", "partitions": ["orders-0"]}
    assert stage.of(Invoke, lambda each: each.kind == "elect-leaders") == [
        Invoke("admin-1", "f1/elect", "elect-leaders", arguments)
    ]
    stage.run_until(stage.plan.duration_us + SECOND)
    assert stage.conductor.progress().waiting_for == "not returned: f1/elect"
    assert [event.phase for event in stage.recorded(CtlFault)] == ["start"]
    answer(stage, {"results": {"orders-0": "NONE"}})
    assert [event.phase for event in stage.recorded(CtlFault)] == ["start", "stop"]
    assert stage.conductor.phase == "stopping"
    assert [(each.took_effect, each.phase) for each in stage.conductor.outcomes] == [(True, "ended")]


def test_an_action_that_nobody_answers_has_no_effect() -> None:
    """Shows that an operation that failed as a whole is over, and seen to have done nothing."""
    stage = Stage(plan_of(f"chaos: [{{when: {{at: 1s}}, {ELECT}}}]"))
    stage.reach_time_0()
    stage.run_until(SECOND)
    answer(stage, {"error": "REQUEST_TIMED_OUT"})
    assert [(each.took_effect, each.phase) for each in stage.conductor.outcomes] == [(False, "ended")]


def test_an_action_ends_with_the_admin_client() -> None:
    """Shows that nobody waits for an answer that the admin client can no longer give."""
    stage = Stage(
        plan_of(f"chaos: [{{when: {{at: 1s}}, {ELECT}}}, {{when: {{at: 2s}}, fault: {{crash: admin-1}}, for: 1s}}]")
    )
    stage.reach_time_0()
    stage.run_until(2 * SECOND)
    stage.tell("admin-1", NodeDown("crash"))
    assert (stage.conductor.outcomes[0].took_effect, stage.conductor.outcomes[0].phase) == (False, "ended")


def test_an_action_is_given_up_with_the_run() -> None:
    """Shows that a run which is interrupted ends actions, too."""
    stage = Stage(plan_of(f"chaos: [{{when: {{at: 1s}}, {ELECT}}}]"))
    stage.reach_time_0()
    stage.run_until(SECOND)
    stage.actions += stage.conductor.end(stage.now_us)
    assert [event.phase for event in stage.recorded(CtlFault)] == ["start", "stop"]


def test_a_node_that_falls_after_a_fault_had_it_started_again_is_brought_back() -> None:
    """Shows that a fault in force that stopped an older incarnation of a node starts no newer one; the healing does."""
    stage = Stage(plan_of("chaos: [{when: {at: 1s}, fault: {crash: broker-1}, for: 8s}]"))
    stage.reach_time_0()
    stage.run_until(2 * SECOND)
    stage.tell("broker-1", NodeDown("crash"))
    stage.now_us = 3 * SECOND
    stage.up("broker-1", 1)
    stage.tell("broker-1", NodeDown("fatal"), 1)
    stage.run_until(9_500_000)
    assert stage.restarted() == []
    stage.run_until(10 * SECOND)
    assert stage.restarted() == ["broker-1"]


def test_a_rule_that_no_message_met_is_told() -> None:
    """Shows that a fault whose rules hit nothing took effect and hit nothing; one message is enough, and as long as no
    rule has ended nobody can tell."""
    stage = Stage(
        plan_of(
            "chaos: [{when: {at: 1s}, fault: {partition: {between: broker-1, and: [broker-2, broker-3]}}, for: 2s}]"
        )
    )
    stage.reach_time_0()
    stage.run_until(SECOND)
    rules = [action.rule for action in stage.of(InstallRule)]
    for rule in rules:
        stage.link(rule.id)
    assert stage.conductor.outcomes[0].took_effect and not stage.conductor.outcomes[0].hit_nothing
    stage.run_until(4 * SECOND)
    stage.tell("driver", LinkRuleChange(rules[0].id, "hold", "stop", [], [], 0))
    assert stage.conductor.outcomes[0].took_effect and stage.conductor.outcomes[0].hit_nothing
    stage.tell("driver", LinkRuleChange(rules[-1].id, "hold", "stop", [], [], 1))
    assert not stage.conductor.outcomes[0].hit_nothing
