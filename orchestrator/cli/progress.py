"""Shows on stderr where a run stands while it goes on."""

from __future__ import annotations

import sys
import time

from rich.live import Live
from rich.text import Text

from chaos.conductor import Progress, ScenarioConductor
from orchestrator.report.console import console

PLAIN_SECONDS = 5.0
"""Between two lines where stderr is no terminal."""


def describe(progress: Progress, title: str) -> str:
    """``kip-207 (off): chaos 4.5 of 16.0 s | leaders orders-0 broker-1 | controller ... | faults ... | 812 events``."""
    seconds = progress.duration_us / 1_000_000
    clock = "" if progress.time_us < 0 else f" {progress.time_us / 1_000_000:.1f} of {seconds:.1f} s"
    leaders = ", ".join(f"{tp} {leader}" for tp, leader in sorted(progress.leaders.items())) or "none yet"
    parts = [
        f"{title}: {progress.phase}{clock}",
        f"leaders {leaders}",
        f"controller {progress.controller or 'none yet'}",
        f"faults {', '.join(progress.faults) or 'none'}",
        f"{progress.events:,} events",
    ]
    if progress.waiting_for:
        parts.append(f"waiting for {progress.waiting_for}")
    return " | ".join(parts)


class ProgressLine:
    """A line that is rewritten on a terminal, and written every few seconds elsewhere; silent if ``quiet``."""

    def __init__(self, title: str, quiet: bool = False) -> None:
        self._title = title
        self._console = console(stderr=True)
        self._live = Live(console=self._console, transient=True, auto_refresh=False)
        self._plain = not sys.stderr.isatty()
        self._quiet = quiet
        self._next = time.monotonic() + PLAIN_SECONDS

    def __enter__(self) -> ProgressLine:
        if not self._quiet and not self._plain:
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        if not self._quiet and not self._plain:
            self._live.stop()

    def show(self, conductor: ScenarioConductor) -> None:
        """Show where the run stands."""
        if self._quiet:
            return
        if not self._plain:
            self._live.update(Text(describe(conductor.progress(), self._title)), refresh=True)
        elif time.monotonic() >= self._next:
            self._next = time.monotonic() + PLAIN_SECONDS
            self._console.print(describe(conductor.progress(), self._title), soft_wrap=True, highlight=False)
