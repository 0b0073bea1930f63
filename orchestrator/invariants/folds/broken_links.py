"""Links between two nodes on which faults are in force, or were."""

from __future__ import annotations

import msgspec

from actors.trace.events import CtlFault
from chaos.faults.kinds import kinds_of
from chaos.faults.network import NetworkPartition
from orchestrator.invariants.folds.bounds import NEVER_US
from orchestrator.invariants.folds.fault_kinds import LINK_FAULTS
from orchestrator.invariants.folds.leftovers import Leftovers, pairs_of

PARTITIONS = kinds_of(NetworkPartition)
"""Faults by which nothing arrives as long as they are in force."""


class Link(msgspec.Struct):
    """One direction between two nodes. ``faults``: those in force; ``since_us``: since when there has always been one,
    if there is; ``touched_us``: when one began or ended last."""

    faults: set[str] = set()
    since_us: int = 0
    touched_us: int = 0

    def take(self, body: CtlFault, now_us: int) -> None:
        """A fault of this link begins, or ends."""
        self.touched_us = now_us
        if body.phase != "start":
            self.faults.discard(body.fault)
            return
        if not self.faults:
            self.since_us = now_us
        self.faults.add(body.fault)


class Cuts(msgspec.Struct):
    """``links``: "source target", by which nothing arrives now."""

    links: dict[str, Link] = {}

    def take(self, body: CtlFault, now_us: int) -> None:
        """A fault of any kind begins, or ends."""
        if body.kind not in PARTITIONS:
            return
        for pair in pairs_of(body):
            link = self.links.setdefault(pair, Link())
            link.take(body, now_us)
            if not link.faults:
                del self.links[pair]

    def since_us(self, source: str, target: str) -> int:
        """Since when nothing arrives from one node at another, -1 it does."""
        link = self.links.get(f"{source} {target}")
        return -1 if link is None else link.since_us

    def are_between(self, one: str, other: str) -> bool:
        """Whether nothing arrives in one of the directions between two nodes."""
        return f"{one} {other}" in self.links or f"{other} {one}" in self.links


class BrokenLinks(msgspec.Struct):
    """``links``: "source target" that had a fault of any kind; ``left``: what is still on its way then."""

    links: dict[str, Link] = {}
    left: Leftovers = msgspec.field(default_factory=Leftovers)

    def take(self, body: CtlFault, now_us: int) -> None:
        """A fault of any kind begins, or ends."""
        self.left.take(body, now_us)
        if body.kind in LINK_FAULTS:
            for pair in pairs_of(body):
                self.links.setdefault(pair, Link()).take(body, now_us)

    def are_between(self, one: str, other: str) -> bool:
        """Whether a fault of the links between two nodes is in force, either way."""
        return any(link.faults for link in self._both(one, other))

    def touched_us(self, one: str, other: str) -> int:
        """When a fault of the links between two nodes, either way, began or ended last."""
        return max((link.touched_us for link in self._both(one, other)), default=0)

    def whole_since_us(self, one: str, other: str) -> int:
        """Since when two nodes exchange everything at once, either way; ``NEVER_US`` while they do not."""
        if self.are_between(one, other):
            return NEVER_US
        return max(self.left.between_us(one, other), self.touched_us(one, other))

    def _both(self, one: str, other: str) -> list[Link]:
        return [self.links[pair] for pair in (f"{one} {other}", f"{other} {one}") if pair in self.links]
