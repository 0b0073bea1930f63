"""``krift check --engine streaming``: a run by the logs of its nodes, collected or not."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from actors.trace.events import Stamped
from actors.trace.lines import encode_line
from orchestrator.cli import check
from orchestrator.trace.read import read_events
from orchestrator.verdict import Verdict
from tests.unit.cli.command import krift

CHECK = ("--engine", "streaming", "--json")


def write_logs(run: Path, events: Sequence[Stamped]) -> None:
    """Leave a run as a live one is before its trace is collected."""
    for event in events:
        folder = run / "logs" / f"node={event.node}"
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / f"{event.incarnation}-0.jsonl").open("ab") as file:
            file.write(encode_line(event))
    shutil.rmtree(run / "trace")


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_a_run_that_goes_on(run: Path) -> None:
    """Shows that a run whose trace is not collected is judged by the chunks that its nodes have closed, as far as they
    go, and says so."""
    events = list(read_events(run))
    write_logs(run, events[: len(events) * 3 // 4])
    manifest = run / "manifest.json"
    manifest.write_bytes(manifest.read_bytes().replace(b'"completed"', b'"running"'))
    ended = krift("check", run, *CHECK)
    verdict = msgspec.json.decode(ended.out, type=Verdict)
    statuses = {each.id: (each.status, each.why) for each in verdict.invariants}
    assert ended.code == 3
    assert "the run did not end: its driver was killed" in verdict.undecided
    assert statuses["X4"][0] == "inconclusive"
    assert statuses["X4"][1].startswith("nothing says with which event the trace of broker-1/0 ends")
    assert verdict.events == len(events) * 3 // 4


def test_a_damaged_log(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows that a line which is no event is told by file and number, when the engine has stumbled over it."""

    def stumble(*_: object) -> None:
        raise ValueError("Spark's own words")

    monkeypatch.setattr(check, "_check_with_spark", stumble)
    events = list(read_events(run))
    write_logs(run, events)
    with (run / "logs" / "node=broker-1" / "0-1.jsonl").open("wb") as file:
        file.write(encode_line(events[0]) + b'{"run": 1}\n')
    ended = krift("check", run, *CHECK)
    assert (ended.code, ended.out) == (2, "")
    assert "0-1.jsonl: damaged in line 2: " in ended.err


def test_a_run_without_anything(run: Path) -> None:
    """Shows that a run with neither trace nor logs is refused before Spark is started."""
    shutil.rmtree(run / "trace")
    ended = krift("check", run, *CHECK)
    assert (ended.code, ended.out) == (2, "")
    assert "it has no trace: none was kept" in ended.err
