"""What keeps outsiders away: who talks with TLS, and certificates that reach the hosts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from actors.live.certificates import Authority, new_request, why_unusable
from actors.live.host_agent import HostAgent, RunSetup
from actors.live.identity import Identity, read_identity, write_identity
from chaos.errors import RunError
from orchestrator.clusters.agents import secure_agents
from orchestrator.clusters.security import tls_for

HOMES = {"broker-1": 0, "broker-2": 1, "broker-3": 0}


def test_tls_is_on_where_a_network_lies_between_nodes() -> None:
    """Shows that nodes on other machines use TLS unless it is asked otherwise, and nodes on this one do not; and that
    they do not talk in the clear over a network unless that is asked for by name."""
    here, others = ["127.0.0.1", "127.0.0.2"], ["127.0.0.1", "10.0.0.2"]
    assert [tls_for(None, hosts, False) for hosts in (here, others)] == ["off", "run"]
    assert [tls_for("/secrets", hosts, False) for hosts in (here, others)] == ["/secrets", "/secrets"]
    assert tls_for("off", here, False) == "off"
    assert tls_for("off", others, True) == "off"
    with pytest.raises(RunError, match=r"nodes on 10\.0\.0\.2 would talk unencrypted.* --insecure"):
        tls_for("off", others, False)


class Remote:
    """A host agent as Ray shows it, without Ray."""

    def __init__(self) -> None:
        self.agent = HostAgent(RunSetup("r", "n", 1, "127.0.0.1", "", "", "", []))

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.agent, name)

        class Method:
            remote = method

        return Method


@pytest.fixture
def agents() -> Iterator[list[Remote]]:
    """Two hosts."""
    found = [Remote(), Remote()]
    yield found
    for each in found:
        asyncio.run(each.agent.close())


def identity(agent: Remote) -> Identity:
    """What the nodes on a host prove themselves with."""
    return read_identity(Path(agent.agent._certificates))


def test_each_host_gets_a_certificate_for_its_own_nodes(agents: list[Remote]) -> None:
    """Shows that with certificates made for the run every host has a key of its own, and a certificate of one
    authority for the nodes on it and for no others."""
    asyncio.run(secure_agents(agents, HOMES, "run", "r"))
    one, other = map(identity, agents)
    assert one.authority == other.authority
    assert one.key != other.key
    assert not why_unusable(one, ["broker-1", "broker-3"])
    assert not why_unusable(other, ["broker-2"])
    assert why_unusable(one, ["broker-2"])


def test_hosts_without_certificates(agents: list[Remote]) -> None:
    """Shows that nothing is made where nodes are to talk in the clear."""
    asyncio.run(secure_agents(agents, HOMES, "off", "r"))
    assert [each.agent._certificates for each in agents] == ["", ""]


def test_certificates_that_the_hosts_have(agents: list[Remote], tmp_path: Path) -> None:
    """Shows that hosts use the certificates of a directory of theirs, and that one error says which host lacks one that
    its nodes can use, and why."""
    authority = Authority("of the cluster")
    key, request = new_request()
    write_identity(tmp_path / "all", Identity(authority.certificate, authority.sign(request, ["*"]), key))
    write_identity(tmp_path / "few", Identity(authority.certificate, authority.sign(request, ["broker-1"]), key))
    asyncio.run(secure_agents(agents, HOMES, str(tmp_path / "all"), "r"))
    assert {each.agent._certificates for each in agents} == {str(tmp_path / "all")}
    with pytest.raises(RunError, match=r"nodes on 127.0.0.1: .*few: .* is not for broker-3.node.krift"):
        asyncio.run(secure_agents(agents, HOMES, str(tmp_path / "few"), "r"))
    with pytest.raises(RunError, match=r"none/ca.crt: No such file or directory"):
        asyncio.run(secure_agents(agents, HOMES, str(tmp_path / "none"), "r"))
