"""Ctrl-C and worse while a run goes on: faults end, what was recorded is kept, and no process stays."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from actors.trace.events import CtlFault, CtlPhase, NodeDown, RunEnd, Stamped
from actors.trace.lines import decode_line
from orchestrator.run_dir import RunDir
from orchestrator.trace.read import line_to_stamped, read_events
from orchestrator.verdict import read_verdict
from tests.integration.command import Command

FAULTS = [
    {"when": {"at": "0s"}, "fault": {"partition": {"from": "broker-1", "to": "controller-1"}}, "for": "50m"},
    {"when": {"at": "0s"}, "fault": {"crash": "consumer-1"}, "for": "50m"},
    {"when": {"at": "0s"}, "fault": {"pause": "broker-2"}, "for": "50m"},
]
SCENARIO = {
    "schema": "krift/v1",
    "name": "long",
    "about": "A link is cut, a process is dead and another stopped, for longer than anybody waits.",
    "duration": "60m",
    "cluster": {"voters": 1, "brokers": 2, "topics": {"orders": {"replicas": [[1, 2]]}}},
    "workload": [
        {"producer": {"topic": "orders", "rate": "100/s", "acks": 1}},
        {"consumer": {"topic": "orders"}},
    ],
    "chaos": FAULTS,
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a scenario of a run that takes too long."""
    (tmp_path / "long.yaml").write_text(yaml.safe_dump(SCENARIO, sort_keys=False))
    return tmp_path


RAY_AGENTS = {"ray::DashboardAgent", "ray::RuntimeEnvAgent"}
"""They try for a minute to tell Ray's control service, which is dead as well, and end then."""


class Runs:
    """The commands of a test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started: list[Command] = []

    def start(self, *arguments: str) -> Command:
        """``krift`` with arguments."""
        self.started.append(Command(self.folder, *arguments))
        return self.started[-1]

    def live(self, run: str = "latest") -> Command:
        """A live run in which all three faults are in force. ``run``: a pattern for the name of its directory."""
        command = self.start("run", "long.yaml", "--runtime", "live")
        command.until(lambda: self.faults_in_force(run) == len(FAULTS))
        return command

    def faults_in_force(self, run: str) -> int:
        """How many faults of the scenario the driver has recorded to have begun; of a busy machine it tells as well."""
        chunks = sorted(self.folder.glob(f"runs/{run}/logs/node=driver/*"))
        lines = [line for chunk in chunks for line in chunk.read_bytes().splitlines(keepends=True)]
        told = [line_to_stamped(decode_line(line)).body for line in lines if line.endswith(b"\n")]
        return sum(isinstance(body, CtlFault) and not body.by_machine for body in told)

    @property
    def directory(self) -> RunDir:
        """The run's."""
        return RunDir(self.folder / "runs" / "latest")

    def trace(self) -> list[Stamped]:
        """What was collected."""
        return list(read_events(self.directory.path))


@pytest.fixture
def runs(folder: Path) -> Iterator[Runs]:
    """Commands, of which nothing is left behind."""
    runs = Runs(folder)
    yield runs
    for command in runs.started:
        command.kill_family()


def assert_kept(runs: Runs, runtime: str) -> None:
    """Every fault has its end in the trace, every event is there, and the run can be checked and replayed."""
    trace = runs.trace()
    faults = [event.body for event in trace if isinstance(event.body, CtlFault) and not event.body.by_machine]
    assert len(faults) == 2 * len(FAULTS)
    assert {fault.fault for fault in faults if fault.phase == "start"} == {
        fault.fault for fault in faults if fault.phase == "stop"
    }
    phases = [event.body.phase for event in trace if isinstance(event.body, CtlPhase)]
    assert phases == ["starting", "warming", "chaos", "finished"]
    ends = {event.node: event.body.mode for event in trace if isinstance(event.body, NodeDown)}
    up = ["broker-1", "broker-2", "controller-1", "producer-1"]
    assert ends == {"consumer-1": "crash", **dict.fromkeys(up, "end")}
    assert isinstance(trace[-1].body, RunEnd)
    assert runs.directory.read_manifest().status == "interrupted"
    for command, code, words in [
        (runs.start("check", "--engine", "in-process", "--full"), 3, r"X4 +held"),
        (runs.start("replay"), 0, "no difference"),
        (runs.start("replay", "--node", "broker-1", "--at", "zero+0"), 0, r"^\{\n"),
    ]:
        assert command.end() == code, command.said()
        assert re.search(words, command.said()), command.said()
    assert runs.directory.read_manifest().runtime == runtime


