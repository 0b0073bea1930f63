"""What a run came to, in a line or two that hide nothing: what broke, what was lost, what gave way."""

from __future__ import annotations

from collections.abc import Iterable

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


def named(every: Iterable[InvariantVerdict]) -> str:
    """``H1 The latest offset never goes back; P4 ...``."""
    return "; ".join(f"{each.id} {each.title}" for each in every)


def headlines(verdict: Verdict) -> list[str]:
    """What a reader must know who reads nothing else, the worst first."""
    violated = [each for each in verdict.invariants if each.status == "violated"]
    lines = []
    if violated:
        expected = " as expected" if verdict.expected else ""
        shown = f"{named(violated[:3])}{f'; and {len(violated) - 3} more' if len(violated) > 3 else ''}"
        lines.append(f"VIOLATED{expected}: {shown}")
    if verdict.undecided:
        lines.append(f"UNDECIDED: {verdict.undecided[0]}")
    lines += [f"LOST: {each}" for each in losses(verdict)]
    if not violated:
        gave_way = [each for each in verdict.invariants if each.status == "excused"]
        rest = f"; {some(len(gave_way), 'promise')} excused, where a break is allowed: " if gave_way else ""
        ids = ", ".join(f"{each.id} ({times(sum(each.excused.values()))})" for each in gave_way)
        lines.append(f"nothing violated{rest}{ids}")
    if verdict.defects:
        lines.append(f"planted on purpose: {', '.join(verdict.defects)}")
    return lines
