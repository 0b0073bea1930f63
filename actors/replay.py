"""Steps a node again from its journal and compares every effect: a difference is a determinism bug.

A sim run needs no journal: it is run again from its scenario, and ``StepDigests`` of the two runs are compared
(``actors.sim.digest``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import Any

import msgspec

from actors.node.codec import decode, encode
from actors.node.contract import Node
from actors.node.effects import AnyEffect
from actors.node.spec import Role
from actors.trace.journal import JournalEntry, Segment, in_order
from krift.v1.message import Message

NewNode = Callable[[Role], Node]
RestoreNode = Callable[[Role, bytes], Node]


class Difference(msgspec.Struct, frozen=True):
    """The first difference between a journal and the step taken again. ``position``: index of the effect within its
    step; ``expected`` (journal) and ``actual`` (now): the effect as plain data, None where that side has none."""

    node: str
    incarnation: int
    step: int
    now_ms: int
    event: str
    position: int
    expected: Any
    actual: Any

    def __str__(self) -> str:
        return (
            f"{self.node}/{self.incarnation} step {self.step} at {self.now_ms} ms ({self.event}), "
            f"effect {self.position}: the journal has {_shown(self.expected)}, replay gives {_shown(self.actual)}"
        )


class ReplayReport(msgspec.Struct, frozen=True):
    """What replaying one incarnation found. ``gaps``: step numbers where a segment is missing or its state differs
    from the snapshot that the next one begins with. ``difference`` None: every effect was the same."""

    node: str
    incarnation: int
    steps: int
    effects: int
    torn: int
    gaps: list[int]
    difference: Difference | None

    @property
    def same(self) -> bool:
        """Whether every step gave what the journal says."""
        return self.difference is None


class JournalGap(LookupError):
    """The moment asked for is not in the kept part of the journal."""


def replay_node(
    segments: Iterable[Segment], new_node: NewNode | None = None, restore_node: RestoreNode | None = None
) -> ReplayReport:
    """Take every step of one incarnation again, up to the first difference. Raises ValueError without a segment."""
    ordered = in_order(segments)
    if not ordered:
        raise ValueError("no journal segment to replay")
    first = ordered[0].header
    steps = effects = 0
    gaps: list[int] = []
    difference: Difference | None = None
    node: Node | None = None
    expected_step = first.first_step
    for segment in ordered:
        if node is not None and _has_gap(node, segment, expected_step):
            gaps.append(segment.header.first_step)
            node = None
        if node is None:
            node = _first_state(segment, new_node, restore_node)
        for number, entry in enumerate(segment.entries, segment.header.first_step):
            steps += 1
            effects += len(entry.effects)
            difference = _take(node, segment, number, entry)
            if difference is not None:
                return ReplayReport(first.node, first.incarnation, steps, effects, _torn(ordered), gaps, difference)
        expected_step = segment.header.first_step + len(segment.entries)
    return ReplayReport(first.node, first.incarnation, steps, effects, _torn(ordered), gaps, difference)


def state_at(
    segments: Iterable[Segment],
    *,
    now_ms: int | None = None,
    step: int | None = None,
    new_node: NewNode | None = None,
    restore_node: RestoreNode | None = None,
) -> Node:
    """The node after every step up to and including ``step``, or every step at or before ``now_ms``; after the last
    one if neither is given. Raises JournalGap where the journal does not reach that far back."""
    ordered = in_order(segments)
    start = None
    for segment in ordered:
        if _begins_in_time(segment, now_ms, step):
            start = segment
    if start is None:
        raise JournalGap("the journal begins after the moment asked for")
    node = _first_state(start, new_node, restore_node)
    for number, entry in enumerate(start.entries, start.header.first_step):
        if (step is not None and number > step) or (now_ms is not None and entry.now_ms > now_ms):
            break
        node.step(entry.now_ms, entry.event)
    return node


def _begins_in_time(segment: Segment, now_ms: int | None, step: int | None) -> bool:
    if step is not None:
        return segment.header.first_step <= step
    if now_ms is not None:
        return bool(segment.entries) and segment.entries[0].now_ms <= now_ms
    return True


def _has_gap(node: Node, segment: Segment, expected_step: int) -> bool:
    header = segment.header
    return header.first_step != expected_step or (header.snapshot is not None and encode(node) != header.snapshot)


def _torn(segments: Sequence[Segment]) -> int:
    return sum(segment.torn for segment in segments)


def _first_state(segment: Segment, new_node: NewNode | None, restore_node: RestoreNode | None) -> Node:
    header = segment.header
    if header.snapshot is None:
        return (new_node or _default("new_node"))(header.role)
    return (restore_node or _default("restore_node"))(header.role, header.snapshot)


def _default(name: str) -> Callable[..., Node]:
    found: Callable[..., Node] = getattr(import_module("actors.nodes"), name)
    return found


def _take(node: Node, segment: Segment, number: int, entry: JournalEntry) -> Difference | None:
    actual = [encode(effect) for effect in node.step(entry.now_ms, entry.event)]
    expected = [bytes(raw) for raw in entry.effects]
    if actual == expected:
        return None
    position = next(
        (i for i, (a, b) in enumerate(zip(expected, actual, strict=False)) if a != b), min(len(expected), len(actual))
    )
    return Difference(
        segment.header.node,
        segment.header.incarnation,
        number,
        entry.now_ms,
        type(entry.event).__name__,
        position,
        _effect(expected[position]) if position < len(expected) else None,
        _effect(actual[position]) if position < len(actual) else None,
    )


def plain(value: Any) -> Any:
    """Node state, events and effects as builtins, for showing; a message as its text."""
    match value:
        case Message():
            return str(value)
        case list() | tuple():
            return [plain(each) for each in value]
        case dict():
            return {str(key): plain(each) for key, each in value.items()}
        case msgspec.Struct():
            fields = {name: plain(getattr(value, name)) for name in value.__struct_fields__}
            tag = value.__struct_config__.tag
            return fields if tag is None else {"type": tag, **fields}
    return value


def _effect(data: bytes) -> Any:
    return plain(decode(data, AnyEffect))


def _shown(effect: Any) -> str:
    return "nothing" if effect is None else str(effect)
