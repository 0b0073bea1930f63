"""What faults leave behind."""

from __future__ import annotations

from typing import Any

from actors.trace.events import CtlFault
from orchestrator.invariants.folds.leftovers import Leftovers

SECOND = 1_000_000
LINK = {"from": ["broker-1"], "to": ["broker-2"], "both_ways": False, "delay_max_us": SECOND}


def fault(name: str, kind: str, phase: Any, node: str = "broker-2") -> CtlFault:
    """A fault begins, or ends; one of the links slows down what broker-1 sends broker-2."""
    return CtlFault(name, kind, phase, [node], LINK)


def test_what_a_link_has_slowed_down() -> None:
    """Shows that it arrives up to the longest delay after the fault's end, whichever way one asks."""
    left = Leftovers()
    left.take(fault("f", "reorder", "start"), 0)
    assert left.between_us("broker-2", "broker-1") == 0
    left.take(fault("f", "reorder", "stop"), 5 * SECOND)
    assert left.between_us("broker-2", "broker-1") == left.all_us == 6 * SECOND


def test_a_stopped_node_hears_of_a_fault_when_it_goes_on() -> None:
    """Shows that its links are slow until then, if the fault has ended while it, or the other one, was stopped; by
    several pauses until the last one is over."""
    for node in ("broker-1", "broker-2", "broker-3"):
        left = Leftovers()
        left.take(fault("p", "pause", "start", node), 0)
        left.take(fault("q", "pause", "start", node), 0)
        left.take(fault("f", "delay", "start"), SECOND)
        left.take(fault("f", "delay", "stop"), 2 * SECOND)
        assert left.between_us("broker-1", "broker-2") == 3 * SECOND
        left.take(fault("p", "pause", "stop", node), 9 * SECOND)
        assert left.between_us("broker-1", "broker-2") == 3 * SECOND
        left.take(fault("q", "pause", "stop", node), 10 * SECOND)
        assert left.between_us("broker-1", "broker-2") == (3 if node == "broker-3" else 11) * SECOND
        left.take(fault("r", "pause", "start", node), 20 * SECOND)
        left.take(fault("r", "pause", "stop", node), 30 * SECOND)
        assert left.between_us("broker-1", "broker-2") == (3 if node == "broker-3" else 11) * SECOND
