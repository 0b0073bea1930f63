"""The exam itself: rounds of runs with each defect until the invariant meant for it is violated, the same schedules
without the defect, and the corpus of legal oddities."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal

import msgspec

from actors.defects.defect import Defect
from chaos.oddities import library
from orchestrator.campaigns.order import SimOrder
from orchestrator.exam.attempt import Attempt, Attempted
from orchestrator.exam.marks import DefectMark, FalseAlarm, OddityMark, alarms_in, defect_mark, oddity_mark
from orchestrator.runner import REPEAT

RUNS_MAX = 60
"""Runs that a defect gets at most under the nemesis meant for it."""
EVERYTHING_MAX = 200
"""Runs that it gets at most under the one that is after nothing in particular."""

ROUNDS = (1, 2, 3, 5, 8, 12, 17, 24, 34, 46, RUNS_MAX, 80, 110, 150, EVERYTHING_MAX)
"""After so many runs of each defect those that are dead are laid aside. Most die in the first few: short rounds at
first do little for nothing, and later ones still have enough runs for several cores."""

Do = Callable[[Sequence[Attempt]], Iterable[Attempted]]
"""Carries out runs, in any order, wherever it likes."""

Schedule = Callable[[Defect, int], SimOrder]
"""The n-th schedule (from 1) drawn for a defect, without the defect."""

Part = Literal["meant", "everything"]
"""Of the nemesis that is meant for a defect, or of the one that is the same for all."""


class DefectExam:
    """Defects under drawn schedules. ``alone``: the schedules are the same for all defects, and nothing but the
    invariant that is meant for a defect is judged. ``marks`` and ``alarms`` once ``sit`` has ended."""

    def __init__(
        self, defects: Sequence[Defect], schedule: Schedule, runs: int = RUNS_MAX, *, alone: bool = False
    ) -> None:
        self.defects = defects
        self.runs = runs
        self._schedule = schedule
        self._alone = alone
        self._done: dict[str, list[Attempted]] = {defect.name: [] for defect in defects}
        self._kill: dict[str, Attempted] = {}
        self._clean: dict[str, Attempted] = {}

    @property
    def alive(self) -> int:
        """How many defects nothing has killed so far."""
        return len(self.defects) - len(self._kill)

    def sit(self, do: Do) -> None:
        """Do all runs that it takes."""
        for upto in (*(each for each in ROUNDS if each < self.runs), self.runs):
            alive = [defect for defect in self.defects if defect.name not in self._kill]
            attempts = [attempt for defect in alive for attempt in self._attempts(defect, upto)]
            if self._alone:
                attempts = self._that_differ(attempts, do)
            for each in do(attempts):
                self._done[each.attempt.subject].append(each)
            for defect in alive:
                self._done[defect.name].sort(key=lambda each: each.attempt.number)
            self._confirm(alive, do)

    def marks(self, nemesis: Callable[[Defect], str]) -> list[DefectMark]:
        """One for each defect, in their order."""
        return [
            defect_mark(defect, nemesis(defect), self._done[defect.name], self._kill.get(defect.name))
            for defect in self.defects
        ]

    @property
    def alarms(self) -> list[FalseAlarm]:
        """What schedules without a defect raised."""
        return alarms_in(self._clean.values())

    @property
    def clean_runs(self) -> int:
        """How many schedules were also run without a defect."""
        return len(self._clean)

    def _attempts(self, defect: Defect, upto: int) -> list[Attempt]:
        first = len(self._done[defect.name]) + 1
        return [
            Attempt(
                defect.name,
                number,
                msgspec.structs.replace(self._schedule(defect, number), defects=(defect.name,)),
                defect.caught_by,
                self._alone,
            )
            for number in range(first, upto + 1)
        ]

    def _that_differ(self, attempts: Sequence[Attempt], do: Do) -> list[Attempt]:
        """Runs that are not the very same without their defect. The others are done with that: a run is a function of
        its schedule and of what its nodes look for, and here the nodes never looked for the defect."""
        twins = {twin.key: twin for twin in map(_without_defect, attempts)}
        for each in do([twin for key, twin in twins.items() if key not in self._clean]):
            self._clean[each.attempt.key] = each
        differ = []
        for attempt in attempts:
            twin = self._clean[_without_defect(attempt).key]
            if attempt.subject in twin.asked:
                differ.append(attempt)
            else:
                self._done[attempt.subject].append(Attempted(attempt, {}, {}, twin.undecided, twin.virtual_us, 0.0))
        return differ

    def _confirm(self, alive: Sequence[Defect], do: Do) -> None:
        """A violation counts where the schedule holds the invariant without the defect: run that, too, until one of
        a defect's violations counts, or none is left."""
        suspects = {defect.name: self._suspects(defect) for defect in alive}
        while suspects := {name: left for name, left in suspects.items() if left and name not in self._kill}:
            twins = {twin.key: twin for twin in (_without_defect(left[0].attempt) for left in suspects.values())}
            for each in do([twin for key, twin in twins.items() if key not in self._clean]):
                self._clean[each.attempt.key] = each
            for name, left in suspects.items():
                suspect = left.pop(0)
                if suspect.attempt.meant not in self._clean[_without_defect(suspect.attempt).key].violated:
                    self._kill[name] = suspect

    def _suspects(self, defect: Defect) -> list[Attempted]:
        return [each for each in self._done[defect.name] if defect.caught_by in each.violated]


def _without_defect(attempt: Attempt) -> Attempt:
    """The same schedule with everything in order; the whole run, and twice if it is repetition that is judged."""
    order = msgspec.structs.replace(attempt.order, defects=())
    return Attempt("", 0, order, REPEAT if attempt.meant == REPEAT else "")


class OddityExam:
    """The corpus of legal oddities, each with a few seeds from its own on. ``marks`` and ``alarms`` once ``sit`` has
    ended."""

    def __init__(self, names: Sequence[str], seeds: int) -> None:
        self.names = names
        self._seeds = seeds
        self._done: dict[str, list[Attempted]] = {name: [] for name in names}

    def sit(self, do: Do) -> None:
        """Do all runs."""
        for each in do([attempt for name in self.names for attempt in self._attempts(name)]):
            self._done[each.attempt.subject].append(each)

    def marks(self) -> list[OddityMark]:
        """One for each oddity, in their order."""
        return [oddity_mark(name, library.load(name).scenario.about, self._done[name]) for name in self.names]

    @property
    def alarms(self) -> list[FalseAlarm]:
        """Whatever was violated: nothing may be."""
        return alarms_in(each for name in self.names for each in self._done[name])

    def _attempts(self, name: str) -> list[Attempt]:
        first = library.load(name).scenario.seed
        text = library.text(name)
        return [
            Attempt(name, number + 1, SimOrder(f"{name}.yaml", seed=first + number, text=text))
            for number in range(self._seeds)
        ]
