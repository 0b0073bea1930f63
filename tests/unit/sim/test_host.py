"""Timers, disk, crash, restart, pause and bugs in the sim."""

from __future__ import annotations

import pytest

from actors.control import (
    AnyAction,
    Arm,
    ClockSkew,
    Crash,
    Disarm,
    Invoke,
    Pause,
    Restart,
    RestoreClock,
    Resume,
    SkewClock,
)
from actors.crash_points import CrashPoint
from actors.node.effects import (
    AnyEffect,
    Append,
    Call,
    CancelTimer,
    Choose,
    Complete,
    Exit,
    Record,
    Replace,
    Reply,
    SetTimer,
    Sync,
    Truncate,
    Write,
)
from actors.node.events import (
    Answered,
    AnyEvent,
    Chosen,
    ClockStepped,
    Failed,
    Invoked,
    Received,
    Started,
    Synced,
    TimedOut,
)
from actors.trace.events import ClockSet, MetaImage, NodeDown, NodeUp, RunEnd, RunMeta, Stamped, Tick
from tests.harness.toys import Script, Stage, ask, toy_spec
from tests.unit.sim.test_network import calls, echo, on_start, silent


def timed_out(stage: Stage, name: str = "node") -> list[tuple[int, str]]:
    """When which timers fired."""
    return [(now, event.timer) for now, event in stage.seen[name] if isinstance(event, TimedOut)]


def test_a_timer_set_anew_or_cancelled_never_fires_for_its_old_setting() -> None:
    """Shows that only the last setting of a timer counts, whether it is earlier, later or none."""
    start = on_start(
        SetTimer("later", 10, 10),
        SetTimer("later", 50, 50),
        SetTimer("earlier", 50, 50),
        SetTimer("earlier", 10, 10),
        SetTimer("off", 10, 10),
        CancelTimer("off"),
        SetTimer("again", 10, 10),
        CancelTimer("again"),
        SetTimer("again", 30, 30),
        CancelTimer("never set"),
    )
    stage = Stage({"node": start}, Script(200_000))
    stage.world.run(1_000_000)
    assert timed_out(stage) == [(10, "earlier"), (30, "again"), (50, "later")]


def test_a_timer_is_drawn_from_its_range() -> None:
    """Shows that delays lie within the range and differ by seed, and that a node's draws do not depend on others."""

    def times(seed: int, others: int) -> list[tuple[int, str]]:
        behave = {f"other-{n}": on_start(SetTimer("t", 1, 99)) for n in range(others)}
        stage = Stage({"node": on_start(SetTimer("t", 100, 200)), **behave}, Script(300_000), seed=seed)
        stage.world.run(1_000_000)
        return timed_out(stage)

    drawn = [times(seed, 0)[0][0] for seed in range(20)]
    assert len(set(drawn)) > 10
    assert all(100 <= time <= 200 for time in drawn)
    assert times(5, 0) == times(5, 3)


def test_a_choice_is_answered_at_once() -> None:
    """Shows that Chosen is the very next event and lies in [0, n)."""
    stage = Stage({"node": on_start(Choose("x", 5), SetTimer("t", 0, 0))}, Script(1000))
    stage.world.run(1_000_000)
    chosen = stage.seen["node"][1][1]
    assert isinstance(chosen, Chosen)
    assert 0 <= chosen.value < 5


def test_what_was_written_survives_the_process() -> None:
    """Shows that a restarted node finds all its Writes, synced or not, and counts its writes anew."""
    images: list[dict[str, list[bytes]]] = []

    def node(now_ms: int, event: AnyEvent) -> list[AnyEffect]:
        if not isinstance(event, Started):
            return []
        images.append(event.disk)
        return [
            Write("log", 1, Append([b"a", b"b", b"c"])),
            Sync("log"),
            Write("log", 2, Truncate(2)),
            Write("state", 1, Replace(b"x%d" % event.incarnation)),
        ]

    stage = Stage({"node": node}, Script(100_000, {10_000: [Crash("node")], 20_000: [Restart("node")]}))
    stage.world.run(1_000_000)
    assert images == [{}, {"log": [b"a", b"b"], "state": [b"x0"]}]
    assert [synced.upto for synced in stage.events("node", Synced)] == [1, 1]


