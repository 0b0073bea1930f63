"""What a larger cluster costs: ``python -m benchmarks.scale brokers|partitions|live [--sizes 10,30,50]``.

``brokers`` and ``partitions`` are clusters in the sim under the load of two producers, each size in a process of its
own: what a virtual second costs once the cluster runs, with and without checks, what its start costs, and how much
memory the process needs. ``live`` starts the nodes of a cluster on this machine. The last line fits the power of the
size with which a cost grows: 1 is in proportion, 0 not at all.
"""

from __future__ import annotations

import asyncio
import math
import multiprocessing
import os
import resource
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import linear_regression

import click
import msgspec

from benchmarks.figures import machine
from benchmarks.memory import pss_mib, start_load
from benchmarks.processes import LiveNode, start_nodes, stop_nodes
from benchmarks.sim import run_checked, run_unchecked
from chaos.plan import Plan
from chaos.scenario.loader import load_value
from chaos.scenario.resolve import resolve
from orchestrator.clusters.local_ray import FACTORY, LocalRayCluster

TOPIC_PARTITIONS_MAX = 1000
"""Of one topic of a scenario."""
IDLE = "idle"
SIZES = {"brokers": (3, 10, 30, 50), "partitions": (10, 100, 1000, 10_000), "live": (3, 10, 20, 40)}
PARTITIONS = 100
"""Of a cluster of whatever size."""
ROUNDS = 3
"""Runs of each length; the fastest counts."""
LOADED = 10
"""Partitions that are written to; the others are there."""


class Cost(msgspec.Struct, frozen=True):
    """Of a size. ``checked_s``, ``unchecked_s``: of a virtual second; ``start_s``: of the time before it. ``messages``:
    in a virtual second. ``peak_mib``: of the process."""

    checked_s: float
    unchecked_s: float
    start_s: float
    messages: float
    peak_mib: float


class LiveCost(msgspec.Struct, frozen=True):
    """Of a size: ``start_s`` by the clock, the proportional set size of all node processes, cores that they use."""

    nodes: int
    start_s: float
    pss_mib: float
    cores: float


def cluster(brokers: int, partitions: int, seconds: float) -> Plan:
    """Two producers of 20 records a second each and two consumers on one topic; the rest of the partitions is idle."""
    idle = range(0, max(partitions - LOADED, 0), TOPIC_PARTITIONS_MAX)
    topics = {
        f"{IDLE}-{number}": {"partitions": min(TOPIC_PARTITIONS_MAX, partitions - LOADED - first), "replication": 3}
        for number, first in enumerate(idle)
    }
    topics["orders"] = {"partitions": min(LOADED, partitions), "replication": 3}
    scenario = {
        "schema": "krift/v1",
        "name": "scale",
        "about": "A cluster without faults.",
        "duration": f"{int(seconds * 1000)}ms",
        "cluster": {"voters": 3, "brokers": brokers, "topics": topics},
        "workload": [
            {"producer": {"topic": "orders", "rate": "20/s", "count": 2}},
            {"consumer": {"topic": "orders", "count": 2}},
        ],
    }
    return resolve(load_value(scenario))


def cost(brokers: int, partitions: int, seconds: float) -> Cost:
    """What a virtual second costs is the difference between a run of ``seconds`` and one of twice as many."""
    short, long = (cluster(brokers, partitions, length) for length in (seconds, 2 * seconds))
    run_unchecked(cluster(3, 10, 1))  # imports and caches, once
    checked, unchecked = [
        [min((run(plan) for _ in range(ROUNDS)), key=lambda ran: ran.cpu_s) for plan in (short, long)]
        for run in (run_checked, run_unchecked)
    ]
    virtual_s = checked[1].virtual_s - checked[0].virtual_s
    second = (checked[1].cpu_s - checked[0].cpu_s) / virtual_s
    return Cost(
        second,
        (unchecked[1].cpu_s - unchecked[0].cpu_s) / virtual_s,
        checked[0].cpu_s - second * seconds,
        (checked[1].messages - checked[0].messages) / virtual_s,
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    )


