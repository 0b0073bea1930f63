"""Carries the runs of a command out: one after the other, the next one beginning while the last is judged; or in the
sim on all cores. Either way they are delivered in their order."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from chaos.conductor import ScenarioConductor
from chaos.errors import KriftError
from chaos.plan import Plan
from chaos.words import duration, some
from orchestrator.cli.progress import ProgressLine
from orchestrator.interrupts import Interrupts
from orchestrator.run_dir import point_latest
from orchestrator.runner import Carried, Recorded, Session, Settings
from orchestrator.workers import Workers

INTERRUPTED = "interrupted"
Judging = tuple[str, Future[Carried]]
"""A run that is judged beside the next one: its title, and what comes of it."""


class Carrying:
    """The runs of a command, by number from 0. ``plan``: of a run. ``again``: the command that does it again.
    ``begin``: told of each that begins here, gives its title. ``deliver``: takes what came of each; False if nobody
    listens any more, so that no other is begun.

    begun: whether any run was. interrupted: whether they ended early in good order, as somebody wished.
    """

    def __init__(
        self,
        settings: Settings,
        plan: Callable[[int], Plan],
        again: Callable[[Plan], str],
        progress: ProgressLine,
        begin: Callable[[Plan], str],
        deliver: Callable[[Carried], bool],
    ) -> None:
        self.begun = False
        self.interrupted = False
        self._settings = settings
        self._plan = plan
        self._again = again
        self._progress = progress
        self._begin = begin
        self._deliver = deliver
        self._judging: Judging | None = None

    # ---- one after the other ------------------------------------------------------------------------------------

    def one_by_one(self, runs: int) -> None:
        """All runs, in this process. A Ctrl-C ends the one that goes on, and no other is begun. Raises what a session
        raises, once what is over is delivered."""
        # Around the session: its end ends what is still being judged, if nobody waits for that any more.
        with (
            ThreadPoolExecutor(1, thread_name_prefix="judge") as judge,
            Session(self._settings, say=self._progress.say) as session,
        ):
            try:
                for number in range(runs):
                    recorded = self._record(session, self._plan(number))
                    self._finish(wait=True)
                    last = number + 1 == runs or self.interrupted or recorded.manifest.status == INTERRUPTED
                    self._judge(session, recorded, None if last else judge)
                    if self.interrupted:
                        return
            except KriftError:
                self._finish(wait=True)
                raise

    def _record(self, session: Session, plan: Plan) -> Recorded:
        title = self._begin(plan)
        self.begun = True
        with self._progress.run(title):
            return session.record(plan, self._again(plan), self._show)

    def _show(self, conductor: ScenarioConductor) -> None:
        self._finish(wait=False)
        self._progress.show(conductor)

    def _judge(self, session: Session, recorded: Recorded, judge: ThreadPoolExecutor | None) -> None:
        """Judge a run, beside the next one if ``judge`` is given and the session can."""
        plan = recorded.plan
        title = f"{plan.scenario} ({plan.variant})" if plan.variant else plan.scenario
        if judge is not None and session.judges_beside and recorded.needs_spark:
            self._progress.say(f"judging {title} in Spark, beside the next run")
            self._judging = title, judge.submit(session.judge, recorded)
            self._progress.beside = f"{title} is being judged"
            return
        if recorded.needs_spark:
            self._progress.say(f"judging {title} in Spark")
        self._take(session.judge(recorded))

    def _finish(self, *, wait: bool) -> None:
        """Deliver the run that is judged beside this one, if there is one and it is done."""
        if self._judging is None:
            return
        title, result = self._judging
        # What went wrong is told when nothing goes on that it would break off.
        if not wait and not (result.done() and result.exception() is None):
            return
        if not result.done():
            self._progress.say(f"waiting for {title} to be judged")
        self._judging, self._progress.beside = None, ""
        self._take(result.result())

    def _take(self, done: Carried) -> None:
        if not self._deliver(done) or done.interrupted:
            self.interrupted = True

    # ---- on all cores -------------------------------------------------------------------------------------------

    def in_workers(self, runs: int, jobs: int) -> None:
        """All runs, in the sim, in so many processes. A Ctrl-C ends those that go on. Raises RunError if one
        could not be carried out."""
        number = min(jobs, runs)
        pace = Pace(runs, number)
        with Workers(self._carry_out, number) as workers, Interrupts(workers.interrupt) as interrupts:
            self.begun = True
            kept = None
            for done in workers.map(range(runs), lambda: self._progress.line(pace.line)):
                pace.ended(done.exit_code == 0)
                kept = done.directory or kept
                if not self._deliver(done):
                    self.interrupted = True
                    workers.stop()
                if pace.done == 1:
                    self._progress.say(pace.beforehand())
            self.interrupted |= interrupts.asked
        if kept is not None:
            point_latest(self._settings.out, kept.name)  # they begin in any order

    def _carry_out(self, number: int) -> Carried:
        """A run, in a process of its own."""
        plan = self._plan(number)
        with Session(self._settings) as session:
            return session.carry_out(plan, self._again(plan))


class Pace:
    """How fast runs get done, and how long the others will take. ``workers``: processes that do them."""

    def __init__(self, runs: int, workers: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._runs, self._workers, self._clock = runs, workers, clock
        self._began = clock()
        self.done = 0
        self._unexpected = 0

    def ended(self, expected: bool) -> None:
        """A run is over."""
        self.done += 1
        self._unexpected += not expected

    def beforehand(self) -> str:
        """What all will take, by the first: ``600 runs on 2 cores will take about 4 min``."""
        rounds = math.ceil(self._runs / self._workers)
        took = self._clock() - self._began
        return f"{some(self._runs, 'run')} on {some(self._workers, 'core')} will take about {duration(took * rounds)}"

    def line(self) -> str:
        """Where they stand: ``40 of 600 runs | 131 a minute, 4 min left | 40 as expected, 0 not``."""
        over = f"{self.done:,} of {some(self._runs, 'run')}"
        took = self._clock() - self._began
        if not self.done or took <= 0:
            return f"{over} | the first are under way"
        left = duration(took / self.done * (self._runs - self.done))
        expected = f"{self.done - self._unexpected:,} as expected, {self._unexpected:,} not"
        return f"{over} | {60 * self.done / took:,.0f} a minute, {left} left | {expected}"
