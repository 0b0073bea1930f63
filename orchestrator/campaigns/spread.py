"""Work spread over the executors of a Spark session: independent pieces, each a pure function of its input."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PieceT = TypeVar("PieceT")
ResultT = TypeVar("ResultT")

JOBS_AHEAD = 2
"""Spark jobs under way at a time: while the last tasks of one are still at work, free cores begin the next."""
TICK_S = 0.5


def nothing() -> None:
    """Nothing to do meanwhile."""


def spread(
    spark: SparkSession,
    pieces: Iterable[PieceT],
    work: Callable[[PieceT], ResultT],
    *,
    per_task: int = 8,
    tasks_per_core: int = 1,
    tick: Callable[[], None] = nothing,
) -> Iterator[ResultT]:
    """``work`` on each piece, in jobs of a few tasks with ``per_task`` pieces each; results come job by job, in the
    order in which jobs end. Pieces, results and ``work`` must pickle; ``work`` is a function of an importable module,
    or a ``functools.partial`` of one. A task whose executor dies is done again elsewhere (Spark's
    ``spark.task.maxFailures``), so ``work`` has no effect but its result. An exception in ``work`` ends all.

    ``pieces`` may be endless, and be made from the results so far: a piece is taken when its job begins. ``tick`` is
    called in this thread a few times a second while it waits; an exception of it ends all."""
    width = per_task * tasks_per_core * spark.sparkContext.defaultParallelism
    waiting = _jobs(iter(pieces), width)

    def job(some: Sequence[PieceT]) -> list[ResultT]:
        tasks = max(1, -(-len(some) // per_task))
        return spark.sparkContext.parallelize(some, tasks).map(work).collect()

    with ThreadPoolExecutor(JOBS_AHEAD, thread_name_prefix="spread") as threads:
        under_way: set[Future[list[ResultT]]] = {threads.submit(job, some) for some in islice(waiting, JOBS_AHEAD)}
        try:
            while under_way:
                tick()
                done, under_way = wait(under_way, TICK_S, return_when=FIRST_COMPLETED)
                under_way |= {threads.submit(job, some) for some in islice(waiting, len(done))}
                for each in done:
                    yield from each.result()
        finally:
            spark.sparkContext.cancelAllJobs()


def _jobs(pieces: Iterator[PieceT], width: int) -> Iterator[list[PieceT]]:
    while some := list(islice(pieces, width)):
        yield some
