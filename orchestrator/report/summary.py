"""What a command came to as a part of a Markdown page, for who looks at a build: ``--summary FILE``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from chaos.words import some
from orchestrator.campaigns.comparison import Comparison
from orchestrator.campaigns.summary import Report
from orchestrator.exam.marks import Marks
from orchestrator.report.campaign import conclusion as campaign_conclusion, sections
from orchestrator.report.comparison import (
    MEASURE_COLUMNS,
    VIOLATED_COLUMNS,
    measure_row,
    remarks,
    shown,
    violated_row,
)
from orchestrator.report.console import as_text
from orchestrator.report.exam import (
    DEFECT_COLUMNS,
    ODDITY_COLUMNS,
    conclusion as exam_conclusion,
    defect_rows,
    oddity_row,
)
from orchestrator.report.headline import headlines
from orchestrator.report.junit import Judged
from orchestrator.report.markdown import fenced, folded, table
from orchestrator.report.text import outcome, print_verdict, title

ROWS_MAX = 20
"""As many runs have a row; of more runs those that did not go as expected come first."""
STORIES_MAX = 5
"""As many runs that did not go as expected are told in full: a build's page has an end."""
WORDS = {0: "as expected", 1: "not as expected", 3: "undecided", 4: "not carried out"}


def summary_of_runs(runs: Iterable[Judged]) -> str:
    """Of ``krift run`` and ``krift check``: how many went as expected, a row for each run, and the story of each that
    did not go as expected, with the command that does it again."""
    every = list(runs)
    wrong = [run for run in every if run.exit_code]
    rows = [*wrong, *(run for run in every if not run.exit_code)] if len(every) > ROWS_MAX else every
    lines = [f"### Krift: {_counts([run.exit_code for run in every])}", ""]
    if rows:
        lines += [*table(("run", "outcome", "result"), map(_row, rows[:ROWS_MAX])), ""]
    if len(rows) > ROWS_MAX:
        lines += [f"and {some(len(rows) - ROWS_MAX, 'run')} more", ""]
    for run in wrong[:STORIES_MAX]:
        lines += folded(f"{title(run.verdict)}: {outcome(run.verdict)}", _in_full(run))
    if len(wrong) > STORIES_MAX:
        lines += [f"{some(len(wrong) - STORIES_MAX, 'other run')}, not shown here, did not go as expected, either.", ""]
    return _page(lines)


def _counts(codes: Sequence[int]) -> str:
    if not codes:
        return "no run was carried out"
    parts = [f"{codes.count(code)} {word}" for code, word in WORDS.items() if code in codes]
    return f"{some(len(codes), 'run')}, {', '.join(parts)}"


def _row(run: Judged) -> tuple[str, str, str]:
    verdict = run.verdict
    return title(verdict), outcome(verdict), "; ".join(headlines(verdict))


def _in_full(run: Judged) -> list[str]:
    told = fenced(as_text(lambda page: print_verdict(page, run.verdict, story=True)))
    return [*told, "", "Again:", "", *fenced(run.again)] if run.again else told


def summary_of_campaign(report: Report) -> str:
    """What a campaign came to: its last lines, its failures, and all tables on request."""
    word = WORDS[report.exit_code] if not report.interrupted else "interrupted"
    lines = [f"### Krift {report.campaign}: {word}", "", *fenced("\n".join(campaign_conclusion(report))), ""]
    if report.signatures:
        rows = [(f"{each.runs:,}", each.signature, each.sentence, each.reproduce) for each in report.signatures]
        lines += [*table((">runs", "what failed", "the first", "again"), rows[:ROWS_MAX]), ""]
    tables = []
    for section in sections(report):
        if section.columns:
            tables += [f"#### {section.heading}", "", *table(section.columns, section.rows), ""]
    return _page([*lines, *folded("all tables", tables)])


def summary_of_exam(marks: Marks) -> str:
    """What an exam found: its last lines, and both tables on request."""
    word = "passed" if marks.passed else "NOT passed"
    lines = [f"### Krift exam: {word}", "", *fenced("\n".join(exam_conclusion(marks))), ""]
    if rows := defect_rows(marks):
        lines += folded("defects", table(DEFECT_COLUMNS, rows))
    if marks.oddities:
        lines += folded("legal oddities", table(ODDITY_COLUMNS, map(oddity_row, marks.oddities)))
    return _page(lines)


def summary_of_comparison(found: Comparison) -> str:
    """How two settings differ: both tables, and what could not be told."""
    first, last = found.seeds
    lines = [f"### Krift compare {found.scenario}: {some(found.pairs, 'pair')} of runs, seeds {first}-{last}", ""]
    lines += [f"- both: {', '.join(found.common)}"] if found.common else []
    lines += [f"- a: {found.a.label}", f"- b: {found.b.label}", ""]
    if found.violated:
        lines += [*table(VIOLATED_COLUMNS, [violated_row(found, each) for each in found.violated]), ""]
    else:
        lines += [f"No promise was violated in any of the {some(2 * found.pairs, 'run')}.", ""]
    lines += [*table(MEASURE_COLUMNS, [measure_row(each) for each in shown(found.differences)]), ""]
    if told := [line for name, each in (("a", found.a), ("b", found.b)) for line in remarks(name, each)]:
        lines += [*fenced("\n".join(told)), ""]
    return _page([*lines, "Again:", "", *fenced(found.again)])


def _page(lines: Iterable[str]) -> str:
    return "\n".join([*lines, ""])