def test_a_crash_drops_timers_and_memory() -> None:
    """Shows that nothing of an incarnation reaches its successor but the disk, and how the trace tells it."""
    start = on_start(SetTimer("t", 50, 50), Sync("log"), Write("log", 1, Append([b"a"])))
    stage = Stage({"node": start}, Script(300_000, {40_000: [Crash("node")], 100_000: [Restart("node")]}))
    result = stage.world.run(1_000_000)
    assert timed_out(stage) == [(150, "t")]
    own = [(e.incarnation, e.seq, type(e.body)) for e in result.trace if e.node == "node"]
    assert own == [(0, 0, NodeUp), (0, 1, NodeDown), (1, 0, NodeUp), (1, 1, NodeDown)]
    assert [e.body.mode for e in result.trace if isinstance(e.body, NodeDown)] == ["crash", "end"]
    assert isinstance(result.trace[0].body, RunMeta)
    last = result.trace[-1].body
    assert isinstance(last, RunEnd)
    assert last.final_seq == {"node/0": 1, "node/1": 1, "driver/0": 1}


def test_a_process_ends_between_two_effects() -> None:
    """Shows a point between a Write and its Sync: what was written is there, nothing that follows is done, and the
    trace says where it was. A point that was taken back ends nothing."""
    images: list[dict[str, list[bytes]]] = []

    def node(now_ms: int, event: AnyEvent) -> list[AnyEffect]:
        if isinstance(event, Started):
            images.append(event.disk)
            return [SetTimer("write", 1, 1)]
        return [Write("state", 1, Replace(b"x")), Write("log", 1, Append([b"a"])), Sync("log"), SetTimer("t", 1, 1)]

    at = {
        0: [
            Arm(CrashPoint("f1/1", "node", "after-write", "log")),
            Arm(CrashPoint("f2/1", "node", "before-write")),
            Disarm("f2/1", "node"),
        ],
        20_000: [Restart("node")],
    }
    stage = Stage({"node": node}, Script(20_500, at))
    result = stage.world.run(1_000_000)
    assert images == [{}, {"log": [b"a"], "state": [b"x"]}]
    assert timed_out(stage) == [(1, "write")]
    assert not stage.events("node", Synced)
    down, _ = [event.body for event in result.trace if event.node == "node" and isinstance(event.body, NodeDown)]
    assert (down.mode, down.detail) == ("crash", "f1/1 after-write of log")


def test_a_point_after_a_sync_comes_before_the_node_hears_of_it() -> None:
    """Shows power loss at a point: what the Sync covered is there, what came after it is gone."""
    images: list[dict[str, list[bytes]]] = []

    def node(now_ms: int, event: AnyEvent) -> list[AnyEffect]:
        if not isinstance(event, Started):
            return []
        images.append(event.disk)
        return [Write("log", 1, Append([b"a"])), Sync("log"), Write("log", 2, Append([b"b"]))] if not event.disk else []

    at = {0: [Arm(CrashPoint("f1/1", "node", "after-sync", "log"), "power-loss")], 20_000: [Restart("node")]}
    stage = Stage({"node": node}, Script(50_000, at))
    stage.world.run(1_000_000)
    assert images == [{}, {"log": [b"a"]}]
    assert not stage.events("node", Synced)


def test_a_paused_node_takes_no_step_and_catches_up() -> None:
    """Shows that answers and timers wait while a process is stopped: at its resumption arrivals come first, then
    overdue timers, so an answer that lay there beats the time-out of its call."""

    def node(now_ms: int, event: AnyEvent) -> list[AnyEffect]:
        if isinstance(event, Started):
            return [SetTimer("t", 20, 20), *calls("a", 50)]
        return []

    at = {100: [Pause("node")], 90_000: [Resume("node")]}
    stage = Stage({"node": node, "server": echo}, Script(200_000, at))
    stage.world.run(1_000_000)
    assert [(now, type(event)) for now, event in stage.seen["node"]] == [
        (0, Started),
        (90, Answered),
        (90, TimedOut),
    ]
    assert not stage.events("node", Failed)


def test_a_paused_process_does_not_tick() -> None:
    """Shows that ticks tell whether a process is alive."""
    stage = Stage({"node": silent}, Script(6_500_000, {1_500_000: [Pause("node")], 4_500_000: [Resume("node")]}))
    result = stage.world.run(10_000_000)
    assert [event.wall for event in result.trace if isinstance(event.body, Tick)] == [1_000_000, 5_000_000, 6_000_000]


