"""Shows on stderr where a run stands while it goes on."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from rich.live import Live
from rich.text import Text

from chaos.conductor import Progress, ScenarioConductor
from chaos.words import duration, some
from orchestrator.report.console import page

PLAIN_SECONDS = 5.0
"""Between two lines where stderr is no terminal."""
FEW_PARTITIONS = 4
"""Of a topic with more, the line does not name each."""


def describe(progress: Progress, title: str) -> str:
    """One line, the most telling first: phase and time left, faults, nodes, leaders, controller, events.

    ``kip-207 (off): chaos, 4.5 of 16.0 s, 11.5 s left | faults f1 partition | 9 up, paused none, down broker-1 | ...``
    """
    parts = [f"{title}: {_where(progress)}", f"faults {_list(progress.faults)}", _nodes(progress)]
    if progress.waiting_for:
        # Of the cluster it tells what is amiss: "fenced or not registered: broker-1".
        verb = "still" if ":" in progress.waiting_for else "waiting for"
        parts.insert(1, f"{verb} {progress.waiting_for}")
    parts += [f"leaders {_leaders(progress.leaders) or 'none'}", f"controller {progress.controller or 'none'}"]
    parts.append(f"{some(progress.events, 'event')} so far")
    return " | ".join(parts)


def _leaders(leaders: Mapping[str, str]) -> str:
    """Who leads what: each partition of a topic that has few, ``orders-0 broker-1``; of another topic how many of its
    partitions each broker leads, ``__transaction_state (50) broker-1 20, broker-2 30``."""
    topics: dict[str, dict[str, str]] = {}
    for tp, leader in sorted(leaders.items()):
        topics.setdefault(tp.rpartition("-")[0], {})[tp] = leader or "none"
    return ", ".join(_led(topic, led) for topic, led in topics.items())


def _led(topic: str, led: Mapping[str, str]) -> str:
    if len(led) <= FEW_PARTITIONS:
        return ", ".join(f"{tp} {leader}" for tp, leader in led.items())
    counts = ", ".join(f"{leader} {number}" for leader, number in sorted(Counter(led.values()).items()))
    return f"{topic} ({len(led)}) {counts}"


def _where(progress: Progress) -> str:
    if progress.phase == "finished":
        return "over"
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

    One for all ``runs`` of a command; it counts those that are over, and tells how long the others will take.
    ``beside``: what else goes on, "" if nothing does.
    """

    def __init__(self, runs: int = 1, quiet: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self.beside = ""
        self._runs = runs
        self._quiet = quiet
        self._page = page(stderr=True)
        self._plain = not sys.stderr.isatty()
        self._clock = clock
        self._next = clock() + PLAIN_SECONDS
        self._began = clock()
        self._begun = 0
        self._ended = 0
        self._unexpected = 0
        self._title = ""
        self._live: Live | None = None

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(self, *error: object) -> None:
        self._close()

    @contextmanager
    def run(self, title: str) -> Iterator[None]:
        """While one run goes on."""
        self._begun += 1
        self._title = title
        try:
            yield
        finally:
            self._close()

    @contextmanager
    def aside(self) -> Iterator[None]:
        """While something is printed that stays."""
        self._close()
        yield

    def ended(self, expected: bool) -> None:
        """A run is over."""
        self._ended += 1
        self._unexpected += not expected

    def show(self, conductor: ScenarioConductor) -> None:
        """Show where the run stands."""
        self.line(lambda: self._counted(describe(conductor.progress(), self._title)))

    def say(self, what: str) -> None:
        """Tell at once what goes on now that the conductor knows nothing of."""
        self._next = self._clock()
        self.line(lambda: self._counted(f"{self._title}: {what}" if self._title else what))

    def line(self, make: Callable[[], str]) -> None:
        """Show a line, which is made only if it is time for one."""
        if self._quiet or (self._plain and self._clock() < self._next):
            return
        self._next = self._clock() + PLAIN_SECONDS
        if self._plain:
            self._page.say(make())
            return
        if self._live is None:
            self._live = Live(console=self._page, transient=True, auto_refresh=False)
            self._live.start()
        self._live.update(Text(make()), refresh=True)

    def _close(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _counted(self, line: str) -> str:
        beside = f" | {self.beside}" if self.beside else ""
        if self._runs == 1 or not self._begun:
            return f"{line}{beside}"
        expected = self._ended - self._unexpected
        over = f"({expected} as expected, {self._unexpected} not{self._left()})"
        return f"run {self._begun} of {self._runs} {over} | {line}{beside}"

    def _left(self) -> str:
        """How long all runs that are not over will take, by those that are."""
        if not self._ended:
            return ""
        took = (self._clock() - self._began) * (self._runs - self._ended) / self._ended
        return f", about {duration(took)} left for all"