def in_a_process(measure: Callable[..., Cost], *arguments: float) -> Cost:
    """As the memory of a process never falls again."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(measure, arguments)


def growth(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """The power of the size with which a cost grows, by a straight line through the logarithms."""
    if len(sizes) < 2:
        return 0.0
    return linear_regression([math.log(size) for size in sizes], [math.log(max(each, 1e-9)) for each in costs]).slope


def live(brokers: int, seconds: float) -> LiveCost:
    """The nodes of a cluster of 100 partitions on this machine, ``seconds`` after its clients began, for as long."""
    plan = cluster(brokers, PARTITIONS, seconds)
    with LocalRayCluster(), tempfile.TemporaryDirectory() as folder, asyncio.Runner() as runner:
        began = time.perf_counter()
        nodes = runner.run(start_nodes(plan.nodes, FACTORY, Path(folder)))
        start_s = time.perf_counter() - began
        runner.run(start_load(nodes))
        runner.run(asyncio.sleep(seconds))
        before, at = cpu_s(nodes), time.perf_counter()
        runner.run(asyncio.sleep(seconds))
        cores = (cpu_s(nodes) - before) / (time.perf_counter() - at)
        pss = sum(pss_mib(Path(f"/proc/{node.opened.pid}/smaps_rollup").read_text("ascii")) for node in nodes)
        runner.run(stop_nodes(nodes))
    return LiveCost(len(nodes), start_s, pss, cores)


def cpu_s(nodes: Sequence[LiveNode]) -> float:
    """Processor time of all node processes so far."""
    stats = (Path(f"/proc/{node.opened.pid}/stat").read_text("ascii").rpartition(") ")[2].split() for node in nodes)
    return sum(int(stat[11]) + int(stat[12]) for stat in stats) / os.sysconf("SC_CLK_TCK")


def sim_table(axis: str, sizes: Sequence[int], seconds: float) -> list[str]:
    """Rows of Markdown."""
    rows = [
        f"| {axis} | CPU time of a virtual second | without checks | messages in it | of the start | memory |",
        "|---|---|---|---|---|---|",
    ]
    costs = []
    for size in sizes:
        brokers, partitions = (size, PARTITIONS) if axis == "brokers" else (3, size)
        costs.append(found := in_a_process(cost, brokers, partitions, seconds))
        rows.append(
            f"| {size:,} | {found.checked_s * 1000:,.0f} ms | {found.unchecked_s * 1000:,.0f} ms | "
            f"{found.messages:,.0f} | {found.start_s:,.1f} s | {found.peak_mib:,.0f} MiB |"
        )
        click.echo(rows[-1], err=True)
    fields = ("checked_s", "unchecked_s", "messages", "start_s", "peak_mib")
    powers = [growth(sizes, [getattr(each, field) for each in costs]) for field in fields]
    return [*rows, "| grows with the power | " + " | ".join(f"{power:.2f}" for power in powers) + " |"]


def live_table(sizes: Sequence[int], seconds: float) -> list[str]:
    """Rows of Markdown."""
    rows = ["| brokers | nodes | until all had started | memory of all (PSS) | cores in use |", "|---|---|---|---|---|"]
    for size in sizes:
        found = live(size, seconds)
        rows.append(
            f"| {size} | {found.nodes} | {found.start_s:,.1f} s | {found.pss_mib:,.0f} MiB | {found.cores:.2f} |"
        )
        click.echo(rows[-1], err=True)
    return rows


@click.command()
@click.argument("axis", type=click.Choice(list(SIZES)))
@click.option("--sizes", help="Such as 10,30,50; those of the documentation if not given.")
@click.option("--seconds", default=10.0, show_default=True, type=click.FloatRange(0.1), help="Virtual ones; real live.")
def main(axis: str, sizes: str | None, seconds: float) -> None:
    """Measure one AXIS, size by size."""
    chosen = SIZES[axis] if sizes is None else tuple(int(size) for size in sizes.split(","))
    click.echo(", ".join(f"{key} {value}" for key, value in machine().items()), err=True)
    rows = live_table(chosen, seconds) if axis == "live" else sim_table(axis, chosen, seconds)
    click.echo("\n".join(rows))


if __name__ == "__main__":
    main()
