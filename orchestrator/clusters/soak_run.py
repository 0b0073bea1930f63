"""A live run that is judged while it goes on, and leaves no more on disk than somebody still asks for.

What a plain run does when it ends is done on the way: the logs of nodes on other machines are fetched chunk by chunk,
and an incarnation that was killed gets its ``node.down`` as soon as it is dead, since the checks wait for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from ray.exceptions import RayActorError

from actors.control import Conductor, DiskLoss
from actors.live.writer import CLOSED
from actors.trace.events import DRIVER
from orchestrator.clusters.base import Progress, RunOrder, RunOutcome, Say, Status, say_nothing
from orchestrator.clusters.live_run import LiveNode, LiveRun
from orchestrator.trace.collect import LOGS, bury, bury_the_killed, close_open_chunks, fetch

GATHER_S = 5.0


class SoakRun(LiveRun):
    """``shared``: whether the agents write below the run's directory."""

    def __init__(
        self,
        order: RunOrder,
        conductor: Conductor,
        agents: list[Any],
        homes: Mapping[str, int],
        progress: Progress | None,
        say: Say = say_nothing,
        *,
        shared: bool,
    ) -> None:
        super().__init__(order, conductor, agents, homes, progress, say)
        self._shared = shared
        self._gathering = asyncio.Lock()

    async def carry_out(self) -> RunOutcome:
        """As of a plain run; the trace is not put into one, as its beginning may be gone."""
        gatherer = asyncio.get_running_loop().create_task(self._gather_for_good())
        try:
            return await super().carry_out()
        finally:
            gatherer.cancel()

    async def _gather_for_good(self) -> None:
        while True:
            await asyncio.sleep(GATHER_S)
            for agent in self._agents:
                try:
                    await self._gather(agent)
                    await agent.expire.remote()
                except RayActorError:
                    return  # the run ends by that: whoever calls a node there finds out

    async def _gather(self, agent: Any, also: str = "") -> None:
        """Fetch the closed chunks of an agent's nodes, and what begins with ``also``, and let them go there."""
        if self._shared:
            return
        async with self._gathering:
            files = [
                (name, size)
                for name, size in await agent.files.remote()
                if name.startswith(f"{LOGS}/") and (name.endswith(CLOSED) or (also and name.startswith(also)))
            ]
            await fetch(self._order.directory, files, agent.read.remote)
            await agent.drop.remote([name for name, _ in files])

    async def _crash(self, node: LiveNode, loss: DiskLoss, detail: str = "") -> None:
        await super()._crash(node, loss, detail)
        for name in list(self._ends):
            who, _, incarnation = name.rpartition("/")
            await self._gather(self._nodes[who].agent, f"{LOGS}/node={who}/{incarnation}-")
            bury(self._order.directory, who, int(incarnation), self._ends.pop(name))

    async def _collect(self, status: Status, duration_us: int) -> RunOutcome:
        hosts = {host for agent in self._agents if (host := await self._fetch_from(agent))}
        if self._broken:
            status = "broken"
        self._end_log()
        torn = close_open_chunks(self._order.directory)
        bury_the_killed(self._order.directory, DRIVER, self._ends)
        await self._let_calls_end()
        return RunOutcome(status, self._broken, sorted(hosts), duration_us, 0, torn, self._final, self._begun_ms)
