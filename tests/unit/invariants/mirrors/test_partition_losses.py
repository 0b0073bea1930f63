"""What may be gone of a partition, as who does not follow its log knows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from actors.trace.events import NodeDown, PartChange, Stamped
from orchestrator.invariants.folds.fold import Profile
from orchestrator.invariants.mirrors.partition_losses import Lost, PartitionLosses
from tests.unit.invariants.trace_builder import TP, TraceBuilder

ELR = {"eligible.leader.replicas.version": "1"}
Step = int | Sequence[int]
"""The disk of a broker loses something, or the ISR changes."""


def last_taken(*steps: Step, least: int = 2, features: dict[str, str] | None = None) -> list[str]:
    """The rules by which the last step may have taken what was committed. The ISR begins with all three."""
    trace = TraceBuilder()
    trace.change(1, 0)
    for number, step in enumerate(steps, 1):
        if isinstance(step, int):
            trace.down(f"broker-{step}", "lossy", lost={TP: 5})
        else:
            trace.change(step[0], number, isr=step)
    profile = Profile(config={"min.insync.replicas": least}, features=features or {})
    return [each.rule for each in taken(PartitionLosses(profile), trace.events)[-1]]


def taken(losses: PartitionLosses, events: Sequence[Stamped]) -> list[list[Lost]]:
    return [losses.take(event) for event in events if isinstance(event.body, PartChange | NodeDown)]


@pytest.mark.parametrize(
    ("steps", "how", "rules"),
    [
        ((2,), {}, []),
        ((2,), {"least": 1}, ["loss-budget"]),
        ((2, 3), {}, ["loss-budget"]),
        ((2, (1, 3), (1, 2, 3), 3), {}, []),
        (((2,), 2), {}, ["loss-budget"]),
        (((2,), 2), {"features": ELR}, []),
        ((2, (2,)), {}, ["loss-budget"]),
        ((2, (2,), (1, 2)), {}, []),
        ((2, (1, 3), (1, 2, 3), (2,)), {}, []),
    ],
)
def test_what_disks_may_have_taken(steps: Sequence[Step], how: dict[str, Any], rules: list[str]) -> None:
    """Shows that so many replicas must have lost something as min.insync.replicas says, which have not copied it again
    since, or the last member of the ISR; that one alone is, if there are no eligible leader replicas."""
    assert last_taken(*steps, **how) == rules


def test_an_unclean_election_takes_it() -> None:
    """Shows that this is so of its own partition, and that others do not count where a prefix says which ones do."""
    trace = TraceBuilder()
    trace.change(1, 1, isr=(1,), cause="unclean")
    trace.change(1, 1, isr=(1,), cause="unclean", tp="other-0")
    found = taken(PartitionLosses(Profile(), (TP,)), trace.events)
    assert [[(each.tp, each.rule) for each in one] for one in found] == [[(TP, "unclean-election")], []]
