"""When brokers can reach the remote store to delete something, and work."""

from __future__ import annotations

import msgspec

from actors.node.spec import REMOTE_STORE
from actors.trace.events import CtlFault
from chaos.faults.kinds import kinds_of
from chaos.faults.store import SlowStore, StoreFault, UnavailableStore
from orchestrator.invariants.folds.bounds import NEVER_US
from orchestrator.invariants.folds.fault_kinds import LINK_FAULTS
from orchestrator.invariants.folds.leftovers import Leftovers, pairs_of

RULES = kinds_of(StoreFault)
"""Faults with which the store answers, or closes the connection: no answer of it is lost."""
HINDERING = kinds_of(SlowStore, UnavailableStore)
"""Those of them with which it does not answer at once. An error is an answer."""
DELETING = frozenset({"DeleteLogSegmentData", "ListLogSegments"})
"""APIs of the store that a deletion needs."""


class Reach(msgspec.Struct):
    """faults: those in force -> the nodes that they stop or cut off; the store stands for all. touched_us: node -> when
    one of them began or ended last; lost_us: the same of those by which an answer of the store may be lost. left: what
    is still on its way after them."""

    faults: dict[str, list[str]] = {}
    touched_us: dict[str, int] = {}
    lost_us: dict[str, int] = {}
    left: Leftovers = msgspec.field(default_factory=Leftovers)

    def take(self, body: CtlFault, now_us: int) -> None:
        """A fault of any kind begins, or ends."""
        apis = body.parameters.get("apis") or DELETING
        if body.kind in RULES and (body.kind not in HINDERING or DELETING.isdisjoint(apis)):
            return
        self.left.take(body, now_us)
        nodes, loses = body.targets, body.kind not in RULES
        if body.kind in LINK_FAULTS:
            pairs = [pair.split() for pair in pairs_of(body)]
            nodes = sorted({node for pair in pairs if REMOTE_STORE in pair for node in pair if node != REMOTE_STORE})
        if body.phase == "start":
            self.faults[body.fault] = list(nodes)
        else:
            nodes = [*nodes, *self.faults.pop(body.fault, ())]
        for node in nodes:
            self.touches(node, now_us, loses=loses)

    def touches(self, node: str, now_us: int, *, loses: bool = True) -> None:
        """Something becomes of a node, or of its links to the store."""
        self.touched_us[node] = now_us
        if loses:
            self.lost_us[node] = now_us

    def free_us(self, node: str) -> int:
        """Since when a broker works and reaches the store, which answers; ``NEVER_US`` while that is not so."""
        if any(each in nodes for nodes in self.faults.values() for each in (node, REMOTE_STORE)):
            return NEVER_US
        touched_us = max(self.touched_us.get(node, 0), self.touched_us.get(REMOTE_STORE, 0))
        return max(touched_us, self.left.between_us(node, REMOTE_STORE), self.left.disk_us(REMOTE_STORE))

    def loses_since(self, node: str, at_us: int) -> bool:
        """Whether an answer of the store to a broker may have been lost since a moment."""
        return max(self.lost_us.get(node, -1), self.lost_us.get(REMOTE_STORE, -1)) >= at_us
