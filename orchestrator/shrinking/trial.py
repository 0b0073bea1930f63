"""Candidates carried out: one after the other in this process, or several at a time on Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from chaos.errors import RunError
from chaos.plan import Plan
from chaos.scenario.loader import load_value
from chaos.scenario.resolve import resolve
from chaos.shrink.moments import Lookout, Sighting
from chaos.shrink.shrinker import Shown
from orchestrator.campaigns.spread import spread
from orchestrator.campaigns.work import code_id
from orchestrator.interrupts import Interrupts
from orchestrator.shrinking.failure import Failure
from orchestrator.sim_run import SimRun, run_in_sim

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Candidate = Mapping[str, Any]


def plan_of(document: Candidate) -> Plan:
    """The plan of a scenario that is given as plain values."""
    return resolve(load_value(document))


def attempt(failure: Failure, document: Candidate) -> Shown | None:
    """Run a candidate until it fails: whether it does so in the same way. None if a signal cut it short.

    What Krift itself stumbles over did not fail the same way; it is told.
    """
    try:
        run = run_in_sim(plan_of(document), stop_at=failure.invariant)
    except Exception as error:  # noqa: BLE001  (it is reported; the candidates after it are not lost)
        return Shown(False, odd=f"{type(error).__name__}: {error}")
    if _was_cut_short(run, failure):
        return None
    return Shown(failure.is_shown_by(run), failed_at(run, failure))


def _was_cut_short(run: SimRun, failure: Failure) -> bool:
    return run.status == "interrupted" and failure.invariant not in run.first_unknown


def failed_at(run: SimRun, failure: Failure) -> int:
    """When a run failed, in microseconds since time 0; -1 before that, or if it is only known at the end."""
    at_us = run.first.get(failure.invariant, -1)
    return at_us - run.zero_us if run.zero_us >= 0 and at_us >= run.zero_us else -1


def one_by_one(failure: Failure, documents: Sequence[Candidate]) -> Iterator[Shown]:
    """Candidates in this process. Raises KeyboardInterrupt if a signal cut one short."""
    for document in documents:
        shown = attempt(failure, document)
        if shown is None:
            raise KeyboardInterrupt
        yield shown


def _numbered(failure: Failure, code: str, piece: tuple[int, dict[str, Any]]) -> tuple[int, Shown | None]:
    number, document = piece
    if code != code_id():
        raise RunError(f"an executor has a different version of Krift than the driver: {code_id()}, not {code}")
    return number, attempt(failure, document)


def on_spark(spark: SparkSession, failure: Failure, documents: Sequence[Candidate]) -> Iterator[Shown]:
    """Candidates on the executors of a session, at the same time; they come in their order. Raises KeyboardInterrupt if
    a signal came meanwhile."""
    pieces = [(number, dict(document)) for number, document in enumerate(documents)]
    found: dict[int, Shown] = {}
    expected = 0
    with Interrupts() as interrupts:

        def tick() -> None:
            if interrupts.asked:
                raise KeyboardInterrupt

        work = partial(_numbered, failure, code_id())
        for number, shown in spread(spark, pieces, work, per_task=1, tick=tick):
            if shown is None:
                raise KeyboardInterrupt
            found[number] = shown
            while expected in found:
                yield found[expected]
                expected += 1


def look(document: Candidate) -> list[Sighting]:
    """What is seen in the run of a scenario. Raises KeyboardInterrupt if a signal cut it short."""
    lookout = Lookout()
    if run_in_sim(plan_of(document), [lookout]).status == "interrupted":
        raise KeyboardInterrupt
    return lookout.sightings
