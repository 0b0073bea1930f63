"""What an operator does to a cluster: not faults, but scheduled like them, and over when they are done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from actors.control import AnyAction, Invoke
from chaos.faults.base import Aimed, Fault
from chaos.scenario.selectors import Selector, select
from chaos.view import ClusterView

ADMIN = "admin-1"
"""The node through which an operator speaks to the cluster; a run has it if its scenario needs it."""


class AdminAction(Fault, frozen=True):
    """An operation of the admin client."""

    call: ClassVar[str] = ""

    def arguments(self, view: ClusterView, nodes: Sequence[str]) -> dict[str, Any] | None:
        """What the operation is told; None if it would be about nothing now."""
        raise NotImplementedError

    def aim(self, fault: str, view: ClusterView, nodes: Sequence[str], busy: frozenset[str]) -> Aimed | None:
        arguments = self.arguments(view, nodes)
        if arguments is None or ADMIN in busy:
            return None
        operation = f"{fault}/{self.kind}"
        begin: list[AnyAction] = [Invoke(ADMIN, operation, self.call, arguments)]
        return Aimed(self.kind, [ADMIN], arguments, begin, [], operations={operation: ADMIN})


class LeaderElection(AdminAction, frozen=True):
    """ElectLeaders. partitions: topic partitions, empty for all."""

    kind: ClassVar[str] = "elect"
    call: ClassVar[str] = "elect-leaders"

    partitions: tuple[str, ...] = ()
    election: str = "preferred"

    def arguments(self, view: ClusterView, nodes: Sequence[str]) -> dict[str, Any] | None:
        return {"type": self.election, "partitions": list(self.partitions)}

    def describe(self) -> str:
        return f"{self.election} leaders of {', '.join(self.partitions) or 'all partitions'}"


class Configuration(AdminAction, frozen=True):
    """IncrementalAlterConfigs, of a topic, of brokers, or (neither) of all brokers. values: keys to be set,
    and their values as text."""

    kind: ClassVar[str] = "configure"
    call: ClassVar[str] = "alter-config"

    topic: str = ""
    brokers: tuple[Selector, ...] = ()
    values: tuple[tuple[str, str], ...] = ()
    delete: tuple[str, ...] = ()

    def arguments(self, view: ClusterView, nodes: Sequence[str]) -> dict[str, Any] | None:
        resources = [f"topic/{self.topic}" if self.topic else "broker/"]
        if self.brokers:
            chosen = select(self.brokers, view, nodes)
            resources = [f"broker/{name.removeprefix('broker-')}" for name in chosen]
        return {"resources": resources, "set": dict(self.values), "delete": list(self.delete)} if resources else None

    def describe(self) -> str:
        whom = f"topic {self.topic}" if self.topic else ", ".join(map(str, self.brokers)) or "all brokers"
        changes = [*(f"{key}={value}" for key, value in self.values), *(f"no {key}" for key in self.delete)]
        return f"{whom}: {', '.join(changes)}"


class QuorumDescription(AdminAction, frozen=True):
    """DescribeQuorum."""

    kind: ClassVar[str] = "describe-quorum"
    call: ClassVar[str] = "describe-quorum"

    def arguments(self, view: ClusterView, nodes: Sequence[str]) -> dict[str, Any] | None:
        return {}

    def describe(self) -> str:
        return "of the metadata log"


class _VoterAction(AdminAction, frozen=True):
    """A change of one voter, with the directory that an operator finds in the voter set or, of a controller that is not
    in it, on its disk."""

    controllers: tuple[Selector, ...] = ()

    def arguments(self, view: ClusterView, nodes: Sequence[str]) -> dict[str, Any] | None:
        chosen = select(self.controllers, view, nodes)
        if not chosen:
            return None
        name = chosen[0]
        directory = self._directory(view, name)
        return {"controller": name, "directory": directory} if directory else None

    def _directory(self, view: ClusterView, name: str) -> str:
        raise NotImplementedError

    def describe(self) -> str:
        return ", ".join(map(str, self.controllers))


class VoterAddition(_VoterAction, frozen=True):
    """AddRaftVoter."""

    kind: ClassVar[str] = "add-voter"
    call: ClassVar[str] = "add-voter"

    def _directory(self, view: ClusterView, name: str) -> str:
        return view.directories.get(name, "")


class VoterRemoval(_VoterAction, frozen=True):
    """RemoveRaftVoter."""

    kind: ClassVar[str] = "remove-voter"
    call: ClassVar[str] = "remove-voter"

    def _directory(self, view: ClusterView, name: str) -> str:
        return view.voter_directories.get(name) or view.directories.get(name, "")
