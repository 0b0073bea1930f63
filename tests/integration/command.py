"""``krift`` as a user runs it, in a process of its own, with an eye on every process that comes of it."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Set
from pathlib import Path

import msgspec

ROOT = Path(__file__).parents[2]
LOOK_S = 0.2
"""How often a condition is looked at that nothing tells of."""


class Process(msgspec.Struct, frozen=True):
    """A process by its id and its start time, which tells it from a later one of that id."""

    pid: int
    born: int

    @property
    def title(self) -> str:
        """The first word of its command line, where Ray writes what a process is; "" if it is gone."""
        return self.arguments.partition("\0")[0]

    @property
    def arguments(self) -> str:
        """Its command line, with a NUL after each word; "" if it is gone."""
        try:
            return Path(f"/proc/{self.pid}/cmdline").read_text(errors="replace")
        except OSError:
            return ""


class Command:
    """``krift`` with arguments, in a session of its own. stdout and stderr go to files in ``folder``."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self._mark = f"KRIFT_TEST={uuid.uuid4()}"
        name, _, value = self._mark.partition("=")
        self.stdout, self.stderr = folder / f"{value}.stdout", folder / f"{value}.stderr"
        self.family: set[Process] = set()
        """Every descendant that was ever seen."""
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        with self.stdout.open("wb") as out, self.stderr.open("wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-c", "from orchestrator.cli.main import main; main()", *arguments],
                cwd=folder,
                env={**os.environ, "PYTHONPATH": path, name: value},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

    def until(self, condition: Callable[[], bool], within_s: float = 200) -> None:
        """Wait until the condition is true. AssertionError if the command ends first, or after ``within_s``."""
        deadline = time.monotonic() + within_s
        while not condition():
            ended = self.wait_for_end(LOOK_S)
            assert not ended, f"the command ended with {self.process.returncode}: {self.said()}"
            assert time.monotonic() < deadline, f"not within {within_s} s: {self.said()}"

    def wait_for_end(self, within_s: float) -> bool:
        """Whether the command has ended within this time."""
        self.family |= descendants(self.process.pid)
        try:
            self.process.wait(within_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def end(self, within_s: float = 150) -> int:
        """The command's exit status; AssertionError if it has none within the time."""
        deadline = time.monotonic() + within_s
        while not self.wait_for_end(LOOK_S):
            assert time.monotonic() < deadline, f"it goes on: {self.said()}"
        return self.process.returncode

    def signal_group(self, which: signal.Signals) -> None:
        """What a terminal does on Ctrl-C: the signal goes to all of the command's process group."""
        os.killpg(self.process.pid, which)

    def left_over(self, within_s: float = 20, but: Set[str] = frozenset()) -> list[Process]:
        """Descendants, and heirs of its environment, that are still alive after this time, but for those with a title
        for which nobody waits."""
        deadline = time.monotonic() + within_s
        self.family |= _marked(self._mark.encode())
        awaited = [each for each in self.family if each.title not in but]
        return [each for each in sorted(awaited, key=lambda process: process.pid) if not _ends(each, deadline)]

    def kill_family(self) -> None:
        """Leave nothing behind, whatever the test came to."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for each in self.left_over(0):
            os.kill(each.pid, signal.SIGKILL)

    def said(self) -> str:
        """What it wrote so far."""
        return self.stderr.read_text() + self.stdout.read_text()


def conducted(runs: Path) -> Callable[[], bool]:
    """Whether the cluster of a run of kip-207 is being brought up, by what its driver has recorded."""

    def check() -> bool:
        return any(path.stat().st_size > 2000 for path in runs.glob("kip-207-*/logs/node=driver/*"))

    return check


def descendants(pid: int) -> set[Process]:
    """All processes below one."""
    children: dict[int, list[Process]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            parent, process = _look(int(entry.name))
            if process is not None:
                children.setdefault(parent, []).append(process)
    found: set[Process] = set()
    below = [pid]
    while below:
        new = children.get(below.pop(), [])
        found.update(new)
        below += [process.pid for process in new]
    return found


def _marked(mark: bytes) -> set[Process]:
    """All processes with this in their environment."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            heir = mark in path.read_bytes().split(b"\0")
        except OSError:
            continue
        _, process = _look(int(path.parent.name))
        if heir and process is not None:
            found.add(process)
    return found


def _look(pid: int) -> tuple[int, Process | None]:
    """The parent of a process, and the process; None if it is gone or dead."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return 0, None
    fields = text.rpartition(")")[2].split()
    return int(fields[1]), None if fields[0] in "ZX" else Process(pid, int(fields[19]))


def _ends(process: Process, deadline: float) -> bool:
    """Whether a process is gone, or goes before the deadline."""
    try:
        handle = os.pidfd_open(process.pid)
    except OSError:
        return True
    try:
        _, now = _look(process.pid)
        if now != process:
            return True
        ready, _, _ = select.select([handle], [], [], max(0.0, deadline - time.monotonic()))
        return bool(ready)
    finally:
        os.close(handle)
