"""What the exam found: which defect was caught by what, and how soon; what raised an alarm and should not have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from actors.defects.defect import Defect
from orchestrator.exam.attempt import Attempted


class DefectMark(msgspec.Struct, frozen=True):
    """What became of a defect.

    meant: the invariant meant for it. killed: whether that was violated in a run whose schedule it holds in without
    the defect. runs: done with the defect; kills: those of them in which ``meant`` was violated. first_run: number
    of the first of those, and first_us its virtual time of the violation, 0 if there is none. others: other
    invariants -> in how many runs they were violated (a run ends when ``meant`` is). reproduce: the command that does
    the first kill again.
    """

    name: str
    meant: str
    source: str
    nemesis: str
    killed: bool
    runs: int
    kills: int = 0
    first_run: int = 0
    first_us: int = 0
    others: dict[str, int] = {}
    reproduce: str = ""


class OddityMark(msgspec.Struct, frozen=True):
    """What became of a legal oddity. runs: that were done; shown: in how many of them it really occurred."""

    name: str
    about: str
    runs: int
    shown: int
    undecided: str = ""


class FalseAlarm(msgspec.Struct, frozen=True):
    """A violation where nothing is wrong. where: the oddity, or the schedule without a defect. reproduce: the command
    that does the run again."""

    where: str
    invariant: str
    sentence: str
    reproduce: str


class Marks(msgspec.Struct, frozen=True):
    """The whole exam. defects: under the nemesis that is meant for each; everything: under the one that is the same for
    all, as for somebody who does not know the bug. Either is empty if it was not asked for. clean_runs: drawn schedules
    that were also run without a defect. wall_s: time that it took."""

    defects: list[DefectMark]
    oddities: list[OddityMark]
    alarms: list[FalseAlarm]
    clean_runs: int = 0
    wall_s: float = 0.0
    everything: list[DefectMark] = []

    @property
    def survivors(self) -> list[str]:
        """Defects that were not killed by the invariant meant for them, under the nemesis meant for them."""
        return [mark.name for mark in self.defects if not mark.killed]

    @property
    def missed_by_everything(self) -> list[str]:
        """Defects that were not killed by the invariant meant for them under the nemesis that is the same for all."""
        return [mark.name for mark in self.everything if not mark.killed]

    @property
    def unproven(self) -> list[str]:
        """Oddities that never occurred, so that silence about them proves nothing."""
        return [mark.name for mark in self.oddities if not mark.shown]

    @property
    def runs(self) -> int:
        """Runs that were done in all."""
        of_defects = sum(mark.runs for mark in (*self.defects, *self.everything))
        return self.clean_runs + of_defects + sum(mark.runs for mark in self.oddities)

    @property
    def passed(self) -> bool:
        """Whether every defect was killed, every oddity occurred, and nothing raised a false alarm. An exam without a
        run proves nothing."""
        return self.runs > 0 and not (self.survivors or self.unproven or self.alarms)


def defect_mark(defect: Defect, nemesis: str, done: Sequence[Attempted], kill: Attempted | None) -> DefectMark:
    """The mark of a defect by all of its runs. ``kill``: the first of those that count as its death."""
    others: Counter[str] = Counter()
    for each in done:
        others.update(name for name in each.violated if name != defect.caught_by)
    mark = DefectMark(
        defect.name,
        defect.caught_by,
        defect.source,
        nemesis,
        kill is not None,
        len(done),
        sum(defect.caught_by in each.violated for each in done),
        others=dict(others.most_common()),
    )
    if kill is None:
        return mark
    order = kill.attempt.order
    return msgspec.structs.replace(
        mark,
        first_run=kill.attempt.number,
        first_us=kill.violated[defect.caught_by],
        reproduce=order.reproduce(order.plan()),
    )


def oddity_mark(name: str, about: str, done: Sequence[Attempted]) -> OddityMark:
    """The mark of an oddity by all of its runs."""
    undecided = [each.undecided for each in done if each.undecided]
    return OddityMark(name, about, len(done), len(done) - len(undecided), undecided[0] if undecided else "")


def alarms_in(done: Iterable[Attempted]) -> list[FalseAlarm]:
    """The false alarms of runs in which nothing is wrong: each invariant once a run."""
    found = []
    for each in done:
        order = each.attempt.order
        for invariant, sentence in each.unexpected.items():
            where = each.attempt.subject or order.source
            found.append(FalseAlarm(where, invariant, sentence, order.reproduce(order.plan())))
    return found
