"""Controllers that lead no more, and must say so to whoever asks them."""

from __future__ import annotations

import msgspec

from actors.trace.events import CtlFault, NodeDown, NodeUp, QRole, Rpc, Stamped
from orchestrator.invariants.folds.broken_links import BrokenLinks
from orchestrator.invariants.mirrors.stops import Stops

CONTROLLER = "controller-"
"""How the names of controllers begin. Brokers have roles in the quorum, too, as observers; what they pass on to the
controller they answer when that has."""
ANSWER_US = 1_000_000
"""How long a controller that leads no more may take for an answer, with the ways there and back."""

OF_THE_ACTIVE = frozenset(
    {"BrokerRegistration", "BrokerHeartbeat", "AlterPartition", "AllocateProducerIds"}
    | {"ElectLeaders", "IncrementalAlterConfigs", "CreateTopics", "DeleteTopics", "CreatePartitions"}
)
"""APIs that the active controller alone serves. Others refuse them at once, and one that ceases to be active what waits
for a commit."""


class FormerControllers(msgspec.Struct):
    """left_us: controller that does not lead -> when it led last, 0 never. touched_us: node -> when it began or ended
    last. stops, links: faults of nodes, and between them."""

    left_us: dict[str, int] = {}
    touched_us: dict[str, int] = {}
    stops: Stops = msgspec.field(default_factory=Stops)
    links: BrokenLinks = msgspec.field(default_factory=BrokenLinks)

    def take(self, event: Stamped) -> None:
        """A member of the quorum took up a role, a node began or ended, or a fault did."""
        body = event.body
        if type(body) is QRole:
            if not event.node.startswith(CONTROLLER):
                return
            if body.role == "leader":
                self.left_us.pop(event.node, None)
            elif event.node not in self.left_us:
                self.left_us[event.node] = event.wall
        elif isinstance(body, NodeUp | NodeDown):
            self.touched_us[event.node] = event.wall
        elif type(body) is CtlFault:
            self.stops.take(event, body)
            self.links.take(body, event.wall)

    def owes(self, event: Stamped, body: Rpc) -> bool:
        """Whether a controller, which led no more, should have answered a call that timed out. A message that a link
        lost may hold up what came behind it, until it is given up itself."""
        left_us = self.left_us.get(body.dst)
        if left_us is None or body.api not in OF_THE_ACTIVE or body.outcome != "timeout":
            return False
        began_us = event.wall - 1000 * body.took_ms
        if max(began_us, left_us) > event.wall - ANSWER_US:
            return False
        free_us = self.stops.free_us(body.dst)
        touched_us = max(self.touched_us.get(body.dst, 0), self.links.left.disk_us(body.dst), free_us)
        whole_us = self.links.whole_since_us(event.node, body.dst)
        return touched_us < began_us and whole_us < began_us - 1000 * body.timeout_ms
