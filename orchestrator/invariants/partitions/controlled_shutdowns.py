"""What the active controller waits for before it lets a broker stop."""

from __future__ import annotations

import msgspec

from actors.node.spec import node_name
from actors.trace.events import BrokerReg, MetaImage, PartChange, Stamped
from orchestrator.invariants.folds.fold import Witness, witness
from orchestrator.invariants.mirrors.metadata_view import MetadataView


class Leaving(msgspec.Struct):
    """A broker that a controller has registered as shutting down. offset: of the last record that the controller wrote
    for that, in the step that served ``req``."""

    incarnation: str
    controller: str
    epoch: int
    req: str
    offset: int
    by: Witness


class Lost(msgspec.Struct, frozen=True):
    """A leadership that a controller took from a broker to fence it, in the step that served ``req``."""

    req: str
    broker: int
    tp: str
    by: Witness


class LetGo(msgspec.Struct, frozen=True):
    """A broker that was let go too early: why, and the event that shows it."""

    why: str
    by: Witness


class ControlledShutdowns(msgspec.Struct):
    """leaving: broker -> its shutdown, as long as one controller knows of it. lost: controller -> the leadership that
    it took last. images: broker -> the farthest that any process of it has applied the metadata log."""

    leaving: dict[str, Leaving] = {}
    lost: dict[str, Lost] = {}
    images: dict[str, int] = {}

    def applied(self, event: Stamped, body: MetaImage) -> None:
        """A broker applied more of the metadata log."""
        self.images[event.node] = max(body.offset, self.images.get(event.node, -1))

    def change(self, event: Stamped, body: PartChange, mirror: MetadataView) -> None:
        """A controller changes a partition, which the mirror does not know yet."""
        if body.cause == "controlled-shutdown":
            for each in self.leaving.values():
                if (each.controller, each.req) == (event.node, event.req):
                    each.offset = max(each.offset, body.offset)
        known = mirror.view_of(event).partition(body.tp)
        if body.cause != "fence" or known is None or known.leader < 0 or body.leader == known.leader:
            return
        epochs = (known.leader_epoch + 1, known.partition_epoch + 1)
        if (body.leader_epoch, body.partition_epoch) == epochs:  # nothing in between that was not told
            self.lost[event.node] = Lost(event.req, known.leader, body.tp, witness(event))

    def written(self, event: Stamped, body: BrokerReg, mirror: MetadataView, abrupt: int) -> LetGo | None:
        """A controller writes what has become of a broker, which the mirror does not know yet. If it lets it go too
        early: why. ``abrupt``: the newest quorum epoch whose controller may not have told of all that it wrote."""
        node, epoch, view = node_name(body.broker), mirror.epoch_of(event), mirror.view_of(event)
        leaving, entry, known = self.leaving.pop(node, None), view.brokers.get(body.broker), view.broker(body.broker)
        if entry is None or known is None or known.fenced or known.incarnation != body.incarnation:
            return None
        if not body.fenced:
            begins = body.shutting_down and not known.shutting_down
            if begins and (entry.epoch == epoch or entry.epoch > abrupt):
                by = witness(event)
                self.leaving[node] = Leaving(body.incarnation, event.node, epoch, event.req, body.offset, by)
            return None
        if not event.req.startswith(f"{node}>"):
            return None  # its session is over
        lost = self.lost.get(event.node)
        if lost is not None and (lost.req, lost.broker) == (event.req, body.broker):
            return LetGo(f"it still led {lost.tp}", lost.by)
        if leaving is None or (leaving.controller, leaving.epoch) != (event.node, epoch):
            return None
        for broker, other in view.brokers.items():
            sure = other.epoch == epoch or other.epoch > abrupt
            behind = self.images.get(node_name(broker), -1) <= leaving.offset
            if broker != body.broker and sure and behind and view.is_active(broker):
                why = f"{node_name(broker)} had not applied the metadata log beyond offset {leaving.offset}, where"
                return LetGo(f"{why} the last of its leaderships was moved", leaving.by)
        return None
