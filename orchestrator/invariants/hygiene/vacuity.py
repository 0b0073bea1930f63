"""X9, the one promise that is about many runs: nothing was vacuous in all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import msgspec

from chaos.words import some
from orchestrator.invariants.folds.conclusion import InvariantResult
from orchestrator.invariants.folds.fold import Finding, Invariant


class Tested(msgspec.Struct):
    """What became of an invariant over many runs. tested: how often, in all runs together. runs: how many there are;
    vacuous: of them, those in which nothing tested it; off: of these, those in which a feature it rests on is off.
    untested: whether all that was run is of nemeses whose files say that none of their runs tests it. belied: nemesis
    whose file says so -> how many of its runs tested it."""

    tested: int = 0
    runs: int = 0
    vacuous: int = 0
    off: int = 0
    untested: bool = False
    belied: dict[str, int] = {}


class NothingVacuous(Invariant):
    """If no run of a campaign tests a promise, the campaign says nothing about it, however many runs there are: it has
    a blind spot. X9 is judged over all runs together, by their counts. The file of a nemesis with another target may
    declare, with a reason, that none of its runs tests an invariant. The invariant is then no blind spot, and the
    declaration must be true.

    Example: 5,000 runs, and in none of them did a broker truncate its log: the campaign says nothing about P11.
    """

    id = "X9"
    title = "Every invariant is tested in some run of a campaign"
    source = "a rule of Krift: a promise is reported as held only if the run tested it"
    tested_when = "for each invariant whose features are on in some run of a campaign"
    types: ClassVar = ()

    def judge(self, tests: Mapping[str, Tested]) -> InvariantResult:
        """The result over a campaign's runs. ``tests``: invariant -> its tests."""
        result = InvariantResult(self.id, self.title, "vacuous", 0)
        for name, each in tests.items():
            if not each.runs or each.off == each.runs:
                continue
            result.tested += 1
            for source, runs in each.belied.items():
                sentence = f"{name} was tested by {runs:,} of the runs of {source}, whose file says that none tests it"
                result.violations.append(Finding(self.id, name, "violated", sentence, []))
            if each.tested == 0 and each.vacuous == each.runs and not each.untested:
                sentence = f"{name} was vacuous in all of {some(each.runs, 'run')}: nothing tested it"
                result.violations.append(Finding(self.id, name, "violated", sentence, []))
        result.violated = len(result.violations)
        if result.tested:
            result.status = "violated" if result.violated else "held"
        else:
            result.why = "no run was judged"
        return result
