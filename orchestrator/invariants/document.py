"""Writes docs/invariants.md from the registry: ``python -m orchestrator.invariants.document``."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from actors.defects.catalogue import DEFECTS
from chaos.scenario.invariant_ids import FAMILIES
from orchestrator.invariants.folds.bounds import BOUNDS, SLACK_US, Timer, bound_us
from orchestrator.invariants.folds.fold import Invariant, Profile, Route
from orchestrator.invariants.registry import INVARIANTS, OVER_RUNS, folds

DOCUMENT_FILE = Path("docs/invariants.md")
"""Where it stands in the repository."""

HEAD = """\
# Invariants

Krift checks these invariants over the trace of every run. This file is generated:
`python -m orchestrator.invariants.document` writes it.

Each invariant ends a run with one of these statuses:

| status | meaning |
|---|---|
| held | the run tested it, and no event broke it |
| violated | it was broken; the evidence names the events that prove it |
| excused | it was broken only where one of its rules allows that; the excused cases are counted |
| inconclusive | undecided: the trace lacks events that the check needs |
| vacuous | the run did not test it, or the feature that it depends on is off |

*Tested* defines one test. *Key* is the key by which the trace is split, so that each part can be judged by itself
(`orchestrator/invariants/folds/routes.py`). *Defects* are bugs planted on purpose (`krift run --defect NAME`) that this
invariant must catch; `tests/scenario/test_defects.py` shows that it catches each of them, in a run that holds without
the defect. *Does not see* lists cases that the promise covers and the check does not: a bug there passes unnoticed.
"""


NOT_JUDGED = """\
## Not judged

- **P19**, a reassignment of replicas never leaves too few of them: Krift has no reassignment.
"""


BOUNDS_HEAD = f"""\
Progress is due within a bound after its obligation began, or after the beginning of the stability window in which it is
judged (docs/scenarios.md). A bound is the sum of Kafka's timers on the path, each with the longest value of any node of
the run, of the bounds of earlier steps (*after*), and {SLACK_US // 1_000_000} seconds. The value in brackets is for
Kafka's defaults. If every window was too short, the invariant is vacuous, and says so.
"""


def document() -> str:
    """The file's content."""
    return "\n".join([HEAD, *_families(), *_over_runs(), NOT_JUDGED, *_bounds(), *_defects()])


def entry(invariant: Invariant) -> str:
    """What the document says of one invariant."""
    lines = [f"### {invariant.id}: {invariant.title}", "", inspect.getdoc(type(invariant)) or "", ""]
    lines += [f"- **Source:** {invariant.source}", f"- **Tested** when {invariant.tested_when}."]
    lines.append(f"- **Key:** {_route(invariant).about}")
    events = dict.fromkeys(str(kind.__struct_config__.tag) for kind in invariant.depends_on)
    lines.append(f"- **Events:** {_events(list(events))}")
    if invariant.requires:
        lines.append(f"- **Vacuous** where off: {', '.join(f'`{name}`' for name in invariant.requires)}")
    if invariant.at:
        values = " and ".join(f"`{name}` is `{value}`" for name, value in invariant.at.items())
        lines.append(f"- **Vacuous** unless {values}")
    if invariant.of_groups:
        lines.append("- **Vacuous** where no consumer has a group")
    if invariant.of_transactions:
        lines.append("- **Vacuous** where no client has transactions")
    if invariant.promised_by:
        lines.append(f"- **Promised** only if this is on, but judged also if it is off: `{invariant.promised_by}`")
    if invariant.ghost:
        lines.append(f"- **Inconclusive** if the source of the trace has no {invariant.ghost}")
    lines += [f"- **{_excused(invariant, rule)}** ({rule}): {when}" for rule, when in invariant.exemptions.items()]
    lines += [f"- **Does not see:** {what}" for what in invariant.unseen]
    defects = [defect for defect in DEFECTS.values() if defect.caught_by == invariant.id]
    lines.append(f"- **Defects:** {', '.join(f'`{defect.name}`' for defect in defects)}")
    return "\n".join(lines) + "\n"


def _excused(invariant: Invariant, rule: str) -> str:
    return "Not promised" if rule in invariant.not_promised else "Excused"


def _families() -> Iterator[str]:
    for letter, members in groupby(INVARIANTS.values(), key=lambda invariant: invariant.id[0]):
        name = FAMILIES[letter]
        yield f"## {letter}: {name}\n"
        yield from map(entry, members)


def _over_runs() -> Iterator[str]:
    yield "## Over a campaign\n"
    yield "Judged by the counts of all runs together (`krift campaign`), not by a single run.\n"
    for each in OVER_RUNS:
        yield f"### {each.id}: {each.title}\n\n{inspect.getdoc(type(each))}\n"
        yield f"- **Source:** {each.source}\n- **Tested** when {each.tested_when}.\n"


def _bounds() -> Iterator[str]:
    yield "## Bounds\n"
    yield BOUNDS_HEAD
    yield "| invariant | required progress | timers | after |\n|---|---|---|---|"
    for name, bound in BOUNDS.items():
        timers = "<br>".join(f"{_times(timer)}`{timer.key}`{_whose(timer)}: {timer.why}" for timer in bound.timers)
        default = bound_us(Profile(), name) / 1_000_000
        yield f"| {name} ({default:g} s) | {bound.what} | {timers or 'none'} | {', '.join(bound.after) or 'nothing'} |"
    yield ""


def _times(timer: Timer) -> str:
    return "" if timer.times == 1 else f"{timer.times:g} × "


def _whose(timer: Timer) -> str:
    return "" if timer.who == "server" else f" of a {timer.who}"


def _events(names: list[str]) -> str:
    """The events that a judgement rests on; "all" is shorter than all of them."""
    return "all" if len(names) > 20 else ", ".join(f"`{name}`" for name in names)


def _route(invariant: Invariant) -> Route:
    return next(fold.route for fold in folds([invariant.id]) if invariant.id in {each.id for each in fold.invariants})


def _defects() -> Iterator[str]:
    yield "## Defects\n"
    yield "| name | in | caught by | the bug | real bug |\n|---|---|---|---|---|"
    for defect in DEFECTS.values():
        yield f"| `{defect.name}` | `{defect.where}` | {defect.caught_by} | {defect.about} | {defect.source} |"
    yield ""


def main() -> None:
    """Write it, from the root of the repository."""
    DOCUMENT_FILE.write_text(document(), encoding="utf-8")


if __name__ == "__main__":
    main()
