"""Ways in which Kafka may lose what was committed, as far as somebody agreed to it."""

from __future__ import annotations

from orchestrator.invariants.log_mirror import LogMirror, LossBudget
from orchestrator.invariants.replication import LOST, UNCLEAN

LOSS = {"unclean-election": UNCLEAN, "loss-budget": LOST}
"""Rule -> when it excuses that a committed record is gone."""


def way_of_loss(mirror: LogMirror, offset: int, budget: LossBudget) -> str:
    """The rule by which the record at an offset may be gone, or be another one by now; "" if there is none."""
    if any(offset >= taint.start for taint in mirror.taints):
        return "unclean-election"
    return "loss-budget" if mirror.loss_excuses(offset, budget) else ""
