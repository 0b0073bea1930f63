"""Brokers that have left in good order, whose next process may register at once."""

from __future__ import annotations

import msgspec

from actors.node.errors import KafkaError
from actors.trace.events import CtlFault, Rpc, Stamped
from chaos.faults.kinds import kinds_of
from chaos.faults.network import NetworkDuplicate
from orchestrator.invariants.folds.fold import Witness, witness

REGISTRATION = "BrokerRegistration"
COPIES = kinds_of(NetworkDuplicate)
"""Faults for which a controller may take a heartbeat twice."""


class Left(msgspec.Struct, frozen=True):
    """controller: who has let the broker go, and holds no session of it since then; active_us: since when that is
    active. incarnation: of the broker's last process."""

    controller: str
    active_us: int
    incarnation: int
    by: Witness


class LastBeat(msgspec.Struct):
    """The last heartbeat of a process that was answered, and by whom, "" none. late: one was not answered, and may
    still arrive."""

    incarnation: int
    controller: str = ""
    late: bool = False


class LeftBrokers(msgspec.Struct):
    """beats: broker -> its last heartbeat. left: broker -> who let it go. copied: heartbeats may have been copied."""

    beats: dict[str, LastBeat] = {}
    left: dict[str, Left] = {}
    copied: bool = False

    def begins(self, body: CtlFault) -> None:
        """A fault begins, or ends."""
        self.copied = self.copied or body.kind in COPIES

    def beat(self, event: Stamped, body: Rpc) -> None:
        """A heartbeat has ended."""
        last = self.beats.get(event.node)
        if last is None or last.incarnation != event.incarnation:
            last = self.beats[event.node] = LastBeat(event.incarnation)
        if body.outcome != "answered":
            last.late = True
        elif not body.errors:
            last.controller = body.dst

    def answered_last(self, event: Stamped) -> str:
        """The controller that has answered the last heartbeat of a process that ends; "" if none has, or another
        heartbeat may come later."""
        last = self.beats.pop(event.node, None)
        known = last is not None and last.incarnation == event.incarnation and not last.late and not self.copied
        return last.controller if last is not None and known else ""

    def leaves(self, event: Stamped, controller: str, active_us: int) -> None:
        """A process has ended as that controller let it go, which is active since then."""
        self.left[event.node] = Left(controller, active_us, event.incarnation, witness(event))

    def registers(self, node: str) -> None:
        """A controller has written a registration: from now on there is a session."""
        self.left.pop(node, None)

    def wrongly_refused(self, event: Stamped, body: Rpc) -> Left | None:
        """The end of a registration: why it was refused wrongly as that of a second process, None if it was not."""
        left = self.left.get(event.node)
        if left is None or KafkaError.DUPLICATE_BROKER_REGISTRATION not in body.errors or self.copied:
            return None
        return left if (left.incarnation + 1, left.controller) == (event.incarnation, body.dst) else None
