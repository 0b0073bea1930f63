"""What is kept of each of many runs: small enough for millions, enough to judge a campaign by."""

from __future__ import annotations

import msgspec

from chaos.injector import FaultOutcome
from orchestrator.campaigns.order import SimOrder
from orchestrator.campaigns.signature import signature
from orchestrator.invariants.fold import Status
from orchestrator.sim_run import SimRun
from orchestrator.verdict import Outcome


class Tally(msgspec.Struct, frozen=True, array_like=True):
    """One invariant in one run. first_us: virtual time of the first violation, -1 if there is none."""

    status: Status
    tested: int
    violated: int = 0
    excused: int = 0
    first_us: int = -1


class RunRecord(msgspec.Struct, frozen=True):
    """One run that ended. seed: as resolved. exit_code: as ``krift run`` would end on it. signature: of its failure, ""
    if it did not fail; sentence: that failure in full. tallies: invariant -> what became of it. faults: of its
    schedule. wall_s: time that it took. virtual_us: its own time."""

    order: SimOrder
    seed: int
    exit_code: int
    outcome: Outcome
    signature: str
    sentence: str
    digest: str
    events: int
    rpcs: int
    virtual_us: int
    wall_s: float
    tallies: dict[str, Tally]
    faults: list[FaultOutcome]
    undecided: list[str] = []


def record_of(order: SimOrder, run: SimRun, wall_s: float) -> RunRecord:
    """What to keep of a run."""
    verdict = run.verdict
    failed = run.detail if run.exit_code and not verdict.unexpected else ""
    tallies = {
        each.id: Tally(each.status, each.tested, each.violated, sum(each.excused.values()), run.first.get(each.id, -1))
        for each in verdict.invariants
    }
    return RunRecord(
        order,
        run.plan.seed,
        run.exit_code,
        verdict.outcome,
        signature(run),
        verdict.unexpected[0] if verdict.unexpected else failed,
        verdict.digest,
        verdict.events,
        verdict.rpcs,
        run.end_us,
        wall_s,
        tallies,
        run.faults,
        verdict.undecided,
    )
