"""Shows on stderr where a run stands while it goes on."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.live import Live
from rich.text import Text

from chaos.conductor import Progress, ScenarioConductor
from chaos.words import some
from orchestrator.report.console import page

PLAIN_SECONDS = 5.0
"""Between two lines where stderr is no terminal."""


def describe(progress: Progress, title: str) -> str:
    """One line, the most telling first: phase and time left, faults, nodes, leaders, controller, events.

    ``kip-207 (off): chaos, 4.5 of 16.0 s, 11.5 s left | faults f1 partition | 9 up, paused none, down broker-1 | ...``
    """
    leaders = ", ".join(f"{tp} {leader or 'none'}" for tp, leader in sorted(progress.leaders.items()))
    parts = [f"{title}: {_where(progress)}", f"faults {_list(progress.faults)}", _nodes(progress)]
    if progress.waiting_for:
        parts.insert(1, f"waiting for {progress.waiting_for}")
    parts += [f"leaders {leaders or 'none'}", f"controller {progress.controller or 'none'}"]
    parts.append(f"{some(progress.events, 'event')} so far")
    return " | ".join(parts)


def _where(progress: Progress) -> str:
    if progress.phase == "finished":
        return "over, its trace is collected and checked"
    if progress.phase != "chaos":
        return progress.phase
    gone, whole = progress.time_us / 1_000_000, progress.duration_us / 1_000_000
    return f"chaos, {gone:.1f} of {whole:.1f} s, {max(0.0, whole - gone):.1f} s left"


def _nodes(progress: Progress) -> str:
    total = len(progress.up) + len(progress.paused) + len(progress.down)
    if not progress.paused and not progress.down:
        return f"all {some(total, 'node')} up"
    states = [f"{len(progress.up)} of {some(total, 'node')} up"]
    # Before they have started, most are down: no use in naming them all.
    few = len(progress.down) <= 3
    states += [f"paused {_list(progress.paused)}"] if progress.paused else []
    states += [f"down {_list(progress.down) if few else len(progress.down)}"] if progress.down else []
    return ", ".join(states)


def _list(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"


class ProgressLine:
    """A line that is rewritten on a terminal, and written every few seconds elsewhere; silent if ``quiet``.

    One for all ``runs`` of a command; it counts those that are over.
    """

    def __init__(self, runs: int = 1, quiet: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self._runs = runs
        self._quiet = quiet
        self._page = page(stderr=True)
        self._plain = not sys.stderr.isatty()
        self._clock = clock
        self._next = clock() + PLAIN_SECONDS
        self._begun = 0
        self._unexpected = 0
        self._title = ""
        self._live: Live | None = None

    @contextmanager
    def run(self, title: str) -> Iterator[None]:
        """While one run goes on."""
        self._begun += 1
        self._title = title
        if not self._quiet and not self._plain:
            self._live = Live(console=self._page, transient=True, auto_refresh=False)
        try:
            if self._live is not None:
                self._live.start()
            yield
        finally:
            if self._live is not None:
                self._live.stop()
                self._live = None

    def ended(self, expected: bool) -> None:
        """A run is over."""
        self._unexpected += not expected

    def show(self, conductor: ScenarioConductor) -> None:
        """Show where the run stands."""
        if self._quiet:
            return
        if self._live is not None:
            self._live.update(Text(self._line(conductor)), refresh=True)
        elif self._clock() >= self._next:
            self._next = self._clock() + PLAIN_SECONDS
            self._page.say(self._line(conductor))

    def _line(self, conductor: ScenarioConductor) -> str:
        line = describe(conductor.progress(), self._title)
        if self._runs == 1:
            return line
        expected = self._begun - 1 - self._unexpected
        return f"run {self._begun} of {self._runs} ({expected} as expected, {self._unexpected} not) | {line}"
