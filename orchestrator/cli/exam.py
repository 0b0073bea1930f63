"""``krift exam``: every defect against the invariants that must catch it, and what must raise nothing."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import get_args

import click
import msgspec

from actors.defects.catalogue import DEFECTS
from chaos.errors import DEFECT_NAMES, InputError, Mistake, choices, nearest
from chaos.oddities import library
from chaos.words import some
from orchestrator.cli.options import check_file, check_master
from orchestrator.cli.outputs import Outputs, output_options
from orchestrator.cli.progress import PLAIN_SECONDS
from orchestrator.exam.attempt import Attempt, Attempted, do
from orchestrator.exam.examination import EVERYTHING_MAX, RUNS_MAX, DefectExam, Do, OddityExam, Part
from orchestrator.exam.kept import Kept, write_marks
from orchestrator.exam.marks import Marks
from orchestrator.exam.schedules import EVERYTHING, any_schedule, nemesis_of, schedule
from orchestrator.files import write_text
from orchestrator.report.console import page
from orchestrator.report.exam import exam_json, exam_markdown, print_exam
from orchestrator.report.junit_of_many import suites_of_exam
from orchestrator.report.summary import summary_of_exam
from orchestrator.run_dir import check_root

FAILED = 1
HERE = "none"
"""In place of a Spark master: one run after the other, in this process."""


@click.command("exam")
@click.option("--defect", "defects", multiple=True, metavar="NAME", help="Only these defects; all if not given.")
@click.option("--oddity", "oddities", multiple=True, metavar="NAME", help="Only these oddities; all if not given.")
@click.option("--list", "only_list", is_flag=True, help="List the defects and the oddities, and run nothing.")
@click.option("--defects-only", is_flag=True, help="Leave out the legal oddities.")
@click.option("--oddities-only", is_flag=True, help="Leave out the defects.")
@click.option(
    "--under",
    type=click.Choice(get_args(Part)),
    help=f"Only the schedules of the nemesis meant for each defect, or only those of {EVERYTHING}; both if not given.",
)
@click.option(
    "--runs",
    type=click.IntRange(1, RUNS_MAX),
    default=RUNS_MAX,
    show_default=True,
    help="Maximum number of runs of a defect under the nemesis meant for it; they stop once it is caught.",
)
@click.option(
    "--everything-runs",
    type=click.IntRange(1, EVERYTHING_MAX),
    default=EVERYTHING_MAX,
    show_default=True,
    help=f"The same under {EVERYTHING}.",
)
@click.option(
    "--oddity-seeds", type=click.IntRange(1), default=3, show_default=True, help="Runs of each oddity, a seed each."
)
@click.option(
    "--master",
    default="local[2]",
    show_default=True,
    metavar="URL",
    help=f"Spark master whose executors do the runs; {HERE}: this process does, one after the other.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Keep the result of each run in DIR; an interrupted exam continues from there.",
)
@click.option(
    "--write",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the tables to FILE, as Markdown.",
)
@click.option("--json", "as_json", is_flag=True, help="One object on stdout, and nothing else.")
@output_options
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
def command(
    defects: tuple[str, ...],
    oddities: tuple[str, ...],
    only_list: bool,
    defects_only: bool,
    oddities_only: bool,
    under: Part | None,
    runs: int,
    everything_runs: int,
    oddity_seeds: int,
    master: str,
    out: Path | None,
    write: Path | None,
    as_json: bool,
    junit_file: Path | None,
    summary_file: Path | None,
    quiet: bool,
) -> int:
    """Test the checks: run every defect under schedules that were not made for it, until the invariant meant for it is
    violated, and make every legal oddity happen, which must violate nothing."""
    if defects_only and oddities_only:
        raise click.UsageError("--defects-only and --oddities-only exclude each other")
    if only_list:
        return _list()
    outputs = Outputs(junit_file, summary_file)
    _check_places(master, out, write, outputs)
    all_defects, all_oddities = _known(defects, "defect", list(DEFECTS)), _known(oddities, "oddity", library.names())
    named = bool(defects or oddities)
    chosen = [DEFECTS[name] for name in all_defects] if (defects or not named) and not oddities_only else []
    odd = all_oddities if (oddities or not named) and not defects_only else []
    if not chosen and not odd:
        raise click.UsageError(_nothing(defects_only, oddities_only))
    began = time.monotonic()
    with ExitStack() as stack:
        work = _Counted(_doing(master, stack), quiet)
        parts = {
            "meant": DefectExam(chosen, schedule, runs),
            "everything": DefectExam(chosen, any_schedule, everything_runs, alone=True),
        }
        asked = {part: exam for part, exam in parts.items() if under in (None, part)} if chosen else {}
        marks = _examined(asked, OddityExam(odd, oddity_seeds), work, Kept(out, work) if out is not None else work)
    marks = msgspec.structs.replace(marks, wall_s=round(time.monotonic() - began, 1))
    _report(marks, as_json, write)
    outputs.write(lambda: suites_of_exam(marks), lambda: summary_of_exam(marks))
    if out is not None:
        write_marks(out, marks, shlex.join(["krift", *sys.argv[1:]]))
    return 0 if marks.passed else FAILED


def _list() -> int:
    """What ``--defect`` and ``--oddity`` can name."""
    for name, defect in DEFECTS.items():
        page().say(f"{name}  ({defect.caught_by}) {defect.about}")
    for name in library.names():
        page().say(f"{name}  (oddity) {library.load(name).scenario.about}")
    return 0


def _nothing(defects_only: bool, oddities_only: bool) -> str:
    """Why an exam would examine nothing: one that does no run must not pass."""
    left_out, named = ("--oddities-only", "--defect") if oddities_only else ("--defects-only", "--oddity")
    assert defects_only or oddities_only, "else there is something to examine"
    return f"{left_out} leaves out everything that {named} names: nothing is left to examine; give one of them"


def _check_places(master: str, out: Path | None, write: Path | None, outputs: Outputs) -> None:
    """See that runs can be done, and what comes of them be written, before hours are spent on them."""
    if master != HERE:
        check_master(master)
    if out is not None:
        check_root(out)
    if write is not None:
        check_file("--write", write)
    outputs.check()


def _examined(parts: Mapping[str, DefectExam], legal: OddityExam, counted: _Counted, work: Do) -> Marks:
    """The whole exam."""
    legal.sit(work)
    for part, exam in parts.items():
        counted.part, counted.exam = part, exam
        exam.sit(work)
    return Marks(
        parts["meant"].marks(nemesis_of) if "meant" in parts else [],
        legal.marks(),
        [alarm for exam in parts.values() for alarm in exam.alarms] + legal.alarms,
        sum(exam.clean_runs for exam in parts.values()),
        everything=parts["everything"].marks(lambda _: EVERYTHING) if "everything" in parts else [],
    )


def _report(marks: Marks, as_json: bool, write: Path | None) -> None:
    if as_json:
        page().raw(exam_json(marks))
    else:
        print_exam(page(), marks)
    if write is not None:
        write_text(write, exam_markdown(marks, ["krift", *sys.argv[1:]]))
    page(stderr=True).say(f"the exam took {marks.wall_s / 60:.1f} minutes")


def _known(names: Sequence[str], what: str, known: Sequence[str]) -> Sequence[str]:
    """The names, each once, or all if there are none. Raises InputError for unknown ones."""
    wrong = [
        Mistake(f"--{what} {name}", 0, "", f"no such {what}", choices(known, DEFECT_NAMES), nearest(name, known))
        for name in names
        if name not in known
    ]
    if wrong:
        raise InputError(wrong)
    return list(dict.fromkeys(names)) or known


def _doing(master: str, stack: ExitStack) -> Do:
    """Carries out runs on Spark's executors, or in this process."""
    if master == HERE:
        return lambda attempts: map(do, attempts)
    from orchestrator.campaigns.spread import spread
    from orchestrator.engines.spark_session import spark_session

    session = spark_session(master)
    stack.callback(session.stop)
    return lambda attempts: spread(session, attempts, do, per_task=PER_TASK)


WHERE = {"meant": "nemeses meant for them", "everything": EVERYTHING}
PER_TASK = 4
"""Runs of a Spark task: an exam's runs take very different times."""


class _Counted:
    """Says how far the exam has come, every few seconds."""

    def __init__(self, do: Do, quiet: bool) -> None:
        self._do, self._quiet, self._page = do, quiet, page(stderr=True)
        self.part = "oddities"
        self.exam: DefectExam | None = None
        self._runs = 0
        self._began = self._said = time.monotonic()

    def __call__(self, attempts: Sequence[Attempt]) -> Iterator[Attempted]:
        todo = len(attempts)
        for each in self._do(attempts):
            yield each
            self._runs += 1
            todo -= 1
            now = time.monotonic()
            if not self._quiet and now - self._said >= PLAIN_SECONDS:
                self._said = now
                rate = self._runs * 60 / (now - self._began)
                where = "oddities" if self.exam is None else f"{WHERE[self.part]}: {self.exam.alive} defects alive"
                self._page.say(
                    f"{where}; {some(self._runs, 'run')} done, {todo} left in this round, {rate:.0f} a minute"
                )
