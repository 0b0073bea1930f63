"""Campaigns: how many runs a minute Spark does, beside one plain process; and two executors beside one."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from benchmarks.figures import Figure, Goal, alternate
from orchestrator.campaigns.campaign import PER_TASK
from orchestrator.campaigns.order import SimOrder
from orchestrator.campaigns.spread import spread
from orchestrator.campaigns.work import carry_out, code_id

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOURCES = {"kip-207 (as shipped)": ("kip-207", "kafka"), "everything": ("everything", "")}
"""What runs: an incident, whose runs are alike, and a nemesis, whose runs are not."""
WARM_RUNS = 16
"""Runs of a round before the first that counts: executors start Python processes, and those import Krift."""
WARM_ROUNDS = 20
"""Rounds at most until as many processes as there are cores have taken part: executors do not come up all at once."""


class Seeds:
    """Hands out orders, each seed once; both sides of a comparison do the same runs."""

    def __init__(self, source: str, variant: str) -> None:
        self._source, self._variant = source, variant

    def orders(self, first: int, number: int) -> list[SimOrder]:
        """Runs of so many seeds from ``first`` on."""
        return [SimOrder(self._source, self._variant, seed) for seed in range(first, first + number)]


def figures(rounds: int, seconds: float) -> list[Figure]:
    """``seconds``: of a round on one core, about: as many runs are taken as one process does in that time."""
    found = []
    for name, (source, variant) in SOURCES.items():
        seeds = Seeds(source, variant)
        runs = _calibrated(seeds, seconds)
        found.append(_beside_one_process(name, seeds, runs, rounds))
        found.append(_two_beside_one(name, seeds, runs, rounds))
    return found


def _calibrated(seeds: Seeds, seconds: float) -> int:
    """How many runs take about so long, in this process; at least two for each core of two."""
    trial = seeds.orders(1_000_000, 4)
    each_s = _seconds_of_here(trial) / len(trial)
    return max(4, round(seconds / each_s))


def _seconds_of_here(orders: list[SimOrder]) -> float:
    begin = time.perf_counter()
    for order in orders:
        record = carry_out(order)
        assert record is not None and record.exit_code != 4, "a run that did not take place counts for nothing"
    return time.perf_counter() - begin


def _beside_one_process(name: str, seeds: Seeds, runs: int, rounds: int) -> Figure:
    firsts, again = count(1, runs), count(1, runs)
    with _session("local[2]", 2) as spark:
        values, beside = alternate(
            lambda: 60 * runs / _seconds_of(spark, seeds.orders(next(firsts), runs)),
            lambda: 60 * runs / _seconds_of_here(seeds.orders(next(again), runs)),
            rounds,
        )
    return Figure(
        f"campaign: {name}, local[2]", "runs/min", values, "one process, one core", beside, Goal("least", 1.8)
    )


def _two_beside_one(name: str, seeds: Seeds, runs: int, rounds: int) -> Figure:
    firsts, again = count(1, runs), count(1, runs)

    def measured(executors: int, numbers: Iterator[int]) -> float:
        with _session(f"local-cluster[{executors},1,1024]", executors) as spark:
            return 60 * runs / _seconds_of(spark, seeds.orders(next(numbers), runs))

    values, beside = alternate(lambda: measured(2, firsts), lambda: measured(1, again), rounds)
    return Figure(f"campaign: {name}, two executors", "runs/min", values, "one executor", beside, Goal("least", 1.8))


def _seconds_of(spark: SparkSession, orders: list[SimOrder]) -> float:
    begin = time.perf_counter()
    done = list(spread(spark, orders, partial(carry_out, code=code_id()), per_task=PER_TASK))
    assert len(done) == len(orders) and None not in done
    return time.perf_counter() - begin


@contextmanager
def _session(master: str, cores: int) -> Iterator[SparkSession]:
    """A session with ``cores`` Python processes that have imported everything."""
    from orchestrator.engines.spark_session import spark_session

    spark = spark_session(master)
    try:
        orders = [SimOrder("kip-207", "kafka", seed) for seed in range(1, WARM_RUNS + 1)]
        for _ in range(WARM_ROUNDS):
            if len(set(spread(spark, orders, _process_of, per_task=PER_TASK))) >= cores:
                break
        else:
            raise AssertionError(f"{master} did not come to use {cores} processes")
        yield spark
    finally:
        spark.stop()


def _process_of(order: SimOrder) -> int:
    """The process that has done a run."""
    carry_out(order)
    return os.getpid()
