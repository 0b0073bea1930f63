"""Live nodes in Ray actors, started by hand: what ``orchestrator.clusters`` does, without conductor and faults.

Ray is imported late: it reads its environment then, and ``LocalRayCluster`` sets that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from actors.live.actor import NodeActor
from actors.live.setup import Broken, Completed, Control, Opened, Setup
from actors.node.spec import NodeSpec
from benchmarks.bare import BareActor
from orchestrator.clusters.local_ray import LOOPBACK, MATCHER

OPTIONS: dict[str, Any] = {"num_cpus": 0, "max_restarts": 0, "max_task_retries": 0}
ZERO = Control(0, 0)


class LiveNode(msgspec.Struct):
    """A node in its process."""

    spec: NodeSpec
    handle: Any
    opened: Opened

    async def invoke(self, operation: str, kind: str) -> None:
        """Give it an operation."""
        await self.handle.invoke.remote(operation, kind, {}, ZERO)

    async def completed(self, operation: str) -> dict[str, Any]:
        """The result of an operation, when it has ended. Raises AssertionError if the node breaks."""
        while True:
            for report in await self.handle.reports.remote():
                assert not isinstance(report, Broken), report.detail
                if isinstance(report, Completed) and report.operation == operation:
                    return report.result


async def start_nodes(specs: Sequence[NodeSpec], factory: str, directory: Path) -> list[LiveNode]:
    """One actor per node, with trace, journal and disk below ``directory``."""
    import ray

    async def make(spec: NodeSpec) -> LiveNode:
        logs, journals, disk = (str(directory / kind / spec.name) for kind in ("logs", "journals", "disks"))
        setup = Setup("benchmark", spec, 0, 1, logs, journals, disk, LOOPBACK, factory, MATCHER)
        handle: Any = ray.remote(NodeActor).options(**OPTIONS).remote(setup)
        opened: Opened = await handle.open.remote()
        return LiveNode(spec, handle, opened)

    nodes = await asyncio.gather(*(make(spec) for spec in specs))
    addresses = {node.spec.name: f"{LOOPBACK}:{node.opened.port}" for node in nodes if node.opened.port}
    await asyncio.gather(*(node.handle.start.remote(addresses, [], [], ZERO) for node in nodes))
    return list(nodes)


async def stop_nodes(nodes: Sequence[LiveNode]) -> None:
    """End them in good order."""
    import ray

    await asyncio.gather(*(node.handle.stop.remote(ZERO) for node in nodes))
    for node in nodes:
        ray.kill(node.handle)


class BareRing:
    """Bare actors, each with its successor's address."""

    def __init__(self) -> None:
        self.pids: list[int] = []
        self._handles: list[Any] = []

    async def open(self, size: int) -> None:
        """Start them."""
        import ray

        self._handles = [ray.remote(BareActor).options(**OPTIONS).remote() for _ in range(size)]
        opened = await asyncio.gather(*(handle.open.remote() for handle in self._handles))
        self.pids = [pid for pid, _ in opened]
        addresses = [f"{LOOPBACK}:{port}" for _, port in opened]
        following = [*addresses[1:], addresses[0]]
        pairs = zip(self._handles, following, strict=True)
        await asyncio.gather(*(handle.connect.remote(address) for handle, address in pairs))

    async def burst(self, seconds: float) -> float:
        """All ask at once; RPCs a second of all together."""
        counted = await asyncio.gather(*(handle.burst.remote(seconds) for handle in self._handles))
        return float(sum(count / elapsed for count, elapsed in counted))

    def close(self) -> None:
        """End them."""
        import ray

        for handle in self._handles:
            ray.kill(handle)
