"""What a run came to, in a line or two that hide nothing: what broke, what was lost, what gave way."""

from __future__ import annotations

from collections.abc import Sequence

from chaos.words import some, times
from orchestrator.verdict import InvariantVerdict, Verdict

ACKNOWLEDGED = "C1"
"""The promise whose excuses are records that were acknowledged and are lost, one each."""

LOSSES = {
    "unclean-election": "{} acknowledged with acks=all, by an unclean election, which was allowed",
    "loss-budget": "{} acknowledged with acks=all, as too many replicas that had them lost their disks",
    "acks<=1": "{} acknowledged with acks=1, which that setting allows",
}
"""Rule of ``C1`` -> what was lost by it, in words."""


def losses(verdict: Verdict) -> list[str]:
    """``316 records acknowledged with acks=all, by an unclean election, ...``."""
    found = next((each for each in verdict.invariants if each.id == ACKNOWLEDGED), None)
    excused = {} if found is None else found.excused
    return [LOSSES[rule].format(some(number, "record")) for rule, number in excused.items() if rule in LOSSES]


def named(every: Sequence[InvariantVerdict], most: int = 3) -> str:
    """``H1 The latest offset never goes backwards; P4 ...; and 2 more``."""
    shown = "; ".join(f"{each.id} {each.title}" for each in every[:most])
    return f"{shown}; and {len(every) - most} more" if len(every) > most else shown


def most_excused(verdict: Verdict) -> list[InvariantVerdict]:
    """Promises that gave way, first that which says what was lost, then those that did so most often."""
    gave_way = [each for each in verdict.invariants if each.status == "excused"]
    return sorted(gave_way, key=lambda each: (each.id != ACKNOWLEDGED, -sum(each.excused.values())))


def headlines(verdict: Verdict) -> list[str]:
    """What a reader must know who reads nothing else, the worst first."""
    violated = [each for each in verdict.invariants if each.status == "violated"]
    lines = []
    if violated:
        expected = " as expected" if verdict.expected else ""
        lines.append(f"VIOLATED{expected}: {named(violated)}")
    if verdict.undecided:
        lines.append(f"UNDECIDED: {verdict.undecided[0]}")
    lines += [f"LOST: {each}" for each in losses(verdict)]
    if not violated:
        lines.append(f"nothing violated{_gave_way(most_excused(verdict))}")
    if verdict.defects:
        lines.append(f"planted on purpose: {', '.join(verdict.defects)}")
    return lines


def _gave_way(excused: Sequence[InvariantVerdict]) -> str:
    """``; 3 promises excused, where a break is allowed: Q3 Votes are ... (once), ... and 2 more``."""
    if not excused:
        return ""
    first = excused[0]
    told = f"{first.id} {first.title} ({times(sum(first.excused.values()))})"
    more = f", and {len(excused) - 1} more" if len(excused) > 1 else ""
    return f"; {some(len(excused), 'promise')} excused, where a break is allowed: {told}{more}"
