"""``krift shrink``: from a failing run to a small scenario file that fails the same way."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from chaos.failure_store import DirectoryStore
from chaos.home import failures_directory
from chaos.scenario.loader import load_file
from chaos.scenario.resolve import resolve
from orchestrator.campaigns.failures import failure_of
from orchestrator.campaigns.signature import signature
from orchestrator.shrinking import trial
from orchestrator.sim_run import run_in_sim
from tests.unit.cli.command import SCENARIO, krift, run_directory

FAILS = """
schema: krift/v1
name: acks
seed: 3
duration: 1s
cluster:
  voters: 1
  brokers: 3
  topics:
    orders: {replicas: [[1, 2], [2, 3]]}
  config: {num.io.threads: 2}
defects: [ack-before-hw]
workload:
  - producer: {topic: orders, rate: 50/s}
  - producer: {topic: orders, rate: 20/s}
  - consumer: {topic: orders}
chaos:
  - when: {at: 300ms}
    fault: {pause: consumer-1}
    for: 500ms
  - when: {at: 500ms}
    fault: {crash: broker-3}
    for: 300ms
"""


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory to work in, which has no failure store."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KRIFT_HOME", raising=False)
    return tmp_path


@pytest.fixture
def fails(elsewhere: Path) -> Path:
    path = elsewhere / "acks.yaml"
    path.write_text(FAILS, encoding="utf-8")
    return path


def test_a_scenario_becomes_small_and_fails_the_same_way(fails: Path, elsewhere: Path) -> None:
    """Shows the whole way: a file without any step, a client and a setting too many, its story in front, that `krift
    run` finds to go as it expects."""
    ended = krift("shrink", fails, "--quiet")
    assert (ended.code, ended.err.count("P17: ")) == (0, 1), ended.err
    assert "2 steps of the schedule -> 0" in ended.out and "3 clients -> 1" in ended.out
    written = elsewhere / "acks-shrunk.yaml"
    text = written.read_text(encoding="utf-8")
    assert text.startswith("# P17: ")
    assert re.search(r"^# +-?\d\.\d{3} s  VIOLATED: broker-1 .* acknowledged offset 0 of orders-0", text, re.MULTILINE)
    assert "# The run that it comes from: krift run" in text
    found = load_file(written).scenario
    assert (found.chaos, len(found.workload), found.cluster.config, found.cluster.voters) == ([], 1, {}, 1)
    again = krift("run", written, "--quiet")
    assert (again.code, "violated, as expected" in again.out) == (0, True), again.out


def test_a_run_that_was_kept_becomes_small(fails: Path) -> None:
    """Shows that "latest" is the newest run, whose directory then has the file; and the object for programs."""
    assert krift("run", fails, "--quiet").code == 1
    ended = krift("shrink", "--json", "--budget", "15")
    assert ended.code == 0, ended.err
    told = json.loads(ended.out)
    run = Path("runs/latest").resolve()
    assert (Path(told["file"]), told["invariant"], told["as_expected"]) == (run / "shrunk.yaml", "P17", True)
    assert told["after"]["steps"] < told["before"]["steps"] == 2
    assert sum(each["tried"] for each in told["passes"].values()) == told["runs"] <= 15
    assert told["other_seeds"] == {"failed": 5, "tried": 5}
    assert krift("shrink", run.name, "--quiet", "--budget", "1", "--out", "one.yaml").code == 0
    assert f"run {run.name}" in Path("one.yaml").read_text(encoding="utf-8")


def test_ctrl_c_leaves_the_best_so_far(fails: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows that an interrupted shrinking writes what it has, which fails the same way, and ends with 130."""
    before, runs = trial.attempt, []

    def attempt(*arguments: object) -> object:
        runs.append(arguments)
        return before(*arguments) if len(runs) < 6 else None  # type: ignore[arg-type]

    monkeypatch.setattr(trial, "attempt", attempt)
    ended = krift("shrink", fails, "--quiet", "--json")
    told = json.loads(ended.out)
    assert (ended.code, told["ended"], told["runs"], told["as_expected"]) == (130, "interrupted", 5, True)
    assert told["after"]["steps"] == 0
    assert krift("run", "acks-shrunk.yaml", "--quiet").code == 0


