"""Verdicts for people: one run in full, many runs as a table."""

from __future__ import annotations

from collections.abc import Sequence

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from chaos.words import some, times
from orchestrator.invariants.folds.fold import Status
from orchestrator.report.console import Page, printable
from orchestrator.verdict import InvariantVerdict, Verdict, Violation

STYLES: dict[Status, str] = {
    "violated": "bold red",
    "inconclusive": "magenta",
    "held": "green",
    "excused": "yellow",
    "vacuous": "dim",
}
"""The worst first."""

MEANINGS: dict[Status, str] = {
    "violated": "broken, with proof",
    "inconclusive": "cannot be told from this run",
    "held": "put to the test that often, never broken",
    "excused": "seen to give way only where the scenario or Kafka's contract allows it",
    "vacuous": "nothing in this run tested it, so nothing is known",
}
VIOLATIONS_SHOWN = 3


def title(verdict: Verdict) -> str:
    """``kip-207 (off), sim, seed 7``."""
    variant = f" ({verdict.variant})" if verdict.variant else ""
    return f"{verdict.scenario}{variant}, {verdict.runtime}, seed {verdict.seed}"


def print_verdict(page: Page, verdict: Verdict) -> None:
    """One run: violations with their evidence, every invariant with how often it was tested, and the conclusion."""
    about = f": {verdict.about}" if verdict.about else ""
    page.say(title(verdict) + about, "bold")
    page.say()
    for each in verdict.invariants:
        if each.status == "violated" or each.violations:
            _print_violations(page, each)
    page.show(_invariants(verdict))
    page.say()
    for status in STYLES:
        if any(each.status == status for each in verdict.invariants):
            page.say(f"{status:<12}  {MEANINGS[status]}", "dim")
    page.say()
    time = "virtual time" if verdict.runtime == "sim" else "wall time"
    recorded = f"{some(verdict.events, 'event')}, {some(verdict.rpcs, 'RPC')}"
    page.say(f"recorded    {recorded} in {verdict.duration:.1f} s of {time}")
    page.say(f"trace       {verdict.digest or 'none'}", "dim")
    for line in conclusion(verdict):
        page.say(line)


def conclusion(verdict: Verdict) -> list[str]:
    """What was expected and what came of it, in a few lines."""
    expects = verdict.expects
    parts = [f"{', '.join(ids)} violated" for ids in [expects.violated] if ids]
    parts += [f"{', '.join(ids)} held" for ids in [expects.held] if ids]
    parts += [f"{', '.join(ids)} excused" for ids in [expects.excused] if ids]
    parts += [f"{', '.join(ids)} may be violated" for ids in [expects.may] if ids]
    lines = [f"expected    {'; '.join(parts) or 'nothing violated'}"]
    if verdict.must_happen:
        seen = [name if was_seen else f"{name} (NEVER SEEN)" for name, was_seen in verdict.must_happen.items()]
        lines.append(f"must happen {', '.join(seen)}")
    lines.append(f"outcome     {outcome(verdict)}")
    lines += [f"  unexpected: {text}" for text in verdict.unexpected]
    lines += [f"  undecided: {text}" for text in verdict.undecided]
    lines += [f"  known: {name}, which Kafka itself does (docs/findings.md)" for name in verdict.known]
    return lines


def outcome(verdict: Verdict) -> str:
    """``violated, as expected``."""
    if verdict.expected:
        return f"{verdict.outcome}, {'as Kafka does' if verdict.known else 'as expected'}"
    return f"{verdict.outcome}, NOT as expected" if verdict.unexpected else f"{verdict.outcome}, and UNDECIDED"


def _invariants(verdict: Verdict) -> Table:
    """Those that the scenario is about come first, then the worst."""
    named = {*verdict.expects.violated, *verdict.expects.held}
    ranks = list(STYLES)
    table = Table(box=None, pad_edge=False, header_style="dim", show_edge=False)
    table.add_column("promise", no_wrap=True)
    table.add_column("status", no_wrap=True)
    table.add_column("tested", justify="right", no_wrap=True)
    table.add_column("what is promised")
    for each in sorted(verdict.invariants, key=lambda each: (each.id not in named, ranks.index(each.status))):
        table.add_row(each.id, Text(each.status, STYLES[each.status]), f"{each.tested:,}", printable(_remark(each)))
    return table


