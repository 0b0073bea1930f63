"""A rolling bounce under way: each node in turn is stopped properly and started with its new settings, and the next one
goes when it is back.

Back is a broker that is unfenced and in the ISR of each of its partitions, and a controller that follows the quorum's
leader or leads. One that takes too long is not waited for any longer (if it does not even stop, it is killed), and the
bounce says so at its end. Stopping and coming back may each take as long as the time-out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from actors.control import AnyAction, Crash, Invoke, Restart
from actors.node.spec import NodeSpec
from actors.trace.events import NodeDown, Stamped
from chaos.view import ClusterView

Stage = Literal["", "waiting", "stopping", "returning"]


class RollingBounce:
    """Times are the runtime's microseconds. ``specs``: what each target is afterwards. ``node``: whose turn it is;
    waiting: until it is back from what others did to it. ``deadline_us``: of that stage. ``late``: nodes that were not
    waited for."""

    def __init__(self, name: str, targets: Sequence[str], specs: Mapping[str, NodeSpec], timeout_us: int) -> None:
        self.name = name
        self.specs = dict(specs)
        self.timeout_us = timeout_us
        self.left = list(targets)
        self.node = ""
        self.stage: Stage = ""
        self.deadline_us: int | None = None
        self.late: list[str] = []

    @property
    def done(self) -> bool:
        """Every node has had its turn."""
        return not self.left and not self.node

    def begin(self, now_us: int, view: ClusterView) -> list[AnyAction]:
        """The first node's turn."""
        return self._next(now_us, view)

    def on_event(self, now_us: int, event: Stamped, view: ClusterView) -> list[AnyAction]:
        """Go on, if that is what the node was waited for; ``view`` has taken the event in already."""
        stopped = self.stage in ("stopping", "returning") and event.node == self.node
        if stopped and isinstance(event.body, NodeDown):
            # One that ended again, because it could not register in time, is started again.
            self.stage, self.deadline_us = "returning", now_us + self.timeout_us
            return [Restart(self.node, self.specs[self.node])]
        return self._look(now_us, view)

    def on_time(self, now_us: int, view: ClusterView) -> list[AnyAction]:
        """Wait no longer than ``timeout_us`` for a node."""
        if self.deadline_us is None or now_us < self.deadline_us:
            return []
        if self.node not in self.late:
            self.late.append(self.node)
        if self.stage == "stopping":
            self.deadline_us = None
            return [Crash(self.node)]
        return self._next(now_us, view)

    def _look(self, now_us: int, view: ClusterView) -> list[AnyAction]:
        if self.stage == "returning" and view.is_back(self.node):
            return self._next(now_us, view)
        if self.stage == "waiting" and view.is_back(self.node):
            self.stage, self.deadline_us = "stopping", now_us + self.timeout_us
            return [Invoke(self.node, f"{self.name}/{self.node}", "shutdown")]
        return []

    def _next(self, now_us: int, view: ClusterView) -> list[AnyAction]:
        self.node, self.stage, self.deadline_us = "", "", None
        if not self.left:
            return []
        self.node, self.stage = self.left.pop(0), "waiting"
        self.deadline_us = now_us + self.timeout_us
        return self._look(now_us, view)
