"""Ways in which Kafka may lose what was committed, as far as somebody agreed to it."""

from __future__ import annotations

from orchestrator.invariants.log_mirror import LogMirror, LossBudget
from orchestrator.invariants.replication import LOST, UNCLEAN

LOSS = {"unclean-election": UNCLEAN, "loss-budget": LOST}
"""Rule -> when it excuses that a committed record is gone."""


def given_up(mirror: LogMirror, one: int, other: int, offset: int) -> str:
    """The rule by which what one of two leader epochs had at an offset was given up in favour of the other, "" none. An
    epoch that nobody knows may be any."""
    newer = max(one, other) if one >= 0 and other >= 0 else max(mirror.lineages, default=-1)
    taint = mirror.taint_between(min(one, other), newer, offset + 1)
    return "" if taint is None else taint.rule


def way_of_loss(mirror: LogMirror, offset: int, budget: LossBudget, one: int, other: int = -1) -> str:
    """The rule by which the record that leader epoch ``one`` had at an offset may be gone, or be another one in leader
    epoch ``other`` (-1: by now); "" if there is none."""
    if mirror.taints:
        now = other if other >= 0 else max(mirror.lineages, default=-1)
        if rule := given_up(mirror, one, now, offset):
            return rule
    return "loss-budget" if mirror.loss_excuses(offset, budget) else ""
