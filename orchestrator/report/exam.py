"""The exam's table, for a terminal and for the documents, and its object for programs."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from rich.table import Table
from rich.text import Text

from orchestrator.exam.marks import DefectMark, Marks, OddityMark
from orchestrator.report.console import Page, printable

HEAD = """\
# The checkers' own exam

Would the checks notice? Every defect of `actors/defects.py`, a bug planted on purpose, is put under schedules that were
not made for it: drawn by a nemesis, or of the library. It is *killed* when the invariant meant for it is violated in a
schedule in which that invariant holds without the defect. And every legal oddity of `chaos/oddities`, something that
looks wrong and that Kafka allows, is made to happen, and must raise nothing.

This file is made by the command that its last line names.
"""


def print_exam(page: Page, marks: Marks) -> None:
    """What the exam found, the worst last, where a reader looks first."""
    if marks.defects:
        page.show(_table(DEFECT_COLUMNS, [defect_row(mark) for mark in marks.defects]))
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
        killed = len(marks.defects) - len(marks.survivors)
        share = 100 * killed / len(marks.defects)
        lines.append(
            f"defects      {killed} of {len(marks.defects)} killed by the invariant meant for them ({share:.0f} %)"
        )
        lines += [f"  survivor:  {mark.name}, {_survived(mark)}" for mark in marks.defects if not mark.killed]
    if marks.oddities:
        shown = len(marks.oddities) - len(marks.unproven)
        lines.append(f"oddities     {shown} of {len(marks.oddities)} occurred")
        lines += [f"  never:     {mark.name}: {mark.undecided}" for mark in marks.oddities if not mark.shown]
    lines.append(f"false alarms {len(marks.alarms)}")
    for alarm in marks.alarms:
        lines += [f"  {alarm.invariant} in {alarm.where}: {alarm.sentence}", f"    {alarm.reproduce}"]
    lines.append(f"runs         {marks.runs}, {marks.clean_runs} of them of drawn schedules without a defect")
    return lines


def exam_json(marks: Marks) -> str:
    """One object: numbers of defects, killed and false alarms, names of survivors, and everything in detail."""
    found: dict[str, Any] = {
        "defects": len(marks.defects),
        "killed": len(marks.defects) - len(marks.survivors),
        "survivors": marks.survivors,
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
    if marks.defects:
        parts += ["## Defects", "", DEFECTS_HEAD, *_markdown(DEFECT_COLUMNS, map(defect_row, marks.defects)), ""]
    if marks.oddities:
        parts += ["## Legal oddities", "", *_markdown(ODDITY_COLUMNS, map(oddity_row, marks.oddities)), ""]
    return "\n".join([*parts, f"Made by `{shlex.join(command)}`.", ""])


DEFECTS_HEAD = """\
*Killed in* counts the runs in which the invariant meant for the defect was violated, of those that were done before the
defect was laid aside; *after* is the virtual time of the violation in the first such run, from the run's beginning. A
run ends at that violation; *also* has what else had been violated by then, with the number of runs. *Real bug*: what
the defect is taken from, where there is one.
"""

DEFECT_COLUMNS = ("defect", "meant for", "killed in", "first in run", "after", "also", "schedules", "real bug")
ODDITY_COLUMNS = ("oddity", "occurred in", "what happens")


def defect_row(mark: DefectMark) -> list[str]:
    """A defect's line of the table."""
    others = ", ".join(f"{name} ({count})" for name, count in mark.others.items())
    first = [str(mark.first_run), f"{mark.first_us / 1_000_000:.1f} s"] if mark.killed else ["", ""]
    killed = f"{mark.kills} of {mark.runs}" if mark.killed else f"SURVIVED {mark.runs}"
    return [mark.name, mark.meant, killed, *first, others, mark.nemesis, mark.source]


def oddity_row(mark: OddityMark) -> list[str]:
    """An oddity's line of the table."""
    return [mark.name, f"{mark.shown} of {mark.runs}", mark.about]


def _survived(mark: DefectMark) -> str:
    """Why a defect counts as alive."""
    if mark.kills:
        return f"{mark.meant} was violated in {mark.kills} of {mark.runs} runs, and without the defect, too"
    others = ", ".join(mark.others)
    return f"{mark.meant} was not violated in {mark.runs} runs" + (f" (but {others} was)" if others else "")


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
