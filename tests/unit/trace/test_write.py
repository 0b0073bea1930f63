"""The trace as it is written."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pyarrow.parquet as pq
import pytest

from orchestrator.trace import write
from orchestrator.trace.read import TRACE, read_events
from orchestrator.trace.rows import stamped_to_row
from orchestrator.trace.write import TraceWriter, write_events
from tests.unit.invariants.random_trace import random_trace

EVENTS = random_trace(Random(1), 40)


@pytest.mark.parametrize(("events", "files"), [(0, [0]), (3, [3]), (4, [4]), (9, [4, 4, 1])])
def test_files_are_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, events: int, files: list[int]) -> None:
    """Shows that no file has more rows than it should, that an empty trace is a trace, and that what is read is
    what was written."""
    monkeypatch.setattr(write, "GROUP_ROWS", 2)
    monkeypatch.setattr(write, "FILE_ROWS", 4)
    trace = EVENTS[:events]
    assert write_events(tmp_path, trace) == events
    parts = sorted((tmp_path / TRACE).iterdir())
    assert [pq.read_metadata(part).num_rows for part in parts] == files
    assert list(read_events(tmp_path)) == trace


def test_a_trace_appears_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows that nobody finds half a trace: neither while it is written, nor after an error."""
    monkeypatch.setattr(write, "GROUP_ROWS", 2)
    with pytest.raises(KeyboardInterrupt), TraceWriter(tmp_path, stamped_to_row) as writer:
        for event in EVENTS[:5]:
            writer.add(event)
        assert list(tmp_path.glob(f"{TRACE}.*/part-*"))
        assert not (tmp_path / TRACE).exists()
        raise KeyboardInterrupt
    assert not list(tmp_path.iterdir())


def test_a_trace_takes_the_place_of_another(tmp_path: Path) -> None:
    """Shows that nothing is left of a longer one."""
    write_events(tmp_path, EVENTS[:5])
    write_events(tmp_path, EVENTS[:1])
    assert list(read_events(tmp_path)) == EVENTS[:1]
