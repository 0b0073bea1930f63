"""The console that commands print to."""

from __future__ import annotations

import sys

from rich.console import Console

WIDE = 140
"""Columns where nobody looks through a terminal: logs, files, CI."""


def console(stderr: bool = False) -> Console:
    """A console without guesses about what to highlight; colours only on a terminal, and not with NO_COLOR."""
    terminal = (sys.stderr if stderr else sys.stdout).isatty()
    return Console(stderr=stderr, highlight=False, width=None if terminal else WIDE)
