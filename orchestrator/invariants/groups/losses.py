"""Ways in which an offsets partition may lose what it had committed."""

from __future__ import annotations

from orchestrator.invariants.folds.fold import Profile
from orchestrator.invariants.mirrors.partition_losses import PartitionLosses

OFFSETS_TOPIC = "__consumer_offsets-"
"""How offsets partitions are called."""

OFFSETS_LOSSES = {
    "unclean-election": "The offsets partition had an unclean election since: its leader may lack committed positions.",
    "loss-budget": "Disks have lost commits of the offsets partition since: those of at least min.insync.replicas "
    "replicas or, without eligible leader replicas, of the last member of the ISR.",
}
"""Rule -> when it excuses that something is gone."""


def offsets_losses(profile: Profile) -> PartitionLosses:
    """Those of all offsets partitions."""
    return PartitionLosses(profile, (OFFSETS_TOPIC,))
