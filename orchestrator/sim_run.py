"""One judged run in the sim that leaves nothing behind: what campaigns, comparisons, the exam and shrinking repeat by
the thousand."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import msgspec

from actors.trace.events import Stamped
from chaos.conductor import ScenarioConductor
from chaos.injector import FaultOutcome
from chaos.plan import Plan
from orchestrator.checked import Watcher, doubts_about, remarks_on, verdict_on
from orchestrator.clusters.base import RunOrder
from orchestrator.clusters.sim import SimCluster
from orchestrator.verdict import Verdict, exit_code

Observer = Callable[[Stamped], None]
"""Gets every event of a run, in order, before the run goes on."""


class SimRun(msgspec.Struct, frozen=True):
    """A run that ended. status, detail: as in a manifest ("completed", "broken", "interrupted", or why the cluster
    did not come to its end). faults: what became of each. zero_us: virtual time of the steady state, -1 if it never
    came. end_us: virtual time of the end. first: invariant -> virtual time of its first violation; first_unknown: of
    its first one that is no known finding."""

    plan: Plan
    verdict: Verdict
    status: str
    detail: str
    faults: list[FaultOutcome]
    zero_us: int
    end_us: int
    first: dict[str, int]
    first_unknown: dict[str, int]

    @property
    def exit_code(self) -> int:
        """As ``krift run`` would end on it."""
        return exit_code(self.verdict, self.status)


def run_in_sim(
    plan: Plan,
    observers: Sequence[Observer] = (),
    *,
    directory: Path | None = None,
    stop_at: str = "",
    only: Collection[str] | None = None,
) -> SimRun:
    """Carry out a plan and judge it. ``directory``, which exists: keep the trace and the digests of all steps in it.
    ``stop_at``: an invariant whose first violation ends the run, known findings apart (what the run then lacks speaks
    against it only as "interrupted"). ``only``: the invariants that are judged, all if it is None; the run is as much
    faster as they are fewer."""
    cluster, conductor, watcher = SimCluster(keep=directory is not None), ScenarioConductor(plan), Watcher(plan, only)

    def take(event: Stamped) -> None:
        watcher(event)
        for observer in observers:
            observer(event)
        if stop_at and stop_at in watcher.engine.violated_unknown:
            cluster.stop()

    cluster.observer = take
    run = directory.name if directory is not None else plan.scenario
    outcome = cluster.run(RunOrder(run, plan, directory or Path()), conductor)
    duration = outcome.duration_us / 1_000_000
    doubts = doubts_about(outcome, conductor)
    verdict = verdict_on(plan, run, "sim", watcher.checked(cluster.digest), duration, doubts, remarks_on(conductor))
    return SimRun(
        plan,
        verdict,
        outcome.status if outcome.status != "completed" else conductor.status,
        outcome.detail or conductor.detail,
        conductor.outcomes,
        -1 if conductor.zero_us is None else conductor.zero_us,
        outcome.duration_us,
        dict(watcher.engine.violated),
        dict(watcher.engine.violated_unknown),
    )
