"""Ways in which an offsets partition may lose what it had committed, for those who do not follow its log."""

from __future__ import annotations

import msgspec

from actors.node.spec import node_name
from actors.trace.events import NodeDown, PartChange, Stamped
from actors.trace.metadata_history import NewestController
from orchestrator.invariants.folds.fold import Profile
from orchestrator.invariants.mirrors.loss_budget import loss_budget

OFFSETS_TOPIC = "__consumer_offsets-"
"""How offsets partitions are called."""

OFFSETS_LOSSES = {
    "unclean-election": "The offsets partition had an unclean election since: its leader may lack committed positions.",
    "disk-loss": "Disks have lost commits of the offsets partition since: those of at least min.insync.replicas "
    "replicas or, without eligible leader replicas, of the last member of the ISR.",
}
"""Rule -> when it excuses that something is gone."""


class DiskLoss(msgspec.Struct):
    """What a disk lost of an offsets partition, from an offset on. alone: while it was missing the ISR was this replica
    and no other; again: it has come into the ISR since, and has it all again."""

    node: str
    start: int
    alone: bool
    again: bool = False


class OffsetsLosses(msgspec.Struct):
    """unclean: offsets partition -> last leader epoch that began uncleanly; lost: offsets partition -> what disks lost,
    in the order of the trace; isr: offsets partition -> as the newest controller has it. profile: says how much disks
    may lose."""

    profile: Profile = Profile()
    unclean: dict[str, int] = {}
    lost: dict[str, list[DiskLoss]] = {}
    isr: dict[str, list[str]] = {}
    controller: NewestController = msgspec.field(default_factory=NewestController)

    def take(self, event: Stamped) -> None:
        """Take a ``part.change`` or a ``node.down``, of whatever partition."""
        body = event.body
        if type(body) is PartChange:
            if body.tp.startswith(OFFSETS_TOPIC):
                self._change(body)
        elif type(body) is NodeDown:
            for tp, offset in body.lost.items():
                if tp.startswith(OFFSETS_TOPIC):
                    alone = self.isr.get(tp) == [event.node]
                    self.lost.setdefault(tp, []).append(DiskLoss(event.node, offset, alone))

    def _change(self, body: PartChange) -> None:
        if body.cause == "unclean":
            self.unclean[body.tp] = max(body.leader_epoch, self.unclean.get(body.tp, -1))
        if not self.controller.says(body.quorum_epoch):
            return
        before, isr = self.isr.get(body.tp, []), [node_name(member) for member in body.isr]
        self.isr[body.tp] = isr
        for loss in self.lost.get(body.tp, ()):
            loss.again = loss.again or (loss.node in isr and loss.node not in before)
            loss.alone = loss.alone or (isr == [loss.node] and not loss.again)

    def count(self, tp: str) -> int:
        """How often disks have lost something of an offsets partition so far."""
        return len(self.lost.get(tp, ()))

    def rule(self, tp: str, since_epoch: int, offset: int = 1 << 62, since: int = 0) -> str:
        """The rule by which what leader epoch ``since_epoch`` committed at ``offset``, when disks had lost something
        ``since`` times, may be gone, "" if there is none."""
        if self.unclean.get(tp, -1) > since_epoch:
            return "unclean-election"
        lost = [each for each in self.lost.get(tp, [])[since:] if each.start <= offset]
        budget = loss_budget(self.profile, tp)
        gone = len({each.node for each in lost}) >= budget.min_isr
        return "disk-loss" if gone or (not budget.elr and any(each.alone for each in lost)) else ""
