"""Whom a leader asks into the ISR at once: a follower that fetches from its log end, and may join."""

from __future__ import annotations

import msgspec

from actors.trace.events import BrokerReg, NodeDown, RepFetch, Stamped
from actors.trace.metadata_history import Elections
from orchestrator.invariants.folds.fold import Witness, witness
from orchestrator.invariants.folds.windows import Appended
from orchestrator.invariants.mirrors.known_brokers import KnownBrokers, Life


class Joining(msgspec.Struct, frozen=True):
    """By its fetch ``by``, in the step ``req``, a follower has earned its place; ``life``: as which the leader knows
    it."""

    req: str
    follower: int
    by: Witness
    life: Life


class Joiners(msgspec.Struct):
    """owed: leader -> whom it has to propose in a step. ends: how many controllers have ended abruptly: one that does
    may not tell of all that it appended. changed, registered: how many had when the partition, or a broker, was told
    of last."""

    brokers: KnownBrokers = msgspec.field(default_factory=KnownBrokers)
    owed: dict[str, Joining] = {}
    ends: int = 0
    changed: int = 0
    registered: dict[int, int] = {}

    def hear(self, event: Stamped, elections: Elections) -> None:
        """Take an event of a broker's or controller's life, or of the types from which ``KnownBrokers`` is built."""
        body = event.body
        if type(body) is NodeDown:
            self.owed.pop(event.node, None)
            if body.mode not in ("clean", "end") and elections.epoch_of(event.node) >= 0:
                self.ends += 1
            return
        self.brokers.apply(event)
        if type(body) is BrokerReg and event.node == self.brokers.controller[1]:
            self.registered[body.broker] = self.ends

    def fetched(self, event: Stamped, body: RepFetch, known: Appended) -> None:
        """A follower fetches from the end of the log of a leader that may propose; ``known``: what this knows of the
        partition."""
        if self.changed != self.ends or self.registered.get(body.follower) != self.ends:
            return
        life = self.brokers.known_to(event.node, body.follower)
        if body.follower in known.change.isr or life is None or life.fenced or life.leaves:
            return
        if body.broker_epoch == life.broker_epoch:
            self.owed[event.node] = Joining(event.req, body.follower, witness(event), life)

    def settle(self, event: Stamped) -> Joining | None:
        """A leader records something of the partition. Whom it had to propose in an earlier step, and did not."""
        owed = self.owed.get(event.node)
        if owed is None or event.req == owed.req:
            return None
        del self.owed[event.node]
        return owed if event.incarnation == owed.by.incarnation else None
