"""Writes docs/faults.md, what can be done to a cluster: ``python -m chaos.faults.document``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from chaos.faults.kinds import ALL

PATH = Path("docs/faults.md")

HEAD = """# Faults and actions

The entries of `chaos`, and their implementation in the two runtimes. Their common keys are in
[scenarios.md](scenarios.md#chaos). A and B are selectors, one or a list. This file is generated:
`python -m chaos.faults.document` writes it."""

FAULTS_HEAD = "## Faults\n\nUnder `fault`."
ACTIONS_HEAD = "## Actions\n\nUnder `action`: an operator's actions."
TABLE_HEAD = "| syntax | meaning | in the sim | live | evidence of its effect |\n|---|---|---|---|---|"


def document() -> str:
    """The content of the file."""
    faults, actions = _rows("fault"), _rows("action")
    return "\n".join([HEAD, "", FAULTS_HEAD, "", *faults, "", ACTIONS_HEAD, "", *actions]) + "\n"


def _rows(section: str) -> Iterator[str]:
    yield TABLE_HEAD
    for kind in ALL:
        for row in kind.told if kind.section == section else ():
            yield f"| `{row.written}` | {row.means} | {row.in_sim} | {row.live} | {row.seen_by} |"


def main() -> None:
    """Write it, from the root of the repository."""
    PATH.write_text(document(), encoding="utf-8")


if __name__ == "__main__":
    main()
