"""How the runs of a command are carried out: on all cores, or the next one while the last is judged."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest

from actors.sim.world import World
from chaos.errors import RunError
from chaos.plan import Plan
from chaos.scenario.loader import load_text
from chaos.scenario.resolve import resolve
from orchestrator.cli import carrying as module
from orchestrator.cli.carrying import Carrying, Pace
from orchestrator.cli.progress import ProgressLine
from orchestrator.run_dir import Manifest, RunDir
from orchestrator.runner import Carried, Recorded, Settings
from orchestrator.verdict import RunFacts, Verdict, judge
from tests.unit.cli.command import SCENARIO, Ended, krift, scenario

WAIT_S = 60


def run(directory: Path, *options: str, more: str = "") -> Ended:
    return krift("run", scenario(directory, more), "--out", directory / "runs", *options)


# ---- on all cores ----------------------------------------------------------------------------------------------------


def test_runs_on_all_cores_are_those_of_one(tmp_path: Path) -> None:
    """Shows the same verdicts in the same order, the same tables and exit codes, whether runs are done one by one or
    several at a time; and that latest is the last that is kept."""
    together = run(tmp_path, "--seeds", "6", "--json", "--jobs", "3", "--defect", "consumer-mislabel")
    alone = run(tmp_path, "--seeds", "6", "--json", "--jobs", "1", "--defect", "consumer-mislabel")
    assert (together.code, alone.code) == (1, 1)
    found = [
        [(verdict.seed, verdict.digest, verdict.unexpected) for verdict in verdicts(each)] for each in (together, alone)
    ]
    assert found[0] == found[1]
    assert [seed for seed, _, _ in found[0]] == [1, 2, 3, 4, 5, 6]
    assert run(tmp_path, "--seeds", "4", "--jobs", "2").out == run(tmp_path, "--seeds", "4", "--jobs", "1").out
    latest = (tmp_path / "runs" / "latest").resolve()
    assert RunDir(latest).read_manifest().seed == 4


def verdicts(ended: Ended) -> list[Verdict]:
    return [msgspec.json.decode(line, type=Verdict) for line in ended.out.splitlines()]


def test_it_is_said_what_they_will_take(tmp_path: Path) -> None:
    """Shows how long all runs will take, by the first, and where they stand, on stderr; and neither with --quiet."""
    told = run(tmp_path, "--seeds", "5", "--jobs", "2")
    assert "\n5 runs on 2 cores will take about " in told.err
    assert "cores" not in run(tmp_path, "--seeds", "5", "--jobs", "2", "--quiet").err


def test_the_pace_tells_time_left() -> None:
    """Shows the estimate by the first run, runs a minute, time left, and what did not go as expected."""
    now = [0.0]
    pace = Pace(600, 2, clock=lambda: now[0])
    now[0] = 0.5
    assert pace.line() == "0 of 600 runs | the first are under way"
    now[0] = 0.8
    pace.ended(expected=True)
    assert pace.beforehand() == "600 runs on 2 cores will take about 4 min"
    now[0] = 60
    for number in range(39):
        pace.ended(expected=number != 0)
    assert pace.line() == "40 of 600 runs | 40 a minute, 14 min left | 39 as expected, 1 not"


@pytest.fixture
def seeds(monkeypatch: pytest.MonkeyPatch) -> dict[World, int]:
    """The seed of each world that is made."""
    found: dict[World, int] = {}
    usual = World.__init__

    def init(world: World, specs: Any, conductor: Any, seed: int, *rest: Any, **options: Any) -> None:
        found[world] = seed
        usual(world, specs, conductor, seed, *rest, **options)

    monkeypatch.setattr(World, "__init__", init)
    return found


def test_ctrl_c_ends_those_that_go_on(seeds: dict[World, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows that a signal to the command alone ends the runs of its processes in good order: each is kept and judged
    as interrupted, those that were over are summed up, and no other is begun."""
    before, command = World.run, os.getpid()
    waiting = tmp_path / "waiting"
    waiting.mkdir()

    def held(world: World, limit_us: int) -> object:
        if seeds[world] in (3, 4):
            world.queue.at(1_000_000, lambda _: wait(world), None)
        return before(world, limit_us)

    def wait(world: World) -> None:
        (waiting / str(seeds[world])).touch()
        while seeds[world] == 4 and not (waiting / "3").exists():
            os.sched_yield()
        if seeds[world] == 4:
            os.kill(command, signal.SIGINT)
        while not world.queue.stopped:
            os.sched_yield()

    monkeypatch.setattr(World, "run", held)
    ended = run(tmp_path, "--seeds", "40", "--jobs", "2", "--json")
    assert ended.code == 130
    told = verdicts(ended)
    assert [(verdict.seed, verdict.expected) for verdict in told] == [(1, True), (2, True), (3, False), (4, False)]
    assert all("the run was interrupted" in verdict.undecided for verdict in told[2:])
    assert "interrupted after 4 of 40 runs; the recorded events are kept\n" in ended.err
    assert RunDir(tmp_path / "runs" / told[3].run).read_manifest().status == "interrupted"


