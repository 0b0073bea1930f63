"""Live runs on a Ray cluster that is there already, with a host agent on each of its nodes.

Nothing is assumed of the machines but Ray and the same Krift: no shared path, as logs are fetched through the agents.
Nodes serve on the address of the Ray node they run on.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import warnings
from pathlib import Path
from typing import Any

from chaos.errors import RunError
from orchestrator.clusters.base import RunOrder
from orchestrator.clusters.local_ray import FACTORY, MATCHER, WITHOUT_FORK_HANDLERS, LocalRayCluster
from orchestrator.clusters.places import Place, set_apart
from orchestrator.clusters.security import is_loopback, refuse_an_open_ray
from orchestrator.reach import why_not_reached
from orchestrator.version import __version__

LOOK_S = 60.0
"""A node may have to start a worker process before it can answer."""

ADDRESS_EXPECTED = "ray://HOST:PORT of a Ray client server, or HOST:PORT of a Ray head"
_ADDRESS = re.compile(r"(?:ray://)?(?P<host>[A-Za-z0-9][A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+\]):(?P<port>[0-9]{1,5})")

ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # Nodes are killed on purpose, and Ray would print this on stdout.
    "RAY_DEDUP_LOGS_SKIP_REGEX": "A worker died or was killed",
    # Of each of three attempts to talk to a client server, once something listens at its address.
    "RAY_CLIENT_INITIAL_CONNECTION_TIMEOUT_S": "4",
    "RAY_CLIENT_MAX_CONNECTION_TIMEOUT_S": "4",
    **WITHOUT_FORK_HANDLERS,
}
"""Ray reads these when it is imported; the user's own values stand."""

ON_LOOPBACK = {
    # Not said, a driver has no token, while a head that was started where a local Ray ran before demands one.
    "RAY_AUTH_MODE": "disabled",
    # Despite its name: without it Ray puts the host's own address in place of the loopback, on Linux too.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
}


def parse_address(address: str) -> tuple[str, int] | None:
    """Host and port of an address of a Ray cluster; None if it is not one."""
    found = _ADDRESS.fullmatch(address)
    if found is None or not 0 < int(found["port"]) < 1 << 16:
        return None
    return found["host"].strip("[]"), int(found["port"])


def installed_version() -> str:
    """The Krift of the process that calls it."""
    return __version__


class RayAddressCluster(LocalRayCluster):
    """A Ray cluster by its address (``parse_address``). It is left as it was: agents and nodes end with each run.
    ``insecure``: use it even if it serves anybody who reaches it from other machines."""

    def __init__(
        self,
        address: str,
        factory: str = FACTORY,
        matcher: str = MATCHER,
        tls: str | None = None,
        insecure: bool = False,
    ) -> None:
        super().__init__(factory, matcher, tls, insecure)
        self._address = address

    @property
    def address(self) -> str:
        """Of the Ray cluster, "" while there is none."""
        return self._address

    def reach(self) -> None:
        """Raise RunError unless something listens at the address. Ray itself would go on trying for half a minute."""
        place = parse_address(self._address)
        assert place is not None, self._address
        if said := why_not_reached(*place):
            raise RunError(f"no Ray cluster at {self._address}: {said}; is it up, and is this its address?")
        if not (self._insecure or is_loopback(place[0])):
            refuse_an_open_ray(*place)

    def __enter__(self) -> RayAddressCluster:
        self.reach()
        place = parse_address(self._address)
        known = ENVIRONMENT | (ON_LOOPBACK if place is not None and is_loopback(place[0]) else {})
        for name, value in known.items():
            os.environ.setdefault(name, value)
        import ray

        from orchestrator.clusters.ray_errors import reason

        handler = signal.getsignal(signal.SIGTERM)
        try:
            with warnings.catch_warnings(action="ignore"):
                ray.init(address=self._address, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, RuntimeError, TimeoutError) as error:
            # A Ray client that did not connect would stay in place of Ray in this process.
            ray.shutdown()
            raise RunError(f"cannot use the Ray cluster at {self._address}: {reason(error)}") from error
        signal.signal(signal.SIGTERM, handler)
        try:
            self._look_at_nodes()
        except BaseException:
            ray.shutdown()
            raise
        return self

    def places(self) -> list[Place]:
        """The nodes of the cluster that take work, in the order of their addresses."""
        import ray

        alive = [node for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]
        # A head without CPUs is there to coordinate, as on Kubernetes.
        working = [node for node in alive if node["Resources"].get("CPU")] or alive
        places = [Place(node["NodeID"], node["NodeManagerAddress"], set_apart(node["Resources"])) for node in working]
        return sorted(places, key=lambda place: (place.host, place.ray_node))

    def shared_directory(self, order: RunOrder) -> Path | None:
        """None: the nodes' machines may not see this one's files."""
        return None

    def _look_at_nodes(self) -> None:
        """Every node must have this Krift."""
        import ray
        from ray.exceptions import RayError
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        from orchestrator.clusters.ray_errors import reason

        asked: list[tuple[str, Any]] = []
        for place in self.places():
            strategy = NodeAffinitySchedulingStrategy(place.ray_node, soft=False)
            look = ray.remote(installed_version).options(num_cpus=0, max_retries=0, scheduling_strategy=strategy)
            asked.append((place.host, look.remote()))
        for host, answer in asked:
            try:
                version = ray.get(answer, timeout=LOOK_S)
            except (RayError, ImportError) as error:
                what = f"Krift cannot be used on the Ray node {host}; is it installed there?"
                raise RunError(f"{what} ({reason(error)})") from error
            if version != __version__:
                raise RunError(f"the Ray node {host} has Krift {version}, and this is {__version__}: install the same")