def test_a_paused_node_can_be_killed() -> None:
    """Shows that what had arrived at a stopped process dies with it, and its clients are told."""

    def client(now_ms: int, event: AnyEvent) -> list[AnyEffect]:
        if isinstance(event, Started):
            return [SetTimer("go", 20, 20)]
        return calls("ab", 5000) if isinstance(event, TimedOut) else []

    stage = Stage(
        {"node": client, "server": echo}, Script(200_000, {10_000: [Pause("server")], 50_000: [Crash("server")]})
    )
    stage.world.run(1_000_000)
    assert [f.reason for f in stage.events("node", Failed)] == ["disconnect", "disconnect"]
    assert not stage.events("server", Received)


def test_a_barrier_stops_a_step_between_two_effects() -> None:
    """Shows that what the conductor makes of an event is done before any later effect of that step: a crash there
    takes the Write and the Reply that would have followed."""
    at_event = MetaImage(7, 7)

    def server(now_ms: int, event: AnyEvent) -> list[AnyEffect]:
        if isinstance(event, Received):
            return [
                Write("log", 1, Append([b"a"])),
                Record(at_event),
                Write("log", 2, Append([b"b"])),
                Reply(event.connection, None),
            ]
        return []

    def on_event(now_us: int, event: Stamped) -> list[Crash]:
        return [Crash("server")] if event.body is at_event else []

    stage = Stage({"client": on_start(*calls("a", 500)), "server": server}, Script(100_000, None, on_event))
    stage.world.run(1_000_000)
    assert stage.world.hosts["server"].disk.image() == {"log": [b"a"]}
    assert [f.reason for f in stage.events("client", Failed)] == ["disconnect"]


def test_a_pause_at_a_barrier_keeps_the_rest_of_the_step() -> None:
    """Shows that a step stopped between two effects is finished at the resumption, before anything new."""
    at_event = MetaImage(7, 7)
    start = on_start(Record(at_event), Write("log", 1, Append([b"a"])), Choose("x", 2))

    def on_event(now_us: int, event: Stamped) -> list[Pause]:
        return [Pause("node")] if event.body is at_event else []

    script = Script(100_000, {50_000: [Resume("node")]}, on_event)
    stage = Stage({"node": start}, script)
    before: list[dict[str, list[bytes]]] = []
    stage.world.queue.at(40_000, lambda _: before.append(stage.world.hosts["node"].disk.image()), None)
    stage.world.run(1_000_000)
    assert before == [{}]
    assert stage.world.hosts["node"].disk.image() == {"log": [b"a"]}
    assert [(now, type(event)) for now, event in stage.seen["node"]] == [(0, Started), (50, Chosen)]


def test_an_exception_of_a_node_ends_the_run() -> None:
    """Shows that a bug is never swallowed: node.down(bug) in the trace, the traceback in the result."""

    def node(now_ms: int, event: AnyEvent) -> list[AnyEffect]:
        if isinstance(event, TimedOut):
            raise KeyError("surprise")
        return [SetTimer("t", 10, 10)]

    stage = Stage({"node": node, "other": silent}, Script(100_000))
    result = stage.world.run(1_000_000)
    (failure,) = result.failures
    assert failure.node == "node"
    assert isinstance(failure.event, TimedOut)
    assert "surprise" in failure.traceback
    assert not result.finished
    assert result.end_us == 10_000
    downs = [(e.node, e.body.mode) for e in result.trace if isinstance(e.body, NodeDown)]
    assert downs == [("node", "bug"), ("other", "end")]


@pytest.mark.parametrize(
    ("effect", "words"),
    [
        (calls("a")[0], "no node of this run"),
        (Write("log", 3, Append([])), "write 3 came after 0"),
        (Write("log", 1, Truncate(3)), "truncating 0 entries to 3"),
    ],
)
def test_a_breach_of_the_contract_is_a_bug_of_the_node(effect: AnyEffect, words: str) -> None:
    """Shows that the runtime refuses what the contract does not allow."""
    stage = Stage({"node": on_start(effect)}, Script(100_000))
    result = stage.world.run(1_000_000)
    assert words in result.failures[0].detail


def test_operations_reach_a_node_and_their_end_the_conductor() -> None:
    """Shows Invoke, Invoked, Complete and on_complete."""

    def node(now_ms: int, event: AnyEvent) -> list[AnyEffect]:
        return [Complete(event.operation, {"sum": 3})] if isinstance(event, Invoked) else []

    script = Script(100_000, {5_000: [Invoke("node", "op-1", "add", {"to": 3})]})
    stage = Stage({"node": node}, script)
    stage.world.run(1_000_000)
    assert stage.events("node", Invoked) == [Invoked("op-1", "add", {"to": 3})]
    assert script.completed == [(5_000, "node", "op-1", {"sum": 3})]


