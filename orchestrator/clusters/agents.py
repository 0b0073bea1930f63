"""The host agents of a run: one actor on each Ray node it uses."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayActorError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from actors.control import Barrier
from actors.live.certificates import Authority
from actors.live.host_agent import HostAgent, RunSetup
from chaos.errors import RunError
from orchestrator.clusters.base import RunOrder
from orchestrator.clusters.places import Place
from orchestrator.clusters.security import IN_THE_CLEAR, MADE_FOR_THE_RUN


async def start_agents(
    order: RunOrder,
    barriers: list[Barrier],
    factory: str,
    matcher: str,
    places: Sequence[Place],
    directory: Path | None,
    keep_s: float,
) -> list[Any]:
    """Start an agent at each place. ``directory``: the run's, where the places share the driver's file system, else
    None. ``keep_s``: how long journals stay."""
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
            keep_s,
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


async def secure_agents(agents: Sequence[Any], homes: Mapping[str, int], tls: str, run: str) -> None:
    """Give every agent what its nodes need for TLS. ``homes``: node -> index of its agent. ``tls``: "off", "run" (an
    authority of the run's own signs a key of each host), or the directory in which each host has its certificate.
    Raises RunError if a host has none that its nodes can use."""
    if tls == IN_THE_CLEAR:
        return
    of_each = [[node for node, home in homes.items() if home == index] for index in range(len(agents))]
    if tls == MADE_FOR_THE_RUN:
        authority = Authority(run)
        for agent, nodes in zip(agents, of_each, strict=True):
            certificate = authority.sign(await agent.request_certificate.remote(), nodes)
            await agent.take_certificate.remote(authority.certificate, certificate)
        return
    for agent, nodes in zip(agents, of_each, strict=True):
        if why := await agent.read_certificate.remote(tls, nodes):
            raise RunError(f"no certificate for the nodes on {await agent.host.remote()}: {why}")


async def close_agents(agents: list[Any]) -> None:
    """End the agents, and with them every process that they started."""

    async def close(agent: Any) -> None:
        try:
            await agent.close.remote()
        except RayActorError:
            return
        ray.kill(agent)

    await asyncio.gather(*(close(agent) for agent in agents))
