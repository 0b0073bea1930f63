"""Writes docs/invariants.md from the registry: ``python -m orchestrator.invariants.document``."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from actors.defects import DEFECTS
from chaos.scenario.invariant_ids import FAMILIES
from orchestrator.invariants.fold import Invariant, Route
from orchestrator.invariants.registry import INVARIANTS, folds

DOCUMENT_FILE = Path("docs/invariants.md")
"""Where it stands in the repository."""

HEAD = """\
# Invariants

What Krift checks over the trace of every run. This file is made from the code:
`python -m orchestrator.invariants.document` writes it anew.

Each invariant ends a run as one of:

| status | meaning |
|---|---|
| held | it was put to the test, and nothing broke it |
| violated | something broke it; the evidence names the events that prove it |
| excused | it was broken only as one of its rules allows, and nothing else tested it; what is excused is counted |
| inconclusive | it cannot be said: events are missing from the trace on which it rests |
| vacuous | nothing in the run put it to the test, or the feature that it rests on is off |

*Tested* says what counts as one test; *key* by what the trace is cut for it, so that each part can be judged by itself
(`orchestrator/invariants/routes.py`). *Defects* are bugs planted on purpose (`krift run --defect NAME`) that this
invariant must catch; `tests/scenario/test_defects.py` shows that each is caught, in a run that holds without it.
"""


def document() -> str:
    """The file's content."""
    return "\n".join([HEAD, *_families(), *_defects()])


def entry(invariant: Invariant) -> str:
    """What the document says of one invariant."""
    lines = [f"### {invariant.id}: {invariant.title}", "", inspect.getdoc(type(invariant)) or "", ""]
    lines += [f"- **Source:** {invariant.source}", f"- **Tested** when {invariant.tested_when}."]
    lines.append(f"- **Key:** {_route(invariant).about}")
    events = dict.fromkeys(str(kind.__struct_config__.tag) for kind in invariant.depends_on)
    lines.append(f"- **Events:** {_events(list(events))}")
    if invariant.requires:
        lines.append(f"- **Vacuous** where off: {', '.join(f'`{name}`' for name in invariant.requires)}")
    lines += [f"- **Excused** ({rule}): {when}" for rule, when in invariant.exemptions.items()]
    defects = [defect for defect in DEFECTS.values() if defect.caught_by == invariant.id]
    lines.append(f"- **Defects:** {', '.join(f'`{defect.name}`' for defect in defects)}")
    return "\n".join(lines) + "\n"


def _families() -> Iterator[str]:
    for letter, members in groupby(INVARIANTS.values(), key=lambda invariant: invariant.id[0]):
        name, _ = FAMILIES[letter]
        yield f"## {letter}: {name}\n"
        yield from map(entry, members)


def _events(names: list[str]) -> str:
    """The events that a judgement rests on; "all" is shorter than all of them."""
    return "all" if len(names) > 20 else ", ".join(f"`{name}`" for name in names)


def _route(invariant: Invariant) -> Route:
    return next(fold.route for fold in folds([invariant.id]) if invariant.id in {each.id for each in fold.invariants})


def _defects() -> Iterator[str]:
    yield "## Defects\n"
    yield "| name | in | caught by | what is wrong | real bug |\n|---|---|---|---|---|"
    for defect in DEFECTS.values():
        yield f"| `{defect.name}` | `{defect.where}` | {defect.caught_by} | {defect.about} | {defect.source} |"
    yield ""


def main() -> None:
    """Write it, from the root of the repository."""
    DOCUMENT_FILE.write_text(document(), encoding="utf-8")


if __name__ == "__main__":
    main()
