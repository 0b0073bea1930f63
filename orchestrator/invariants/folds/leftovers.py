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
from chaos.faults.process import NodePause
from chaos.faults.store import SlowStore

SLOW_LINKS = kinds_of(NetworkDelay, NetworkReorder)
"""Faults by which a message takes longer. Nothing on a connection overtakes it, the end of the connection neither: so
whoever asks on one whose server has died meanwhile learns of that behind all that the server had sent."""

SLOW_DISKS = kinds_of(DiskSlowness, SlowStore)
"""Faults by which a node takes longer for what it was asked before they end."""


class Leftovers(msgspec.Struct):
    """``slowing``: faults on links that are in force -> "source target" -> longest delay; ``links_us``: "source target"
    -> when the last message that was slowed down between the two has arrived; ``disks_us``: node -> when what its disk
    held up is written, or read; ``all_us``: when all of that is over.

    A live node carries out its links' faults itself. One that is stopped meanwhile hears of the fault's end, and maybe
    of its beginning, when it goes on. ``paused``: faults that stop nodes -> which; ``late``: "source target" -> longest
    delay of faults that have ended while one of the two was stopped."""

    slowing: dict[str, dict[str, int]] = {}
    links_us: dict[str, int] = {}
    disks_us: dict[str, int] = {}
    all_us: int = 0
    paused: dict[str, list[str]] = {}
    late: dict[str, int] = {}

    def take(self, body: CtlFault, now_us: int) -> None:
        """A fault begins, or ends."""
        if body.kind == NodePause.kind:
            self._pauses(body, now_us)
        elif body.kind in SLOW_DISKS and body.phase == "stop":
            until_us = now_us + int(body.parameters["delay_max_us"])
            for node in body.targets:
                self.disks_us[node] = max(until_us, self.disks_us.get(node, 0))
                self.all_us = max(until_us, self.all_us)
        elif body.kind in SLOW_LINKS and body.phase == "start":
            self.slowing[body.fault] = dict.fromkeys(pairs_of(body), int(body.parameters["delay_max_us"]))
        elif body.kind in SLOW_LINKS:
            for pair in self.slowing.get(body.fault, ()):
                # What was sent while several were in force takes as long as all of them together.
                delay_us = sum(each.get(pair, 0) for each in self.slowing.values())
                self._slowed(pair, now_us + delay_us)
                if self._is_paused(pair):
                    self.late[pair] = max(delay_us, self.late.get(pair, 0))
            self.slowing.pop(body.fault, None)

    def _pauses(self, body: CtlFault, now_us: int) -> None:
        if body.phase == "start":
            self.paused[body.fault] = body.targets
            return
        self.paused.pop(body.fault, None)
        for pair in [pair for pair in self.late if not self._is_paused(pair)]:
            self._slowed(pair, now_us + self.late.pop(pair))

    def _is_paused(self, pair: str) -> bool:
        return any(node in pair.split() for nodes in self.paused.values() for node in nodes)

    def _slowed(self, pair: str, until_us: int) -> None:
        self.links_us[pair] = max(until_us, self.links_us.get(pair, 0))
        self.all_us = max(until_us, self.all_us)

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
