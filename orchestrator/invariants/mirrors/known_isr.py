"""What a leader knows of its ISR and of its least size: from the metadata log, and from the controller's answers."""

from __future__ import annotations

import msgspec

from actors.node.spec import node_name
from actors.trace.events import IsrPropose, MetaImage, NodeUp, PartChange, QRole, Stamped
from actors.trace.metadata_history import History
from orchestrator.invariants.folds.fold import Profile, Witness, witness
from orchestrator.invariants.mirrors.config_records import HEARD
from orchestrator.invariants.mirrors.min_isr import LeastIsr

KEPT = 1 << 10
"""Changes that are kept: all that a run has."""
NEWS = HEARD
"""Types of the events that say what brokers have heard of."""


class Change(msgspec.Struct, frozen=True):
    """A record of the metadata log that says who leads, and which ISR is committed."""

    quorum_epoch: int
    offset: int
    leader: int
    leader_epoch: int
    partition_epoch: int
    isr: list[int]
    replicas: int
    by: Witness


class KnownIsr(msgspec.Struct, frozen=True):
    """The committed ISR that a leader knows, and its least size. ``before``, ``step``: what that was before the step in
    which the broker heard something last."""

    leader_epoch: int
    partition_epoch: int
    isr: list[int]
    least: int
    before: int
    step: str
    replicas: int
    by: Witness

    @property
    def needed(self) -> int:
        """The least ISR, never more than there are replicas."""
        return min(self.least, self.replicas)

    def is_small(self, step: str) -> bool:
        """Whether nothing more may be committed with it in a step (``Partition.isUnderMinIsr``). In which order a
        broker takes up what it hears at once is its own affair."""
        least = min(self.least, self.before) if step == self.step else self.least
        return len(self.isr) < min(least, self.replicas)


class KnownIsrs(msgspec.Struct):
    """``settings``: what min.insync.replicas is; ``changes``: of the partition; ``known``: leader -> what it knows;
    ``least``: broker -> the least ISR that it knows."""

    settings: LeastIsr = msgspec.field(default_factory=LeastIsr)
    changes: History[Change] = msgspec.field(default_factory=lambda: History(KEPT))
    known: dict[str, KnownIsr] = {}
    least: dict[str, int] = {}

    def change(self, event: Stamped, body: PartChange) -> None:
        """A controller appended a change."""
        self.changes.add(
            Change(
                body.quorum_epoch,
                body.offset,
                body.leader,
                body.leader_epoch,
                body.partition_epoch,
                body.isr,
                len(body.replicas),
                witness(event),
            ),
            self.settings.elections,
        )

    def hear(self, event: Stamped, tp: str, profile: Profile) -> None:
        """Take an event of the types in ``NEWS``."""
        heard, body = self.settings.hear(event), event.body
        if type(body) is QRole:
            self.changes.forget_lost(self.settings.elections)
        elif type(body) is NodeUp:
            self.known.pop(event.node, None)
            self.least.pop(event.node, None)
        elif heard and type(body) is MetaImage:
            self._apply(event, body, self.settings.at(event.node, tp, profile).value)

    def _apply(self, event: Stamped, body: MetaImage, least: int) -> None:
        """A broker applied the metadata log up to an offset."""
        before = self.least.get(event.node, least)
        self.least[event.node] = least
        newest = next((each for each in reversed(self.changes.records) if each.offset < body.offset), None)
        if newest is None or node_name(newest.leader) != event.node:
            self.known.pop(event.node, None)
            return
        told = self.known.get(event.node)
        if told is not None and told.leader_epoch == newest.leader_epoch:
            if told.partition_epoch > newest.partition_epoch:
                newest = msgspec.structs.replace(newest, partition_epoch=told.partition_epoch, isr=told.isr, by=told.by)
        self.known[event.node] = KnownIsr(
            newest.leader_epoch,
            newest.partition_epoch,
            newest.isr,
            least,
            before,
            event.req,
            newest.replicas,
            newest.by,
        )

    def settle(self, event: Stamped, body: IsrPropose) -> None:
        """A leader learned that its proposal was accepted."""
        known = self.known.get(event.node)
        if body.outcome != "accepted" or known is None or known.leader_epoch != body.leader_epoch:
            return
        if body.partition_epoch + 1 > known.partition_epoch:
            self.known[event.node] = msgspec.structs.replace(
                known, partition_epoch=body.partition_epoch + 1, isr=body.isr, by=witness(event)
            )

    def small(self, event: Stamped, leader_epoch: int) -> KnownIsr | None:
        """The ISR that a leader knows in its leader epoch, if that is too small."""
        known = self.known.get(event.node)
        return known if known is not None and known.leader_epoch == leader_epoch and known.is_small(event.req) else None
