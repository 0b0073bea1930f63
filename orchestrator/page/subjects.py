"""Which page a directory gets: that of a run, of a campaign, of a comparison or of an exam."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from chaos.errors import InputError
from chaos.words import some
from orchestrator.campaigns.comparison import Comparison
from orchestrator.campaigns.directory import CampaignDir
from orchestrator.campaigns.summary import REPORT_SCHEMA, Report
from orchestrator.exam.kept import MARKS, read_marks
from orchestrator.exam.marks import Marks
from orchestrator.page.render import run_page, sections_page
from orchestrator.page.timeline import timeline_of
from orchestrator.report import campaign, exam
from orchestrator.report.campaign import Section
from orchestrator.report.comparison import apart, interval, number, probability, same, share, shown
from orchestrator.run_dir import RunDir, open_run_dir, read_json, why, wrong
from orchestrator.trace.read import trace_of
from orchestrator.verdict import INCONCLUSIVE, NOT_CARRIED_OUT, exit_code, read_verdict

CAMPAIGN, COMPARISON, PICTURE = "campaign.json", "comparison.json", "plot.svg"
COMPARISON_SCHEMA = "krift-comparison/v1"
PICTURE_MAX = 8 << 20
SURVIVED = 1


class Page(msgspec.Struct, frozen=True):
    """A page. directory: what it is of. exit_code: how that ended."""

    html: str
    directory: Path
    exit_code: int


def page_of(root: Path, which: str) -> Page:
    """The page of a directory, or of a name under ``root``; "latest" is the newest run. Raises InputError."""
    for path in (Path(which), root / which):
        try:
            if (path / CAMPAIGN).is_file():
                return _campaign(CampaignDir(path))
            if (path / COMPARISON).is_file():
                return _comparison(path)
            if (path / MARKS).is_file():
                return _exam(path)
        except OSError as error:
            raise wrong(which, f"cannot be read: {why(error)}", "a directory that you may read") from None
    return _run(open_run_dir(root, which))


def _run(directory: RunDir) -> Page:
    manifest, verdict = directory.read_manifest(), read_verdict(directory)
    no_timeline, timeline = "", None
    if any(directory.trace.glob("*.parquet")):
        timeline = timeline_of(trace_of(directory), verdict)
    else:
        try:
            directory.trace_parts()
        except InputError as error:
            no_timeline = f"{error.mistakes[0].problem}; {error.mistakes[0].expected}"
    html = run_page(verdict, manifest, timeline, no_timeline)
    return Page(html, directory.path, exit_code(verdict, manifest.status))


def _campaign(directory: CampaignDir) -> Page:
    expected = "a campaign that ended, or was interrupted; krift campaign --resume goes on with this one"
    report = read_json(directory.report_data, Report, REPORT_SCHEMA, expected)
    *sections, conclusion = campaign.sections(report)
    broken = sum(each.violated_runs > 0 for each in report.invariants.values())
    tone = {0: "held", 1: "violated"}.get(report.exit_code, "inconclusive")
    headline = (
        f"{some(report.runs, 'run')}: {some(broken, 'promise')} violated in some of them, "
        f"{some(len(report.signatures), 'kind')} of failure"
    )
    asked = directory.read_asked()
    first, last = asked.seeds
    options = [f"--seeds {first}-{last}", *(f"--defect {name}" for name in asked.defects), f"--guide {asked.guide}"]
    options += [f"--set {setting}" for setting in dict.fromkeys(each for one in asked.settings for each in one)]
    again = f"krift campaign {' '.join(source.name for source in asked.sources)} {' '.join(options)}"
    ordered = [*reversed(sections)]
    html = sections_page(
        f"Campaign {report.campaign}", headline, tone, ordered, lines=conclusion.before, again=again
    )  # fmt: skip
    return Page(html, directory.path, report.exit_code)


def _comparison(path: Path) -> Page:
    found = read_json(path / COMPARISON, Comparison, COMPARISON_SCHEMA, "a directory that krift compare wrote")
    only = [each for each in found.violated if each.only_a or each.only_b]
    headline = f"{some(found.pairs, 'pair')} of runs: {some(len(found.violated), 'promise')} violated"
    headline += f", {len(only)} of them not alike on both sides" if found.violated else " on either side"
    lines = [f"a  {found.a.label}", f"b  {found.b.label}"]
    lines += [f"both  {', '.join(found.common)}"] if found.common else []
    html = sections_page(
        f"{found.scenario}, seeds {found.seeds[0]}-{found.seeds[1]}: a and b compared",
        headline,
        "violated" if found.violated else "held",
        list(_compared(found)),
        lines=lines,
        again=found.again,
        picture=_picture(path / PICTURE),
    )
    code = NOT_CARRIED_OUT if found.a.not_carried_out or found.b.not_carried_out else 0
    return Page(html, path, code or (INCONCLUSIVE if found.a.undecided or found.b.undecided else 0))


def _compared(found: Comparison) -> Iterator[Section]:
    columns = ("promise", ">violated in a", ">violated in b", ">only a", ">only b", ">p", "what is promised")
    rows = []
    for each in found.violated:
        rates = [
            f"{runs} of {found.pairs} ({share(low)}-{share(high)} %)"
            for runs, (low, high) in ((each.a, each.a_rate), (each.b, each.b_rate))
        ]
        rows.append([each.invariant, *rates, str(each.only_a), str(each.only_b), probability(each.p), each.title])
    if rows:
        yield Section("Promises that were violated", columns, rows)
    measured = ("measure (mean of a run)", ">a", ">b", ">b - a", ">95 % interval", ">b lower / higher")
    measures = [
        [each.title, number(each.a, each.unit), number(each.b, each.unit), apart(each), interval(each),
         f"{each.lower} / {each.higher}"]
        for each in shown(found.differences)
    ]  # fmt: skip
    yield Section("What was measured", measured, measures)
    if alike := same(found.differences):
        rows = [[each.title, number(each.a, each.unit)] for each in alike]
        yield Section("The same in all pairs", ("measure", ">mean of a run"), rows)
    sides = (("a", found.a), ("b", found.b))
    doubts = [[name, f"{runs:,}", reason] for name, side in sides for reason, runs in side.why.items()]
    if doubts:
        yield Section("Runs that are undecided, or could not be carried out", ("side", ">runs", "why"), doubts)


def _picture(path: Path) -> bytes:
    try:
        if path.stat().st_size > PICTURE_MAX:
            return b""
        return path.read_bytes()
    except OSError:
        return b""


def _exam(path: Path) -> Page:
    kept = read_marks(path)
    marks = kept.marks
    parts = [f"{len(marks.survivors)} of {some(len(marks.defects), 'planted bug')} survived"] if marks.defects else []
    parts += [f"{some(len(marks.alarms), 'false alarm')}"]
    html = sections_page(
        "The checkers' own exam",
        f"{'Passed' if marks.passed else 'NOT passed'}: {', '.join(parts)}",
        "held" if marks.passed else "violated",
        list(_examined(marks)),
        lines=exam.conclusion(marks),
        again=kept.again,
    )
    return Page(html, path, 0 if marks.passed else SURVIVED)


def _examined(marks: Marks) -> Iterator[Section]:
    if rows := exam.defect_rows(marks):
        yield Section("Defects", exam.DEFECT_COLUMNS, rows)
    if marks.oddities:
        yield Section("Legal oddities", exam.ODDITY_COLUMNS, [exam.oddity_row(mark) for mark in marks.oddities])
    if marks.alarms:
        rows = [[each.where, each.invariant, each.sentence, each.reproduce] for each in marks.alarms]
        yield Section("False alarms", ("where", "promise", "evidence", "again"), rows)