def _remark(each: InvariantVerdict) -> str:
    notes = [f"excused {times(count)}: {rule}" for rule, count in sorted(each.excused.items())]
    if each.why and each.status in ("vacuous", "inconclusive"):
        notes.append(each.why)
    return f"{each.title} ({'; '.join(notes)})" if notes else each.title


def _print_violations(page: Page, each: InvariantVerdict) -> None:
    """Each sentence once, with how often it was found, and where for the first time."""
    seemed = "was" if each.status == "violated" else "seems to have been"
    heading = f"{each.id} {seemed} violated {times(each.violated)} (tested {times(each.tested)}): {each.title}"
    page.show(Text(printable(heading), STYLES[each.status]))
    shown = each.violations[:VIOLATIONS_SHOWN]
    for violation in shown:
        page.show(Padding(Text(printable(violation.sentence)), (0, 0, 0, 2), expand=False))
        page.show(Padding(Text(printable(_evidence(violation)), "dim"), (0, 0, 0, 6), expand=False))
    rest = each.violated - sum(violation.times for violation in shown)
    if rest > 0:
        others = f"and {times(rest)} with other words or numbers (verdict.json has some of them)"
        page.show(Padding(Text(others), (0, 0, 0, 2), expand=False))
    page.say()


def _evidence(violation: Violation) -> str:
    first = f"{times(violation.times)}, first" if violation.times > 1 else "once"
    causes = f"; caused by {', '.join(violation.causes)}" if violation.causes else ""
    known = f"; {violation.known}" if violation.known else ""
    return f"{first} in the events {', '.join(violation.events)}{causes}{known}"


def one_line(verdict: Verdict) -> str:
    """A run among many."""
    counts: dict[str, list[str]] = {}
    for each in verdict.invariants:
        counts.setdefault(each.status, []).append(each.id)
    found = [f"violated {' '.join(counts['violated'])}"] if "violated" in counts else []
    found.append(f"held {len(counts.get('held', ()))} of {len(verdict.invariants)}")
    mark = "ok" if verdict.expected else "!!"
    reasons = "" if verdict.expected else f"; {'; '.join([*verdict.unexpected, *verdict.undecided][:2])}"
    reasons += f"; known: {', '.join(verdict.known)}" if verdict.known else ""
    return f"{mark} {title(verdict)}: {', '.join(found)}, {some(verdict.events, 'event')}{reasons}"


def print_contrast(page: Page, verdicts: Sequence[Verdict]) -> None:
    """Many runs side by side, a column for each variant: of the invariants that did not come out alike everywhere in
    how many runs each was violated, held, ... and how often it was tested at the least; the others by name."""
    variants = list(dict.fromkeys(verdict.variant for verdict in verdicts))
    columns = [[verdict for verdict in verdicts if verdict.variant == variant] for variant in variants]
    table = Table(box=None, pad_edge=False, header_style="dim", show_edge=False, padding=(0, 3, 0, 0))
    table.add_column("promise", no_wrap=True)
    for variant, runs in zip(variants, columns, strict=True):
        table.add_column(f"{printable(variant) or 'plain'}, {some(len(runs), 'run')}")
    alike: dict[Status, list[str]] = {}
    for number, invariant in enumerate(each.id for each in verdicts[0].invariants):
        cells = [[verdict.invariants[number] for verdict in runs] for runs in columns]
        statuses = {each.status for cell in cells for each in cell}
        if len(statuses) == 1 and statuses <= {"held", "vacuous"}:
            alike.setdefault(statuses.pop(), []).append(invariant)
        else:
            table.add_row(invariant, *map(_cell, cells))
    table.add_row("as expected", *(_as_expected(runs) for runs in columns))
    page.show(table)
    for status, names in alike.items():
        page.show(Text(f"{status} in every run: {', '.join(names)}", STYLES[status]))


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
