"""Logs and journals as a live node writes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors.live import journal_writer, writer
from actors.live.journal_writer import SEGMENTS_KEPT, JournalWriter
from actors.live.writer import CHUNK_AGE_MAX_US, CHUNK_BYTES_MAX, ChunkWriter
from actors.node.codec import decode
from actors.node.contract import Node
from actors.node.events import AnyEvent, Received, Started
from actors.node.spec import Role
from actors.replay import replay_node
from actors.trace.journal import Segment, read_segment
from tests.harness.toys import PongNode, ask, new_toy, toy_spec

EVENTS: list[AnyEvent] = [Started(toy_spec("broker-1"), 0, {}), *(Received("c", ask("x")) for _ in range(300))]


def restore(role: Role, snapshot: bytes) -> Node:
    """A toy from its snapshot."""
    node: Node = decode(snapshot, PongNode)
    return node


def run(journal: JournalWriter) -> None:
    """Step a toy through the events, as the runtime does."""
    node = PongNode()
    for number, event in enumerate(EVENTS):
        journal.before(node)
        journal.add(number, event, node.step(number, event))


def segments(directory: Path) -> list[Segment]:
    """What lies on disk."""
    return [read_segment(path.read_bytes()) for path in directory.iterdir()]


def test_what_is_written_is_replayed(tmp_path: Path) -> None:
    """Shows that a journal nobody closed, as after SIGKILL, has every step."""
    run(JournalWriter(tmp_path, "run", "broker-1", "broker", 2))
    assert [path.name for path in tmp_path.iterdir()] == ["2-0.journal"]
    report = replay_node(segments(tmp_path), new_toy, restore)
    assert (report.same, report.steps, report.incarnation) == (True, len(EVENTS), 2)


def test_a_full_segment_is_followed_by_one_that_begins_with_the_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shows that a journal keeps a bounded number of segments and that what is kept replays from its snapshot."""
    monkeypatch.setattr(journal_writer, "SEGMENT_BYTES_MAX", 1500)
    run(JournalWriter(tmp_path, "run", "broker-1", "broker", 0))
    kept = segments(tmp_path)
    assert len(kept) == SEGMENTS_KEPT
    first = min(segment.header.first_step for segment in kept)
    assert first > 0
    report = replay_node(kept, new_toy, restore)
    assert (report.same, report.gaps, report.steps) == (True, [], len(EVENTS) - first)


def test_a_segment_is_full_after_some_time(tmp_path: Path) -> None:
    """Shows that a segment ends with its age, so that a quiet node's steps expire like a busy one's."""
    seconds = iter(range(10_000))
    run(JournalWriter(tmp_path, "run", "broker-1", "broker", 0, age_max_s=100, clock=lambda: next(seconds)))
    kept = segments(tmp_path)
    assert len(kept) == 1 + (len(EVENTS) - 1) // 100
    report = replay_node(kept, new_toy, restore)
    assert (report.same, report.gaps, report.steps) == (True, [], len(EVENTS))


def test_an_incarnation_never_writes_into_another_s_journal(tmp_path: Path) -> None:
    """Shows that a journal that is there already is an error."""
    run(JournalWriter(tmp_path, "run", "broker-1", "broker", 0))
    with pytest.raises(FileExistsError):
        run(JournalWriter(tmp_path, "run", "broker-1", "broker", 0))


def names(directory: Path) -> list[str]:
    """The files there."""
    return sorted(path.name for path in directory.iterdir())


def test_a_chunk_is_closed_when_it_is_full_or_old(tmp_path: Path) -> None:
    """Shows that lines are in the system's hands after a flush, and that a closed chunk never grows."""
    chunks = ChunkWriter(tmp_path, "0")
    chunks.add(b"a\n")
    assert names(tmp_path) == []
    chunks.flush(0)
    assert (tmp_path / "0-0.open").read_bytes() == b"a\n"
    chunks.add(b"b\n")
    chunks.flush(CHUNK_AGE_MAX_US - 1)
    assert names(tmp_path) == ["0-0.open"]
    chunks.flush(CHUNK_AGE_MAX_US)
    assert names(tmp_path) == ["0-0.jsonl"]
    chunks.add(b"x" * CHUNK_BYTES_MAX + b"\n")
    chunks.flush(CHUNK_AGE_MAX_US + 1)
    assert names(tmp_path) == ["0-0.jsonl", "0-1.jsonl"]
    chunks.add(b"c\n")
    chunks.close(CHUNK_AGE_MAX_US + 2)
    assert (tmp_path / "0-0.jsonl").read_bytes() == b"a\nb\n"
    assert (tmp_path / "0-2.jsonl").read_bytes() == b"c\n"
    chunks.close(CHUNK_AGE_MAX_US + 3)
    assert names(tmp_path) == ["0-0.jsonl", "0-1.jsonl", "0-2.jsonl"]
    assert writer.OPEN not in {path.suffix for path in tmp_path.iterdir()}