def test_a_node_finds_its_machine_s_clock_wrong_and_keeps_it_over_restarts() -> None:
    """Shows that a clock fault is told to the process that runs, recorded with the true time, and found by the next
    process, too; at its end the wall clock is right and the monotonic one keeps what it gained."""
    skew = ClockSkew("f1", -5_000_000, 1_000_000)
    at: dict[int, list[AnyAction]] = {
        100_000: [SkewClock("node", skew)],
        200_000: [Crash("node")],
        300_000: [Restart("node")],
        400_000: [RestoreClock("node", "f1")],
    }
    stage = Stage({"node": lambda now_ms, event: []}, Script(500_000, at))
    stage.world.run(1_000_000)
    steps = [(now, event.offset_ms) for now, event in stage.seen["node"] if isinstance(event, ClockStepped)]
    assert steps == [(100, -5000), (500, -5000), (700, -300)]
    changes = [(event.wall, event.incarnation, event.body) for event in stage.world.trace if event.type == "clock.set"]
    assert changes == [
        (100_000, 0, ClockSet("f1", "start", -5_000_000, 1_000_000)),
        (300_000, 1, ClockSet("f1", "start", -5_000_000, 1_000_000)),
        (400_000, 1, ClockSet("f1", "stop", -300_000, 0)),
    ]


def test_a_paused_process_finds_the_clock_wrong_when_it_goes_on() -> None:
    """Shows that a process that stands still hears of its clock afterwards, before its overdue timers."""
    at: dict[int, list[AnyAction]] = {
        10_000: [Pause("node")],
        20_000: [SkewClock("node", ClockSkew("f1", 3_000_000))],
        90_000: [Resume("node")],
    }

    def behave(now_ms: int, event: AnyEvent) -> list[AnyEffect]:
        return [SetTimer("t", 50, 50)] if isinstance(event, Started) else []

    stage = Stage({"node": behave}, Script(100_000, at))
    stage.world.run(1_000_000)
    assert [type(event) for _, event in stage.seen["node"]] == [Started, ClockStepped, TimedOut]


def test_time_outs_of_calls_are_measured_by_the_wall_clock() -> None:
    """Shows that a clock that jumps ahead lets a call run into its time-out, as Kafka's NetworkClient sees it."""

    def asking(now_ms: int, event: AnyEvent) -> list[AnyEffect]:
        return [Call(1, "server", "c", ask("a"), 10_000)] if isinstance(event, Started) else []

    at: dict[int, list[AnyAction]] = {50_000: [SkewClock("client", ClockSkew("f1", 60_000_000))]}
    stage = Stage({"client": asking, "server": lambda now_ms, event: []}, Script(100_000, at))
    stage.world.run(1_000_000)
    assert [(now, event.reason) for now, event in stage.seen["client"] if isinstance(event, Failed)] == [
        (50, "timeout")
    ]


@pytest.mark.parametrize(
    ("clean", "fatal", "mode"), [(True, False, "clean"), (False, False, "crash"), (False, True, "fatal")]
)
def test_a_node_ends_its_own_process(clean: bool, fatal: bool, mode: str) -> None:
    """Shows that nothing follows an Exit, that its peers find their connections closed, and that the next incarnation,
    which may be another than the one before, is told how the last one ended."""

    def node(now_ms: int, event: AnyEvent) -> list[AnyEffect]:
        return [Exit(clean, "enough", fatal), SetTimer("never", 1, 1)] if isinstance(event, Received) else []

    script = Script(100_000, {50_000: [Restart("server", toy_spec("server", config={"acks": "1"}))]})
    stage = Stage({"client": on_start(*calls("a")), "server": node}, script, record=True)
    result = stage.world.run(1_000_000)
    ends = [each.body for each in result.trace if isinstance(each.body, NodeDown) and each.node == "server"]
    assert ends == [NodeDown(mode, "enough"), NodeDown("end")]  # type: ignore[arg-type]
    assert [event.spec.config for event in stage.events("server", Started)] == [{}, {"acks": "1"}]
    ups = [each.body.clean for each in result.trace if isinstance(each.body, NodeUp) and each.node == "server"]
    assert ups == [False, clean]
    assert [failed.reason for failed in stage.events("client", Failed)] == ["disconnect"]
    assert timed_out(stage, "server") == []
