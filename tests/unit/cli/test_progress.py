"""The line that shows where a run stands."""

from __future__ import annotations

import msgspec
import pytest

from actors.trace.events import NodeDown
from chaos.conductor import Progress
from orchestrator.cli.progress import PLAIN_SECONDS, ProgressLine, describe
from tests.unit.chaos.stage import SECOND, Stage, plan_of, stamped

CHAOS = Progress(
    phase="chaos",
    time_us=4_500_000,
    duration_us=16_000_000,
    up=["controller-1", "broker-2"],
    paused=["broker-3"],
    down=["broker-1"],
    leaders={"orders-1": "", "orders-0": "broker-2"},
    controller="controller-1",
    faults=["f1 partition", "f2 crash"],
    events=4335,
    waiting_for="",
)


def test_all_that_it_tells() -> None:
    """Shows time left, faults in force, nodes by state, a partition without a leader, controller and events."""
    assert describe(CHAOS, "kip-207 (off)") == (
        "kip-207 (off): chaos, 4.5 of 16.0 s, 11.5 s left | faults f1 partition, f2 crash"
        " | 2 of 4 nodes up, paused broker-3, down broker-1"
        " | leaders orders-0 broker-2, orders-1 none | controller controller-1 | 4,335 events so far"
    )


def test_topics_with_many_partitions() -> None:
    """Shows that the partitions of such a topic are counted by leader, and not named."""
    states = {f"states-{number}": f"broker-{1 + number % 2}" for number in range(6)}
    many = msgspec.structs.replace(CHAOS, leaders={"orders-0": "broker-2", **states, "states-9": ""})
    assert "| leaders orders-0 broker-2, states (7) broker-1 3, broker-2 3, none 1 |" in describe(many, "run")


def test_what_it_waits_for() -> None:
    """Shows the first line of a run: before time 0 there is no time, and most nodes are still down."""
    stage = Stage(plan_of())
    assert describe(stage.conductor.progress(), "staged") == (
        "staged: starting | still fenced or not registered: broker-1, broker-2, broker-3 | faults none"
        " | 0 of 8 nodes up, down 8 | leaders orders-0 none | controller none | 0 events so far"
    )


def test_nodes_are_up_paused_or_down() -> None:
    """Shows that a pause and a crash move a node, and that nodes tell by their numbers how many events there are."""
    pause = "{when: {at: 2s}, fault: {pause: broker-1}, for: 2s}"
    crash = "{when: {at: 5s}, fault: {crash: broker-2}, for: 2s}"
    stage = Stage(plan_of(f"chaos: [{pause}, {crash}]"))
    stage.reach_time_0()
    names = stage.plan.names
    assert (stage.conductor.progress().up, stage.conductor.progress().down) == (names, [])
    stage.run_until(3 * SECOND)
    assert stage.conductor.progress().paused == ["broker-1"]
    assert "broker-1" not in stage.conductor.progress().up
    stage.run_until(6 * SECOND)
    before = stage.conductor.progress()
    assert before.paused == []
    stage.conductor.on_event(stage.now_us, stamped("broker-2", NodeDown("crash"), seq=99))
    after = stage.conductor.progress()
    assert after.down == ["broker-2"]
    assert after.events == before.events + 99


def test_elsewhere_than_on_a_terminal_a_line_every_few_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    """Shows one line when five seconds have passed, over the runs of a command with the time that all will take, and
    none with --quiet."""
    times = [0.0]
    stage = Stage(plan_of())
    line = ProgressLine(2, clock=lambda: times[0])
    silent = ProgressLine(2, quiet=True, clock=lambda: times[0])
    for number, at in ((1, 4.9), (2, PLAIN_SECONDS), (2, 9.9)):
        times[0] = at
        for each in (line, silent):
            with each.run(f"run-{number}"):
                each.show(stage.conductor)
            each.ended(expected=False)
    [printed] = capsys.readouterr().err.splitlines()
    assert printed.startswith("run 2 of 2 (0 as expected, 1 not, about 5 s left for all) | run-2: starting | still ")
