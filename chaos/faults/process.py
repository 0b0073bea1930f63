"""Faults on the processes of nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from actors.control import AnyAction, Crash, DiskLoss, Pause, Restart, Resume
from chaos.faults.base import Aimed, Fault
from chaos.scenario.selectors import Selector, select
from chaos.view import ClusterView


class ProcessFault(Fault, frozen=True):
    """A fault on nodes that no other fault has stopped."""

    nodes: tuple[Selector, ...]

    def chosen(self, view: ClusterView, nodes: Sequence[str], busy: frozenset[str]) -> list[str]:
        """The nodes that it hits now."""
        return [name for name in select(self.nodes, view, nodes) if name not in busy]

    def describe(self) -> str:
        return ", ".join(map(str, self.nodes))


class NodeCrash(ProcessFault, frozen=True):
    """The process is killed; its end is a restart from what was written to disk."""

    kind: ClassVar[str] = "crash"
    disk: ClassVar[DiskLoss] = "kept"

    def aim(self, fault: str, view: ClusterView, nodes: Sequence[str], busy: frozenset[str]) -> Aimed | None:
        chosen = self.chosen(view, nodes, busy)
        if not chosen:
            return None
        begin: list[AnyAction] = [Crash(name, self.disk) for name in chosen]
        end: list[AnyAction] = [Restart(name) for name in chosen]
        return Aimed(self.kind, chosen, {}, begin, end, stopped=chosen, silent=chosen)


class NodePause(ProcessFault, frozen=True):
    """The process is stopped and later goes on; to the others it is silent, its connections stay open."""

    kind: ClassVar[str] = "pause"

    def aim(self, fault: str, view: ClusterView, nodes: Sequence[str], busy: frozenset[str]) -> Aimed | None:
        chosen = self.chosen(view, nodes, busy)
        if not chosen:
            return None
        begin: list[AnyAction] = [Pause(name) for name in chosen]
        end: list[AnyAction] = [Resume(name) for name in chosen]
        return Aimed(self.kind, chosen, {}, begin, end, silent=chosen)
