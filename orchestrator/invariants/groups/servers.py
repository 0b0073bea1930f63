"""Whether nothing disturbs the servers: then a coordinator has soon served all that had arrived."""

from __future__ import annotations

import msgspec

from actors.trace.events import CtlFault
from orchestrator.invariants.folds.fault_kinds import LINK_FAULTS
from orchestrator.invariants.folds.leftovers import pairs_of

SERVERS = ("broker-", "controller-", "remote-store-")
"""Beginnings of the names of servers."""
SERVED_US = 250_000
"""How long an undisturbed coordinator takes at the most for requests that had arrived."""
SETTLED_US = 1_000_000
"""How long what servers had sent each other before a disturbance ended may still be under way."""


class Servers(msgspec.Struct):
    """disturbing: faults in force that touch a server, or a link between two; disturbed_us: when one began or ended
    last, or a server ended."""

    disturbing: set[str] = set()
    disturbed_us: int = -SETTLED_US

    def take(self, body: CtlFault, now_us: int) -> None:
        """A fault begins, or ends."""
        of_links = body.kind in LINK_FAULTS
        touched = [pair.split() for pair in pairs_of(body)] if of_links else [[each] for each in body.targets]
        if not any(all(node.startswith(SERVERS) for node in nodes) for nodes in touched):
            return
        self.disturbed_us = now_us
        if body.phase == "start":
            self.disturbing.add(body.fault)
        else:
            self.disturbing.discard(body.fault)

    def ended(self, node: str, now_us: int) -> None:
        """A process ends."""
        if node.startswith(SERVERS):
            self.disturbed_us = now_us

    def are_undisturbed(self, since_us: int, left_us: int) -> bool:
        """Whether servers have reached one another since then: what they write is committed at once, and no request
        waits for that behind which others of its connection wait. ``left_us``: when what faults left behind is over, 0
        they left nothing."""
        disturbed_us = max(self.disturbed_us, left_us or -SETTLED_US)
        return not self.disturbing and disturbed_us + SETTLED_US <= since_us
