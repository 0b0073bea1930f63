"""What is kept of each of many runs: small enough for millions, enough to judge a campaign by."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from chaos.injector import FaultOutcome
from orchestrator.campaigns.order import SimOrder
from orchestrator.campaigns.signature import first_unexpected, shape, signature
from orchestrator.invariants.folds.conclusion import unconcerned
from orchestrator.invariants.folds.fold import Status, profile_of
from orchestrator.invariants.registry import INVARIANTS
from orchestrator.report.losses import losses
from orchestrator.sim_run import SimRun
from orchestrator.verdict import NOT_CARRIED_OUT, UNEXPECTED, Outcome


class Tally(msgspec.Struct, frozen=True, array_like=True):
    """One invariant in one run. first_us: virtual time of the first violation, -1 if there is none. off: a feature that
    it rests on is off everywhere in the run, so that nothing could test it."""

    status: Status
    tested: int
    violated: int = 0
    excused: int = 0
    first_us: int = -1
    off: bool = False


class RunRecord(msgspec.Struct, frozen=True):
    """One run that ended. seed: as resolved. exit_code: as ``krift run`` would end on it. signature: of its failure, ""
    if it did not fail; sentence: that failure in full. tallies: invariant -> what became of it. faults: of its
    schedule. wall_s: time that it took. virtual_us: its own time. declared: whether its scenario says
    what must hold, or be violated. coverage: points (``orchestrator.coverage``), sorted. known: findings about Kafka
    itself that show in it. defects: bugs that were planted in it. lost: acknowledged records that it lost, though no
    rule allows it; given_up: rule -> acknowledged records that it lost as that rule allows."""

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
    declared: bool = False
    coverage: list[str] = []
    known: list[str] = []
    defects: list[str] = []
    lost: int = 0
    given_up: dict[str, int] = {}


def record_of(order: SimOrder, run: SimRun, wall_s: float, coverage: Sequence[str] = (), behind: str = "") -> RunRecord:
    """What to keep of a run. ``coverage``: the points that an observer of it collected. ``behind``: a failure that it
    hid behind what is known, "" if none."""
    verdict = run.verdict
    failed = run.detail if run.exit_code and not verdict.unexpected else ""
    first = first_unexpected(run)
    against = verdict.unexpected[:1] if first is None else [first.against]
    profile = profile_of(run.plan.profile())
    tallies = {
        each.id: Tally(
            each.status,
            each.tested,
            each.violated,
            sum(each.excused.values()),
            run.first.get(each.id, -1),
            bool(unconcerned(INVARIANTS[each.id], profile)),
        )
        for each in verdict.invariants
    }
    return RunRecord(
        order,
        run.plan.seed,
        UNEXPECTED if behind else run.exit_code,
        verdict.outcome,
        shape(behind) if behind else signature(run),
        behind or "".join(against) or failed,
        verdict.digest,
        verdict.events,
        verdict.rpcs,
        run.end_us,
        wall_s,
        tallies,
        run.faults,
        verdict.undecided,
        bool(run.plan.expect.held or run.plan.expect.violated),
        list(coverage),
        verdict.known,
        verdict.defects,
        sum(gone.number for each in verdict.invariants for gone in each.gone if not gone.rule),
        {each.rule: each.lost for each in losses(verdict) if each.rule and each.lost},
    )


def record_of_error(order: SimOrder, error: Exception, wall_s: float) -> RunRecord:
    """What to keep of a run that ended in an exception of Krift's own: a bug, or a scenario that cannot be."""
    sentence = f"{type(error).__name__}: {error}"
    return RunRecord(
        order,
        -1 if order.seed is None else order.seed,
        NOT_CARRIED_OUT,
        "inconclusive",
        f"error: {shape(sentence)}",
        sentence,
        digest="",
        events=0,
        rpcs=0,
        virtual_us=0,
        wall_s=wall_s,
        tallies={},
        faults=[],
    )
