"""Whom a coordinator cannot hear: clients that are cut off from it, while nothing disturbs the servers."""

from __future__ import annotations

import msgspec

from actors.trace.events import CtlFault
from chaos.faults.kinds import kinds_of
from chaos.faults.network import NetworkPartition
from orchestrator.invariants.folds.fault_kinds import LINK_FAULTS
from orchestrator.invariants.folds.leftovers import pairs_of

PARTITIONS = kinds_of(NetworkPartition)
"""Faults by which nothing arrives any more."""
SERVERS = ("broker-", "controller-", "remote-store-")
"""Beginnings of the names of servers."""
SERVED_US = 250_000
"""How long an undisturbed coordinator takes at the most for requests that had arrived."""
SETTLED_US = 1_000_000
"""How long what servers had sent each other before a disturbance ended may still be under way."""


class Severed(msgspec.Struct):
    """links: "source target" -> partitions of the link that are in force; since_us: of these links, since when nothing
    has arrived by it. disturbing: faults in force that touch a server, or a link between two; disturbed_us: when one
    began or ended last, or a server ended."""

    links: dict[str, set[str]] = {}
    since_us: dict[str, int] = {}
    disturbing: set[str] = set()
    disturbed_us: int = -SETTLED_US

    def take(self, body: CtlFault, now_us: int) -> None:
        """A fault begins, or ends."""
        pairs = list(pairs_of(body)) if body.kind in LINK_FAULTS else []
        if body.kind in PARTITIONS:
            for link in pairs:
                self._cut(link, body, now_us)
        touched = [pair.split() for pair in pairs] if pairs else [[each] for each in body.targets]
        if not any(all(node.startswith(SERVERS) for node in nodes) for nodes in touched):
            return
        self.disturbed_us = now_us
        if body.phase == "start":
            self.disturbing.add(body.fault)
        else:
            self.disturbing.discard(body.fault)

    def _cut(self, link: str, body: CtlFault, now_us: int) -> None:
        force = self.links.setdefault(link, set())
        if body.phase == "start":
            force.add(body.fault)
            self.since_us.setdefault(link, now_us)
            return
        force.discard(body.fault)
        if not force:
            del self.links[link]
            self.since_us.pop(link, None)

    def ended(self, node: str, now_us: int) -> None:
        """A process ends."""
        if node.startswith(SERVERS):
            self.disturbed_us = now_us

    def heard_us(self, client: str, broker: str) -> int:
        """Until when a broker may have heard of a client that is cut off from it, -1 it is not. What had arrived has
        been served by then, as long as the servers are undisturbed."""
        since_us = self.since_us.get(f"{client} {broker}", -1)
        return since_us if since_us < 0 else since_us + SERVED_US

    def are_undisturbed(self, since_us: int, left_us: int) -> bool:
        """Whether servers have reached one another since then: what they write is committed at once, and no request
        waits for that behind which others of its connection wait. ``left_us``: when what faults left behind is over, 0
        they left nothing."""
        disturbed_us = max(self.disturbed_us, left_us or -SETTLED_US)
        return not self.disturbing and disturbed_us + SETTLED_US <= since_us
