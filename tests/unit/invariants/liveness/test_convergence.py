"""L15: the cluster as a whole gets steady again; a machine that gives it too little time is no fault of its own."""

from __future__ import annotations

from typing import Literal

import pytest

from actors.trace.events import BUSY_MACHINE, CtlFault, CtlPhase
from orchestrator.invariants.folds.bounds import bound_us
from orchestrator.invariants.folds.conclusion import InvariantResult
from orchestrator.invariants.folds.fold import Profile
from tests.unit.invariants.trace_builder import TraceBuilder


class Heals(TraceBuilder):
    """The chaos is over."""

    def __init__(self) -> None:
        super().__init__()
        self.emit("driver", CtlPhase("healing"))

    def passes(self, bounds: float) -> None:
        """Time passes, of bounds of L15."""
        self.wall += int(bounds * bound_us(Profile(), "L15"))

    def stall(self, phase: Literal["start", "stop"], by_machine: bool = True) -> None:
        """A node stands still from now on, or no longer."""
        self.emit("driver", CtlFault("f1", "pause", phase, ["broker-1"], BUSY_MACHINE if by_machine else {}))

    def given_up(self) -> InvariantResult:
        """The run has waited long enough."""
        self.emit("driver", CtlPhase("finished", "did not converge: healing: without its leader: orders-0"))
        return self.result("L15")


@pytest.mark.parametrize(("bounds", "status"), [(1.1, "violated"), (0.9, "vacuous")])
def test_a_cluster_that_does_not_converge(bounds: float, status: str) -> None:
    """Shows that L15 is violated once there was time enough."""
    run = Heals()
    run.passes(bounds)
    assert run.given_up().status == status


@pytest.mark.parametrize(
    ("by_machine", "over", "after", "status"),
    [
        (True, True, 0.9, "vacuous"),
        (True, True, 1.1, "violated"),
        (True, False, 1.1, "vacuous"),
        (False, True, 0.9, "violated"),
    ],
)
def test_a_machine_that_is_too_busy(by_machine: bool, over: bool, after: float, status: str) -> None:
    """Shows that the bound counts anew from the last stall of the machine on, and not from a fault's."""
    run = Heals()
    run.passes(1.1)
    run.stall("start", by_machine)
    if over:
        run.stall("stop", by_machine)
    run.passes(after)
    assert run.given_up().status == status


def test_what_a_busy_machine_is_said_to_have_done() -> None:
    """Shows the sentence of a run that cannot be judged."""
    run = Heals()
    run.passes(1)
    run.stall("start")
    run.stall("stop")
    run.wall += 2_000_000
    assert run.given_up().why.endswith(", and the machine was busy until 2.001 s ago")
