"""What a leader asked for and what a controller made of it: an ISR, and the epochs that it is of."""

from __future__ import annotations

from actors.trace.events import IsrPropose, PartChange

Made = tuple[int, int, frozenset[int]]
"""An ISR, and the leader and partition epoch that it is of."""


def made_by(change: PartChange) -> Made:
    """What a controller made."""
    return change.leader_epoch, change.partition_epoch, frozenset(change.isr)


def proposed(proposal: IsrPropose) -> Made:
    """What a controller makes of a proposal that it accepts."""
    return proposal.leader_epoch, proposal.partition_epoch + 1, frozenset(proposal.isr)
