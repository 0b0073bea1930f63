"""The host agents of a run: one actor on each Ray node it uses."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayActorError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from actors.control import Barrier
from actors.live.host_agent import HostAgent, RunSetup
from orchestrator.clusters.base import RunOrder
from orchestrator.clusters.places import Place


async def start_agents(
    order: RunOrder,
    barriers: list[Barrier],
    factory: str,
    matcher: str,
    places: Sequence[Place],
    directory: Path | None,
) -> list[Any]:
    """Start an agent at each place. ``directory``: the run's, where the places share the driver's file system, else
    None."""
    agents = []
    for place in places:
        namespace = f"krift-{order.run}"
        setup = RunSetup(
            order.run,
            namespace,
            order.plan.seed,
            place.host,
            "" if directory is None else str(directory),
            factory,
            matcher,
            barriers,
        )
        options: dict[str, Any] = {
            "name": f"host-agent-{place.ray_node[:8]}",
            "namespace": namespace,
            "num_cpus": 0,
            "max_restarts": 0,
            "scheduling_strategy": NodeAffinitySchedulingStrategy(place.ray_node, soft=False),
        }
        agents.append(ray.remote(HostAgent).options(**options).remote(setup))
    return agents


async def close_agents(agents: list[Any]) -> None:
    """End the agents, and with them every process that they started."""

    async def close(agent: Any) -> None:
        try:
            await agent.close.remote()
        except RayActorError:
            return
        ray.kill(agent)

    await asyncio.gather(*(close(agent) for agent in agents))
