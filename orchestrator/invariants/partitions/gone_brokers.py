"""Brokers that have ended, and how long the active controller may hold their places all the same."""

from __future__ import annotations

import msgspec

from actors.node.spec import node_name
from actors.trace.events import BrokerReg, ClockSet, CtlFault, DiskRuleChange, NodeDown, QRole, Rpc, Stamped
from orchestrator.invariants.folds.bounds import SLACK_US
from orchestrator.invariants.folds.broken_links import BrokenLinks
from orchestrator.invariants.folds.fold import Witness, witness
from orchestrator.invariants.folds.hindered_timers import HinderedTimers
from orchestrator.invariants.mirrors.metadata_view import MetadataView

LOOKS = 8
"""So many times in a session timeout the controller looks for brokers whose session is over."""
NEXT_LOOK_US = 10_000
"""Until it looks for the next one, when it has found one."""


class Gone(msgspec.Struct, frozen=True):
    """A process of a broker that has ended."""

    incarnation: str
    at_us: int
    by: Witness


class Office(msgspec.Struct):
    """A controller that leads the quorum. since_us: since when; acts_us: since when it is known to act as the active
    controller, which it does only when its log is committed as far as it had it; -1 not yet."""

    since_us: int
    acts_us: int = -1

    def acts(self, asked_us: int, now_us: int) -> None:
        """It did what the active controller alone does, for who asked it then."""
        if self.acts_us < 0 and asked_us >= self.since_us:
            self.acts_us = now_us


class Late(msgspec.Struct, frozen=True):
    """A place that is held for too long."""

    gone: Gone
    silent_us: int


class GoneBrokers(msgspec.Struct):
    """gone: broker -> its last process that ended. offices: of the controllers that lead. written_us: broker -> when a
    controller wrote something of it last. delayed_us: node -> until when timers that were set before may be late.
    abrupt: the newest quorum epoch whose controller ended abruptly, maybe before it told of all that it wrote."""

    gone: dict[str, Gone] = {}
    offices: dict[str, Office] = {}
    written_us: dict[str, int] = {}
    links: BrokenLinks = msgspec.field(default_factory=BrokenLinks)
    timers: HinderedTimers = msgspec.field(default_factory=HinderedTimers)
    delayed_us: dict[str, int] = {}
    abrupt: int = -1

    def take(self, event: Stamped, mirror: MetadataView) -> None:
        """Something happened that contact with brokers, or a controller's clock, turns on."""
        body = event.body
        if type(body) is Rpc:
            office = self.offices.get(body.dst)
            if office is not None and body.outcome == "answered" and not body.errors:
                office.acts(event.wall - 1000 * body.took_ms, event.wall)
        elif type(body) is BrokerReg:
            self.written_us[node_name(body.broker)] = event.wall
            if (office := self.offices.get(event.node)) is not None:
                office.acts(event.wall, event.wall)
        elif type(body) is QRole:
            self.offices.pop(event.node, None)
            if body.role == "leader":
                self.offices[event.node] = Office(event.wall)
        elif type(body) is NodeDown:
            self._ended(event, body, mirror)
        elif isinstance(body, CtlFault | ClockSet | DiskRuleChange):
            if type(body) is CtlFault:
                self.links.take(body, event.wall)
            for node, late_us in self.timers.take(event, body):
                self.delayed_us[node] = event.wall + late_us

    def _ended(self, event: Stamped, body: NodeDown, mirror: MetadataView) -> None:
        led = mirror.elections.epoch_of(event.node)
        if led >= 0:
            self.offices.pop(event.node, None)
            if body.mode not in ("clean", "end"):
                self.abrupt = max(self.abrupt, led)
        if event.node.startswith("broker-"):
            self.gone[event.node] = Gone(f"{event.node}/{event.incarnation}", event.wall, witness(event))

    def late(self, event: Stamped, mirror: MetadataView, session_us: int) -> list[Late]:
        """The places that a controller whose clock has come this far should not hold any more; each is told once."""
        controller, found = event.node, []
        office = self.offices.get(controller)
        if office is None or office.acts_us < 0 or self.timers.are_wrong(controller) or not self.gone:
            return []
        epoch = mirror.elections.epoch_of(controller)
        view = mirror.views.get(epoch)
        if view is None:
            return []
        longest_us = session_us + session_us // LOOKS + NEXT_LOOK_US * len(view.brokers) + SLACK_US
        for broker, entry in view.brokers.items():
            node, body = node_name(broker), entry.body
            gone = self.gone.get(node)
            assert type(body) is BrokerReg
            if gone is None or body.fenced or body.incarnation != gone.incarnation:
                continue
            if entry.epoch != epoch and entry.epoch <= self.abrupt:
                continue
            contact_us = max(
                gone.at_us,
                office.acts_us,
                self.written_us.get(node, 0),
                self.delayed_us.get(controller, 0),
                self.links.whole_since_us(controller, node),
            )
            if event.wall > contact_us + longest_us:
                found.append(Late(gone, event.wall - contact_us))
        for each in found:
            self.gone = {node: gone for node, gone in self.gone.items() if gone is not each.gone}
        return found
