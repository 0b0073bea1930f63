"""Memory of a broker's process under the baseline's load, beside a bare actor with a gRPC server."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.figures import Figure, Goal, alternate
from benchmarks.processes import BareRing, LiveNode, start_nodes, stop_nodes
from benchmarks.sim import baseline
from orchestrator.clusters.local_ray import FACTORY, LocalRayCluster

BARE_ACTORS = 3


def pss_mib(rollup: str) -> float:
    """Proportional set size from the text of ``/proc/PID/smaps_rollup``: memory shared with others counts in part."""
    for line in rollup.splitlines():
        name, _, rest = line.partition(":")
        if name == "Pss":
            return int(rest.split()[0]) / 1024
    raise ValueError("no Pss in it")


def median_pss_mib(pids: Sequence[int]) -> float:
    """Of the processes, the one in the middle."""
    texts = [Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii") for pid in pids]
    return statistics.median(pss_mib(text) for text in texts)


async def start_load(nodes: Sequence[LiveNode]) -> None:
    """Let the clients begin; what they do before the cluster is up, they repeat."""
    clients = [node for node in nodes if node.spec.node_id < 0]
    await asyncio.gather(*(node.invoke("load", "start") for node in clients))


def figures(rounds: int, seconds: float) -> list[Figure]:
    """``seconds``: under load before each look."""
    with LocalRayCluster(), tempfile.TemporaryDirectory() as folder, asyncio.Runner() as runner:
        nodes = runner.run(start_nodes(baseline(1).nodes, FACTORY, Path(folder)))
        bare = BareRing()
        runner.run(bare.open(BARE_ACTORS))
        runner.run(start_load(nodes))
        runner.run(bare.burst(1.0))
        brokers = [node.opened.pid for node in nodes if node.spec.role == "broker"]

        def krift() -> float:
            runner.run(asyncio.sleep(seconds))
            return median_pss_mib(brokers)

        values, beside = alternate(krift, lambda: median_pss_mib(bare.pids), rounds)
        runner.run(stop_nodes(nodes))
        bare.close()
    name = "live: memory of a broker (PSS)"
    return [Figure(name, "MiB", values, "bare actor with a gRPC server", beside, Goal("most", 1.3))]
