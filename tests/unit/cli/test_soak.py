"""``krift soak`` as a user meets it: it begins, shows where it stands, is interrupted, goes on; and its mistakes."""

from __future__ import annotations

import shlex
from pathlib import Path

import msgspec
import pytest
import yaml

from orchestrator.soak.directory import Asked, Status
from tests.unit.cli.command import SCENARIO, krift

WRONG = {
    "no scenario": ("soak kip-20", "kip-20: no such scenario", "did you mean kip-207?"),
    "no command": ("soak stats", "no command, scenario or nemesis 'stats'", "did you mean krift soak status?"),
    "no file": ("soak status.yaml", "status.yaml: cannot be read", "expected a scenario file"),
    "no variant": ("soak kip-207", "kip-207 has variants, and a soak runs one of them", "--variant with one of"),
    "duration": ("soak replication --duration 5", "'5' is not a duration", "such as 3s"),
    "too short": ("soak replication --keep 1s", "is below 3m", "krift soak"),
    "metrics": ("soak replication --metrics here", "'here' is no place to serve at", "a port, or HOST:PORT"),
    "cluster": ("soak replication --cluster spark --runtime live", "a Spark of its own", "local, or the address"),
    "in the sim": ("soak replication --cluster 127.0.0.1:6379", "a sim run needs no cluster", "--runtime live"),
    "for good": ("soak tests/scenario/topics/come-and-go.yaml", "changes the cluster for good", "as they are"),
    "status of none": ("soak status", "there is no soak under", "--out where soaks are"),
    "no soak to resume": ("soak resume nothing", "nothing: no such run", "--out where runs are"),
}


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A scenario of a second without faults."""
    path = tmp_path / "small.yaml"
    path.write_text(SCENARIO)
    return path


@pytest.mark.parametrize("name", WRONG)
def test_mistakes_are_told(name: str, tmp_path: Path) -> None:
    """Shows that what is wrong with a command is said in one message, with what was expected, and that nothing is
    begun."""
    command, problem, expected = WRONG[name]
    ended = krift(*command.split(), "--out", tmp_path / "runs")
    assert (ended.code, ended.out) == (2, "")
    assert problem in ended.err and expected in ended.err
    assert not list(tmp_path.glob("runs/*/soak.json"))


def test_a_soak_from_begin_to_end(small: Path, tmp_path: Path) -> None:
    """Shows that a soak ends with the verdict of a run, that its status says so, for people and for programs, and that
    one that is over is not resumed."""
    runs = tmp_path / "runs"
    ended = krift("soak", small, "--duration", "3s", "--calm", "1s", "--out", runs, "--quiet")
    assert ended.code == 0, ended.err
    assert "as expected" in ended.out
    shown = krift("soak", "status", "--out", runs)
    assert (shown.code, shown.err) == (0, "")
    assert "state       completed" in shown.out and "findings    none" in shown.out
    told = msgspec.json.decode(krift("soak", "status", "--out", runs, "--json").out, type=Status)
    assert told.state == "completed" and told.round >= 1 and told.events > 100
    for command in ("check", "replay"):
        refused = krift(command, "latest", "--out", runs)
        assert refused.code == 2 and "only the end is kept" in refused.err, refused
    assert "as expected" in krift("report", "latest", "--out", runs).out
    again = krift("soak", "resume", "--out", runs)
    assert again.code == 2 and "it is over: completed" in again.err


def test_logs_are_kept_for_a_while(small: Path, tmp_path: Path) -> None:
    """Shows that the nodes of a soak keep records for ten minutes, or for as long as is asked, that a scenario with
    settings of its own keeps them, and that nodes without any keep them as long as Kafka does."""
    names = ("log.retention.ms", "log.roll.ms", "log.retention.check.interval.ms")
    of_metadata = ("metadata.log.max.snapshot.interval.ms", "metadata.max.retention.ms")

    def kept(*options: str) -> tuple[int, ...]:
        runs = tmp_path / f"runs-{len(list(tmp_path.iterdir()))}"
        ended = krift("soak", small, "--duration", "1s", "--calm", "0s", *options, "--out", runs, "--quiet")
        assert ended.code == 0, ended.err
        (scenario,) = runs.glob("small-*/scenario.yaml")
        config = yaml.safe_load(scenario.read_text())["cluster"]["config"]
        return tuple(config[key] for key in (*names, *of_metadata))

    assert kept() == (600_000, 60_000, 60_000, 600_000, 600_000)
    assert kept("--retention", "20s") == (20_000, 2_000, 2_000, 20_000, 20_000)
    without = kept("--retention", "0s")
    assert without == (604_800_000, 604_800_000, 300_000, 3_600_000, 604_800_000)
    assert kept("--set", "config.log.segment.bytes=5000") == (*without[:3], 600_000, 600_000)
    assert kept("--set", "config.metadata.max.retention.bytes=5000") == (600_000, 60_000, 60_000, *without[3:])


@pytest.mark.parametrize("retention", ["0s", "20s"])
def test_its_command_does_it_again(small: Path, tmp_path: Path, retention: str) -> None:
    """Shows that the command which a soak's directory names asks for the same soak, with each of its options."""

    def asked(runs: Path, *words: str | Path) -> Asked:
        ended = krift(*words, "--out", runs, "--quiet")
        assert ended.code == 0, ended.err
        (path,) = runs.glob("small-*/soak.json")
        found = msgspec.json.decode(path.read_bytes(), type=Asked)
        return msgspec.structs.replace(found, soak="", started="")

    options = ("--duration", "1500ms", "--calm", "1s", "--keep", "4m", "--checkpoint", "2s", "--retention", retention)
    first = asked(tmp_path / "first", "soak", small, *options, "--seed", "3", "--on-violation", "stop")
    assert asked(tmp_path / "again", *shlex.split(first.command)[1:]) == first


def test_a_finding_ends_in_exit_code_1(small: Path, tmp_path: Path) -> None:
    """Shows that a broken promise is told on stderr when it is found, counts in the status, and that the evidence is
    replayed by ``krift replay``."""
    runs = tmp_path / "runs"
    options = ("--duration", "3s", "--calm", "1s", "--defect", "list-behind", "--on-violation", "stop")
    small.write_text(small.read_text() + "  - list-offsets: {topic: orders, every: 50ms, timestamp: latest}\n")
    ended = krift("soak", small, *options, "--out", runs, "--quiet")
    assert ended.code == 1, ended.err
    assert "found       H" in ended.err and "stopped at a violation" in ended.err
    (evidence, *_) = sorted(runs.glob("*/evidence/0001-*"))
    replayed = krift("replay", evidence)
    assert replayed.code == 0 and "around the finding repeated" in replayed.out
    assert "findings    " in krift("soak", "status", "--out", runs).out