def test_what_breaks_in_a_process_is_told(
    seeds: dict[World, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shows the error and 4 where a run of many cannot be carried out, after those before it."""
    before = World.run

    def broken(world: World, limit_us: int) -> object:
        if seeds[world] == 3:
            raise RunError("the disk is full")
        return before(world, limit_us)

    monkeypatch.setattr(World, "run", broken)
    ended = run(tmp_path, "--seeds", "9", "--jobs", "2", "--json")
    assert ended.code == 4
    assert [verdict.seed for verdict in verdicts(ended)] == [1, 2]
    assert ended.err.endswith("krift: the disk is full\n")


# ---- the next one while the last is judged ---------------------------------------------------------------------------


class Steps:
    """A session whose runs and judgements are steps that a test lets go on. log: what happened, in order."""

    def __init__(self, beside: bool = True) -> None:
        self.judges_beside = beside
        self.log: list[str] = []
        self.recording: dict[str, Callable[[Any], None]] = {}
        """Run -> what happens while it goes on, which is given how to show progress."""
        self.judging: dict[str, Callable[[], None]] = {}
        """The same for its judgement."""
        self.status: dict[str, str] = {}

    def __enter__(self) -> Steps:
        return self

    def __exit__(self, *error: object) -> None:
        self.log.append("end")

    def record(self, plan: Plan, again: str, show: Any) -> Recorded:
        name = f"r{plan.seed}"
        self.log.append(f"{name} begins")
        self.recording.get(name, lambda _: None)(show)
        self.log.append(f"{name} is over")
        manifest = Manifest(krift="", run=name, scenario="small", runtime="live", seed=plan.seed, started="")
        manifest.status = self.status.get(name, "completed")
        return Recorded(plan, RunDir(Path()), manifest, None, ExitStack())

    def judge(self, recorded: Recorded) -> Carried:
        name = recorded.manifest.run
        self.judging.get(name, lambda: None)()
        self.log.append(f"{name} judged")
        facts = RunFacts(run=name, scenario="small", runtime="live", seed=recorded.plan.seed)
        verdict = judge(facts, [], recorded.plan.expect)
        return Carried(verdict, 0, None, recorded.manifest.status == "interrupted")


class Stand:
    """Stands in for a conductor that has nothing to show."""


def carried(steps: Steps, monkeypatch: pytest.MonkeyPatch, listening: Callable[[], bool] = lambda: True) -> Carrying:
    """All of four runs by these steps; what is delivered is in their log."""
    monkeypatch.setattr(module, "Session", lambda settings, say: steps)
    monkeypatch.setattr(ProgressLine, "show", lambda *_: None)
    loaded = load_text(SCENARIO)

    def deliver(done: Carried) -> bool:
        steps.log.append(f"{done.verdict.run} delivered")
        return listening()

    carrying = Carrying(
        Settings("live", Path()),
        lambda number: resolve(loaded, seed=number + 1),
        lambda plan: "",
        ProgressLine(4, quiet=True),
        lambda plan: plan.scenario,
        deliver,
    )
    carrying.one_by_one(4)
    return carrying


def test_the_next_run_goes_on_while_one_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows that the second run begins while the first is being judged, that the first is delivered while the second
    still goes on, and that all come in their order."""
    steps = Steps()
    begun, judged = threading.Event(), threading.Event()

    def judging() -> None:
        assert begun.wait(WAIT_S)

    def recording(show: Callable[[Any], None]) -> None:
        begun.set()
        while "r1 delivered" not in steps.log:
            show(Stand())
        judged.set()

    steps.judging["r1"], steps.recording["r2"] = judging, recording
    carrying = carried(steps, monkeypatch)
    assert judged.is_set()
    told = [line for line in steps.log if line.startswith("r1") or line in ("r2 begins", "r2 is over")]
    assert told == ["r1 begins", "r1 is over", "r2 begins", "r1 judged", "r1 delivered", "r2 is over"]
    assert [line for line in steps.log if "delivered" in line] == [f"r{number} delivered" for number in (1, 2, 3, 4)]
    assert (carrying.begun, carrying.interrupted) == (True, False)


def test_where_spark_carries_ray_runs_are_judged_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows that nothing is judged beside a run where the session cannot."""
    steps = Steps(beside=False)
    carried(steps, monkeypatch)
    assert steps.log[:5] == ["r1 begins", "r1 is over", "r1 judged", "r1 delivered", "r2 begins"]


def test_an_interrupted_run_ends_it_in_good_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows that the run before it, which is still being judged, is delivered first, then it, and no other begins."""
    steps = Steps()
    over = threading.Event()
    steps.status["r2"] = "interrupted"
    steps.judging["r1"] = lambda: assert_(over.wait(WAIT_S))
    steps.recording["r2"] = lambda _: over.set()
    carrying = carried(steps, monkeypatch)
    assert carrying.interrupted
    assert steps.log[-5:] == ["r1 judged", "r1 delivered", "r2 judged", "r2 delivered", "end"]


def assert_(held: bool) -> None:
    assert held


def test_who_stops_listening_gets_the_run_that_goes_on_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows that when nobody listens any more the run that goes on is finished and judged, and no other begun."""
    steps = Steps()

    def recording(show: Callable[[Any], None]) -> None:
        while "r1 delivered" not in steps.log:
            show(Stand())

    steps.recording["r2"] = recording
    carrying = carried(steps, monkeypatch, lambda: False)
    assert carrying.interrupted
    assert steps.log[-3:] == ["r2 judged", "r2 delivered", "end"]


def test_what_cannot_be_judged_breaks_no_run_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows that the error of a judgement is told when the run beside it is over, and ends the command."""
    steps = Steps()
    failed = threading.Event()

    def judging() -> None:
        failed.set()
        raise RunError("Spark gave up")

    def recording(show: Callable[[Any], None]) -> None:
        assert failed.wait(WAIT_S)
        for _ in range(100):
            show(Stand())

    steps.judging["r1"], steps.recording["r2"] = judging, recording
    with pytest.raises(RunError, match="Spark gave up"):
        carried(steps, monkeypatch)
    assert steps.log == ["r1 begins", "r1 is over", "r2 begins", "r2 is over", "end"]


def test_a_run_that_breaks_off_leaves_the_one_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows that a run which cannot be carried out does not cost the verdict of the one that is being judged; and that
    whoever gives up, by a second Ctrl-C, waits for no verdict."""
    steps = Steps()
    broken = threading.Event()

    def breaks(_: object) -> None:
        broken.set()
        raise RunError("Ray is gone")

    steps.judging["r1"], steps.recording["r2"] = lambda: assert_(broken.wait(WAIT_S)), breaks
    with pytest.raises(RunError, match="Ray is gone"):
        carried(steps, monkeypatch)
    assert steps.log[-3:] == ["r1 judged", "r1 delivered", "end"]

    given_up = Steps()

    def give_up(_: object) -> None:
        raise KeyboardInterrupt

    ended = threading.Event()
    given_up.judging["r1"], given_up.recording["r2"] = lambda: assert_(ended.wait(WAIT_S)), give_up
    monkeypatch.setattr(Steps, "__exit__", lambda self, *error: ended.set())
    with pytest.raises(KeyboardInterrupt):
        carried(given_up, monkeypatch)
    assert "r1 delivered" not in given_up.log
