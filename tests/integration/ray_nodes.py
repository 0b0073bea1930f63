"""A Ray cluster of several nodes on this machine, each with an address of its own, that does not belong to Krift."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Event
from typing import Any

import msgspec
import pytest

from orchestrator.clusters.local_ray import OBJECT_STORE_BYTES, WITHOUT_FORK_HANDLERS
from tests.integration.command import ROOT

LOOK_S = 0.05


class RayNodes(msgspec.Struct, frozen=True):
    """client, head: the two ways into it, of its client server and of its head. jobs: URL that takes jobs, "" without
    a dashboard. others: its nodes but the head."""

    client: str
    head: str
    jobs: str
    cluster: Any
    others: list[Any]

    def kill(self, node: Any) -> None:
        """Kill all processes of a Ray node."""
        self.cluster.remove_node(node, allow_graceful=False)


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def until_listening(port: int) -> None:
    """Wait until somebody listens at a port, which nothing tells of."""
    for _ in range(600):
        with socket.socket() as sock:
            if sock.connect_ex(("127.0.0.1", port)) == 0:
                return
        Event().wait(LOOK_S)
    raise AssertionError(f"nobody listens at {port}")


@contextmanager
def ray_nodes(
    hosts: Sequence[str], dashboard: bool = False, resources: Mapping[str, float] | None = None
) -> Iterator[RayNodes]:
    """``hosts``: addresses of the nodes, the head's first. ``resources``: custom ones of the other nodes."""
    patch = pytest.MonkeyPatch()
    patch.setenv("RAY_AUTH_MODE", "disabled")
    patch.setenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    for name, value in WITHOUT_FORK_HANDLERS.items():
        patch.setenv(name, value)
    patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    from ray.cluster_utils import Cluster

    port, jobs = free_port(), free_port()
    shared = {"num_cpus": 1, "object_store_memory": OBJECT_STORE_BYTES}
    serving = {"dashboard_host": "127.0.0.1", "dashboard_port": jobs} if dashboard else {}
    head = {"node_ip_address": hosts[0], "ray_client_server_port": port, "include_dashboard": dashboard, **serving}
    cluster = Cluster(initialize_head=True, head_node_args={**shared, **head})
    try:
        more = {"resources": dict(resources)} if resources else {}
        others = [
            cluster.add_node(**shared, **more, node_ip_address=host, include_dashboard=False) for host in hosts[1:]
        ]
        until_listening(port)
        if dashboard:
            until_listening(jobs)
        url = f"http://127.0.0.1:{jobs}" if dashboard else ""
        yield RayNodes(f"ray://127.0.0.1:{port}", cluster.address, url, cluster, others)
    finally:
        cluster.shutdown()
        patch.undo()
