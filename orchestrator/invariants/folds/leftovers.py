"""What faults leave behind when they are over: links that still carry what was slowed down, disks that still write, a
remote store that still reads."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import msgspec

from actors.trace.events import CtlFault
from chaos.faults.disk import DiskSlowness
from chaos.faults.kinds import kinds_of
from chaos.faults.network import NetworkDelay, NetworkReorder
from chaos.faults.store import SlowStore

SLOW_LINKS = kinds_of(NetworkDelay, NetworkReorder)
"""Faults by which a message takes longer. Nothing on a connection overtakes it, the end of the connection neither: so
whoever asks on one whose server has died meanwhile learns of that behind all that the server had sent."""

SLOW_DISKS = kinds_of(DiskSlowness, SlowStore)
"""Faults by which a node takes longer for what it was asked before they end."""


class Leftovers(msgspec.Struct):
    """``slowing``: faults on links that are in force -> "source target" -> longest delay; ``links_us``: "source target"
    -> when the last message that was slowed down between the two has arrived; ``disks_us``: node -> when what its disk
    held up is written, or read; ``all_us``: when all of that is over."""

    slowing: dict[str, dict[str, int]] = {}
    links_us: dict[str, int] = {}
    disks_us: dict[str, int] = {}
    all_us: int = 0

    def take(self, body: CtlFault, now_us: int) -> None:
        """A fault begins, or ends."""
        if body.kind in SLOW_DISKS and body.phase == "stop":
            until_us = now_us + int(body.parameters["delay_max_us"])
            for node in body.targets:
                self.disks_us[node] = max(until_us, self.disks_us.get(node, 0))
                self.all_us = max(until_us, self.all_us)
        elif body.kind in SLOW_LINKS and body.phase == "start":
            self.slowing[body.fault] = dict.fromkeys(pairs_of(body), int(body.parameters["delay_max_us"]))
        elif body.kind in SLOW_LINKS:
            for pair in self.slowing.get(body.fault, ()):
                # What was sent while several were in force takes as long as all of them together.
                until_us = now_us + sum(each.get(pair, 0) for each in self.slowing.values())
                self.links_us[pair] = max(until_us, self.links_us.get(pair, 0))
                self.all_us = max(until_us, self.all_us)
            self.slowing.pop(body.fault, None)

    def between_us(self, one: str, other: str) -> int:
        """When what was slowed down between two nodes, either way, has arrived."""
        return max(self.links_us.get(f"{one} {other}", 0), self.links_us.get(f"{other} {one}", 0))

    def disk_us(self, node: str) -> int:
        """When what a node's disk held up is written."""
        return self.disks_us.get(node, 0)


def pairs_of(body: CtlFault) -> Iterator[str]:
    """The links that a fault is about, as "source target"."""
    sources, targets = body.parameters["from"], body.parameters["to"]
    for source, target in product(sources, targets):
        yield f"{source} {target}"
        if body.parameters["both_ways"]:
            yield f"{target} {source}"
