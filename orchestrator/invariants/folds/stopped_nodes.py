"""Nodes that an operator stops in good order, and that may be on their way out."""

from __future__ import annotations

import msgspec

from actors.trace.events import CtlFault
from chaos.faults.kinds import kinds_of
from chaos.faults.process import NodeBounce, NodeShutdown

STOPS = kinds_of(NodeShutdown, NodeBounce)
"""What an operator does that ends processes in good order."""


class Stop(msgspec.Struct):
    """nodes: that an operator stops, and that may not have started anew since; renewed: those that have, in case they
    are stopped a second time; lasts: the operator is not done."""

    nodes: set[str]
    renewed: set[str] = set()
    lasts: bool = True


class StoppedNodes(msgspec.Struct):
    """stops: fault -> what an operator stops by it. A process that is about to end looks after nothing any more, but
    takes its time: it syncs its files."""

    stops: dict[str, Stop] = {}

    def take(self, body: CtlFault) -> set[str]:
        """A fault of any kind begins, or ends. Nodes that are stopped no longer."""
        if body.kind not in STOPS:
            return set()
        if body.phase == "start":
            self.stops[body.fault] = Stop(set(body.targets))
            return set()
        ended = self.stops.get(body.fault)
        if ended is None:
            return set()
        ended.lasts = False
        ended.nodes -= ended.renewed
        if not ended.nodes:
            del self.stops[body.fault]
        return ended.renewed

    def started(self, node: str) -> None:
        """Another process of a node begins."""
        for fault, each in list(self.stops.items()):
            each.renewed.add(node)
            if not each.lasts:
                each.nodes.discard(node)
                if not each.nodes:
                    del self.stops[fault]

    def has(self, node: str) -> bool:
        """Whether an operator may have asked this process of a node to end."""
        return any(node in each.nodes for each in self.stops.values())
