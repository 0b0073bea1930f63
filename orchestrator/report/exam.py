"""The exam's table, for a terminal and for the documents, and its object for programs."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from rich.table import Table
from rich.text import Text

from chaos.words import some
from orchestrator.exam.marks import DefectMark, Marks, OddityMark
from orchestrator.invariants.registry import INVARIANTS
from orchestrator.report.console import Page, printable

HEAD = """\
# The checkers' own exam

Would the checks notice? Every defect of `actors/defects`, a bug planted on purpose, is put under schedules that were
not made for it: drawn by the nemesis that is after such bugs, or of the library, with the settings without which it
cannot show; and, as somebody would who knows nothing of it, under those of the nemesis `everything`, as they are. It is
*killed* when the invariant meant for it is violated in a schedule in which that invariant holds without the defect.
These are two figures, and neither stands for the other. And every legal oddity of `chaos/oddities`, something that
looks wrong and that Kafka allows, is made to happen, and must raise nothing.

This file is made by the command that its last line names.
"""


def print_exam(page: Page, marks: Marks) -> None:
    """What the exam found, the worst last, where a reader looks first."""
    if rows := defect_rows(marks):
        page.show(_table(DEFECT_COLUMNS, rows))
        page.say()
    if marks.oddities:
        page.show(_table(ODDITY_COLUMNS, [oddity_row(mark) for mark in marks.oddities]))
        page.say()
    for line in conclusion(marks):
        page.say(printable(line))


def conclusion(marks: Marks) -> list[str]:
    """How it went, in a few lines."""
    lines = []
    if marks.defects:
        lines.append(f"defects      {_share(marks.defects)}, under the nemesis meant for them")
        lines += [f"  survivor:  {mark.name}, {_survived(mark)}" for mark in marks.defects if not mark.killed]
    if marks.everything:
        runs = max(mark.runs for mark in marks.everything)
        lines.append(f"everything   {_share(marks.everything)}, within {some(runs, 'run')} of that nemesis")
        if marks.missed_by_everything:
            lines.append(f"  not by it: {', '.join(marks.missed_by_everything)}")
    if marks.oddities:
        shown = len(marks.oddities) - len(marks.unproven)
        lines.append(f"oddities     {shown} of {len(marks.oddities)} occurred")
        lines += [f"  never:     {mark.name}: {mark.undecided}" for mark in marks.oddities if not mark.shown]
    lines.append(f"false alarms {len(marks.alarms)}")
    for alarm in marks.alarms:
        lines += [f"  {alarm.invariant} in {alarm.where}: {alarm.sentence}", f"    {alarm.reproduce}"]
    lines.append(f"runs         {marks.runs}, {marks.clean_runs} of them of drawn schedules without a defect")
    return lines


def _share(marks: Sequence[DefectMark]) -> str:
    killed = sum(mark.killed for mark in marks)
    return f"{killed} of {len(marks)} killed by the invariant meant for them ({100 * killed / len(marks):.0f} %)"


def exam_json(marks: Marks) -> str:
    """One object: numbers of defects, killed and false alarms, names of survivors, and all in detail. What was not
    asked for is null."""
    found: dict[str, Any] = {
        "defects": len(marks.defects or marks.everything),
        "killed": len(marks.defects) - len(marks.survivors) if marks.defects else None,
        "survivors": marks.survivors if marks.defects else None,
        "killed_under_everything": (
            len(marks.everything) - len(marks.missed_by_everything) if marks.everything else None
        ),
        "survivors_of_everything": marks.missed_by_everything if marks.everything else None,
        "false_alarms": len(marks.alarms),
        "oddities": len(marks.oddities),
        "never_occurred": marks.unproven,
        "runs": marks.runs,
        "detail": msgspec.to_builtins(marks),
    }
    return msgspec.json.encode(found).decode() + "\n"


def exam_markdown(marks: Marks, command: Sequence[str]) -> str:
    """The document: both tables, and how it went."""
    parts = [HEAD, "```", *conclusion(marks), "```", ""]
    if rows := defect_rows(marks):
        parts += ["## Defects", "", DEFECTS_HEAD, *_markdown(DEFECT_COLUMNS, rows), ""]
    if marks.oddities:
        parts += ["## Legal oddities", "", *_markdown(ODDITY_COLUMNS, map(oddity_row, marks.oddities)), ""]
    return "\n".join([*parts, f"Made by `{shlex.join(command)}`.", ""])


DEFECTS_HEAD = """\
*Killed in* counts the runs in which the invariant meant for the defect was violated, of those that were done before the
defect was laid aside; *after* is the virtual time of the violation in the first such run, from the run's beginning. A
run ends at that violation; *also* has what else had been violated by then, with the number of runs. *Everything*: which
run of that nemesis was the first to violate the invariant; no other one was judged there. *Real bug*: what the defect
is taken from, where there is one.
"""

DEFECT_COLUMNS = (
    *("defect", "meant for", "killed in", "first in run", "after", "also", "schedules", "everything", "real bug"),
)
ODDITY_COLUMNS = ("oddity", "occurred in", "what happens")


def defect_rows(marks: Marks) -> list[list[str]]:
    """The table of the defects, by what was asked for."""
    everything = {mark.name: mark for mark in marks.everything}
    if not marks.defects:
        blanks = [""] * 5
        return [[mark.name, _promise(mark.meant), *blanks, _first(mark), mark.source] for mark in marks.everything]
    return [defect_row(mark, everything.get(mark.name)) for mark in marks.defects]


def _first(mark: DefectMark | None) -> str:
    """Which run of ``everything`` killed a defect."""
    if mark is None:
        return ""
    return f"run {mark.first_run}" if mark.killed else f"none of {mark.runs}"


def defect_row(mark: DefectMark, everything: DefectMark | None) -> list[str]:
    """A defect's line of the table."""
    others = ", ".join(f"{name} ({count})" for name, count in mark.others.items())
    first = [str(mark.first_run), f"{mark.first_us / 1_000_000:.1f} s"] if mark.killed else ["", ""]
    killed = f"{mark.kills} of {mark.runs}" if mark.killed else f"SURVIVED {mark.runs}"
    return [mark.name, _promise(mark.meant), killed, *first, others, mark.nemesis, _first(everything), mark.source]


def _promise(name: str) -> str:
    """``P4 A cleanly elected leader has every committed record``."""
    return f"{name} {INVARIANTS[name].title}"


def oddity_row(mark: OddityMark) -> list[str]:
    """An oddity's line of the table."""
    return [mark.name, f"{mark.shown} of {mark.runs}", mark.about]


def _survived(mark: DefectMark) -> str:
    """Why a defect counts as alive."""
    promise, of = _promise(mark.meant), some(mark.runs, "run")
    if mark.kills:
        return f"{promise}: violated in {mark.kills} of {of}, and without the defect, too"
    others = ", ".join(mark.others)
    return f"{promise}: not violated in {of}" + (f" (but {others} was)" if others else "")


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", show_edge=False)
    for column in columns:
        table.add_column(column)
    for row in rows:
        style = "bold red" if any(cell.startswith("SURVIVED") for cell in row) else ""
        table.add_row(*(Text(printable(cell), style) for cell in row))
    return table


def _markdown(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    for name, *rest in rows:
        lines.append(f"| `{name}` | {' | '.join(cell.replace('|', '&#124;') for cell in rest)} |")
    return lines
