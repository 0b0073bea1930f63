"""Live runs on this machine: a Ray of one node, started in this process and bound to the loopback."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import signal
from pathlib import Path
from typing import Literal

import msgspec

from actors.control import Conductor
from chaos.errors import RunError
from orchestrator.clusters.base import Progress, RunOrder, RunOutcome, Say, say_nothing
from orchestrator.clusters.places import Place, distributed
from orchestrator.clusters.security import tls_for
from orchestrator.interrupts import Interrupts

LOOPBACK = "127.0.0.1"
FACTORY = "actors.nodes:new_node"
MATCHER = "chaos.scenario.triggers:matches"
OBJECT_STORE_BYTES = 80 << 20
"""Ray's least: nothing of ours goes through it."""

WITHOUT_FORK_HANDLERS = {"GRPC_ENABLE_FORK_SUPPORT": "0"}
"""What Ray and Spark fork only executes another program. gRPC's handlers, which would ready the child for more calls,
now and then abort it instead (``ev_epoll1_linux.cc: Check failed``), and then a process of Ray's was never started."""

_ENVIRONMENT = {
    # Ray stores a token on first use and some of its processes then demand it of others that have none.
    "RAY_AUTH_MODE": "disabled",
    "RAY_USAGE_STATS_ENABLED": "0",
    # Despite its name: without it Ray puts the host's address in place of the loopback, on Linux too.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    # Nodes are killed on purpose here, and Ray would print this on stdout.
    "RAY_DEDUP_LOGS_SKIP_REGEX": "A worker died or was killed",
    **WITHOUT_FORK_HANDLERS,
}
"""Ray reads these when it is imported."""


class LocalRayCluster:
    """The laptop's cluster: one Ray for all runs of a command, new processes for each run.

    ``factory`` and ``matcher`` are ``module:function`` (see ``actors.live.setup.Setup``); tests pass toys. ``tls``,
    ``insecure``: see ``orchestrator.clusters.security.tls_for``.
    """

    runtime: Literal["live", "sim"] = "live"

    def __init__(
        self, factory: str = FACTORY, matcher: str = MATCHER, tls: str | None = None, insecure: bool = False
    ) -> None:
        self._factory = factory
        self._matcher = matcher
        self._tls = tls
        self._insecure = insecure
        self.keep_s: float | None = None
        """Of a soak: how long journals stay, as its runs are judged while they go on."""

    def __enter__(self) -> LocalRayCluster:
        os.environ.update(_ENVIRONMENT)
        handler = signal.getsignal(signal.SIGTERM)
        # Interrupted in the middle of its start, Ray would leave behind what it has started by then.
        with Interrupts() as interrupts:
            try:
                self._start()
            except Exception:  # noqa: BLE001  (of which kind depends on the process that Ray waits for in vain)
                if interrupts.asked:
                    self._shut_down()
                    raise KeyboardInterrupt from None
                # On a busy machine Ray gives up on its own processes before they are up.
                self._start_again()
        signal.signal(signal.SIGTERM, handler)
        if interrupts.asked:
            self._shut_down()
            raise KeyboardInterrupt
        return self

    def _shut_down(self) -> None:
        import ray

        ray.shutdown()

    def _start_again(self) -> None:
        import ray

        from orchestrator.clusters.ray_errors import reason

        ray.shutdown()
        try:
            self._start()
        except Exception as error:
            ray.shutdown()
            raise RunError(f"Ray did not start, twice: {reason(error)}") from error

    def _start(self) -> None:
        import ray

        ray.init(
            address="local",
            num_cpus=2,
            object_store_memory=OBJECT_STORE_BYTES,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
            _node_ip_address=LOOPBACK,
        )

    def __exit__(self, *error: object) -> None:
        self._shut_down()

    def places(self) -> list[Place]:
        """The Ray nodes to run on."""
        import ray

        return [Place(ray.get_runtime_context().get_node_id(), LOOPBACK)]

    def shared_directory(self, order: RunOrder) -> Path | None:
        """The run's directory, if all those places see it under this path."""
        return order.directory.resolve()

    def run(
        self, order: RunOrder, conductor: Conductor, progress: Progress | None = None, say: Say = say_nothing
    ) -> RunOutcome:
        """See ``orchestrator.clusters.base.Cluster.run``."""
        with Interrupts() as interrupts:
            outcome = asyncio.run(self._run(order, conductor, progress, say, interrupts))
        if interrupts.asked and outcome.status == "completed":
            # It came while the run was being stopped anyway; whoever asked wants no further run.
            return msgspec.structs.replace(outcome, status="interrupted")
        return outcome

    async def _run(
        self, order: RunOrder, conductor: Conductor, progress: Progress | None, say: Say, interrupts: Interrupts
    ) -> RunOutcome:
        from orchestrator.clusters.agents import close_agents, secure_agents, start_agents
        from orchestrator.clusters.live_run import LiveRun
        from orchestrator.clusters.soak_run import SoakRun

        here = self.places()
        homes = distributed(order.plan.names, here)
        tls = tls_for(self._tls, (place.host for place in here), self._insecure)
        directory = self.shared_directory(order)
        keep_s = math.inf if self.keep_s is None else self.keep_s
        agents = await start_agents(order, conductor.barriers, self._factory, self._matcher, here, directory, keep_s)
        run = (
            LiveRun(order, conductor, agents, homes, progress, say)
            if self.keep_s is None
            else SoakRun(order, conductor, agents, homes, progress, say, shared=directory is not None)
        )
        loop = asyncio.get_running_loop()
        try:
            await secure_agents(agents, homes, tls, order.run)
            interrupts.from_now_on(lambda: loop.call_soon_threadsafe(run.interrupt))
            return await run.carry_out()
        finally:
            interrupts.from_now_on(lambda: None)
            await close_agents(agents)
