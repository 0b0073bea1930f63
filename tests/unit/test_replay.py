"""Journals are read back, torn tails and all, and replay finds the first effect that differs."""

from __future__ import annotations

import pytest

from actors.node.codec import decode, encode
from actors.node.contract import Node
from actors.node.effects import AnyEffect, Reply
from actors.node.events import AnyEvent, Invoked, Received, Started, Synced
from actors.node.spec import Role
from actors.replay import JournalGap, replay_node, state_at
from actors.trace.journal import (
    FORMAT_VERSION,
    JournalError,
    JournalHeader,
    JournalNotBegun,
    Segment,
    encode_entry,
    encode_header,
    frame,
    read_segment,
    unframe,
)
from tests.harness.toys import PingNode, PongNode, ask, new_toy, say, toy_spec

EVENTS: list[AnyEvent] = [
    Started(toy_spec("broker-1"), 0, {}),
    *(Received("c", ask("x")) for _ in range(60)),
    Invoked("op", "nothing", {"a": [1, "b"]}),
    Synced("log", 1),
]


def restore(role: Role, snapshot: bytes) -> Node:
    """A toy from its snapshot."""
    node: Node = decode(snapshot, PongNode if role == "broker" else PingNode)
    return node


def journal(rotate_at: int | None = None, change: dict[int, list[AnyEffect]] | None = None) -> list[bytes]:
    """What a live broker would have written: segments, the second from step ``rotate_at`` on; ``change`` falsifies the
    effects of a step."""
    node = PongNode()
    segments = [encode_header(JournalHeader(FORMAT_VERSION, "run", "broker-1", "broker", 0, 0, None))]
    for step, event in enumerate(EVENTS):
        if step == rotate_at:
            segments.append(
                encode_header(JournalHeader(FORMAT_VERSION, "run", "broker-1", "broker", 0, step, encode(node)))
            )
        effects = node.step(step * 10, event)
        segments[-1] += encode_entry(step * 10, event, (change or {}).get(step, effects))
    return segments


def segments(files: list[bytes]) -> list[Segment]:
    """The segments of these files."""
    return [read_segment(data) for data in files]


def test_a_node_replayed_gives_the_same_effects() -> None:
    """Shows that a journal replays without a difference, in one segment or two, in any order of the files."""
    for rotate_at in (None, 30):
        report = replay_node(reversed(segments(journal(rotate_at))), new_toy, restore)
        assert report.same
        assert report.steps == len(EVENTS)
        assert report.effects > 60
        assert not report.gaps


def test_the_first_difference_is_named() -> None:
    """Shows node, step, effect, and both sides of it."""
    report = replay_node(segments(journal(change={20: [Reply("c", say(5))]})), new_toy, restore)
    assert not report.same
    assert str(report.difference) == (
        "broker-1/0 step 20 at 200 ms (Received), effect 0: the journal has {'type': 'Reply', 'connection': 'c', "
        "'response': 'ApiVersionsResponse(error_code=5)'}, replay gives {'type': 'Record', 'event': "
        "{'type': 'meta.image', 'offset': 20, 'digest': 0, 'state': None}}"
    )


def test_a_missing_effect_is_a_difference() -> None:
    """Shows that the number of effects counts, too."""
    report = replay_node(segments(journal(change={7: []})), new_toy, restore)
    assert report.difference is not None
    assert (report.difference.step, report.difference.position, report.difference.expected) == (7, 0, None)


def test_a_kept_segment_replays_from_its_snapshot() -> None:
    """Shows that older segments can be thrown away."""
    report = replay_node(segments(journal(30)[1:]), new_toy, restore)
    assert report.same
    assert report.steps == len(EVENTS) - 30


def test_a_missing_segment_is_a_gap() -> None:
    """Shows that steps that are not there are reported, and the rest is replayed from the next snapshot."""
    first, second = segments(journal(30))
    short = Segment(first.header, first.entries[:-3], False)
    report = replay_node([short, second], new_toy, restore)
    assert report.same
    assert report.gaps == [30]


def test_a_torn_tail_is_dropped_and_said() -> None:
    """Shows that any cut through the last entry leaves the others readable."""
    (data,) = journal()
    whole = len(read_segment(data).entries)
    for cut in range(1, 12):
        segment = read_segment(data[:-cut])
        assert segment.torn
        assert len(segment.entries) == whole - 1
    assert replay_node([read_segment(data[:-1])], new_toy, restore).torn == 1


def test_a_changed_byte_is_damage() -> None:
    """Shows that a byte changed anywhere before the last entry (a length, a checksum, a content) is refused with its
    place, and not taken for a tail that a kill has torn; nor is one in the last entry's checksum or content."""
    (data,) = journal()
    last = len(data) - len(frame(unframe(data)[0][-1]))
    for position in (*range(0, last, 7), last + 5, len(data) - 1):
        changed = data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :]
        with pytest.raises(JournalError, match=r"damaged at byte \d+ of"):
            read_segment(changed)


def test_a_segment_that_was_not_begun_is_told_from_damage() -> None:
    """Shows that a process killed within the write of a header leaves a segment without a step, which is no error of
    the journal's."""
    header = encode_header(JournalHeader(FORMAT_VERSION, "run", "broker-1", "broker", 0, 0, None))
    for size in range(len(header)):
        with pytest.raises(JournalNotBegun):
            read_segment(header[:size])


def test_other_data_is_no_journal() -> None:
    """Shows that a file that is no segment, or of a later format, is refused with the reason."""
    later = encode_header(JournalHeader(99, "run", "n", "broker", 0, 0, None))
    for data, words in [(b"", "no whole frame"), (b"nonsense", "no whole frame"), (frame(b"\xc1"), "no header")]:
        with pytest.raises(JournalError, match=words):
            read_segment(data)
    with pytest.raises(JournalError, match="journal format 99"):
        read_segment(later)


def test_the_state_at_a_moment() -> None:
    """Shows a node as it was after a step, or at a time, from one segment or from a snapshot."""
    for files in (journal(), journal(30)):
        kept = segments(files)
        assert state_at(kept, step=12, new_node=new_toy, restore_node=restore) == _after(12)
        assert state_at(kept, now_ms=405, new_node=new_toy, restore_node=restore) == _after(40)
        assert state_at(kept, new_node=new_toy, restore_node=restore) == _after(len(EVENTS))
    with pytest.raises(JournalGap):
        state_at(segments(journal(30)[1:]), step=12, new_node=new_toy, restore_node=restore)


def _after(step: int) -> PongNode:
    node = PongNode()
    for number, event in enumerate(EVENTS[: step + 1]):
        node.step(number * 10, event)
    return node
