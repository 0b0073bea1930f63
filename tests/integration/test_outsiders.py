"""An outsider on the network of a running cluster, without a certificate and without Ray's token, gets nowhere."""

from __future__ import annotations

import http.client
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import grpc
import msgspec
import psutil
import pytest

from actors.control import Conductor
from chaos.conductor import ScenarioConductor
from chaos.scenario.resolve import resolve
from chaos.sources import find
from orchestrator.clusters.base import Progress, RunOrder, RunOutcome, Say, say_nothing
from orchestrator.clusters.local_ray import OBJECT_STORE_BYTES, WITHOUT_FORK_HANDLERS
from orchestrator.clusters.ray_address import RayAddressCluster
from orchestrator.clusters.security import refuse_an_open_ray
from tests.parity.judged import play

pytestmark = [pytest.mark.ray, pytest.mark.long, pytest.mark.alone]

ROOT = Path(__file__).parents[2]
STEADY = ROOT / "tests" / "parity" / "scenarios" / "steady.yaml"

METHODS = (
    "/krift.v1.NodeService/ApiVersions",
    "/ray.rpc.NodeInfoGcsService/GetAllNodeInfo",
    "/ray.rpc.ActorInfoGcsService/GetAllActorInfo",
    "/ray.rpc.InternalKVGcsService/InternalKVGet",
    "/ray.rpc.CoreWorkerService/PushTask",
    "/ray.rpc.NodeManagerService/RequestWorkerLease",
    "/ray.rpc.RayletDriver/Init",
)
"""What an outsider would ask Krift's nodes and Ray's processes: for their data, and to run a program."""
NOWHERE = {"UNAUTHENTICATED", "UNIMPLEMENTED", "UNAVAILABLE", "DEADLINE_EXCEEDED"}


class Port(msgspec.Struct, frozen=True):
    """A port of the cluster. asked: what gRPC calls got; page: what a browser gets, "" nothing."""

    number: int
    asked: set[str]
    page: str


def ports() -> list[int]:
    """Where the processes that this one has started listen."""
    found = set()
    for process in psutil.Process(os.getpid()).children(recursive=True):
        try:
            found |= {each.laddr.port for each in process.net_connections("tcp") if each.status == "LISTEN"}
        except psutil.NoSuchProcess:
            continue
    return sorted(found)


def outsider(port: int) -> Port:
    """What somebody gets at a port who has nothing but the address."""
    asked = set()
    for method in METHODS:
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            ask: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(method)
            try:
                ask(b"", timeout=2)
                asked.add("OK")
            except grpc.RpcError as error:
                asked.add(error.code().name)
    return Port(port, asked, page(port))


def page(port: int) -> str:
    """What a browser is shown."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
    try:
        connection.request("GET", "/")
        answer = connection.getresponse()
        return "" if answer.status == http.client.UNAUTHORIZED else answer.read().decode()
    except (OSError, http.client.HTTPException):
        return ""
    finally:
        connection.close()


class Watched(RayAddressCluster):
    """A cluster at whose ports an outsider tries, once, when the chaos has begun and all nodes serve."""

    def __init__(self, address: str, tls: str) -> None:
        super().__init__(address, tls=tls)
        self.before = ports()
        self.tried: list[Port] = []

    def run(
        self, order: RunOrder, conductor: Conductor, progress: Progress | None = None, say: Say = say_nothing
    ) -> RunOutcome:
        """As the cluster does it."""
        assert isinstance(conductor, ScenarioConductor)

        def look() -> None:
            if conductor.phase == "chaos" and not self.tried:
                self.tried = [outsider(port) for port in ports()]

        return super().run(order, conductor, look, say)


@pytest.fixture(scope="module")
def guarded() -> Iterator[str]:
    """A Ray that asks for a token; its address."""
    patch = pytest.MonkeyPatch()
    patch.setenv("RAY_AUTH_MODE", "token")
    patch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
    patch.setenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    for name, value in WITHOUT_FORK_HANDLERS.items():
        patch.setenv(name, value)
    patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    from ray.cluster_utils import Cluster

    shared = {"num_cpus": 1, "object_store_memory": OBJECT_STORE_BYTES, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args={**shared, "node_ip_address": "127.0.0.1"})
    try:
        yield cluster.address
    finally:
        cluster.shutdown()
        patch.undo()


def test_an_outsider_gets_nowhere(guarded: str, tmp_path: Path) -> None:
    """Shows, at every port of a cluster in the middle of a run, that who has no certificate and no token is answered by
    no node, starts nothing and learns nothing from Ray but its metrics; and that the run has the expected verdict."""
    host, _, port = guarded.rpartition(":")
    refuse_an_open_ray(host, int(port))
    plan = resolve(find(str(STEADY)).loaded(None))
    with Watched(guarded, "run") as cluster:
        run = play(cluster, plan, tmp_path / "run")
    assert run.verdict.expected, [*run.verdict.unexpected, *run.verdict.undecided]
    servers = sum(node.node_id >= 0 for node in plan.nodes)
    assert len(cluster.tried) >= len(cluster.before) + servers
    assert [each for each in cluster.tried if not each.asked <= NOWHERE] == []
    assert [each for each in cluster.tried if each.page and not each.page.startswith("# HELP ")] == []


def test_the_outsider_would_get_somewhere(guarded: str, tmp_path: Path) -> None:
    """Shows that the same outsider is answered by every node where nodes talk in the clear."""
    plan = resolve(find(str(STEADY)).loaded(None))
    with Watched(guarded, "off") as cluster:
        play(cluster, plan, tmp_path / "run")
    servers = sum(node.node_id >= 0 for node in plan.nodes)
    assert len([each for each in cluster.tried if not each.asked <= NOWHERE]) == servers
