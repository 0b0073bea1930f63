"""Ways in which a partition may lose what it had committed, for those who do not follow its log."""

from __future__ import annotations

import msgspec

from actors.node.spec import node_name
from actors.trace.events import NodeDown, PartChange, Stamped
from actors.trace.metadata_history import NewestController
from orchestrator.invariants.folds.fold import Profile
from orchestrator.invariants.folds.memory import CHANGES_REMEMBERED
from orchestrator.invariants.mirrors.loss_budget import loss_budget

UNCLEAN_ELECTION, LOSS_BUDGET = "unclean-election", "loss-budget"


class Lost(msgspec.Struct, frozen=True, gc=False):
    """When the log of a partition may have lost its committed end, and by which rule."""

    at_us: int
    tp: str
    rule: str


class DiskLoss(msgspec.Struct):
    """What a disk lost of a partition, from an offset on. number: how many others of it came before. alone: while it
    was missing the ISR was this replica and no other; again: it has come into the ISR since, and has it all again."""

    node: str
    start: int
    number: int
    alone: bool
    again: bool = False


class PartitionLosses(msgspec.Struct):
    """prefixes: how the names of the partitions begin that count. unclean: partition -> last leader epoch that began
    uncleanly; lost: partition -> what disks lost last, in the order of the trace; isr: partition -> as the newest
    controller has it. profile: says how much disks may lose."""

    profile: Profile = Profile()
    prefixes: tuple[str, ...] = ("",)
    unclean: dict[str, int] = {}
    lost: dict[str, list[DiskLoss]] = {}
    isr: dict[str, list[str]] = {}
    controller: NewestController = msgspec.field(default_factory=NewestController)

    def take(self, event: Stamped) -> list[Lost]:
        """Take a ``part.change`` or a ``node.down``, of whatever partition. Whose committed end may be gone by that."""
        body = event.body
        if type(body) is PartChange:
            return self._change(event, body) if body.tp.startswith(self.prefixes) else []
        gone = []
        for tp, offset in body.lost.items() if type(body) is NodeDown else ():
            if tp.startswith(self.prefixes):
                alone, known = self.isr.get(tp) == [event.node], self.lost.setdefault(tp, [])
                known.append(DiskLoss(event.node, offset, self.count(tp), alone))
                del known[:-CHANGES_REMEMBERED]
                if self._exceeds(tp):
                    gone.append(Lost(event.wall, tp, LOSS_BUDGET))
        return gone

    def _change(self, event: Stamped, body: PartChange) -> list[Lost]:
        gone = []
        if body.cause == "unclean":
            self.unclean[body.tp] = max(body.leader_epoch, self.unclean.get(body.tp, -1))
            gone.append(Lost(event.wall, body.tp, UNCLEAN_ELECTION))
        if not self.controller.says(body.quorum_epoch):
            return gone
        exceeded = self._exceeds(body.tp)
        before, isr = self.isr.get(body.tp, []), [node_name(member) for member in body.isr]
        self.isr[body.tp] = isr
        for loss in self.lost.get(body.tp, ()):
            loss.again = loss.again or (loss.node in isr and loss.node not in before)
            loss.alone = loss.alone or (isr == [loss.node] and not loss.again)
        if self._exceeds(body.tp) and not exceeded:
            gone.append(Lost(event.wall, body.tp, LOSS_BUDGET))
        return gone

    def _exceeds(self, tp: str) -> bool:
        """Whether disks that have not copied it again lack so much that no replica need have what was committed."""
        return self._is_too_much(tp, [each for each in self.lost.get(tp, ()) if not each.again])

    def _is_too_much(self, tp: str, lost: list[DiskLoss]) -> bool:
        if not lost:
            return False
        budget = loss_budget(self.profile, tp)
        gone = len({each.node for each in lost}) >= budget.min_isr
        return gone or (not budget.elr and any(each.alone for each in lost))

    def count(self, tp: str) -> int:
        """How often disks have lost something of a partition so far."""
        known = self.lost.get(tp)
        return known[-1].number + 1 if known else 0

    def rule(self, tp: str, since_epoch: int | None, offset: int = 1 << 62, since: int = 0) -> str:
        """The rule by which what leader epoch ``since_epoch`` committed at ``offset``, when disks had lost something
        ``since`` times, may be gone, "" if there is none. None: no election takes it."""
        if since_epoch is not None and self.unclean.get(tp, -1) > since_epoch:
            return UNCLEAN_ELECTION
        lost = [each for each in self.lost.get(tp, ()) if each.number >= since and each.start <= offset]
        return LOSS_BUDGET if self._is_too_much(tp, lost) else ""
