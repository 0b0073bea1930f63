"""What the active controller waits for before it lets a broker stop."""

from __future__ import annotations

import msgspec

from actors.node.spec import node_name
from actors.trace.events import BrokerReg, MetaImage, PartChange, PartRemove, Rpc, Stamped
from orchestrator.invariants.folds.fold import Witness, witness
from orchestrator.invariants.mirrors.metadata_view import MetadataView, View


class Knows(msgspec.Struct):
    """A process of another broker that has applied the metadata log beyond the offset of a shutdown. at_us: since when;
    said_us: when the controller had surely heard that from it, -1 not yet."""

    incarnation: str
    at_us: int
    said_us: int = -1


class Leaving(msgspec.Struct):
    """A broker that a controller has registered as shutting down. offset: of the last record that the controller wrote
    for that, in the step that served ``req``; at_us: when that was. led_us: when the controller changed a partition
    that it led last. knows: broker -> its process that knows. told: it was found to wait for too long."""

    incarnation: str
    controller: str
    epoch: int
    req: str
    offset: int
    at_us: int
    by: Witness
    led_us: int = -1
    knows: dict[str, Knows] = {}
    told: bool = False


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
        incarnation = _process_of(event)
        for each in self.leaving.values():
            known = each.knows.get(event.node)
            if body.offset > each.offset and (known is None or known.incarnation != incarnation):
                each.knows[event.node] = Knows(incarnation, event.wall)

    def beat(self, event: Stamped, body: Rpc, late: bool, slack_us: int) -> None:
        """A heartbeat was answered without an error. ``late``: another one of its process may come later, and say less
        than this one."""
        incarnation, sent_us = _process_of(event), event.wall - 1000 * body.took_ms
        for each in self.leaving.values():
            known = each.knows.get(event.node)
            if known is None or known.incarnation != incarnation or each.controller != body.dst:
                continue
            if known.said_us < 0 and not late and sent_us > known.at_us + slack_us:
                known.said_us = event.wall

    def held_back(
        self, event: Stamped, body: Rpc, mirror: MetadataView, written_us: dict[str, int], slack_us: int
    ) -> Leaving | None:
        """A broker that shuts down has got an answer that does not let it go: its shutdown, if it should have been let
        go, as it led nothing any more when it asked, and all other brokers had said that they know, or were fenced.
        ``written_us``: broker -> when a controller wrote of it last."""
        leaving, sent_us = self.leaving.get(event.node), event.wall - 1000 * body.took_ms - slack_us
        if leaving is None or leaving.told or leaving.incarnation != _process_of(event):
            return None
        view = mirror.views.get(leaving.epoch)
        if view is None or leaving.controller != body.dst or mirror.elections.epoch_of(body.dst) != leaving.epoch:
            return None
        number = int(event.node.rpartition("-")[2])
        if sent_us <= max(leaving.at_us, leaving.led_us) or _leads(view, number):
            return None
        for broker, entry in view.brokers.items():
            node, other = node_name(broker), entry.body
            assert type(other) is BrokerReg
            known = leaving.knows.get(node)
            if broker == number or (other.fenced and written_us.get(node, sent_us) < sent_us):
                continue
            if other.fenced or known is None or other.incarnation != known.incarnation:
                return None
            if not 0 <= known.said_us < sent_us:
                return None
        leaving.told = True
        return leaving

    def removed(self, event: Stamped, body: PartRemove, mirror: MetadataView) -> None:
        """A controller removes a partition, which the mirror still knows."""
        known = mirror.view_of(event).partition(body.tp)
        if known is not None:
            self._led(event, known.leader)

    def _led(self, event: Stamped, *brokers: int) -> None:
        for broker in brokers:
            if (leaving := self.leaving.get(node_name(broker))) is not None:
                leaving.led_us = event.wall

    def change(self, event: Stamped, body: PartChange, mirror: MetadataView) -> None:
        """A controller changes a partition, which the mirror does not know yet."""
        known = mirror.view_of(event).partition(body.tp)
        self._led(event, body.leader, -1 if known is None else known.leader)
        for each in self.leaving.values():
            if (each.controller, each.req) == (event.node, event.req):
                each.offset = max(each.offset, body.offset)
        if body.cause != "fence" or known is None or known.leader < 0 or body.leader == known.leader:
            return
        epochs = (known.leader_epoch + 1, known.partition_epoch + 1)
        if (body.leader_epoch, body.partition_epoch) == epochs:  # nothing in between that was not told
            self.lost[event.node] = Lost(event.req, known.leader, body.tp, witness(event))

    def is_let_go(self, event: Stamped, body: BrokerReg) -> bool:
        """Whether a controller fences a broker that asks to stop, whose leaderships it has moved."""
        node = node_name(body.broker)
        leaving = self.leaving.get(node)
        served = body.fenced and event.req.startswith(f"{node}>")
        return served and leaving is not None and leaving.controller == event.node

    def written(self, event: Stamped, body: BrokerReg, mirror: MetadataView, abrupt: int) -> LetGo | None:
        """A controller writes what has become of a broker, which the mirror does not know yet. If it lets it go too
        early: why. ``abrupt``: the newest quorum epoch whose controller may not have told of all that it wrote."""
        node, epoch, view = node_name(body.broker), mirror.epoch_of(event), mirror.view_of(event)
        leaving, entry, known = self.leaving.pop(node, None), view.brokers.get(body.broker), view.broker(body.broker)
        for each in self.leaving.values():
            if (knows := each.knows.get(node)) is not None:  # what it has said is forgotten as it is unfenced
                knows.at_us, knows.said_us = max(knows.at_us, event.wall), -1
        if entry is None or known is None or known.fenced or known.incarnation != body.incarnation:
            return None
        if not body.fenced:
            begins = body.shutting_down and not known.shutting_down
            if begins and (entry.epoch == epoch or entry.epoch > abrupt):
                self.leaving[node] = Leaving(
                    body.incarnation, event.node, epoch, event.req, body.offset, event.wall, witness(event)
                )
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


def _process_of(event: Stamped) -> str:
    """The process that an event is of, as registrations call it."""
    return f"{event.node}/{event.incarnation}"


def _leads(view: View, broker: int) -> bool:
    return any(type(each.body) is PartChange and each.body.leader == broker for each in view.partitions.values())
