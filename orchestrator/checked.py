"""What the trace of a run says, and the verdict on the run that follows from it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

import msgspec

from actors.trace.events import Rpc, Stamped
from chaos.conductor import ScenarioConductor
from chaos.injector import FaultOutcome
from chaos.must_happen import Sightings
from chaos.plan import At, Plan, Seen
from orchestrator.clusters.base import RunOutcome
from orchestrator.engines.in_process import InProcessEngine
from orchestrator.invariants.folds.conclusion import InvariantResult
from orchestrator.invariants.registry import INVARIANTS
from orchestrator.report.losses import ACKNOWLEDGED, LOSSES, loss_moments
from orchestrator.report.rules import because
from orchestrator.setting import setting_of
from orchestrator.story.chronicle import Chronicle
from orchestrator.story.moments import Break
from orchestrator.verdict import Excuse, InvariantVerdict, RunFacts, Verdict, Violation, judge


class Checked(msgspec.Struct, frozen=True):
    """What a trace says. seen: what must happen -> whether it did. zero_us: time 0 by the trace's clock, None if it
    never came. chronicle: what happened, None where nobody asks for it."""

    results: list[InvariantResult]
    seen: dict[str, bool]
    rpcs: int
    events: int
    digest: str
    zero_us: int | None = None
    chronicle: Chronicle | None = None


class Watcher:
    """Looks at every event of a run, in order: feeds the engine, counts, notes what must happen, writes the story.
    ``only``: the invariants that are judged, all if it is None."""

    def __init__(self, plan: Plan, only: Collection[str] | None = None) -> None:
        self.engine = InProcessEngine(only)
        self.rpcs = 0
        self.chronicle = Chronicle()
        self._sightings = Sightings(plan)

    def __call__(self, event: Stamped) -> None:
        self.engine.take(event)
        if type(event.body) is Rpc:
            self.rpcs += 1
        self.chronicle(event)
        self._sightings(event)

    def checked(self, digest: str) -> Checked:
        """End the trace: what it says. ``digest``: of the trace."""
        results, told = self.engine.results(), self.chronicle
        return Checked(results, self._sightings.seen, self.rpcs, self.engine.events, digest, told.zero_us, told)


def of_an_unfinished(checked: Checked, why: str) -> Checked:
    """What is known of a run that has not come to its end: nothing that is violated so far is proven, since what speaks
    against it may be in lines that are still to come."""
    results = [
        msgspec.structs.replace(each, status="inconclusive", why=why) if each.status == "violated" else each
        for each in checked.results
    ]
    return msgspec.structs.replace(checked, results=results)


def verdict_on(
    plan: Plan,
    run: str,
    runtime: Literal["live", "sim"],
    checked: Checked,
    duration: float,
    doubts: Sequence[str],
    remarks: Sequence[str] = (),
) -> Verdict:
    """The verdict on a run from what its trace says and what speaks against the run. ``duration``: in seconds.
    ``remarks``: what did not go as it was meant to, and speaks against nothing."""
    facts = RunFacts(
        run=run,
        scenario=plan.scenario,
        variant=plan.variant,
        about=plan.about,
        runtime=runtime,
        seed=plan.seed,
        digest=checked.digest,
        events=checked.events,
        rpcs=checked.rpcs,
        duration=duration,
        defects=plan.defects,
        setting=setting_of(plan),
    )
    verdict = judge(facts, checked.results, plan.expect, checked.seen, doubts, checked.zero_us)
    chronicle = checked.chronicle
    if chronicle is None:
        return verdict
    return msgspec.structs.replace(
        verdict,
        remarks=[*remarks, *chronicle.remarks],
        story=chronicle.told(breaks_of(verdict)),
    )


BREAKS_MAX = 5
"""Promises that a story says the end of, the first that were broken; what is violated at all stands below the story."""

GAVE_WAY_MAX = 3


def breaks_of(verdict: Verdict) -> list[Break]:
    """When promises were broken, or gave way, for the first time, as lines of the story."""
    broken = [
        Break(each.first_us, f"{each.id} VIOLATED: {each.title}", _proof(each), _keys(each.violations), _concerns(each))
        for each in verdict.invariants
        if each.status == "violated" and each.first_us is not None
    ]
    excuses = [
        Break(
            first.at_us,
            f"{each.id} excused ({because(first.rule)}): {each.title}",
            _last(first.events),
            _keys(each.excuses),
            _concerns(each),
        )
        for each in verdict.invariants
        if each.status == "excused" and (first := next(iter(each.excuses), None)) and first.at_us is not None
        if each.id != ACKNOWLEDGED or first.rule not in LOSSES
    ]
    return [*_earliest(broken, BREAKS_MAX), *_earliest(excuses, GAVE_WAY_MAX), *loss_moments(verdict)]


def _proof(broken: InvariantVerdict) -> str:
    """The event that shows the first violation."""
    return next((_last(each.events) for each in broken.violations if each.at_us == broken.first_us), "")


def _keys(found: Sequence[Violation | Excuse]) -> tuple[str, ...]:
    """What a promise broke at."""
    return tuple(dict.fromkeys(each.key for each in found))


def _concerns(broken: InvariantVerdict) -> tuple[str, ...]:
    """Whether a promise is about groups or transactions."""
    found = INVARIANTS[broken.id]
    kinds = {"groups": found.of_groups, "transactions": found.of_transactions}
    return tuple(kind for kind, concerned in kinds.items() if concerned)


def _last(events: Sequence[str]) -> str:
    return events[-1] if events else ""


def _earliest(moments: Sequence[Break], most: int) -> list[Break]:
    return sorted(moments, key=lambda each: each.at_us)[:most]


def remarks_on(conductor: ScenarioConductor) -> list[str]:
    """What of the schedule did not come as it was written, without speaking against the run: an end that was never
    seen, so that the end of the chaos took its place; and what need not have found anybody."""
    found = []
    nobody: list[str] = []
    never: list[tuple[str, At | Seen]] = []
    optional = {scheduled.id for scheduled in conductor.plan.schedule if scheduled.optional}
    moments = {scheduled.id: scheduled for scheduled in conductor.plan.schedule}
    for each in conductor.outcomes:
        name = f"{each.id} ({each.kind})"
        if each.until_missed:
            until = moments[each.id].until
            found.append(f"{name} lasted to the end of the chaos: its end ({until}) was never seen")
        if each.id in optional and each.phase == "without target":
            nobody.append(name)
        elif each.id in optional and each.phase == "cancelled":
            never.append((name, moments[each.id].when))
    if nobody:
        when = "its moment" if len(nobody) == 1 else "their moments"
        found.append(f"{', '.join(nobody)} had no target: when {when} came, there was no node to hit")
    if len(never) == 1:
        found += [f"{name} never began: its moment ({moment}) did not come during the chaos" for name, moment in never]
    elif never:
        several = "; ".join(f"{name}, {moment}" for name, moment in never)
        found.append(f"these never began, as their moments did not come during the chaos: {several}")
    return found


def doubts_about(outcome: RunOutcome, conductor: ScenarioConductor) -> list[str]:
    """What speaks against a run having gone its way."""
    doubts: list[str] = []
    if outcome.status == "interrupted":
        doubts.append("the run was interrupted")
    elif outcome.status == "completed" and conductor.status != "completed":
        doubts.append(f"the cluster {conductor.status}: {conductor.detail}")
    if outcome.status == "completed" and conductor.zero_us is not None:
        moments = {scheduled.id: scheduled.when for scheduled in conductor.plan.schedule if not scheduled.optional}
        needed = [each for each in conductor.outcomes if each.id in moments]
        doubts += [_without_effect(each, str(moments[each.id])) for each in needed if not each.took_effect]
        late = [(each, name) for each in needed for name in each.late]
        doubts += [f"{name} did not stop or come back in time in {each.id} ({each.kind})" for each, name in late]
    return doubts


def _without_effect(fault: FaultOutcome, moment: str) -> str:
    """Why a fault of the schedule shows nowhere: what was not broken was not put to the test."""
    name = f"fault {fault.id} ({fault.kind})"
    if fault.phase == "cancelled":
        return f"{name} never began: its moment ({moment}) did not come during the chaos"
    nobody = ": it had no target" if fault.phase == "without target" else ""
    return f"{name} did not take effect{nobody}"
