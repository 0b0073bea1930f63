"""What is known of the leader epochs of a partition: whose they were, what they committed, and what they gave up."""

from __future__ import annotations

import msgspec

from actors.trace.events import PartChange
from orchestrator.invariants.folds.fold import Witness
from orchestrator.invariants.mirrors.log_prefix import Prefix


class Lineage(msgspec.Struct):
    """The log of a leader epoch. ``start``: LEO at which the leader took it up; ``frozen``: the log when the leader
    stopped leading (while it leads: None, the replica's log is the lineage). ``unclean``: its leader, or that of an
    epoch before it that nobody took up, was elected outside the ISR."""

    epoch: int
    leader: str
    start: int
    assumed: Witness
    unclean: bool = False
    frozen: Prefix | None = None


class Commit(msgspec.Struct, frozen=True):
    """The highest boundary that leaders of one leader epoch committed."""

    epoch: int
    end: int
    ph: int | None
    by: Witness


class UncleanElection(msgspec.Struct):
    """What a controller decided, not yet what a broker took up. ``kept``: up to where the one it elected had what was
    committed then. ``recovered``: it has told a controller that its log is in order."""

    partition_epoch: int
    quorum_epoch: int
    leader: str
    kept: int
    recovered: bool = False

    def replaced_by(self, change: PartChange) -> bool:
        """Whether a later controller, whose log lacks the election, changed the partition in its place."""
        return change.quorum_epoch > self.quorum_epoch and change.partition_epoch <= self.partition_epoch


class Taint(msgspec.Struct, frozen=True):
    """The leader of ``epoch`` lacks what was committed before, from ``start`` on, and may: ``rule`` says why. Either an
    unclean election took effect with it, or disks have lost what the budget allows."""

    epoch: int
    start: int
    by: Witness
    rule: str = "unclean-election"
