"""What a run came to, in a line or two that hide nothing: what broke, what was lost or missing, what gave way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from actors.defects.catalogue import DEFECTS
from chaos.words import some, times
from orchestrator.invariants.folds.fold import Status
from orchestrator.report.losses import ACKNOWLEDGED, LOSSES, loss_lines
from orchestrator.report.rules import because
from orchestrator.verdict import InvariantVerdict, Verdict

UNCLEAN = "unclean-election"
"""The rule by which promises give way to an unclean election."""

TONES: dict[str, Status] = {
    "VIOLATED": "violated",
    "UNDECIDED": "inconclusive",
    "LOST": "excused",
    "MISSING": "excused",
    "BROKEN": "excused",
    "nothing violated;": "excused",
    "nothing violated": "held",
}
"""How a headline begins -> the status in whose colour it stands."""


def tone(headline: str) -> Status | None:
    """The status in whose colour a headline stands, None for none."""
    if headline.startswith("LOST") and LOSSES[""] in headline:
        return "violated"
    return next((status for words, status in TONES.items() if headline.startswith(words)), None)


def named(every: Sequence[InvariantVerdict], most: int = 3) -> str:
    """``H1 The latest offset never goes backwards; P4 ...; and 2 more``."""
    shown = "; ".join(f"{each.id} {each.title}" for each in every[:most])
    return f"{shown}; and {len(every) - most} more" if len(every) > most else shown


def most_excused(verdict: Verdict) -> list[InvariantVerdict]:
    """Promises that gave way, first that which says what was lost, then those that did so most often."""
    gave_way = [each for each in verdict.invariants if each.status == "excused"]
    return sorted(gave_way, key=lambda each: (each.id != ACKNOWLEDGED, -sum(each.excused.values())))


def headlines(verdict: Verdict) -> list[str]:
    """What a reader must know who reads nothing else, the worst first; of a planted defect first that it is there."""
    violated = [each for each in verdict.invariants if each.status == "violated"]
    violated.sort(key=lambda each: each.id != ACKNOWLEDGED)
    lines = []
    if verdict.defects:
        lines.append(f"planted on purpose: {'; '.join(_planted(name, verdict) for name in verdict.defects)}")
    lines += _broken_as_expected(verdict)
    if violated:
        expected = " as expected" if verdict.expected else ""
        planted = " with the planted defect" if verdict.defects else ""
        lines.append(f"VIOLATED{planted}{expected}: {named(violated)}")
    if verdict.undecided:
        lines.append(f"UNDECIDED: {verdict.undecided[0]}")
    lines += loss_lines(verdict, "LOST", "MISSING")
    if violated or any(UNCLEAN in each.excused for each in verdict.invariants):
        lines += _kept(verdict)
    if not violated:
        lines.append(f"nothing violated{_gave_way(most_excused(verdict))}")
    return lines


def _broken_as_expected(verdict: Verdict) -> Iterator[str]:
    """What a scenario is there to show, where a rule excuses it; losses have lines of their own."""
    for each in verdict.invariants:
        if each.id in verdict.expects.excused and each.id != ACKNOWLEDGED and each.status == "excused":
            for first in each.excuses[:1]:
                yield f"BROKEN as expected ({because(first.rule)}): {each.id} {each.title}: {first.sentence}"


def _kept(verdict: Verdict) -> Iterator[str]:
    """That no acknowledged record is missing, where that was tested: readers of any violation ask for it."""
    for each in verdict.invariants:
        if each.id == ACKNOWLEDGED and each.status == "held":
            yield f"no record acknowledged with acks=all was lost ({each.id} held, tested {times(each.tested)})"


def caught(verdict: Verdict) -> list[str]:
    """The promises by which the planted defects are caught, if each of them is; else []."""
    catchers = [DEFECTS[name].caught_by for name in verdict.defects if name in DEFECTS]
    violated = {each.id for each in verdict.invariants if each.status == "violated"}
    return catchers if len(catchers) == len(verdict.defects) and violated.issuperset(catchers) else []


def _planted(name: str, verdict: Verdict) -> str:
    """``ack-before-hw (A leader acknowledges ...), caught by P1``: a defect with what it does."""
    defect = DEFECTS.get(name)
    if defect is None:
        return name
    violated = any(each.id == defect.caught_by and each.status == "violated" for each in verdict.invariants)
    return f"{name} ({defect.about.rstrip('.')}), {'' if violated else 'NOT '}caught by {defect.caught_by}"


def _gave_way(excused: Sequence[InvariantVerdict]) -> str:
    """``; 3 promises excused, where a rule allows a break: Q3 Votes are ... (once), ... and 2 more``."""
    if not excused:
        return ""
    first = excused[0]
    told = f"{first.id} {first.title} ({times(sum(first.excused.values()))})"
    more = f", and {len(excused) - 1} more" if len(excused) > 1 else ""
    return f"; {some(len(excused), 'promise')} excused, where a rule allows a break: {told}{more}"
