"""Verdicts for people: one run in full, many runs as a table."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from chaos.words import some, switched_in_full, times, varied
from orchestrator.invariants.folds.fold import Status
from orchestrator.invariants.folds.known_findings import KNOWN_FINDINGS
from orchestrator.report import rules
from orchestrator.report.console import Page, printable
from orchestrator.report.headline import caught, headlines, most_excused, named, tone
from orchestrator.report.losses import ACKNOWLEDGED, loss_lines, worst_first
from orchestrator.story.moments import Step
from orchestrator.story.words import clock, listed, seconds
from orchestrator.verdict import InvariantVerdict, Verdict, Violation

LEFT_OUT = re.compile(r"\([\d,]+ lesser events? left out\)")
"""The last line of a story that says how much of it is missing."""

STORY_HEADING = "what happened, in seconds since time 0, when the cluster was steady (negative: before that)"

STYLES: dict[Status, str] = {
    "violated": "bold red",
    "inconclusive": "magenta",
    "held": "green",
    "excused": "yellow",
    "vacuous": "dim",
}
"""The worst first."""

MEANINGS: dict[Status, str] = {
    "violated": "broken; each violation names the events that prove it",
    "inconclusive": "this run cannot decide it",
    "held": "tested that often, and it held each time",
    "excused": "broken, but only where the scenario or Kafka's contract allows it; all its other tests passed",
    "vacuous": "not tested by this run, so nothing is known",
}
VIOLATIONS_SHOWN = 3
"""Violations of one promise that ``--full`` shows, of different sentences."""
IN_FULL = 2
"""As many violated promises are shown with their evidence, what nobody expected first; of more than these one."""
PATHS_SHOWN = 1
"""Of as many how it came to that, too."""
IN_BRIEF = 5
"""Of as many others there is a line each."""
GAVE_WAY_SHOWN = 3
"""Promises that gave way and that are shown with their evidence, those that did so most often; if the first has its
path, that one alone."""
ROWS_MAX = 12
"""As many promises that were violated or gave way have a row each; of more only those that gave way most often."""
AGAINST_SHOWN = 3
"""Reasons why a run was not as expected."""
NAMED_MAX = 10
"""A scenario that names more promises than these says that everything works: only those that did not hold are shown."""


def title(verdict: Verdict) -> str:
    """``kip-207 (off), sim, seed 7``."""
    return f"{varied(verdict.scenario, verdict.variant)}, {verdict.runtime}, seed {verdict.seed}"


def print_verdict(page: Page, verdict: Verdict, *, full: bool = False, story: bool = False) -> None:
    """One run, on a screen: headline, story, violations with their evidence, the promises that the scenario names or
    that did not hold, and the conclusion. ``full``: every promise with how often it was tested, and all evidence.
    ``story``: what happened, also where all went well."""
    about = f": {verdict.about}" if verdict.about else ""
    page.say(title(verdict) + about, "bold")
    for line in headlines(verdict):
        page.say(line, STYLES[status] if (status := tone(line)) else "")
    if verdict.setting:
        page.say(f"cluster: {verdict.setting}", "dim")
    page.say()
    if verdict.story and (story or worth_telling(verdict)):
        _print_story(page, verdict)
    _print_all_violations(page, verdict, full)
    _print_excuses(page, verdict, full)
    _print_promises(page, verdict, full)
    time = "virtual time" if verdict.runtime == "sim" else "wall time"
    recorded = f"{some(verdict.events, 'event')}, {some(verdict.rpcs, 'RPC')}"
    page.say(f"recorded    {recorded} in {verdict.duration:.1f} s of {time}")
    page.say(f"trace       {verdict.digest or 'none'}", "dim")
    for line in conclusion(verdict):
        page.say(line)


def worth_telling(verdict: Verdict) -> bool:
    """Whether anything broke, gave way, or was left undecided."""
    return not verdict.expected or any(each.status in ("violated", "excused") for each in verdict.invariants)


def _print_story(page: Page, verdict: Verdict) -> None:
    page.say(STORY_HEADING, "dim")
    for moment in verdict.story:
        style = STYLES["violated"] if " VIOLATED: " in moment.text else ""
        style = style or (STYLES["excused"] if moment.text.startswith(("MISSING", "LOST")) else "")
        # What is left out has no time of its own.
        at = "" if LEFT_OUT.fullmatch(moment.text) else clock(moment.at_us)
        text = f"{at:>9}  {moment.text}"
        page.show(Padding(Text(printable(text), style), (0, 0, 0, 0), expand=False))
    page.say()


def badness(each: InvariantVerdict) -> tuple[bool, bool, int]:
    """By which violated promises are sorted: what nobody expects comes first, of that lost records, then what broke
    first."""
    return each.weight != "unexpected", each.id != ACKNOWLEDGED, each.first_us or 0


def _print_all_violations(page: Page, verdict: Verdict, full: bool) -> None:
    broken = [each for each in verdict.invariants if each.status == "violated" or each.violations]
    broken.sort(key=badness)
    in_full = IN_FULL if len(broken) <= IN_FULL else 1
    shown = broken if full else broken[: in_full + IN_BRIEF]
    for number, each in enumerate(shown):
        most = VIOLATIONS_SHOWN if full else int(number < in_full)
        _print_violations(page, each, most, with_path=full or number < PATHS_SHOWN)
        if most or each is broken[-1]:
            page.say()
    if rest := len(broken) - len(shown):
        page.say(f"and {some(rest, 'other promise')} (--full lists them)", "dim")
        page.say()


def _print_excuses(page: Page, verdict: Verdict, full: bool) -> None:
    """The first evidence of each promise that gave way, and what the rule says that allows it, once. In brief only
    where nothing was violated."""
    gave_way = most_excused(verdict)
    if not full and verdict.outcome == "violated":
        return
    told: set[str] = set()
    for each in gave_way if full else _shown(gave_way):
        heading = f"{each.id} was excused (tested {times(each.tested)}): {each.title}"
        page.show(Text(printable(heading), STYLES["excused"]))
        for excuse in worst_first(each.excuses):
            events = f", in the events {', '.join(excuse.events)}" if excuse.events else ""
            how_often = f"{times(each.excused.get(excuse.rule, 1))}{_first(excuse.at_us)}{events}"
            page.show(Padding(Text(printable(excuse.sentence)), (0, 0, 0, 2), expand=False))
            rule = rules.in_short(excuse.rule) if excuse.rule in told else rules.in_full(each.id, excuse.rule)
            told.add(excuse.rule)
            page.show(Padding(Text(printable(f"{how_often}; {rule}"), "dim"), (0, 0, 0, 6), expand=False))
            if excuse.path:
                _print_path(page, excuse.path)
        page.say()


def _shown(gave_way: Sequence[InvariantVerdict]) -> Sequence[InvariantVerdict]:
    """Promises whose first excused breaks are shown in brief."""
    explained = any(excuse.path for each in gave_way[:1] for excuse in each.excuses)
    return gave_way[: 1 if explained else GAVE_WAY_SHOWN]


def _print_promises(page: Page, verdict: Verdict, full: bool) -> None:
    """The table, of all or of those that matter, what the words in it mean, and how the others came out."""
    expects = verdict.expects
    names = {*expects.violated, *expects.held, *expects.excused}
    shown = names if len(names) <= NAMED_MAX else set()
    broken = [each for each in verdict.invariants if each.status in ("violated", "excused")]
    rows = broken if len(broken) <= ROWS_MAX else most_excused(verdict)[:GAVE_WAY_SHOWN]
    chosen = [
        each for each in verdict.invariants if full or each.id in shown or each in rows or each.weight == "undecided"
    ]
    if chosen:
        page.show(_invariants(chosen, names))
    others = [each for each in verdict.invariants if each not in chosen]
    if others:
        counts = {status: sum(each.status == status for each in others) for status in STYLES}
        (status, number), *rest = ((status, number) for status, number in counts.items() if number)
        above = {"vacuous": " (not tested)"}
        came = [
            f"{some(number, 'other' if chosen else 'promise')} {status}{above.get(status, '')}",
            *(f"{many} {word}{above.get(word, '')}" for word, many in rest),
        ]
        page.say(f"{', '.join(came)} (--full lists them)", "dim")
    page.say()
    if full:
        for status in STYLES:
            if any(each.status == status for each in chosen):
                page.say(f"{status:<12}  {MEANINGS[status]}", "dim")
        page.say()


def conclusion(verdict: Verdict) -> list[str]:
    """What was expected and what came of it, in a few lines."""
    expects = verdict.expects
    wanted = ((expects.violated, "violated"), (expects.held, "held"), (expects.excused, "excused"))
    parts = [f"{_few(ids)} {what}" for ids, what in (*wanted, (expects.may, "may be violated")) if ids]
    alone = f", without the {'defect' if len(verdict.defects) == 1 else 'defects'}" if verdict.defects else ""
    lines = [f"expected    {'; '.join(parts) or f'nothing violated{alone}'}"]
    if verdict.must_happen:
        seen = [f"{name} ({'seen' if was else 'NEVER SEEN'})" for name, was in verdict.must_happen.items()]
        lines.append(f"must happen {', '.join(seen)}")
    if verdict.asked:
        told = [f"{name} ({'as expected' if was else 'NOT AS EXPECTED'})" for name, was in verdict.asked.items()]
        lines.append(f"answers     {', '.join(told)}")
    if verdict.defects:
        lines.append(f"defects     {', '.join(verdict.defects)}, planted on purpose")
    lines.append(f"outcome     {outcome(verdict)}")
    against = "with the defect" if caught(verdict) else "unexpected"
    lines += [f"  {against}: {text}" for text in verdict.unexpected[:AGAINST_SHOWN]]
    if (rest := len(verdict.unexpected) - AGAINST_SHOWN) > 0:
        lines.append(f"  {against}: {rest} more (verdict.json has them)")
    lines += [f"  undecided: {text}" for text in verdict.undecided]
    lines += [f"  known: {name}, {KNOWN_FINDINGS[name].told}" for name in verdict.known]
    lines += [f"  note: {each}" for each in verdict.remarks]
    return lines


def _few(ids: Sequence[str]) -> str:
    return ", ".join(ids) if len(ids) <= NAMED_MAX else f"{some(len(ids), 'promise')} ({ids[0]} and others)"


def outcome(verdict: Verdict) -> str:
    """``violated, as expected``. Where promises gave way, nobody says that all held; where a planted defect was caught,
    nobody says that this is bad news."""
    gave_way = sum(each.status == "excused" for each in verdict.invariants)
    came = verdict.outcome if verdict.outcome != "held" or not gave_way else f"nothing violated, {gave_way} excused"
    if verdict.expected:
        return f"{came}, {_as_whom(verdict.known)}"
    if verdict.unexpected and (catchers := caught(verdict)):
        defects = "defect was" if len(catchers) == 1 else "defects were"
        return f"{came}: the planted {defects} caught by {', '.join(dict.fromkeys(catchers))}, as planned"
    return f"{came}, NOT as expected" if verdict.unexpected else f"{came}, and UNDECIDED"


def _as_whom(known: Sequence[str]) -> str:
    if not known:
        return "as expected"
    return "as the proposal does" if all(KNOWN_FINDINGS[name].study for name in known) else "as Kafka does"


def _invariants(chosen: Sequence[InvariantVerdict], named: Collection[str]) -> Table:
    """Those that the scenario is about come first, then the worst."""
    ranks = list(STYLES)
    table = Table(box=None, pad_edge=False, header_style="dim", show_edge=False)
    table.add_column("promise", no_wrap=True)
    table.add_column("status", no_wrap=True)
    table.add_column("tested", justify="right", no_wrap=True)
    table.add_column("what is promised")
    for each in sorted(chosen, key=lambda each: (each.id not in named, ranks.index(each.status))):
        table.add_row(each.id, Text(each.status, STYLES[each.status]), f"{each.tested:,}", printable(remark(each)))
    return table


def remark(each: InvariantVerdict) -> str:
    first = {excuse.rule: excuse.at_us for excuse in each.excuses}
    notes = [
        f"excused {times(count)}{_first(first.get(rule))}: {rules.because(rule)}"
        for rule, count in sorted(each.excused.items())
    ]
    if each.why and each.status in ("vacuous", "inconclusive"):
        notes.append(each.why)
    return f"{each.title} ({'; '.join(notes)})" if notes else each.title


def _print_violations(page: Page, each: InvariantVerdict, most: int, *, with_path: bool) -> None:
    """What an invariant was violated by: when first, each sentence once with how often it was found, the way there."""
    seemed = "was" if each.status == "violated" else "seems to have been"
    tested = f"(tested {times(each.tested)})"
    heading = f"{each.id} {seemed} violated {times(each.violated)} {tested}{_first(each.first_us)}: {each.title}"
    page.show(Text(printable(heading), STYLES[each.status]))
    shown = each.violations[:most]
    for violation in shown:
        page.show(Padding(Text(printable(violation.sentence)), (0, 0, 0, 2), expand=False))
        page.show(Padding(Text(printable(_evidence(violation)), "dim"), (0, 0, 0, 6), expand=False))
        if with_path and violation.path:
            _print_path(page, violation.path)
    rest = each.violated - sum(violation.times for violation in shown)
    if rest > 0 and most:
        others = f"and {times(rest)} with other nodes{_others(each, shown)} or numbers (verdict.json has some of them)"
        page.show(Padding(Text(others), (0, 0, 0, 2), expand=False))


def _others(each: InvariantVerdict, shown: Sequence[Violation]) -> str:
    """`` (list-offsets-1)``: nodes that prove further violations, and none of those that are shown."""
    told = {event.partition("/")[0] for violation in shown for event in violation.events}
    nodes = dict.fromkeys(event.partition("/")[0] for violation in each.violations for event in violation.events)
    more = [node for node in nodes if node not in told]
    return f" ({listed(more)})" if more else ""


def _print_path(page: Page, path: Sequence[Step]) -> None:
    page.show(Padding(Text("how it happened", "dim"), (0, 0, 0, 6), expand=False))
    for step in path:
        text = Text(f"{clock(step.at_us)}  {printable(step.text)}")
        text.append(f"  {step.event}", "dim")
        page.show(Padding(text, (0, 0, 0, 8), expand=False))


def _first(at_us: int | None) -> str:
    return "" if at_us is None else f", first at {seconds(at_us)}"


def _evidence(violation: Violation) -> str:
    at = "" if violation.at_us is None else f" at {seconds(violation.at_us)}"
    first = f"{times(violation.times)}, first{at}" if violation.times > 1 else f"once{at}"
    events = f" in the events {', '.join(violation.events)}" if violation.events else ""
    causes = f"; caused by {', '.join(violation.causes)}" if violation.causes else ""
    known = f"; {violation.known}" if violation.known else ""
    return f"{first}{events}{causes}{known}"


def one_line(verdict: Verdict) -> str:
    """A run among many."""
    violated = [each for each in verdict.invariants if each.status == "violated"]
    found = [f"violated {named(violated)}"] if violated else []
    found.append(f"held {sum(each.status == 'held' for each in verdict.invariants)} of {len(verdict.invariants)}")
    mark = "ok" if verdict.expected else "!!"
    reasons = "" if verdict.expected else f"; {'; '.join([*verdict.unexpected, *verdict.undecided][:2])}"
    reasons += f"; known: {', '.join(verdict.known)}" if verdict.known else ""
    reasons += "".join(f"; {each}" for each in loss_lines(verdict, "lost", "missing"))
    reasons += f"; planted: {', '.join(verdict.defects)}" if verdict.defects else ""
    return f"{mark} {title(verdict)}: {', '.join(found)}, {some(verdict.events, 'event')}{reasons}"


def print_contrast(page: Page, verdicts: Sequence[Verdict], *, full: bool = False) -> None:
    """Many runs side by side, a column for each variant: of the invariants that did not come out alike everywhere in
    how many runs each was violated, held, ... and how often it was tested at the least; the number of the others.
    ``full``: all of them."""
    variants = list(dict.fromkeys(verdict.variant for verdict in verdicts))
    columns = [[verdict for verdict in verdicts if verdict.variant == variant] for variant in variants]
    table = Table(box=None, pad_edge=False, header_style="dim", show_edge=False, padding=(0, 3, 0, 0))
    table.add_column("promise", no_wrap=True)
    for variant, runs in zip(variants, columns, strict=True):
        table.add_column(f"{printable(switched_in_full(variant)) or 'plain'}, {some(len(runs), 'run')}")
    table.add_column("what is promised")
    alike: dict[Status, int] = {}
    for number, invariant in enumerate(verdicts[0].invariants):
        cells = [[verdict.invariants[number] for verdict in runs] for runs in columns]
        statuses = {each.status for cell in cells for each in cell}
        if not full and len(statuses) == 1 and statuses <= {"held", "vacuous"}:
            status = statuses.pop()
            alike[status] = alike.get(status, 0) + 1
        else:
            table.add_row(invariant.id, *map(_cell, cells), printable(invariant.title))
    table.add_row("as expected", *(_as_expected(runs) for runs in columns), "")
    page.show(table)
    for status, number in alike.items():
        page.show(Text(f"{status} in every run: {some(number, 'promise')} (--full lists them)", STYLES[status]))


def _cell(every: Sequence[InvariantVerdict]) -> Text:
    by_status = {status: sum(each.status == status for each in every) for status in STYLES}
    worst = next(status for status in STYLES if by_status[status])
    least = min(each.tested for each in every)
    if len(every) == 1:
        how_often = times(every[0].violated) if worst == "violated" else some(least, "test")
        return Text(f"{worst} ({how_often})" if least or worst == "violated" else worst, STYLES[worst])
    shown = [f"{status} {number} of {len(every)}" for status, number in by_status.items() if number]
    how_often = f"; {least:,}+ tests each" if any(each.tested for each in every) else ""
    return Text(f"{', '.join(shown)}{how_often}", STYLES[worst])


def _as_expected(runs: Sequence[Verdict]) -> Text:
    number = sum(verdict.expected for verdict in runs)
    if len(runs) == 1:
        return Text("yes" if number else "NO", "" if number else STYLES["violated"])
    return Text(f"{number} of {len(runs)}", "" if number == len(runs) else STYLES["violated"])
