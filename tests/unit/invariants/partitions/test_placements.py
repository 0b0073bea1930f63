"""P32: on which brokers a controller places new partitions."""

from __future__ import annotations

from typing import Any

import pytest

from actors.trace.events import BrokerReg, PartChange
from tests.unit.invariants.trace_builder import TraceBuilder

LEADER = "controller-1"


def registered(*active: int, fenced: tuple[int, ...] = (), leaving: tuple[int, ...] = ()) -> TraceBuilder:
    """A controller registers brokers."""
    trace = TraceBuilder()
    trace.role(LEADER, 1, "leader", 101)
    trace.registered(*active)
    trace.registered(*fenced, fenced=True)
    for broker in leaving:
        trace.emit(LEADER, BrokerReg(broker, 7, "i", False, True, False, 2))
    return trace


def places(trace: TraceBuilder, *rows: list[int], since: int = 0, topic: str = "orders", **how: Any) -> None:
    """The controller creates a topic, or adds partitions to it, and places them together."""
    offset = 10 * len(trace.events)
    node, quorum_epoch = how.pop("node", LEADER), how.pop("quorum_epoch", 1)
    for index, replicas in enumerate(rows):
        tp, leader, placed = f"{topic}-{index}", replicas[0], how.get("placed", since + index)
        body = PartChange(tp, offset + index, quorum_epoch, leader, 0, 0, replicas, replicas, "create", placed=placed)
        trace.emit(node, body)


def says(trace: TraceBuilder) -> str:
    """What violates P32, "" nothing."""
    violations = trace.result("P32").violations
    return violations[0].sentence if violations else ""


def test_partitions_by_turns() -> None:
    """Shows Kafka's stripes, with a shuffle after as many partitions as there are brokers, and another topic."""
    trace = registered(1, 2, 3)
    places(trace, [2, 3, 1], [3, 1, 2], [1, 2, 3], [1, 3, 2], [3, 2, 1])
    places(trace, [3, 1], [1, 2], topic="payments")
    assert (says(trace), trace.result("P32").tested) == ("", 7)


@pytest.mark.parametrize(
    ("rows", "wrong"),
    [
        (
            [[1, 2, 3], [1, 2, 3]],
            "orders-1 on [1, 2, 3], but broker-1 comes first in orders-0, too, and another broker has its turn",
        ),
        (
            [[1, 2, 3], [2, 3, 1], [1, 2, 3]],
            "orders-2 on [1, 2, 3], but broker-1 comes first in orders-0, too, and another broker has its turn",
        ),
        (
            [[1, 2, 3], [3, 1, 2]],
            "orders-1 on [3, 1, 2], but the partition before it on [1, 2, 3], and the same brokers follow each other",
        ),
        ([[1, 2, 3], [2, 3, 1], [3, 1, 2], [2, 1, 3], [2, 1, 3]], "orders-4 on [2, 1, 3], but broker-2 comes first"),
        ([[1, 2, 1]], "orders-0 on [1, 2, 1], one of them more than once"),
    ],
)
def test_partitions_that_do_not_take_turns(rows: list[list[int]], wrong: str) -> None:
    """Shows a broker that leads twice before each has led once, other followers, and one broker twice."""
    trace = registered(1, 2, 3)
    places(trace, *rows)
    assert says(trace).startswith(f"the controller placed {wrong}")


@pytest.mark.parametrize(
    ("rows", "wrong"),
    [
        ([[1, 2], [2, 1]], ""),
        ([[1, 2, 3], [2, 1, 4]], ""),
        ([[1, 2, 4, 3], [2, 1, 3, 4]], ""),
        ([[3, 1, 2]], "orders-0 on [3, 1, 2], but broker-3 is fenced, and [1, 2] of the unfenced brokers come before"),
        ([[1, 3, 2]], "orders-0 on [1, 3, 2], but broker-3 is fenced, and [2] of the unfenced brokers come before it"),
        (
            [[1, 2], [2, 4]],
            "orders-1 on [2, 4], but broker-4 is fenced, and [1] of the unfenced brokers come before it",
        ),
        ([[1, 2, 5]], "orders-0 on [1, 2, 5], but broker-5 is shutting down"),
    ],
)
def test_fenced_brokers_come_last(rows: list[list[int]], wrong: str) -> None:
    """Shows that fenced brokers are taken when all others are, in any order, and those that shut down never."""
    trace = registered(1, 2, fenced=(3, 4), leaving=(5,))
    places(trace, *rows)
    assert bool(says(trace)) == bool(wrong)
    assert says(trace).startswith(f"the controller placed {wrong}" if wrong else "")


def test_one_broker_that_is_not_fenced() -> None:
    """Shows that it leads everything, and that there is no other one to lead."""
    trace = registered(1, fenced=(2, 3))
    places(trace, [1, 2], [1, 3], [1, 2])
    assert (says(trace), trace.result("P32").tested) == ("", 3)
    nobody = registered(fenced=(2, 3))
    places(nobody, [2, 3])
    assert says(nobody) == "the controller placed orders-0 on [2, 3], but all brokers are fenced"


def test_what_is_assigned_by_hand_is_as_it_is() -> None:
    """Shows that assignments test nothing."""
    trace = registered(1, 2, fenced=(3,))
    places(trace, [3, 1], [3, 1], placed=-1)
    assert (says(trace), trace.result("P32").tested) == ("", 0)


def test_what_was_not_placed_together() -> None:
    """Shows that another request, and another controller, begin where they like; and partitions of which the first one
    is missing, until the next turns begin."""
    trace = registered(1, 2, 3)
    places(trace, [1, 2])
    places(trace, [1, 2], topic="payments")
    trace.role("controller-2", 2, "leader", 102, log_end=1000)
    places(trace, [1, 2], topic="others", node="controller-2", quorum_epoch=2)
    assert says(trace) == ""
    places(trace, [1, 2], [1, 2], since=1, node="controller-2", quorum_epoch=2)
    assert says(trace) == ""
    places(trace, [1, 2], [1, 2], since=3, node="controller-2", quorum_epoch=2)
    assert says(trace) != ""


@pytest.mark.parametrize(
    ("mode", "again", "tested", "wrong"),
    [
        ("clean", False, 1, True),
        ("crash", False, 0, False),
        ("crash", True, 1, True),
    ],
)
def test_a_controller_that_ended_abruptly(mode: Any, again: bool, tested: int, wrong: bool) -> None:
    """Shows that registrations which such a controller told of may not be the last, until the next one tells of all."""
    trace = registered(1, 2, fenced=(3,))
    trace.down(LEADER, mode)
    trace.role("controller-2", 2, "leader", 102, log_end=1000)
    if again:
        trace.registered(1, 2, node="controller-2", offset=1001)
        trace.registered(3, fenced=True, node="controller-2", offset=1003)
    places(trace, [3, 1], node="controller-2", quorum_epoch=2)
    assert (bool(says(trace)), trace.result("P32").tested) == (wrong, tested)


def test_a_broker_that_nobody_has_told_of() -> None:
    """Shows that a placement is not judged if one of its brokers is unknown."""
    trace = registered(1, 2)
    places(trace, [4, 1])
    assert (says(trace), trace.result("P32").tested) == ("", 0)
