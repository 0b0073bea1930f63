"""What a campaign came to, for people: the same tables on a page and as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from rich.table import Table
from rich.text import Text

from actors.defects.catalogue import DEFECTS
from chaos.words import ordinal, some, times
from orchestrator.campaigns.summary import InvariantTally, LostTally, Report, Signature
from orchestrator.invariants.folds.fold import Status
from orchestrator.invariants.folds.known_findings import KNOWN_FINDINGS
from orchestrator.invariants.hygiene.vacuity import NothingVacuous
from orchestrator.invariants.registry import INVARIANTS
from orchestrator.report.console import Page, printable
from orchestrator.report.losses import ACKNOWLEDGED, LOSSES
from orchestrator.report.markdown import table
from orchestrator.report.text import STYLES, print_verdict
from orchestrator.verdict import Verdict

BAD = STYLES["violated"]
KEPT_SHOWN = 1
BRIEFLY = 5
"""Kinds of failures, and doubts, that are shown in brief."""
TITLES_MAX = 20
"""Promises that nothing tested, with their titles, in brief."""

FAILURES, NO_FAILURES = "Failures, one line for each signature", "Failures"
TESTED = "Column tested: number of tests in all runs together. The other columns: numbers of runs with that status."
PROMISES, SUM, OUTCOME = "Promises", "Sum", "Outcome"
MISMATCHES, NEVER, BELIED = "MISMATCHES", "NEVER TESTED", "TESTED, ALTHOUGH DECLARED UNTESTED"
UNCONCERNED = "Not tested, because no run has their subject"
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
    if report.unconcerned:
        reasons = [(name, why, INVARIANTS[name].title) for name, why in report.unconcerned.items()]
        yield Section(UNCONCERNED, ("promise", "why", "what is promised"), reasons)
    if report.vacuous:
        yield _vacuous(report)
    if report.belied:
        before = ["X9 is violated:", *report.belied]
        yield Section(BELIED, before=before, style=STYLES["inconclusive"])
    if report.known:
        yield _known(report)
    yield _signatures(report)
    if report.kept.mismatches:
        yield _mismatches(report)
    yield Section(OUTCOME, before=[outcome(report), *headlines(report)], style=_style(report))
    yield Section(SUM, before=list(conclusion(report)))


def brief(report: Report) -> Iterator[Section]:
    """What a reader needs first, on a screen: ``sections`` has all."""
    yield Section(OUTCOME, before=[outcome(report), *headlines(report)], style=_style(report))
    yield _sources(report)
    if rows := [row for row in _promises(report) if report.invariants[row[0]].violated_runs]:
        columns = ("promise", ">violated", ">held", ">tested", "what is promised")
        told = [(name, violated, held, tested, title) for name, tested, held, violated, *_, title in rows]
        yield Section("Promises that were violated, in how many runs", columns, told, [TESTED])
    yield Section(NO_FAILURES, before=list(_failures(report)))
    if report.kept.mismatches:
        yield _mismatches(report)


def besides(report: Report) -> Iterator[Section]:
    """What a reader needs next, in brief: findings about Kafka, and what the runs say nothing about."""
    if report.known:
        yield _known(report)
    if report.doubts:
        doubts = [(f"{runs:,}", doubt) for doubt, runs in [*report.doubts.items()][:BRIEFLY]]
        yield Section("Doubts, the most frequent", (">runs", "what is undecided"), doubts)
    if report.vacuous:
        yield Section(NEVER, before=_vacuous(report, TITLES_MAX).before, style=STYLES["inconclusive"])
    if report.belied:
        yield Section(BELIED, before=["X9 is violated:", *report.belied], style=STYLES["inconclusive"])


def print_campaign(page: Page, report: Report, worst: Verdict | None = None, *, full: bool = False) -> None:
    """On a page: in brief with ``worst``, the verdict on the failure that matters most, or ``full``."""
    for section in sections(report) if full else brief(report):
        _print_section(page, section)
    if full:
        return
    if worst is not None:
        lost = report.worst is not None and report.worst.lost
        page.say("The failure that lost most" if lost else "One of these failures in full", "bold")
        print_verdict(page, worst)
        page.say()
    for section in besides(report):
        _print_section(page, section)
    more = [
        f"tables      {report.directory}/report.md, or on a terminal with --full",
        f"a page      krift report {report.directory} --html",
    ]
    _print_section(page, Section(SUM, before=[*conclusion(report), *more]))


def _print_section(page: Page, section: Section) -> None:
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
    against = ">by the planted defect" if all_caught(report) else ">unexpected"
    columns = ("source", ">runs", ">held", ">violated", ">inconclusive", ">not carried out", against)
    rows = [
        (name, *_numbers(each.runs, each.held, each.violated, each.inconclusive, each.not_carried_out, each.unexpected))
        for name, each in report.sources.items()
    ]
    return Section("Runs", columns, rows)


def _faults(report: Report) -> Section:
    columns = ("fault", ">scheduled", ">took effect", ">no effect", ">no target", ">never began", "aimed at")
    rows = []
    for kind, each in report.faults.items():
        roles = ", ".join(f"{role} {times:,}" for role, times in sorted(each.roles.items()))
        counts = _numbers(each.scheduled, each.took_effect, each.no_effect, each.without_target, each.never_began)
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
    return Section(PROMISES, columns, list(_promises(report)), [how_many_were_tested(report), TESTED])


def how_many_were_tested(report: Report) -> str:
    """How many promises were tested in some run, and why the others were not."""
    every = report.invariants
    tested = sum(each.tested > 0 for each in every.values())
    why = [f"{len(report.vacuous)} without a reason ({NEVER})"] if report.vacuous else []
    why += [f"{len(report.untested)} as the nemesis declares"] if report.untested else []
    why += [f"{len(report.unconcerned)} because no run has their subject"] if report.unconcerned else []
    rest = len(every) - tested - len(report.vacuous) - len(report.untested) - len(report.unconcerned)
    why += [f"{rest} as no run decided them"] if rest else []
    sum_of = f"{tested} of {some(len(every), 'promise')} were tested in some run"
    return f"{sum_of}; not tested: {', '.join(why)}." if why else f"{sum_of}."


def _promises(report: Report) -> Iterator[tuple[str, ...]]:
    for name, each in report.invariants.items():
        runs = (each.held_runs, each.violated_runs, each.excused_runs, each.inconclusive_runs, each.vacuous_runs)
        yield (name, *_numbers(each.tested, *runs), _worst(each), promised(report, name))


def promised(report: Report, name: str) -> str:
    """What a promise says, and the findings by which it was violated in some of the runs."""
    shown = [known for known in report.known if name in KNOWN_FINDINGS[known].shows]
    met = [f'{some(report.known[known].runs, "run")} met {known}, "{KNOWN_FINDINGS[known].title}"' for known in shown]
    title = INVARIANTS[name].title
    return f"{title} ({'; '.join(met)})" if met and report.invariants[name].violated_runs else title


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


def _vacuous(report: Report, most: int | None = None) -> Section:
    """``most``: promises that are named."""
    known = NothingVacuous()
    number = len(report.vacuous)
    runs, promises = some(report.runs, "run"), "this promise" if number == 1 else f"these {number} promises"
    them = "it" if number == 1 else "them"
    lines = [
        f"None of {runs} tested {promises}, and the campaign says nothing about {them} ({known.id}: {known.title})",
        *(f"{name:<3}  {INVARIANTS[name].title}" for name in report.vacuous[:most]),
    ]
    if rest := report.vacuous[len(lines) - 1 :]:
        lines.append(f"and {some(len(rest), 'other')}: {', '.join(rest)}")
    lines.append(how_many_were_tested(report))
    return Section(NEVER, before=lines, style=STYLES["inconclusive"])


def _known(report: Report) -> Section:
    columns = (">runs", "known", "what it is", "seeds", "again")
    rows = [
        (f"{each.runs:,}", name, KNOWN_FINDINGS[name].title, ", ".join(map(str, each.seeds)), each.reproduce)
        for name, each in report.known.items()
    ]
    whose = [f"{name}, {KNOWN_FINDINGS[name].told}." for name in report.known if KNOWN_FINDINGS[name].study]
    if len(whose) < len(report.known):
        whose.insert(0, "Kafka itself does this (docs/findings.md).")
    before = [*whose, "A run that also violates another promise is a failure."]
    return Section("Findings that showed", columns, rows, before)


def _signatures(report: Report) -> Section:
    if not report.signatures:
        return Section(NO_FAILURES, before=["none"])
    columns = (">runs", "what failed", "what is promised", "first met", "again", "kept in")
    rows = []
    for each in report.signatures:
        first = f"the {ordinal(each.number)} run to end, after {each.at_s:,.1f} s"
        kept = ", ".join(each.kept[:KEPT_SHOWN]) or "not kept"
        more = f" and {len(each.kept) - KEPT_SHOWN} more" if len(each.kept) > KEPT_SHOWN else ""
        promised = INVARIANTS.get(each.signature.partition(":")[0])
        title = "" if promised is None else promised.title
        rows.append((f"{each.runs:,}", each.signature, title, first, each.reproduce, kept + more))
    return Section(FAILURES, columns, rows)


def _failures(report: Report) -> Iterator[str]:
    """Each kind of failure in a few lines: what was violated, the first evidence, and how to see it."""
    if not report.signatures:
        yield "none"
    for each in report.signatures[:BRIEFLY]:
        name = each.signature.partition(":")[0]
        title = f"{name} {INVARIANTS[name].title}" if name in INVARIANTS else each.signature
        yield f"{some(each.runs, 'run')}: {title}"
        yield f"  {each.sentence.removeprefix(f'{name} was violated: ')}"
        seed = f"seed {each.seeds[0]}, " if each.seeds else ""
        if each.beside:
            yield f"  {beside(each)}"
        yield f"  first: {seed}the {ordinal(each.number)} run to end, after {each.at_s:,.1f} s"
        yield f"  again with  {each.reproduce}"
        if each.kept:
            yield f"  kept in {report.directory}/{each.kept[0]}"
    if (rest := len(report.signatures) - BRIEFLY) > 0:
        yield f"and {some(rest, 'other kind')}"


def beside(failure: Signature) -> str:
    """``also violated: T15 (seed 7)``: what broke in the same runs."""
    told = [
        f"{name} ({'seed' if len(seeds) == 1 else 'seeds'} {', '.join(map(str, seeds))})"
        for name, seeds in failure.beside.items()
    ]
    return f"also violated: {', '.join(told)}" if told else ""


def _mismatches(report: Report) -> Section:
    lines = ["This is a bug of Krift. Do not trust its verdicts before it is fixed:"]
    return Section(MISMATCHES, before=[*lines, *report.kept.mismatches], style=BAD)


def conclusion(report: Report) -> Iterator[str]:
    """What it came to, in a few lines."""
    low, high = report.seeds
    unexpected = "with violations, by the planted defect" if all_caught(report) else "not as expected"
    words = {0: "as expected", 1: unexpected, 3: "undecided", 4: "not carried out"}
    codes = ", ".join(f"{runs:,} {words[code]}" for code, runs in report.exit_codes.items())
    of = "" if report.runs == report.asked else f" of {report.asked:,}"
    yield f"runs        {report.runs:,}{of} (seeds {low}-{high}): {codes or 'none'}"
    yield (
        f"speed       {report.runs_per_minute:,.1f} runs a minute; {report.virtual_s:,.0f} s of virtual time and "
        f"{some(report.events, 'event')} in {report.wall_s:,.1f} s"
    )
    if report.first_failure is not None:
        first = report.first_failure
        yield f"failed      for the first time in the {ordinal(first.runs)} run to end, after {first.wall_s:,.1f} s"
    kept = report.kept
    equal = "with equal findings" if not kept.mismatches else f"with {len(kept.mismatches)} MISMATCHES"
    yield (
        f"traces      {kept.failures} of failures, {kept.sample} of others; {kept.repeated} repeated, event by event "
        f"the same; {kept.rechecked} checked again in Spark, {equal}"
    )
    yield f"outcome     {outcome(report)}"
    yield f"kept in     {report.directory}"


def outcome(report: Report) -> str:
    """What a campaign came to, in a sentence."""
    if report.interrupted:
        return "interrupted"
    if report.exit_code == 1 and all_caught(report):
        if elsewhere := sum(each.elsewhere for each in report.planted.values()):
            runs = f"{some(elsewhere, 'run')} {'violates' if elsewhere == 1 else 'violate'}"
            return f"{_caught(report)}; {runs} other promises alone: run the same seeds without the defect"
        return f"{_caught(report)}, as planned; krift ends with 1, as promises were violated"
    word = {0: "as expected", 1: "NOT as expected", 3: "UNDECIDED", 4: "NOT CARRIED OUT"}[report.exit_code]
    return word if report.exit_code in report.exit_codes else f"{word}: {_beyond_the_runs(report)}"


def headlines(report: Report) -> Iterator[str]:
    """What a reader must know who reads nothing else: what was planted and caught, what was lost, what failed."""
    for name, each in report.planted.items():
        about = f" ({DEFECTS[name].about.rstrip('.')})" if name in DEFECTS else ""
        catcher = f", by {each.caught_by} ({INVARIANTS[each.caught_by].title})" if each.caught else ""
        yield f"planted on purpose: {name}{about}; caught in {each.caught:,} of {some(each.runs, 'run')}{catcher}"
    lost, tested = report.lost, report.invariants.get(ACKNOWLEDGED)
    if lost.runs:
        yield f"LOST: {some(lost.records, 'record')} {LOSSES['']}, in {some(lost.runs, 'run')} ({_seeds(lost)})"
    for rule, each_lost in report.given_up.items():
        where = f"in {some(each_lost.runs, 'run')} ({_seeds(each_lost)})"
        yield f"LOST: {some(each_lost.records, 'record')} {LOSSES.get(rule, rule)}, {where}"
    if not lost.runs and report.signatures and tested is not None and tested.tested and not tested.violated_runs:
        yield f"no record acknowledged with acks=all was lost against the rules (tested {times(tested.tested)})"
    yield _failed(report)


def _seeds(lost: LostTally) -> str:
    """``seeds 2, 3, 4 and 7 more``."""
    more = f" and {lost.runs - len(lost.seeds)} more" if lost.runs > len(lost.seeds) else ""
    return f"{'seed' if lost.runs == 1 else 'seeds'} {', '.join(map(str, lost.seeds))}{more}"


def _failed(report: Report) -> str:
    """How many runs failed, or that nothing did."""
    failed = sum(each.runs for each in report.signatures)
    begin = some(report.runs, "run")
    if report.interrupted:
        begin = f"Interrupted after {report.runs:,} of {some(report.asked, 'run')}"
    broken = [name for name, each in report.invariants.items() if each.violated_runs]
    if failed:
        unexpected = "with violations, by the planted defect" if all_caught(report) else "not as expected"
        known = sum(each.runs for each in report.known.values())
        beside = f"; {known:,} met a known finding (below)" if known else ""
        return f"{begin}: {failed:,} {unexpected}, in {some(len(report.signatures), 'way')}{beside}"
    return (
        f"{begin}: all as expected; violated{_because_of(report)}: {', '.join(broken)}"
        if broken
        else f"{begin}: nothing violated"
    )


def _because_of(report: Report) -> str:
    """Why violations are no failures: a finding about Kafka shows, or the scenario expects them."""
    kafkas = [name for name in report.known if not KNOWN_FINDINGS[name].study]
    return f", as expected or as Kafka itself does ({', '.join(kafkas)})" if kafkas else ", as expected"


def all_caught(report: Report) -> bool:
    """Whether every run that failed had a planted defect, and each was caught somewhere."""
    planted = report.planted.values()
    failed = sum(each.runs for each in report.signatures)
    return bool(planted) and all(each.caught for each in planted) and max(each.runs for each in planted) >= failed


def _caught(report: Report) -> str:
    parts = [
        f"{name} was caught in {each.caught:,} of {some(each.runs, 'run')}" for name, each in report.planted.items()
    ]
    return f"the planted defect {', '.join(parts)}"


def tone(report: Report) -> Status:
    """The status in whose colour the outcome of a campaign stands: that a planted defect was caught is good news."""
    beside = any(each.elsewhere for each in report.planted.values())
    codes: dict[int, Status] = {0: "held", 1: "held" if all_caught(report) and not beside else "violated"}
    return codes.get(report.exit_code, "inconclusive")


def _style(report: Report) -> str:
    """How the headlines of a campaign look."""
    return STYLES[tone(report)]


def _beyond_the_runs(report: Report) -> str:
    """What decides where no run came to that."""
    if report.kept.mismatches:
        number = len(report.kept.mismatches)
        return f"{some(number, 'mismatch', 'mismatches')}, which {'is' if number == 1 else 'are'} above"
    reasons = []
    if report.vacuous:
        few = len(report.vacuous) <= BRIEFLY
        named = ", ".join(report.vacuous) if few else some(len(report.vacuous), "promise")
        reasons.append(f"not one run tested {named}")
    reasons += (
        [f"tested {some(len(report.belied), 'promise')} that the nemesis calls untested"] if report.belied else []
    )
    return "; ".join(reasons) or "no run was carried out"


def _numbers(*values: int) -> tuple[str, ...]:
    return tuple(f"{value:,}" for value in values)
