"""Records of runs that nobody did."""

from __future__ import annotations

from chaos.injector import FaultOutcome
from orchestrator.campaigns.directory import Done
from orchestrator.campaigns.order import SimOrder
from orchestrator.campaigns.record import RunRecord, Tally
from orchestrator.invariants.registry import INVARIANTS
from orchestrator.verdict import Outcome
from tests.unit.cli.command import SCENARIO

ALL_HELD = {name: Tally("held", 2) for name in INVARIANTS}


def order(seed: int) -> SimOrder:
    """A run of a second."""
    return SimOrder("small.yaml", seed=seed, text=SCENARIO)


def record(
    seed: int,
    signature: str = "",
    exit_code: int = 0,
    outcome: Outcome = "held",
    tallies: dict[str, Tally] = ALL_HELD,
    faults: tuple[FaultOutcome, ...] = (),
    undecided: tuple[str, ...] = (),
    declared: bool = False,
    coverage: tuple[str, ...] = (),
) -> RunRecord:
    """Of a run that held, if nothing else is said."""
    sentence = f"in full: {signature}" if signature else ""
    return RunRecord(
        order(seed),
        seed,
        exit_code,
        outcome,
        signature,
        sentence,
        digest=f"{seed:032}",
        events=100,
        rpcs=10,
        virtual_us=2_000_000,
        wall_s=0.5,
        tallies=tallies,
        faults=list(faults),
        undecided=list(undecided),
        declared=declared,
        coverage=list(coverage),
    )


def failed(seed: int, signature: str) -> RunRecord:
    """Of a run in which H1 was violated three times."""
    tallies = {**ALL_HELD, "H1": Tally("violated", 5, 3, first_us=1_000_000)}
    return record(seed, signature, 1, "violated", tallies)


def ended(*records: RunRecord) -> list[Done]:
    """The records as results, one every half a second."""
    return [Done(number, number / 2, each) for number, each in enumerate(records, 1)]
