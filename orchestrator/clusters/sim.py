"""Runs in this process under virtual time."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Literal

from actors.control import Conductor
from actors.sim.carriage import Carriage
from actors.sim.digest import StepDigests
from actors.sim.world import ProbedStep, World
from actors.trace.events import Stamped
from orchestrator.clusters.base import Progress, RunOrder, RunOutcome, Say, Status, run_meta, say_nothing
from orchestrator.files import write_bytes
from orchestrator.interrupts import Interrupts
from orchestrator.trace.rows import stamped_to_row
from orchestrator.trace.write import TraceWriter

VIRTUAL_HOST = "sim"
EVENTS_PER_PROGRESS = 2000
STEPS_FILE = "steps.bin"
"""Digests of all steps: what a replay is compared with."""


class SimCluster:
    """The simulator as a cluster. ``keep``: write the trace and the digests of all steps into the run's directory.
    ``digest_steps``: have those digests in ``steps`` also where they are not kept. ``observer``: gets every event of a
    run in order while it goes on. ``probe``: keep this step in full. ``steps_max``: stop after so many steps.
    ``carriage``: how messages travel, on which no run depends."""

    runtime: Literal["live", "sim"] = "sim"

    def __init__(
        self,
        keep: bool = True,
        probe: int | None = None,
        steps_max: int | None = None,
        digest_steps: bool = False,
        carriage: Carriage = "shared",
    ) -> None:
        self.keep = keep
        self._digest_steps = keep or digest_steps
        self.observer: Callable[[Stamped], None] | None = None
        self.digest = ""
        self.steps: StepDigests | None = None
        self.probed: ProbedStep | None = None
        self._probe = probe
        self._steps_max = steps_max
        self._carriage: Carriage = carriage
        self._stop: Callable[[], None] = lambda: None
        self._stopped = False

    def stop(self) -> None:
        """End the run that goes on after the present event, as if it had been interrupted; for its observer."""
        self._stopped = True
        self._stop()

    def __enter__(self) -> SimCluster:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def run(
        self, order: RunOrder, conductor: Conductor, progress: Progress | None = None, say: Say = say_nothing
    ) -> RunOutcome:
        """See ``orchestrator.clusters.base.Cluster.run``. The digest of the trace is in ``digest`` afterwards."""
        plan = order.plan
        writer = TraceWriter(order.directory, stamped_to_row) if self.keep else None
        world = World(
            plan.nodes,
            conductor,
            plan.seed,
            order.run,
            self._sink(writer, progress),
            meta=run_meta(order, "sim"),
            step_digests=self._digest_steps,
            probe=self._probe,
            steps_max=self._steps_max,
            carriage=self._carriage,
        )
        self._stop, self._stopped = world.stop, False
        with writer or nullcontext(), Interrupts(world.stop) as interrupts:
            result = world.run(_limit_us(order))
        self.digest, self.steps, self.probed = result.digest, result.step_digests, result.probed
        if self.keep and self.steps is not None:
            write_bytes(order.directory / STEPS_FILE, self.steps.to_bytes())
        status: Status = "interrupted" if interrupts.asked or self._stopped else "completed"
        if result.failures:
            status = "broken"
        detail = "; ".join(f"{failure.node}: {failure.detail}" for failure in result.failures)
        return RunOutcome(status, detail, [VIRTUAL_HOST], result.end_us, result.events, 0, {})

    def _sink(self, writer: TraceWriter[Stamped] | None, progress: Progress | None) -> Callable[[Stamped], None]:
        observer = self.observer
        count = 0

        def take(event: Stamped) -> None:
            nonlocal count
            if writer is not None:
                writer.add(event)
            if observer is not None:
                observer(event)
            count += 1
            if progress is not None and count % EVENTS_PER_PROGRESS == 0:
                progress()

        return take


def _limit_us(order: RunOrder) -> int:
    budgets = order.plan.budgets
    return order.plan.duration_us + budgets.steady_state_us + budgets.heal_us + 2 * budgets.drain_us
