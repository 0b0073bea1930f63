"""A trace that arrives in pieces gives the results of the whole one, whatever the pieces: what the streaming engine
rests on, without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from random import Random

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from actors.trace.events import NodeDown, RunEnd, RunMeta, Stamped, Tick
from orchestrator.engines.frontier import Frontier, pieces_of, row_of
from orchestrator.engines.in_process import check
from orchestrator.engines.shard import OtherLayout, Shard
from orchestrator.invariants.folds.conclusion import InvariantResult
from tests.harness.examples import examples
from tests.harness.pieces import check_in_pieces, recorded
from tests.unit.invariants.random_trace import random_trace

pytestmark = pytest.mark.xdist_group("recorded")
"""One process has the tests that look at the same runs."""
CRASH = "parity/scenarios/leader-crash"
TRACES = {
    "whole": (CRASH, ""),
    "violated": (CRASH, "list-behind"),
    "gone and back": ("parity/scenarios/bounce", ""),
}


@cache
def whole(name: str) -> list[InvariantResult]:
    """What one of them gives as a whole."""
    return check(recorded(*TRACES[name]))


def announced(events: Sequence[Stamped]) -> list[Stamped]:
    """The same trace, of which run.meta names all nodes."""
    names = sorted({event.node for event in events} - {"driver"})
    return [
        msgspec.structs.replace(event, body=msgspec.structs.replace(event.body, nodes=names))
        if type(event.body) is RunMeta
        else event
        for event in events
    ]


def cut(random: Random, events: Sequence[Stamped], pieces: int) -> list[list[Stamped]]:
    """Events in up to ``pieces`` pieces of drawn sizes."""
    ends = sorted(random.randrange(len(events) + 1) for _ in range(pieces - 1))
    return [list(events[first:end]) for first, end in zip([0, *ends], [*ends, len(events)], strict=True)]


@settings(max_examples=examples(25))
@given(seed=st.integers(0, 1 << 32))
def test_a_wild_trace_in_pieces(seed: int) -> None:
    """Shows for traces of all kinds of events, gaps and violations included, that shuffled, repeated, in several
    pieces, with all states put aside in between, they give what they give as a whole."""
    random = Random(seed)
    events = announced(random_trace(random, 300))
    shuffled = [*events, *random.choices(events, k=20)]
    random.shuffle(shuffled)
    assert check_in_pieces(cut(random, shuffled, 4), shards=random.randrange(1, 4)) == check(events)


@pytest.mark.parametrize("name", TRACES)
def test_a_recorded_trace_in_pieces(name: str) -> None:
    """Shows the same for runs of the sim: in order, with pieces that come twice, and with a node whose trace comes
    after that of all others."""
    events = recorded(*TRACES[name])
    random = Random(name)
    late = random.choice([event.node for event in events])
    pieces = cut(random, [event for event in events if event.node != late], 3)
    pieces += [pieces[1], [event for event in events if event.node == late]]
    results = whole(name)
    assert check_in_pieces(pieces) == results
    assert any(each.status == "violated" for each in results) == (name == "violated")


@settings(max_examples=50)
@given(seed=st.integers(0, 1 << 32))
def test_the_frontier_never_passes_what_is_to_come(seed: int) -> None:
    """Shows that whatever has not come is at the frontier or beyond it, and that in the end everything is below."""
    random = Random(seed)
    events = list(recorded(CRASH))
    if random.random() < 0.5:
        random.shuffle(events)
    frontier = Frontier()
    frontier.expect(sorted({event.node for event in events}))
    pieces = cut(random, events, 12)
    for number, piece in enumerate(pieces):
        for each in pieces_of(map(row_of, piece)):
            frontier.take(each)
        for event in piece:
            if type(event.body) is RunEnd:
                frontier.end(event.body.final_seq)
        assert frontier.advance() == []
        to_come = [event.wall for later in pieces[number + 1 :] for event in later]
        assert frontier.at <= min(to_come, default=frontier.at)
    assert frontier.at > max(event.wall for event in events)


SECOND = 1_000_000


def test_what_comes_after_an_end_holds_nothing_up() -> None:
    """Shows that checks go on past an incarnation that recorded an event after its end, and that X4 says so."""
    events = list(recorded(CRASH))
    down = next(event for event in events if type(event.body) is NodeDown and event.node == "broker-1")
    late = msgspec.structs.replace(down, seq=down.seq + 1, logical=down.logical + 1, body=Tick())
    events.insert(events.index(down) + 1, late)
    pieces = [[event for event in events if low <= event.wall < low + SECOND] for low in range(0, 12 * SECOND, SECOND)]
    frontier = Frontier()
    frontier.expect(sorted({event.node for event in events}))
    for piece in pieces:
        for each in pieces_of(map(row_of, piece)):
            frontier.take(each)
    frontier.advance()
    assert frontier.at > down.wall + 2 * SECOND
    whole = next(each for each in check_in_pieces(pieces) if each.id == "X4")
    assert [finding.sentence for finding in whole.violations] == ["broker-1/0 recorded an event after its end"]


def test_a_node_that_falls_silent_is_named() -> None:
    """Shows what becomes of a node of which nothing comes any more: with patience the checks go on without it, say so,
    and call in doubt what rests on its events, even if these come in the end; without, they wait and miss nothing."""
    events = recorded(CRASH)
    late = [event for event in events if event.node == "broker-2" and event.wall > 3 * SECOND]
    rest = [event for event in events if event not in late]
    pieces = [rest[: len(rest) // 2], rest[len(rest) // 2 :], late]
    patient = check_in_pieces(pieces)
    assert patient == whole("whole")
    hasty = {each.id: each for each in check_in_pieces(pieces, patience_us=2 * SECOND)}
    doubts = [finding.sentence for finding in hasty["X4"].doubts]
    assert hasty["X4"].status == "violated"  # others acted on what it said
    assert doubts[0].startswith("nothing came of broker-2/0 from 3.0")
    assert doubts[1] == f"{late[0].id} came when the checks had passed it: broker-2 was not waited for"
    assert {hasty[name].status for name in ("P10", "C1", "H1")} == {"inconclusive"}
    assert hasty["Q1"].status == "inconclusive"
    assert {each.id for each in patient if each.status == "held"} >= {"P10", "C1", "H1", "Q1"}


def test_who_is_down_is_not_missed() -> None:
    """Shows that with patience longer than it takes chunks to arrive nothing is in doubt: a node that was shut down or
    killed owes nothing until it comes back."""
    events = recorded(CRASH)
    pieces = [[event for event in events if low <= event.wall < low + SECOND] for low in range(0, 12 * SECOND, SECOND)]
    assert check_in_pieces(pieces, patience_us=2 * SECOND) == whole("whole")


def test_a_gap_does_not_stop_the_checks() -> None:
    """Shows that patience ends a wait for an event that is lost, too, and that X4 says which it is."""
    events = list(recorded(CRASH))
    lost = next(event for event in events if event.node == "broker-3" and event.wall > 3 * SECOND)
    events.remove(lost)
    pieces = [[event for event in events if low <= event.wall < low + SECOND] for low in range(0, 12 * SECOND, SECOND)]
    results = check_in_pieces(pieces, patience_us=2 * SECOND)
    assert results == check(events)
    whole = next(each for each in results if each.id == "X4")
    assert [finding.sentence for finding in whole.violations] == [f"the trace of broker-3/0 lacks its event {lost.seq}"]


def test_what_another_version_put_aside_is_refused() -> None:
    """Shows that states of other types are not read as if they were ours."""
    shard = Shard(0, 1)
    saved = msgspec.msgpack.decode(shard.saved())
    saved["written_by"] = "krift 0.1, states 00"
    with pytest.raises(OtherLayout, match=r"written by krift 0\.1, states 00; this is krift"):
        shard.load(msgspec.msgpack.encode(saved))
