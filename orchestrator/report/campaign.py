"""What a campaign came to, for people: the same tables on a page and as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from rich.table import Table
from rich.text import Text

from chaos.words import some
from orchestrator.campaigns.summary import InvariantTally, Report
from orchestrator.invariants.registry import INVARIANTS
from orchestrator.report.console import Page, printable
from orchestrator.report.markdown import table
from orchestrator.report.text import STYLES

BAD = STYLES["violated"]
GOOD = STYLES["held"]
KEPT_SHOWN = 1

FAILURES, NO_FAILURES = "Failures, one line for each signature", "Failures"
PROMISES, SUM = "Promises", "Sum"
MISMATCHES, NEVER, BELIED = "MISMATCHES", "NEVER TESTED", "TESTED, ALTHOUGH DECLARED UNTESTED"
DOUBTFUL = (NEVER, BELIED)
"""Headings of what makes a campaign undecided."""


class Section(msgspec.Struct, frozen=True):
    """A table under a heading; columns that begin with ">" have numbers. before, after: lines around it. style: of
    the lines."""

    heading: str
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    before: Sequence[str] = ()
    style: str = ""


def sections(report: Report) -> Iterator[Section]:
    """All that is reported, the most important last, where a terminal leaves it on the screen."""
    yield _sources(report)
    if report.faults:
        yield _faults(report)
    if report.covered:
        yield _covered(report)
        yield _pairs(report)
    yield _invariants(report)
    if report.doubts:
        rows = [(f"{runs:,}", doubt) for doubt, runs in report.doubts.items()]
        yield Section("Doubts, the most frequent", (">runs", "what is undecided"), rows)
    if report.untested:
        reasons = [(name, why, INVARIANTS[name].title) for name, why in report.untested.items()]
        yield Section("Not tested, as the nemesis declares", ("promise", "why", "what is promised"), reasons)
    if report.vacuous:
        yield _vacuous(report)
    if report.belied:
        before = ["X9 is violated:", *report.belied]
        yield Section(BELIED, before=before, style=STYLES["inconclusive"])
    if report.known:
        yield _known(report)
    yield _signatures(report)
    if report.kept.mismatches:
        lines = ["This is a bug of Krift. Do not trust its verdicts before it is fixed:"]
        yield Section(MISMATCHES, before=[*lines, *report.kept.mismatches], style=BAD)
    yield Section(SUM, before=list(conclusion(report)))


def print_campaign(page: Page, report: Report) -> None:
    """On a page."""
    for section in sections(report):
        page.say(section.heading, "bold")
        for line in section.before:
            page.say(line, section.style)
        if section.columns:
            page.show(_table(section))
        page.say()


def markdown(report: Report) -> str:
    """As a Markdown file."""
    parts = [f"# {report.campaign}", ""]
    for section in sections(report):
        parts += [f"## {section.heading}", "", *(f"{line}  " for line in section.before)]
        if section.columns:
            parts += ["", *table(section.columns, section.rows)]
        parts.append("")
    return printable("\n".join(parts)) + "\n"


def _table(section: Section) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", show_edge=False)
    for index, name in enumerate(section.columns):
        last = index == len(section.columns) - 1
        table.add_column(name.lstrip(">"), justify="right" if name.startswith(">") else "left", no_wrap=not last)
    for row in section.rows:
        table.add_row(*(Text(printable(cell), STYLES.get(cell, "")) for cell in row))  # type: ignore[call-overload]
    return table


def _sources(report: Report) -> Section:
    columns = ("source", ">runs", ">held", ">violated", ">inconclusive", ">not carried out", ">unexpected")
    rows = [
        (name, *_numbers(each.runs, each.held, each.violated, each.inconclusive, each.not_carried_out, each.unexpected))
        for name, each in report.sources.items()
    ]
    return Section("Runs", columns, rows)


def _faults(report: Report) -> Section:
    columns = ("fault", ">scheduled", ">took effect", ">no target", ">never began", "aimed at")
    rows = []
    for kind, each in report.faults.items():
        roles = ", ".join(f"{role} {times:,}" for role, times in sorted(each.roles.items()))
        counts = _numbers(each.scheduled, each.took_effect, each.without_target, each.never_began)
        rows.append((kind, *counts, roles or "nobody"))
    return Section("Faults and actions", columns, rows)


def _covered(report: Report) -> Section:
    columns = ("fault", "on", ">runs", "steps of the protocol under it, and in how many runs")
    rows = [
        (each.fault, each.role, f"{each.runs:,}", ", ".join(f"{step} {runs:,}" for step, runs in each.steps.items()))
        for each in report.covered
    ]
    before = [f"Points of coverage that were reached: {report.points:,}."]
    return Section("Faults, roles and steps of the protocol", columns, rows, before)


def _pairs(report: Report) -> Section:
    columns = ("under way", ">steps", "steps of the protocol that no run took during it")
    rows = [
        (each.under_way, f"{len(each.steps)} of {len(each.steps) + len(each.never)}", ", ".join(each.never) or "none")
        for each in report.pairs
    ]
    reached = sum(len(each.steps) for each in report.pairs)
    never = sum(len(each.never) for each in report.pairs)
    before = [f"Of {some(reached + never, 'pair')} of steps that can race {reached:,} were reached."]
    return Section("Steps of the protocol while something is under way", columns, rows, before)


def _invariants(report: Report) -> Section:
    columns = (
        "promise",
        ">tested",
        ">held",
        ">violated",
        ">excused",
        ">inconclusive",
        ">vacuous",
        "worst",
        "what is promised",
    )
    rows = []
    for name, each in report.invariants.items():
        runs = (each.held_runs, each.violated_runs, each.excused_runs, each.inconclusive_runs, each.vacuous_runs)
        rows.append((name, *_numbers(each.tested, *runs), _worst(each), INVARIANTS[name].title))
    before = [
        "Column tested: number of tests in all runs together. The other columns: numbers of runs with that status."
    ]
    return Section(PROMISES, columns, rows, before)


def _worst(tally: InvariantTally) -> str:
    if tally.violated_runs:
        return "violated"
    if tally.inconclusive_runs:
        return "inconclusive"
    if tally.held_runs:
        return "held"
    if tally.excused_runs:
        return "excused"
    return "off" if tally.off_runs and tally.off_runs == tally.vacuous_runs else "vacuous"


def _vacuous(report: Report) -> Section:
    lines = [
        f"X9 is violated: of {some(report.runs, 'run')} not one tested {', '.join(report.vacuous)}.",
        "The runs say nothing about these promises:",
        *(f"{name}  {INVARIANTS[name].title}" for name in report.vacuous),
    ]
    return Section(NEVER, before=lines, style=STYLES["inconclusive"])


def _known(report: Report) -> Section:
    columns = (">runs", "known", "seeds", "again")
    rows = [
        (f"{each.runs:,}", name, ", ".join(map(str, each.seeds)), each.reproduce) for name, each in report.known.items()
    ]
    before = ["Kafka itself does this (docs/findings.md). A run that also violates another promise is a failure."]
    return Section("Findings about Kafka that showed", columns, rows, before)


def _signatures(report: Report) -> Section:
    if not report.signatures:
        return Section(NO_FAILURES, before=["none"])
    columns = (">runs", "what failed", "what is promised", "first met", "again", "kept in")
    rows = []
    for each in report.signatures:
        first = f"run {each.number:,}, after {each.at_s:,.1f} s"
        kept = ", ".join(each.kept[:KEPT_SHOWN]) or "not kept"
        more = f" and {len(each.kept) - KEPT_SHOWN} more" if len(each.kept) > KEPT_SHOWN else ""
        promised = INVARIANTS.get(each.signature.partition(":")[0])
        title = "" if promised is None else promised.title
        rows.append((f"{each.runs:,}", each.signature, title, first, each.reproduce, kept + more))
    return Section(FAILURES, columns, rows)


def conclusion(report: Report) -> Iterator[str]:
    """What it came to, in a few lines."""
    low, high = report.seeds
    words = {0: "as expected", 1: "not as expected", 3: "undecided", 4: "not carried out"}
    codes = ", ".join(f"{runs:,} {words[code]}" for code, runs in report.exit_codes.items())
    of = "" if report.runs == report.asked else f" of {report.asked:,}"
    yield f"runs        {report.runs:,}{of} (seeds {low}-{high}): {codes or 'none'}"
    yield (
        f"speed       {report.runs_per_minute:,.1f} runs a minute; {report.virtual_s:,.0f} s of virtual time and "
        f"{some(report.events, 'event')} in {report.wall_s:,.1f} s"
    )
    if report.first_failure is not None:
        first = report.first_failure
        yield f"failed      for the first time in run {first.runs:,}, after {first.wall_s:,.1f} s"
    kept = report.kept
    equal = "with equal findings" if not kept.mismatches else f"with {len(kept.mismatches)} MISMATCHES"
    yield (
        f"traces      {kept.failures} of failures, {kept.sample} of other runs; {kept.repeated} done again alike, "
        f"{kept.rechecked} checked again in Spark, {equal}"
    )
    yield f"outcome     {_outcome(report)}"
    yield f"kept in     {report.directory}"


def _outcome(report: Report) -> str:
    if report.interrupted:
        return "interrupted"
    word = {0: "as expected", 1: "NOT as expected", 3: "UNDECIDED", 4: "NOT CARRIED OUT"}[report.exit_code]
    return word if report.exit_code in report.exit_codes else f"{word}: {_beyond_the_runs(report)}"


def _beyond_the_runs(report: Report) -> str:
    """What decides where no run came to that."""
    if report.kept.mismatches:
        number = len(report.kept.mismatches)
        return f"{some(number, 'mismatch', 'mismatches')}, which {'is' if number == 1 else 'are'} above"
    reasons = [f"not one run tested {', '.join(report.vacuous)}"] if report.vacuous else []
    reasons += [f"{some(len(report.belied), 'promise')} tested that the nemesis says is not"] if report.belied else []
    return "; ".join(reasons) or "no run was carried out"


def _numbers(*values: int) -> tuple[str, ...]:
    return tuple(f"{value:,}" for value in values)
