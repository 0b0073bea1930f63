"""Live runs on a Ray cluster that was there before: two Ray nodes, by either kind of address, and none at all."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from chaos.errors import RunError
from chaos.scenario.resolve import resolve
from chaos.sources import find
from orchestrator.clusters.places import APART, distributed
from orchestrator.clusters.ray_address import RayAddressCluster, parse_address
from orchestrator.run_dir import RunDir
from orchestrator.verdict import Verdict
from tests.integration.command import ROOT
from tests.integration.ray_nodes import RayNodes, free_port, ray_nodes
from tests.parity.judged import play

STEADY = ROOT / "tests" / "parity" / "scenarios" / "steady.yaml"
COMMAND_S = 240
"""What a command with Ray and Spark may take on a busy machine."""
HOSTS = ["127.0.0.1", "127.0.0.2"]
APART_FOR = "broker-2"
"""The node that the second Ray node is set apart for."""


@pytest.fixture(scope="module")
def two_ray_nodes() -> Iterator[RayNodes]:
    """A Ray cluster of two nodes that does not belong to Krift, the second one set apart."""
    with ray_nodes(HOSTS, resources={f"{APART}{APART_FOR}": 1}) as nodes:
        yield nodes


@pytest.mark.long
@pytest.mark.ray
def test_a_run_is_spread_over_a_cluster_that_was_there(two_ray_nodes: RayNodes, tmp_path: Path) -> None:
    """Shows that nodes run on both Ray nodes of a cluster joined by its address, that their logs reach the run's
    directory through the agents, that a Ray node serves the node alone that it is set apart for, and that the verdict
    is the one expected."""
    plan = resolve(find(str(STEADY)).loaded(None))
    with RayAddressCluster(two_ray_nodes.client) as cluster:
        places = cluster.places()
        assert [(place.host, place.apart_for) for place in places] == [(HOSTS[0], ""), (HOSTS[1], APART_FOR)]
        assert [name for name, index in distributed(plan.names, places).items() if index == 1] == [APART_FOR]
        run = play(cluster, plan, tmp_path / "run")
    assert run.verdict.expected, [*run.verdict.unexpected, *run.verdict.undecided]
    assert run.outcome.hosts == HOSTS
    assert {path.name.removeprefix("node=") for path in (tmp_path / "run" / "logs").iterdir()} == {
        "driver",
        *plan.names,
    }


@pytest.mark.long
@pytest.mark.ray
@pytest.mark.spark
@pytest.mark.timeout(COMMAND_S + 60)
def test_the_command_joins_a_head(two_ray_nodes: RayNodes, tmp_path: Path) -> None:
    """Shows the same by the address of the head, in a process of its own: one that has been the driver of another Ray
    does not always get to know this one."""
    command = ("run", str(STEADY), "--runtime", "live", "--cluster", two_ray_nodes.head, "--json")
    done = krift(tmp_path, *command, "--out", str(tmp_path / "runs"), wait_s=COMMAND_S)
    assert done.returncode == 0, done.stderr
    verdict = msgspec.json.decode(done.stdout, type=Verdict)
    assert verdict.expected
    directory = RunDir((tmp_path / "runs" / "latest").resolve())
    assert directory.read_manifest().hosts == HOSTS
    plan = resolve(find(str(STEADY)).loaded(None))
    assert {path.name.removeprefix("node=") for path in directory.logs.iterdir()} == {"driver", *plan.names}


def krift(folder: Path, *arguments: str, wait_s: float = 60) -> subprocess.CompletedProcess[str]:
    """The command, run to its end."""
    code = "import sys; from orchestrator.cli.main import main; main()"
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=wait_s,
        check=False,
    )


@pytest.mark.parametrize("scheme", ["ray://", ""])
def test_an_address_without_a_cluster_is_one_clear_error(scheme: str, tmp_path: Path) -> None:
    """Shows that nothing is started for an address that nobody listens at: one line says so, exit 4, no run."""
    address = f"{scheme}127.0.0.1:{free_port()}"
    done = krift(tmp_path, "run", str(STEADY), "--runtime", "live", "--cluster", address)
    assert done.returncode == 4
    assert (
        done.stderr.splitlines()[-1]
        == f"krift: no Ray cluster at {address}: Connection refused; is it up, and is this its address?"
    )
    assert done.stdout == ""
    assert list(tmp_path.glob("runs/*")) == []


def test_an_address_that_cannot_be_one_is_a_mistake_of_the_command(tmp_path: Path) -> None:
    """Shows that the form of an address is checked before anything else, with exit 2."""
    done = krift(tmp_path, "run", str(STEADY), "--runtime", "live", "--cluster", "sparks")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--cluster: 'sparks' is no cluster; expected local, spark, " in done.stderr


@pytest.mark.parametrize("text", ["127.0.0.1", "ray://", "host:0", "host:99999", "http://host:1", "a b:1", "ray://:1"])
def test_what_is_no_address(text: str) -> None:
    """Shows that an address needs a host and a port that can exist."""
    assert parse_address(text) is None


@pytest.mark.parametrize(
    ("text", "place"),
    [("ray://head:10001", ("head", 10001)), ("[::1]:6379", ("::1", 6379)), ("10.0.0.7:1", ("10.0.0.7", 1))],
)
def test_what_is_an_address(text: str, place: tuple[str, int]) -> None:
    """Shows both forms, and that a host may be a name or a number."""
    assert parse_address(text) == place


@pytest.mark.ray
def test_a_listener_that_is_not_ray_is_refused() -> None:
    """Shows that a port which somebody else listens at ends in a clear error too, once Ray has given up on it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        cluster = RayAddressCluster(f"ray://127.0.0.1:{server.getsockname()[1]}")
        with pytest.raises(RunError, match="cannot use the Ray cluster at"):
            cluster.__enter__()
