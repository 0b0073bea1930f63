"""Faults on the processes of nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from actors.control import AnyAction, Arm, Crash, Disarm, DiskLoss, Pause, Restart, Resume
from actors.crash_points import CrashPoint
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
    """The process is killed; its end is a restart from what was written to disk. With a point: each node is killed when
    it comes to it (``actors.crash_points``)."""

    kind: ClassVar[str] = "crash"
    disk: ClassVar[DiskLoss] = "kept"

    at: str = ""
    of: str = ""
    nth: int = 1

    def aim(self, fault: str, view: ClusterView, nodes: Sequence[str], busy: frozenset[str]) -> Aimed | None:
        chosen = self.chosen(view, nodes, busy)
        if not chosen:
            return None
        if self.at:
            return self._armed(fault, chosen)
        begin: list[AnyAction] = [Crash(name, self.disk) for name in chosen]
        end: list[AnyAction] = [Restart(name) for name in chosen]
        return Aimed(self.kind, chosen, {}, begin, end, stopped=chosen, silent=chosen)

    def _armed(self, fault: str, chosen: list[str]) -> Aimed:
        points = [
            CrashPoint(f"{fault}/{number}", name, self.at, self.of, self.nth) for number, name in enumerate(chosen, 1)
        ]
        begin: list[AnyAction] = [Arm(point, self.disk) for point in points]
        end: list[AnyAction] = [Disarm(point.id, point.node) for point in points]
        parameters = {"at": self.at, "of": self.of, "nth": self.nth}
        return Aimed(self.kind, chosen, parameters, begin, end, points={point.id: point.node for point in points})

    def describe(self) -> str:
        nodes = super().describe()
        return f"{nodes} at {CrashPoint('', '', self.at, self.of, self.nth)}" if self.at else nodes


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
