"""The page of a campaign: what failed and how to do it again, what became of each run, and of each promise."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from chaos.words import some
from orchestrator.campaigns.asked import Asked
from orchestrator.campaigns.campaign import MUTATED
from orchestrator.campaigns.directory import CampaignDir, Outcome
from orchestrator.campaigns.keep import KeptRun
from orchestrator.campaigns.summary import REPORT_SCHEMA, InvariantTally, Report, Signature
from orchestrator.invariants.folds.fold import Status
from orchestrator.page.blocks import FAILED, KEY, PLANTED, Block, Cell, Fate, Part, Tone, block_of, fate, strip
from orchestrator.report import campaign
from orchestrator.report.text import STYLES, badness
from orchestrator.run_dir import RunDir, read_json
from orchestrator.story.words import clock
from orchestrator.verdict import read_verdict

PAGES_MAX = 12
"""Kinds of failure whose first run gets a page of its own."""
STRIPS_MAX = 24

Link = Callable[[Path], str]
"""The directory of a kept run -> a link to its page, "" if it has none."""


def read_report(directory: CampaignDir) -> Report:
    """What came of a campaign. Raises InputError if there is nothing yet."""
    expected = "a campaign that ended, or was interrupted; krift campaign --resume continues this one"
    return read_json(directory.report_data, Report, REPORT_SCHEMA, expected)


def to_be_shown(report: Report, kept: Sequence[KeptRun]) -> list[KeptRun]:
    """Kept runs that get a page: the failure that matters most, the first of each kind, the most frequent first."""
    firsts = [_first(each, kept) for each in report.signatures]
    found = [each for each in firsts if each is not None][:PAGES_MAX]
    worst = report.worst.kept if report.worst is not None else ""
    return [*(each for each in kept if worst and each.directory.match(worst) and each not in found), *found]


def _first(failure: Signature, kept: Sequence[KeptRun]) -> KeptRun | None:
    """The run that the sentence and the command of a kind of failure are of, if it is kept."""
    return next((each for each in kept if each.record.order.key == failure.order.key), None)


def headline(report: Report) -> tuple[str, Tone]:
    """What it came to, line by line, as a terminal says it, and its tone."""
    return "\n".join([f"Outcome: {campaign.outcome(report)}", *campaign.headlines(report)]), campaign.tone(report)


def again(asked: Asked) -> str:
    """The command that does it again."""
    first, last = asked.seeds
    variants = {tuple(source.variants) for source in asked.sources}
    # What was chosen is the same for all; where each has its own, all of them were run.
    chosen = [name for name in next(iter(variants)) if name] if len(variants) == 1 else []
    settings = dict.fromkeys(each for one in asked.settings for each in one)
    words = ["krift", "campaign", *(source.name for source in asked.sources), "--seeds", f"{first}-{last}"]
    for option, values in (("--variant", chosen), ("--set", settings), ("--defect", asked.defects)):
        words += [word for value in values for word in (option, value)]
    return shlex.join(words if asked.guide == "random" else [*words, "--guide", asked.guide])


def blocks(directory: CampaignDir, report: Report, kept: Sequence[KeptRun], link: Link) -> Iterator[Block]:
    """All that a reader may want to know, what failed first."""
    own = {campaign.FAILURES, campaign.NO_FAILURES, campaign.PROMISES, campaign.SUM, campaign.OUTCOME}
    others = [block_of(section) for section in campaign.sections(report) if section.heading not in own][::-1]
    yield from (each for each in others if each.heading == campaign.MISMATCHES)
    yield _failures(report, kept, link)
    yield from _how_it_happened(report, kept, link)
    yield _runs(directory, campaign.all_caught(report), kept, link)
    yield from (each for each in others if each.heading in campaign.DOUBTFUL)
    yield _promises(report)
    apart = {campaign.MISMATCHES, *campaign.DOUBTFUL}
    yield from (each for each in others if each.heading not in apart)


def _failures(report: Report, kept: Sequence[KeptRun], link: Link) -> Block:
    if not report.signatures:
        return Block("Failures", ["None."])
    columns = (">runs", "failure, in the words of the first run", "seeds", "again")
    rows = [_failure(each, kept, link) for each in report.signatures]
    before = (
        ["Each sentence links to the page of the first run with that failure."]
        if any(row[1].href for row in rows)
        else []
    )
    left = sum(not row[1].href for row in rows)
    before += [f"{some(left, 'kind')} of failure without a page."] if left else []
    if report.worst is not None and report.worst.lost:
        worst = next((link(each.directory) for each in kept if each.directory.match(report.worst.kept)), "")
        told = f"the failure that lost most: {some(report.worst.lost, 'acknowledged record')}"
        seed, command = Cell(str(report.worst.seed)), _again(report.worst.reproduce)
        rows.insert(0, [Cell("1"), Cell(told, href=worst), seed, command])
    return Block("Failures", before, "", columns, rows)


def _again(command: str) -> Cell:
    return Cell(command, code=True)


def _failure(each: Signature, kept: Sequence[KeptRun], link: Link) -> list[Cell]:
    first = _first(each, kept)
    href = "" if first is None else link(first.directory)
    more = f" and {each.runs - len(each.seeds)} more" if each.runs > len(each.seeds) else ""
    seeds = ", ".join(map(str, each.seeds)) + more
    also = f"; {told}" if (told := campaign.beside(each)) else ""
    what = Cell(f"{each.sentence or each.signature}{also}", href=href)
    return [Cell(f"{each.runs:,}"), what, Cell(seeds), _again(each.reproduce)]


def _how_it_happened(report: Report, kept: Sequence[KeptRun], link: Link) -> Iterator[Block]:
    """The steps to the first violation in the first run of those that have a page, in its own words."""
    for run in to_be_shown(report, kept)[:1]:
        verdict = read_verdict(RunDir(run.directory))
        broken = sorted((each for each in verdict.invariants if each.violations), key=badness)
        for each in broken[:1]:
            first = each.violations[0]
            before = [f"Seed {verdict.seed}: {each.id} {each.title}.", f"{first.sentence}."]
            rows = [
                [Cell(clock(step.at_us)), Cell(step.text, href=link(run.directory)), Cell(step.event)]
                for step in first.path
            ]
            yield Block("How one of these failures happened", before, "", (">seconds", "what happened", "event"), rows)


def _runs(directory: CampaignDir, planted: bool, kept: Sequence[KeptRun], link: Link) -> Block:
    """A square for each run, a strip for each thing that was run. ``planted``: the failures are those of a planted
    defect."""
    key = tuple(PLANTED if planted and each is FAILED else each for each in KEY)
    places = {(one.record.order.source, one.record.order.variant, one.record.seed): one.directory for one in kept}
    strips: dict[str, list[tuple[int, Fate]]] = {}
    for run in directory.outcomes():
        place = places.get((run.source, run.variant, run.seed))
        name = ", ".join([f"seed {run.seed}", *run.settings])
        what = fate(run.exit_code, run.outcome == "violated")
        what = PLANTED if planted and what is FAILED else what
        told = Fate(what, name, run.signature, link(place) if place else "")
        strips.setdefault(_label(run), []).append((run.seed, told))
    rows = [
        strip(label, [told for _, told in sorted(runs, key=lambda each: each[0])], key)
        for label, runs in strips.items()
    ]
    before = [f"{some(len(rows) - STRIPS_MAX, 'other scenario')}, not shown."] if len(rows) > STRIPS_MAX else []
    return Block("Runs, by seed", before, strips=rows[:STRIPS_MAX], key=key)


def _label(run: Outcome) -> str:
    if run.source.startswith(f"{MUTATED}/"):
        return "mutations"
    return f"{run.source} ({run.variant})" if run.variant else run.source


def _promises(report: Report) -> Block:
    """In how many runs each promise came out how; the worst first."""
    columns = (
        "promise",
        "its runs",
        ">violated",
        ">undecided",
        ">held",
        ">excused",
        ">vacuous",
        ">tested",
        "what is promised",
    )
    ranked = sorted(report.invariants.items(), key=lambda each: _rank(each[1]))
    rows = []
    for name, each in ranked:
        runs = _runs_of(each)
        numbers = [Cell(f"{number:,}" if number else "") for number in (*runs.values(), each.tested)]
        rows.append([Cell(name), _bar(runs), *numbers, Cell(campaign.promised(report, name))])
    return Block(
        "Promises",
        [campaign.how_many_were_tested(report), campaign.TESTED],
        "",
        columns,
        rows,
    )


def _runs_of(each: InvariantTally) -> dict[Status, int]:
    """In how many runs it came out how, the worst first."""
    return {
        "violated": each.violated_runs,
        "inconclusive": each.inconclusive_runs,
        "held": each.held_runs,
        "excused": each.excused_runs,
        "vacuous": each.vacuous_runs,
    }


def _rank(each: InvariantTally) -> int:
    return next((number for number, runs in enumerate(_runs_of(each).values()) if runs), len(STYLES))


def _bar(runs: Mapping[Status, int]) -> Cell:
    every = sum(runs.values()) or 1
    said = ", ".join(f"{number:,} {status}" for status, number in runs.items() if number)
    return Cell("", bar=[Part(status, number / every) for status, number in runs.items() if number], said=said)


def relative(page: Path, beside: Path) -> str:
    """A link from a page in the directory ``beside``."""
    return quote(Path(os.path.relpath(page, beside)).as_posix())
