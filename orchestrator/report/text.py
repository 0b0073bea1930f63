"""Verdicts for people: one run in full, many runs as a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from orchestrator.verdict import InvariantVerdict, Verdict

STYLES = {"held": "green", "violated": "bold red", "excused": "yellow", "inconclusive": "magenta", "vacuous": "dim"}
VIOLATIONS_SHOWN = 3


def title(verdict: Verdict) -> str:
    """``kip-207 (off), sim, seed 7``."""
    variant = f" ({verdict.variant})" if verdict.variant else ""
    return f"{verdict.scenario}{variant}, {verdict.runtime}, seed {verdict.seed}"


def print_verdict(console: Console, verdict: Verdict) -> None:
    """One run: violations with their evidence, every invariant with how often it was tested, and the conclusion."""
    console.print(Text(title(verdict), style="bold"))
    for each in verdict.invariants:
        if each.status == "violated":
            _print_violation(console, each)
    table = Table(box=None, pad_edge=False, header_style="dim", show_edge=False)
    for name, justify in (("", "left"), ("status", "left"), ("tested", "right"), ("promise", "left")):
        table.add_column(name, justify=justify)  # type: ignore[arg-type]  # rich wants literals
    for each in verdict.invariants:
        table.add_row(each.id, Text(each.status, STYLES[each.status]), f"{each.tested:,}", _remark(each))
    console.print(table)
    console.print(
        f"{verdict.events:,} events, {verdict.rpcs:,} RPCs, {verdict.duration:.1f} s, digest {verdict.digest[:16]}"
    )
    for line in conclusion(verdict):
        console.print(line)
    console.print()


def conclusion(verdict: Verdict) -> list[str]:
    """The outcome against what was expected, in a line or a few."""
    lines = [f"outcome: {verdict.outcome}, {'as expected' if verdict.expected else 'NOT as expected'}"]
    lines += [f"  unexpected: {text}" for text in verdict.unexpected]
    lines += [f"  undecided: {text}" for text in verdict.undecided]
    return lines


def _remark(each: InvariantVerdict) -> str:
    notes = [f"excused {count:,}: {rule}" for rule, count in sorted(each.excused.items())]
    if each.why and each.status in ("vacuous", "inconclusive"):
        notes.append(each.why)
    return f"{each.title} [{'; '.join(notes)}]" if notes else each.title


def _print_violation(console: Console, each: InvariantVerdict) -> None:
    console.print(Text(f"{each.id} violated {each.violated:,} times: {each.title}", style=STYLES["violated"]))
    for violation in each.violations[:VIOLATIONS_SHOWN]:
        console.print(f"  {violation.sentence}")
        console.print(Text(f"    events {', '.join(violation.events)}", style="dim"))
        if violation.causes:
            console.print(Text(f"    caused by {', '.join(violation.causes)}", style="dim"))


def one_line(verdict: Verdict) -> str:
    """A run among many."""
    counts: dict[str, list[str]] = {}
    for each in verdict.invariants:
        counts.setdefault(each.status, []).append(each.id)
    violated = f" violated {' '.join(counts['violated'])}," if "violated" in counts else ""
    held = len(counts.get("held", ()))
    mark = "ok " if verdict.expected else "!! "
    return f"{mark}{title(verdict)}:{violated} held {held} of {len(verdict.invariants)}, {verdict.events:,} events"


def print_contrast(console: Console, verdicts: Sequence[Verdict]) -> None:
    """Many runs: per invariant and variant in how many runs it was violated, held, and how often it was tested."""
    variants = list(dict.fromkeys(verdict.variant for verdict in verdicts))
    table = Table(box=None, pad_edge=False, header_style="dim", show_edge=False)
    table.add_column("")
    for variant in variants:
        runs = sum(verdict.variant == variant for verdict in verdicts)
        table.add_column(f"{variant or 'plain'} ({runs} run{'s' if runs > 1 else ''})")
    for invariant in (each.id for each in verdicts[0].invariants):
        cells = [
            _cell(
                each
                for verdict in verdicts
                if verdict.variant == variant
                for each in verdict.invariants
                if each.id == invariant
            )
            for variant in variants
        ]
        table.add_row(invariant, *cells)
    console.print(table)


def _cell(results: Iterable[InvariantVerdict]) -> Text:
    every = list(results)
    by_status = {status: sum(each.status == status for each in every) for status in STYLES}
    shown = [f"{status} {number}/{len(every)}" for status, number in by_status.items() if number]
    worst = next((status for status in ("violated", "inconclusive", "held", "excused") if by_status[status]), "vacuous")
    tested = min(each.tested for each in every)
    return Text(f"{', '.join(shown)}, tested {tested:,}{'+' if len(every) > 1 else ''}", STYLES[worst])
