"""The command as a process of its own: what only a shell can do to it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from orchestrator.verdict import Verdict
from tests.architecture.sources import ROOT
from tests.unit.cli.command import run_directory, scenario

KRIFT = [sys.executable, "-c", "from orchestrator.cli.main import main; main()"]
TIMEOUT_S = 60


def environment(**changes: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), **changes}


@pytest.fixture(scope="module")
def kept_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run_directory(tmp_path_factory.mktemp("kept"))


def test_whoever_reads_may_leave(kept_run: Path) -> None:
    """Shows that a closed pipe, as of ``| head -1``, is no error: no traceback, and the exit code of the run."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [*KRIFT, "report", str(kept_run)]
    ended = subprocess.run(
        command, stdout=writing, stderr=subprocess.PIPE, env=environment(), timeout=TIMEOUT_S, check=False
    )
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (0, b"")


def test_no_further_run_is_begun_for_nobody(tmp_path: Path) -> None:
    """Shows that of five runs the first is finished and kept when nobody reads its verdict, and no other begun."""
    reading, writing = os.pipe()
    os.close(reading)
    many = ["--seeds", "5", "--jobs", "1", "--out", str(tmp_path / "runs"), "--quiet"]
    command = [*KRIFT, "run", str(scenario(tmp_path)), *many]
    ended = subprocess.run(
        command, stdout=writing, stderr=subprocess.PIPE, env=environment(), timeout=TIMEOUT_S, check=False
    )
    os.close(writing)
    assert ended.returncode == 130
    assert b"interrupted after 1 of 5 runs" in ended.stderr
    assert b"Traceback" not in ended.stderr
    [kept] = [path for path in (tmp_path / "runs").iterdir() if not path.is_symlink()]
    assert (kept / "verdict.json").is_file()


def test_closed_and_full_outputs(kept_run: Path) -> None:
    """Shows ``>&-`` and ``2>&-``, where there is nothing to write to, and a device that is full: an error of one line,
    as a result that could not be written is none."""
    shell = ["sh", "-c", '"$@" >&- 2>&-', "sh", *KRIFT]
    assert (
        subprocess.run([*shell, "report", kept_run], env=environment(), timeout=TIMEOUT_S, check=False).returncode == 0
    )
    assert subprocess.run([*shell, "report", "none"], env=environment(), timeout=TIMEOUT_S, check=False).returncode == 2
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        command = [*KRIFT, "report", str(kept_run)]
        ended = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, env=environment(), timeout=TIMEOUT_S, check=False
        )
    told = b"krift: stdout: cannot be written: No space left on device; expected a disk with space for it\n"
    assert (ended.returncode, ended.stderr) == (4, told)


DEAF_TO_CTRL_C = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup, tests and their children would be deaf to it
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_a_signal_ends_a_run(number: signal.Signals, tmp_path: Path) -> None:
    """Shows 130 for each signal that asks for an end, also of a process that began deaf to Ctrl-C, as a shell script's
    background jobs do; stdout has whole verdicts or nothing."""
    long = scenario(tmp_path, "budgets: {heal: 1h}\n")
    long.write_text(long.read_text(encoding="utf-8").replace("duration: 1s", "duration: 1h"), encoding="utf-8")
    command = [*KRIFT, "run", str(long), "--out", str(tmp_path / "runs"), "--json"]
    process = subprocess.Popen(
        [sys.executable, "-c", DEAF_TO_CTRL_C, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    while not any((tmp_path / "runs").glob("small*/manifest.json")):  # before, nothing is recorded
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.1)
    process.send_signal(number)
    out, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 130
    assert b"Traceback" not in err
    assert b"the recorded events are kept" in err
    for line in out.splitlines():
        assert not msgspec.json.decode(line, type=Verdict).expected


def test_a_signal_is_not_lost_where_python_drops_what_is_raised() -> None:
    """Shows that a Ctrl-C in the middle of a weak reference's callback, such as one of an import, still ends the
    command."""
    dropped = """
import signal, weakref
from orchestrator.cli.main import hear_signals

class Module:
    pass

hear_signals()
module = Module()
reference = weakref.ref(module, lambda _: signal.raise_signal(signal.SIGINT))
del module
while True:
    signal.pause()
"""
    ended = subprocess.run(
        [sys.executable, "-c", dropped], capture_output=True, env=environment(), timeout=TIMEOUT_S, check=False
    )
    assert (ended.returncode, ended.stderr.splitlines()[-1]) == (-signal.SIGINT, b"KeyboardInterrupt")
    assert b"Exception ignored" not in ended.stderr


@pytest.mark.parametrize("command", ["check", "live"])
def test_without_java(command: str, kept_run: Path, tmp_path: Path) -> None:
    """Shows one error that names JAVA_HOME, before any node is started."""
    arguments = ["check", str(kept_run), "--engine", "spark"]
    if command == "live":
        arguments = ["run", str(scenario(tmp_path)), "--runtime", "live", "--out", str(tmp_path / "runs")]
    ended = subprocess.run(
        [*KRIFT, *arguments],
        capture_output=True,
        env=environment(JAVA_HOME="/nowhere"),
        timeout=TIMEOUT_S,
        check=False,
        text=True,
    )
    assert (ended.returncode, ended.stdout) == (4, "")
    last = ended.stderr.splitlines()[-1]
    assert last.startswith("krift: Spark did not start: it needs Java 17 or newer, and JAVA_HOME is /nowhere")
    assert "Traceback" not in ended.stderr
    assert command == "check" or list((tmp_path / "runs").iterdir()) == []
