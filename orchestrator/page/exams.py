"""The page of an exam: what became of each planted bug and of each legal oddity, what survived first."""

from __future__ import annotations

from collections.abc import Iterator

from chaos.words import some
from orchestrator.exam.examination import EVERYTHING_MAX, RUNS_MAX
from orchestrator.exam.marks import DefectMark, Marks
from orchestrator.page.blocks import Block, Cell, Part, Tone, plain
from orchestrator.report import exam


def headline(marks: Marks) -> tuple[str, Tone]:
    """How it went in a sentence, and its tone."""
    parts = []
    if marks.defects:
        parts.append(f"{len(marks.survivors)} of {some(len(marks.defects), 'planted bug')} survived")
    if marks.everything:
        missed = len(marks.missed_by_everything)
        parts.append(f"the nemesis everything missed {missed} of {len(marks.everything)}")
    if marks.oddities:
        parts.append(
            f"{len(marks.unproven)} of {some(len(marks.oddities), 'legal oddity', 'legal oddities')} never occurred"
        )
    parts.append(some(len(marks.alarms), "false alarm"))
    return f"{'Passed' if marks.passed else 'NOT passed'}: {', '.join(parts)}", "held" if marks.passed else "violated"


def blocks(marks: Marks) -> Iterator[Block]:
    """All that a reader may want to know."""
    if marks.alarms:
        rows = [plain([each.where, each.invariant, each.sentence, each.reproduce], code=3) for each in marks.alarms]
        yield Block("False alarms", columns=("where", "promise", "evidence", "again"), rows=rows)
    if marks.defects:
        yield _meant(marks)
    if marks.everything:
        yield _everything(marks.everything)
    if marks.oddities:
        ranked = sorted(marks.oddities, key=lambda each: each.shown > 0)
        rows = [
            [Cell(each.name), _share(each.shown, each.runs, "occurred"), Cell(each.about), Cell(each.undecided)]
            for each in ranked
        ]
        yield Block("Legal oddities", columns=("oddity", "occurred in", "what happens", "why not"), rows=rows)


def _meant(marks: Marks) -> Block:
    """Each bug under the nemesis meant for it; survivors first, then those that were hardest to kill."""
    columns = (
        "defect",
        "meant for",
        "killed in run",
        ">after",
        ">kills",
        "also violated",
        "schedules",
        "real bug",
        "again",
    )
    rows = []
    for mark in sorted(marks.defects, key=_hardest):
        others = ", ".join(f"{name} ({count})" for name, count in mark.others.items())
        after = f"{mark.first_us / 1_000_000:.1f} s" if mark.killed else ""
        rest = plain([after, f"{mark.kills} of {mark.runs}", others, mark.nemesis, mark.source, mark.reproduce], code=5)
        rows.append([Cell(mark.name), Cell(mark.meant), _killed(mark, RUNS_MAX), *rest])
    before = ["Survivors first, then the bugs that took the most runs. The exam stops with a bug once it is killed."]
    return Block("Planted bugs, under the nemesis meant for each", before, "", columns, rows)


def _everything(marks: list[DefectMark]) -> Block:
    """Each bug under the nemesis that is the same for all."""
    columns = ("defect", "meant for", "killed in run", "again")
    rows = [
        [Cell(mark.name), Cell(mark.meant), _killed(mark, EVERYTHING_MAX), Cell(mark.reproduce, code=True)]
        for mark in sorted(marks, key=_hardest)
    ]
    before = ["The same schedules for every bug, like a user who does not know it."]
    return Block("Planted bugs, under the nemesis everything", before, "", columns, rows)


def _hardest(mark: DefectMark) -> tuple[bool, int, str]:
    return mark.killed, -mark.first_run, mark.name


def _killed(mark: DefectMark, most: int) -> Cell:
    """In which run; the bar is the longer, the longer it took."""
    if not mark.killed:
        return Cell(
            f"SURVIVED {mark.runs}", "violated", bar=[Part("violated", 1.0)], said=f"not in {some(mark.runs, 'run')}"
        )
    share = min(1.0, mark.first_run / most)
    return Cell(str(mark.first_run), bar=[Part("held", share), Part("", 1 - share)], said=f"run {mark.first_run}")


def _share(part: int, whole: int, what: str) -> Cell:
    share = part / whole if whole else 0.0
    bar = [Part("held", share), Part("", 1 - share)]
    return Cell(
        f"{part} of {whole}", "" if part else "violated", bar=bar, said=f"{what} in {part} of {some(whole, 'run')}"
    )


def lines(marks: Marks) -> list[str]:
    """How it went, in a few lines."""
    return exam.conclusion(marks)