@pytest.mark.ray
@pytest.mark.timeout(400)
@pytest.mark.spark
def test_ctrl_c_ends_a_live_run_in_good_order(runs: Runs) -> None:
    """Shows of a run that is alone what the next test shows of one beside which another is judged."""
    command = runs.live()
    command.signal_group(signal.SIGINT)
    assert command.end() == 130, command.said()
    assert not command.left_over()
    assert_kept(runs, "live")


@pytest.mark.long
@pytest.mark.ray
@pytest.mark.timeout(400)
@pytest.mark.spark
def test_ctrl_c_while_the_run_before_is_judged(runs: Runs) -> None:
    """Shows that a run which is over keeps its verdict though the next one is interrupted beside it, and is told before
    it; and that Ctrl-C, which all processes of a terminal's group get, ends the faults of that one, collects its trace,
    exits with 130 and leaves no process, not even one that a fault had stopped."""
    variants = {"short": {"duration": "1s"}, "long": {"about": "As it is."}}
    never = "offset-not-available"
    faults = [{"when": each["when"], "fault": each["fault"], "until": {"seen": never}} for each in FAULTS]
    scenario = {**SCENARIO, "name": "two", "variants": variants, "chaos": faults}
    (runs.folder / "long.yaml").write_text(yaml.safe_dump(scenario, sort_keys=False))
    command = runs.live("two-long-*")
    command.signal_group(signal.SIGINT)
    assert command.end() == 130, command.said()
    assert not command.left_over()
    told = command.stdout.read_text()
    assert told.index("two (short), live") < told.index("two (long), live")
    assert "interrupted after 2 of 2 runs; the recorded events are kept" in command.said()
    [short] = runs.folder.glob("runs/two-short-*")
    assert RunDir(short).read_manifest().status == "completed"
    assert {each.id: each.status for each in read_verdict(RunDir(short)).invariants}["X4"] == "held"
    assert_kept(runs, "live")


@pytest.mark.long
@pytest.mark.ray
@pytest.mark.timeout(400)
@pytest.mark.spark
def test_sigterm_is_an_orderly_end_too_and_a_second_signal_ends_at_once(runs: Runs) -> None:
    """Shows that SIGTERM begins the same end, and that Ctrl-C on top of it gives the collection up, with the same exit
    status, and still leaves no process."""
    command = runs.live()
    command.process.send_signal(signal.SIGTERM)
    command.process.send_signal(signal.SIGINT)
    assert command.end() == 130, command.said()
    assert not command.left_over()
    assert runs.directory.read_manifest().status == "interrupted"


@pytest.mark.ray
@pytest.mark.timeout(400)
@pytest.mark.spark
def test_a_killed_driver_takes_all_processes_with_it(runs: Runs) -> None:
    """Shows that SIGKILL of the driver ends nodes (even stopped ones), host agents, Ray and Spark, and that the run's
    directory then has no trace and says so in one line."""
    command = runs.live()
    command.process.kill()
    assert command.end() == -signal.SIGKILL
    assert not command.left_over(but=RAY_AGENTS)
    check = runs.start("check", "--engine", "in-process")
    assert check.end() == 2
    (line,) = check.said().splitlines()
    assert "it has no trace: its run was killed before its end; expected krift check " in line
    assert " --engine streaming, which judges what its nodes recorded" in line


@pytest.mark.spark
def test_ctrl_c_while_spark_starts_leaves_no_jvm(runs: Runs) -> None:
    """Shows that an interruption before anything runs waits for the JVM that is coming up, and takes it down."""
    command = runs.start("run", "long.yaml", "--runtime", "live")
    command.until(lambda: any(process.title.endswith("/java") for process in command.family))
    command.signal_group(signal.SIGINT)
    assert command.end() == 130, command.said()
    assert not command.left_over()
    assert "Traceback" not in command.said(), command.said()
    assert "interrupted after 0 of 1 run; nothing was recorded" in command.said()


@pytest.mark.parametrize("which", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)])
def test_an_interrupted_sim_run_is_kept(runs: Runs, which: signal.Signals) -> None:
    """Shows that a signal ends a sim run after the present event: faults end in its trace, exit status 130."""
    command = runs.start("run", "long.yaml", "--runtime", "sim")
    command.until(lambda: "f3 pause" in command.stderr.read_text())
    command.process.send_signal(which)
    assert command.end() == 130, command.said()
    assert_kept(runs, "sim")