def test_a_known_failure_is_kept_shrunk(fails: Path) -> None:
    """Shows that the store gets the smaller scenario of a failure that it knows, which can be shrunk by its file; and
    that it gets nothing else."""
    assert krift("shrink", fails, "--quiet", "--budget", "1").code == 0
    assert not failures_directory().exists()
    plan = resolve(load_file(fails))
    run = run_in_sim(plan)
    store, kind = DirectoryStore(failures_directory()), signature(run)
    store.save(failure_of(plan, kind, run.verdict.unexpected[0], "a campaign"))
    assert krift("shrink", store.path_of(kind), "--quiet", "--budget", "5", "--out", "small.yaml").code == 0
    kept = store.fetch(kind)
    assert kept is not None and kept.shrunk and kept.document["chaos"] == []
    assert "a campaign, met" in Path("small.yaml").read_text(encoding="utf-8")
    assert signature(run_in_sim(trial.plan_of(kept.document))) == kind


@pytest.mark.spark
def test_spark_comes_to_the_same(fails: Path) -> None:
    """Shows that candidates that are run at the same time on executors lead to the same file."""
    for file, more in (("here.yaml", ()), ("there.yaml", ("--master", "local[2]"))):
        assert krift("shrink", fails, "--quiet", "--budget", "6", "--out", file, *more).code == 0
    assert Path("there.yaml").read_text(encoding="utf-8") == Path("here.yaml").read_text(encoding="utf-8")


def test_a_run_that_does_not_fail_is_refused(elsewhere: Path) -> None:
    """Shows the error for a run in which nothing was violated, and that no file is left."""
    run_directory(elsewhere)
    ended = krift("shrink", "--quiet")
    assert (ended.code, ended.out) == (2, "")
    assert "krift: latest: it does not fail: its run in the sim is held" in ended.err
    assert "expected a run that violates an invariant, or breaks" in ended.err
    assert not (Path("runs/latest") / "shrunk.yaml").exists()


WRONG = {
    "neither": ("shrink nothing", "nothing: no such run, scenario or nemesis", "its name under runs/"),
    "scenario file": ("shrink nowhere/mine.yaml", "nowhere/mine.yaml: cannot be read", "file"),
    "no run": ("shrink", "latest: no such run", "the directory of a run"),
    "variant missing": ("shrink kip-207", "kip-207 has variants", "off, seed, kafka"),
    "nemesis without a seed": ("shrink everything", "everything is a nemesis", "--seed N"),
    "variant": ("shrink kip-207 --variant of", "there is no variant of", "did you mean off?"),
    "defect": ("shrink small.yaml --defect rais", "no such defect", "did you mean raise?"),
    "run with a seed": ("shrink runs --seed 3", "a run has its variant, seed, settings and defects", "--help"),
    "entry with a seed": ("shrink entry.json --seed 3", "a stored failure has its variant", "--help"),
    "entry": ("shrink entry.json", "entry.json: damaged: ", "an entry of the failure store"),
    "file": ("shrink small.yaml --out nowhere/x.yaml", "--out nowhere/x.yaml: cannot be written", "you may write"),
    "budget": ("shrink small.yaml --budget 0", "0 is not in the range", "--help"),
    "master": ("shrink small.yaml --master lokal", "--master lokal: no Spark master", "local[N]"),
    "sameness": ("shrink small.yaml --same word", "'word' is not one of", "--help"),
    "no run directory": (
        "shrink runs",
        "runs/manifest.json: there is no such file",
        "a directory that krift run wrote",
    ),
}


@pytest.mark.parametrize(("command", "problem", "remedy"), WRONG.values(), ids=WRONG)
def test_a_wrong_argument(command: str, problem: str, remedy: str) -> None:
    """Shows that the error names the argument and a remedy, and that nothing is written."""
    Path("runs").mkdir()
    Path("entry.json").write_text("{}", encoding="utf-8")
    Path("small.yaml").write_text(SCENARIO, encoding="utf-8")
    ended = krift(*command.split())
    assert (ended.code, ended.out) == (2, "")
    assert problem in ended.err and remedy in ended.err, ended.err
    assert not list(Path().glob("*shrunk*"))
