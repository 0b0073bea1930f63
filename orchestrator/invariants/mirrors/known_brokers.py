"""What brokers know of one another: which processes of brokers there are, and which of them are fenced, as far as each
broker has applied the metadata log."""

from __future__ import annotations

import msgspec

from actors.trace.events import BrokerReg, MetaImage, NodeUp, QRole, Stamped, TraceEvent
from orchestrator.invariants.folds.fold import Witness, witness
from orchestrator.invariants.folds.memory import CHANGES_REMEMBERED

FOLLOWED: tuple[type[TraceEvent], ...] = (MetaImage, BrokerReg, NodeUp, QRole)
"""Types of the events that it is built from."""


class Life(msgspec.Struct, frozen=True):
    """What a controller wrote of a broker: at ``offset`` of the metadata log it has this broker epoch. ``leaves``: it
    shuts down."""

    offset: int
    broker_epoch: int
    fenced: bool
    leaves: bool
    by: Witness


class KnownBrokers(msgspec.Struct):
    """``lives``: broker -> what controllers wrote of it, oldest first, as far as it was not lost; ``applied``: broker
    -> end of the metadata log that it has applied; ``controller``: the newest, and its quorum epoch."""

    lives: dict[int, list[Life]] = {}
    applied: dict[str, int] = {}
    controller: tuple[int, str] = (-1, "")

    def apply(self, event: Stamped) -> None:
        """Take an event of the types in ``FOLLOWED``."""
        body = event.body
        if type(body) is MetaImage:
            self.applied[event.node] = body.offset
        elif type(body) is NodeUp:
            self.applied.pop(event.node, None)
        elif type(body) is QRole:
            if body.role == "leader" and body.epoch > self.controller[0]:
                self.controller = (body.epoch, event.node)
                for broker, lives in self.lives.items():  # what it has not got in its log is lost
                    self.lives[broker] = [each for each in lives if each.offset < body.log_end]
        elif event.node == self.controller[1]:
            assert type(body) is BrokerReg
            life = Life(body.offset, body.broker_epoch, body.fenced, body.shutting_down, witness(event))
            lives = self.lives.setdefault(body.broker, [])
            lives.append(life)
            del lives[:-CHANGES_REMEMBERED]

    def known_to(self, node: str, broker: int) -> Life | None:
        """What a broker knows of another one."""
        end = self.applied.get(node, 0)
        for each in reversed(self.lives.get(broker, ())):
            if each.offset < end:
                return each
        return None

    def first_of(self, broker: int, broker_epoch: int) -> Life | None:
        """The first that controllers wrote of a broker under a broker epoch, None also where that was forgotten."""
        lives = self.lives.get(broker, [])
        if len(lives) >= CHANGES_REMEMBERED and lives[0].broker_epoch == broker_epoch:
            return None
        return next((each for each in lives if each.broker_epoch == broker_epoch), None)
