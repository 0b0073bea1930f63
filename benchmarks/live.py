"""The live runtime: RPCs a second in a ring of actors, beside a ring of bare actors that speak plain gRPC."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from benchmarks.figures import Figure, Goal, alternate
from benchmarks.processes import BareRing, LiveNode, start_nodes, stop_nodes
from benchmarks.ring import ring
from orchestrator.clusters.local_ray import LocalRayCluster

ACTORS = 10


async def burst(nodes: list[LiveNode], seconds: float, number: int) -> float:
    """All nodes ask at once for so long; RPCs a second of all together."""
    await asyncio.gather(*(node.invoke(f"begin/{number}", "begin") for node in nodes))
    await asyncio.sleep(seconds)
    end = f"end/{number}"
    await asyncio.gather(*(node.invoke(end, "end") for node in nodes))
    results = await asyncio.gather(*(node.completed(end) for node in nodes))
    return float(sum(result["answered"] * 1000 / result["elapsed_ms"] for result in results))


def figures(rounds: int, seconds: float, actors: int = ACTORS) -> list[Figure]:
    """``seconds``: of one burst."""
    with LocalRayCluster(), tempfile.TemporaryDirectory() as folder, asyncio.Runner() as runner:
        nodes = runner.run(start_nodes(ring(actors), "benchmarks.ring:new_node", Path(folder)))
        bare = BareRing()
        runner.run(bare.open(actors))
        bursts = iter(range(1 << 30))

        def krift() -> float:
            return runner.run(burst(nodes, seconds, next(bursts)))

        def plain() -> float:
            return runner.run(bare.burst(seconds))

        alternate(krift, plain, 1)  # connections and caches, once
        values, beside = alternate(krift, plain, rounds)
        runner.run(stop_nodes(nodes))
        bare.close()
    name = f"live: RPCs among {actors} actors"
    return [Figure(name, "RPCs/s", values, "bare grpc.aio in as many actors", beside, Goal("least", 0.6))]
