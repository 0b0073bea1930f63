"""Pieces of Markdown, for the documents and summaries that Krift writes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from orchestrator.report.console import printable

NUMBERS = ">"
"""How the name of a column with numbers begins."""


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table; columns that begin with ">" have numbers."""
    titles = [name.lstrip(NUMBERS) for name in columns]
    marks = ["---:" if name.startswith(NUMBERS) else "---" for name in columns]
    return [_row(titles), _row(marks), *(_row([cell(each) for each in row]) for row in rows)]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def cell(text: str) -> str:
    """A text that stays in its cell, whatever is in it."""
    return printable(text).replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def fenced(text: str) -> list[str]:
    """The lines of a text as it is, whatever is in it."""
    lines = printable(text).rstrip("\n").split("\n")
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}text", *lines, fence]


def folded(title: str, lines: Iterable[str]) -> list[str]:
    """What is shown on request."""
    return [f"<details><summary>{cell(title)}</summary>", "", *lines, "", "</details>", ""]
