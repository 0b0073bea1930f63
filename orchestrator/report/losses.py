"""Acknowledged records that were lost or missing in a run: how many, when, by which leaders, and which of them came
back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from chaos.words import some
from orchestrator.story.moments import Break
from orchestrator.story.words import seconds
from orchestrator.verdict import Excuse, Gone, InvariantVerdict, Verdict

ACKNOWLEDGED = "C1"
"""The promise whose breaks are records that were acknowledged and are lost."""

LOSSES = {
    "": "acknowledged to producers, which no rule allows",
    "unclean-election": "acknowledged with acks=all, by an unclean election, which was allowed",
    "loss-budget": "acknowledged with acks=all, with the disks of the replicas that had to keep them",
    "acks<=1": "acknowledged with acks=1, which that setting allows",
}
"""Rule of ``C1``, "" none -> what was lost by it, and why, in words."""

TOGETHER_US = 200_000
"""Losses of several partitions that are no further apart are told as one."""
MOMENTS_MAX = 4
"""Of a loss in more steps than these a headline says when the first was."""
PARTITIONS_MAX = 2
"""Of records of more partitions than these a headline does not name them."""
STEPS_MAX = 6
"""Steps of all losses together that a story tells, the largest."""


class Loss(msgspec.Struct, frozen=True):
    """Acknowledged records that were missing, as ``rule`` of ``C1`` allows ("" none does). lost: how many still are at
    the end of the run; back: how many are there again, as ``how`` says, since ``back_us`` at the latest (microseconds
    since time 0, None if nobody can tell). gone: when they began to be missing, the earliest first."""

    rule: str
    lost: int
    back: int
    gone: Sequence[Gone]
    back_us: int | None
    how: str

    @property
    def steps(self) -> list[list[Gone]]:
        """The same by moment."""
        found: list[list[Gone]] = []
        for each in self.gone:
            if each.at_us is None:
                continue
            if found and each.at_us - (found[-1][0].at_us or 0) <= TOGETHER_US:
                found[-1].append(each)
            else:
                found.append([each])
        return found

    @property
    def told(self) -> str:
        """``316 records acknowledged with acks=all, by an unclean election, ...``."""
        return f"{some(self.lost, 'record')}{self._of()} {LOSSES[self.rule]}{self._since()}"

    def _of(self) -> str:
        """`` of orders-0 and orders-1``, of few partitions."""
        keys = dict.fromkeys(each.key for each in self.gone)
        return f" of {' and '.join(keys)}" if 0 < len(keys) <= PARTITIONS_MAX else ""

    def _since(self) -> str:
        steps = self.steps
        if not steps:
            return ""
        first = seconds(steps[0][0].at_us or 0)
        if len(steps) == 1 or self.back:
            return f", first missing at {first}"
        if len(steps) > MOMENTS_MAX:
            return f", in {some(len(steps), 'step')}, the first at {first}"
        return f": {', '.join(f'{_number(step):,} at {seconds(step[0].at_us or 0)}' for step in steps)}"

    @property
    def missed(self) -> str:
        """``318 records acknowledged with acks=all, ...; then they are back: broker-1, ..., has them``."""
        return f"{some(self.back, 'record')} {LOSSES[self.rule]}; then they are back: {self.how}"

    @property
    def span(self) -> str:
        """`` from 7.010 s to 10.021 s``."""
        if not self.steps or self.back_us is None:
            return ""
        return f" from {seconds(self.steps[0][0].at_us or 0)} to {seconds(self.back_us)}"


def _number(step: Iterable[Gone]) -> int:
    return sum(each.number for each in step)


def losses(verdict: Verdict) -> list[Loss]:
    """What was lost or missing, by rule, in the order of ``LOSSES``: what nothing allows comes first."""
    found = next((each for each in verdict.invariants if each.id == ACKNOWLEDGED), None)
    if found is None:
        return []
    numbers = {"": sum(each.number for each in found.gone if not each.rule)} | found.excused
    return [_loss(found, rule, numbers[rule]) for rule in LOSSES if numbers.get(rule)]


def worst_first(excuses: Iterable[Excuse]) -> list[Excuse]:
    """The excused breaks of a promise; of losses those of records that were meant to be safest come first."""
    ranks = list(LOSSES)
    return sorted(excuses, key=lambda each: ranks.index(each.rule) if each.rule in LOSSES else len(ranks))


def _loss(found: InvariantVerdict, rule: str, number: int) -> Loss:
    first = next((each for each in found.excuses if each.rule == rule), Excuse(rule, "", "", []))
    back = min(first.regained, number)
    gone = [each for each in found.gone if each.rule == rule]
    if not gone and first.at_us is not None:  # a verdict that does not have them
        gone = [Gone(rule, first.key, number, first.events[-1] if first.events else "", first.at_us)]
    return Loss(rule, number - back, back, gone, first.regained_us, first.regained_how)


def loss_lines(verdict: Verdict, lost: str, missing: str) -> list[str]:
    """Each loss after the word for it: ``lost`` for what is still missing at the end, ``missing`` for what is back."""
    every = losses(verdict)
    lines = [f"{lost}: {each.told}" for each in every if each.lost]
    return lines + [f"{missing}{each.span}: {each.missed}" for each in every if each.back]


def loss_moments(verdict: Verdict) -> list[Break]:
    """When acknowledged records began to be missing, how many, and who led without them; and when they were back."""
    every = losses(verdict)
    steps = [(each, step) for each in every for step in each.steps]
    steps = sorted(steps, key=lambda told: -_number(told[1]))[:STEPS_MAX]
    found = []
    for each, step in steps:
        word = "MISSING" if each.back else "LOST"
        what = f"{some(_number(step), 'record')} {LOSSES[each.rule]}{_without(step)}"
        keys = tuple(each.key for each in step)
        found.append(Break(step[0].at_us or 0, f"{word} from now on: {what}", keys=keys, loss=True))
    found += [
        Break(each.back_us, f"BACK: {some(each.back, 'record')} of these; {each.how}")
        for each in every
        if each.back and each.back_us is not None and each.steps
    ]
    return sorted(found, key=lambda told: told.at_us)


def _without(step: Sequence[Gone]) -> str:
    """``; broker-1 leads orders-0 without them``; of several partitions with the number of each."""
    leaders: dict[str, list[Gone]] = {}
    for each in step:
        leaders.setdefault(each.event.partition("/")[0], []).append(each)
    if len(step) == 1 and step[0].event.startswith("broker-"):
        return f"; {next(iter(leaders))} leads {step[0].key} without them"
    parts = [
        f"; {leader} leads without {' and '.join(f'{each.number:,} of {each.key}' for each in its)}"
        for leader, its in leaders.items()
        if leader.startswith("broker-")
    ]
    return "".join(parts)
