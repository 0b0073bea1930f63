"""Faults on the processes of nodes, and how an operator stops and starts them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from actors.control import AnyAction, Arm, Crash, Disarm, DiskLoss, Invoke, Pause, Restart, Resume
from actors.crash_points import CrashPoint
from chaos.faults.base import Aimed, Bounce, Fault
from chaos.scenario.durations import format_duration, format_versions
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


class NodeShutdown(ProcessFault, frozen=True):
    """The node is asked to stop properly, as by SIGTERM; its end is a restart, once it is down."""

    kind: ClassVar[str] = "controlled-shutdown"

    def aim(self, fault: str, view: ClusterView, nodes: Sequence[str], busy: frozenset[str]) -> Aimed | None:
        chosen = self.chosen(view, nodes, busy)
        if not chosen:
            return None
        begin: list[AnyAction] = [Invoke(name, f"{fault}/{name}", "shutdown") for name in chosen]
        end: list[AnyAction] = [Restart(name) for name in chosen]
        return Aimed(self.kind, chosen, {}, begin, end, stopped=chosen, silent=chosen)


class NodeBounce(ProcessFault, frozen=True):
    """One node after the other is stopped properly and started again, with new settings if there are any; the active
    controller comes last of the controllers."""

    kind: ClassVar[str] = "rolling-bounce"

    bounce: Bounce

    def aim(self, fault: str, view: ClusterView, nodes: Sequence[str], busy: frozenset[str]) -> Aimed | None:
        chosen = select(self.nodes, view, nodes)
        if not chosen:
            return None
        if view.controller in chosen:
            last = max(index for index, name in enumerate(chosen) if name not in view.brokers)
            chosen.insert(last, chosen.pop(chosen.index(view.controller)))
        change = self.bounce
        parameters = {"features": change.features, "versions": change.versions, "config": change.config}
        return Aimed(self.kind, chosen, parameters, [], [], bounce=change)

    def describe(self) -> str:
        change = self.bounce
        settings = [f"{name}={value}" for name, value in {**change.features, **change.config}.items()]
        settings += [f"{api} {format_versions(*bounds)}" for api, bounds in change.versions.items()]
        what = f" with {', '.join(settings)}" if settings else ""
        return f"of {super().describe()}{what}, {format_duration(change.timeout_us)} each to stop and to come back"
