"""What disks have taken of a partition, and how much they may take."""

from __future__ import annotations

import msgspec

from actors.node.spec import METADATA_PARTITION
from orchestrator.invariants.folds.fold import Profile

ELR = "eligible.leader.replicas.version"
"""The feature of eligible leader replicas."""


class Loss(msgspec.Struct):
    """Offsets in [start, end) that a power loss, or a wiped disk, took from a replica. ``ph``: the prefix hash of its
    log at ``end``. ``alone``: while they were
    missing the ISR was this replica and no other. ``whole``: they were all that the replica had itself, and it forgot
    what it had in remote storage alone, too."""

    start: int
    end: int
    ph: int | None
    alone: bool
    whole: bool = False


class LossBudget(msgspec.Struct, frozen=True):
    """When a committed record may be gone: once ``min_isr`` replicas held and lost it. Without eligible leader replicas
    also if the last member of the ISR did: it stays in the ISR whatever it has left (KIP-966, "last replica
    standing"). quorum: this is the metadata log, of which only a disk that lost what it had synced takes anything, and
    which is gone once no majority of the voters is left that must have it."""

    min_isr: int = 1
    elr: bool = False
    quorum: bool = False


def loss_budget(profile: Profile, tp: str) -> LossBudget:
    """The budget of a topic partition."""
    if tp == METADATA_PARTITION:
        return LossBudget(quorum=True)
    return LossBudget(max(profile.min_isr(tp), 1), profile.feature(ELR) not in ("", "0"))
