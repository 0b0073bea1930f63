"""Calls the command in this process, as its entry point would be called."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import msgspec
import pytest

from orchestrator.cli.main import main

SCENARIO = """
schema: krift/v1
name: small
about: Nothing is broken.
seed: 3
duration: 1s
cluster:
  voters: 1
  brokers: 1
  topics:
    orders: {replicas: [[1]]}
workload:
  - producer: {topic: orders, rate: 50/s}
  - consumer: {topic: orders}
"""


class Ended(msgspec.Struct, frozen=True):
    """How a command ended: exit code, stdout and stderr."""

    code: int
    out: str
    err: str


def krift(*arguments: str | Path) -> Ended:
    """Run ``krift`` with arguments."""
    out, err = StringIO(), StringIO()
    before = sys.argv
    sys.argv = ["krift", *map(str, arguments)]
    try:
        with _own_signals(), redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as ended:
            main()
    finally:
        sys.argv = before
    assert isinstance(ended.value.code, int)
    assert "Traceback" not in err.getvalue()
    return Ended(ended.value.code, out.getvalue(), err.getvalue())


@contextmanager
def _own_signals() -> Iterator[None]:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    handlers = [signal.getsignal(number) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, handlers, strict=True):
            signal.signal(number, handler)


def scenario(directory: Path, more: str = "") -> Path:
    """A scenario file that runs in a moment."""
    path = directory / "small.yaml"
    path.write_text(SCENARIO + more, encoding="utf-8")
    return path


def run_directory(directory: Path) -> Path:
    """A run that was kept."""
    ended = krift("run", scenario(directory), "--out", directory / "runs", "--quiet")
    assert ended.code == 0, ended.err
    return (directory / "runs" / "latest").resolve()
