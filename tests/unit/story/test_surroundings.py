"""An event among the others."""

from __future__ import annotations

import pytest

from orchestrator.story.surroundings import CAUSES_MAX, NEIGHBOURS, Surroundings
from tests.unit.story.stage import Stage


def among(trace: Stage, *wanted: str, why: bool = False) -> Surroundings:
    return Surroundings(lambda: iter(trace.events), wanted, why=why)


def test_neighbours_are_of_the_same_life() -> None:
    """Shows that the events just before and after are those of the node's incarnation."""
    trace = Stage().begin()
    found = [trace.append("broker-1", str(number)) for number in range(5)]
    trace.append("broker-2", "x")
    trace.up("broker-1")
    (event,) = among(trace, found[3]).events
    before, after = among(trace, found[3]).neighbours(event)
    assert [each.id for each in before] == found[1:3]
    assert len(before) == NEIGHBOURS
    assert [each.id for each in after] == found[4:]


def test_the_chain_of_causes() -> None:
    """Shows that the chain follows messages, and where none led there what the node did before; and where it ends."""
    trace = Stage().begin()
    first = trace.append("broker-1", "a")
    second = trace.append("broker-1", "b")
    trace.cause = second
    third = trace.append("broker-2", "b")
    trace.cause = ""
    last = trace.append("broker-2", "c")
    found = among(trace, last, why=True)
    chain = [(how, each.id) for how, each in found.causes(found.events[0])]
    assert chain == [("after", third), ("from", second), ("after", first)]


def test_a_long_chain_is_cut() -> None:
    """Shows that no chain is longer than anybody reads."""
    trace = Stage().begin()
    ids = [trace.append("broker-1", str(number)) for number in range(CAUSES_MAX + 5)]
    found = among(trace, ids[-1], why=True)
    assert len(list(found.causes(found.events[0]))) == CAUSES_MAX


@pytest.mark.parametrize("name", ["broker-9/0/1", "x", "broker-1/0/x", ""])
def test_what_is_not_there_is_named(name: str) -> None:
    """Shows that ids of no event of the trace are told."""
    trace = Stage().begin()
    assert among(trace, name).missing == [name]


def test_time_0_is_where_the_chaos_begins_or_the_trace_does() -> None:
    """Shows what times count from."""
    trace = Stage()
    assert among(trace).zero_us == trace.events[0].wall
    trace.begin()
    assert among(trace).zero_us == trace.events[-1].wall
