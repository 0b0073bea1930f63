"""Which page a directory gets: that of a run, of a campaign, of a comparison or of an exam."""

from __future__ import annotations

from pathlib import Path

import msgspec

from chaos.errors import InputError
from orchestrator.campaigns.directory import CampaignDir
from orchestrator.campaigns.keep import kept_runs
from orchestrator.exam.kept import MARKS, read_marks
from orchestrator.files import NotWritten, write_text
from orchestrator.page import campaigns, comparisons, exams
from orchestrator.page.render import blocks_page, run_page
from orchestrator.page.timeline import timeline_of
from orchestrator.report.campaign import conclusion
from orchestrator.run_dir import RunDir, open_run_dir, why, wrong
from orchestrator.trace.read import trace_of
from orchestrator.verdict import exit_code, read_verdict

PAGE = "report.html"
"""The page of a run, a campaign, a comparison or an exam, in its directory."""
CAMPAIGN = "campaign.json"
SURVIVED = 1


class Written(msgspec.Struct, frozen=True):
    """A page that was written. exit_code: how that ended which it shows."""

    path: Path
    exit_code: int


def write_page(root: Path, which: str, to: Path | None = None) -> Written:
    """Write the page of a directory, or of a name under ``root``; "latest" is the newest run. ``to``: where to, if not
    in the directory. Raises InputError and NotWritten."""
    for path in (Path(which), root / which):
        try:
            if (path / CAMPAIGN).is_file():
                return _campaign(CampaignDir(path), to or path / PAGE)
            if (path / comparisons.COMPARISON).is_file():
                return _comparison(path, to or path / PAGE)
            if (path / MARKS).is_file():
                return _exam(path, to or path / PAGE)
        except OSError as error:
            raise wrong(which, f"cannot be read: {why(error)}", "a directory that you may read") from None
    return _run(open_run_dir(root, which), to)


def _run(directory: RunDir, to: Path | None) -> Written:
    manifest, verdict = directory.read_manifest(), read_verdict(directory)
    no_timeline, timeline = "", None
    if any(directory.trace.glob("*.parquet")):
        timeline = timeline_of(trace_of(directory), verdict)
    else:
        try:
            directory.trace_parts()
        except InputError as error:
            no_timeline = f"{error.mistakes[0].problem}; {error.mistakes[0].expected}"
    path = to or directory.path / PAGE
    write_text(path, run_page(verdict, manifest, timeline, no_timeline))
    return Written(path, exit_code(verdict, manifest.status))


def _campaign(directory: CampaignDir, to: Path) -> Written:
    """The page, and before it those of the first runs that failed, which it leads to."""
    report, kept = campaigns.read_report(directory), kept_runs(directory)
    for each in campaigns.to_be_shown(report, kept):
        try:
            _run(RunDir(each.directory), None)
        except NotWritten:  # a campaign that one may only read: its page has no links then
            break

    def link(run: Path) -> str:
        page = run / PAGE
        return campaigns.relative(page, to.parent) if page.is_file() else ""

    told, tone = campaigns.headline(report)
    html = blocks_page(
        f"Campaign {report.campaign}",
        told,
        tone,
        list(campaigns.blocks(directory, report, kept, link)),
        lines=list(conclusion(report)),
        again=campaigns.again(directory.read_asked()),
    )
    write_text(to, html)
    return Written(to, report.exit_code)


def _comparison(path: Path, to: Path) -> Written:
    found = comparisons.read_comparison(path)
    told, tone = comparisons.headline(found)
    html = blocks_page(
        f"{found.scenario}, seeds {found.seeds[0]}-{found.seeds[1]}: a and b compared",
        told,
        tone,
        list(comparisons.blocks(found, comparisons.read_pairs(path))),
        lines=comparisons.lines(found),
        again=found.again,
    )
    write_text(to, html)
    return Written(to, comparisons.exit_code(found))


def _exam(path: Path, to: Path) -> Written:
    kept = read_marks(path)
    told, tone = exams.headline(kept.marks)
    html = blocks_page(
        "The checkers' own exam",
        told,
        tone,
        list(exams.blocks(kept.marks)),
        lines=exams.lines(kept.marks),
        again=kept.again,
    )
    write_text(to, html)
    return Written(to, 0 if kept.marks.passed else SURVIVED)
