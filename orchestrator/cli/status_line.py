"""A line on stderr that says where something long stands: rewritten on a terminal, now and then a new one elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from rich.live import Live
from rich.text import Text

from orchestrator.report.console import page

PLAIN_SECONDS = 5.0
"""Between two lines where stderr is no terminal."""
TERMINAL_SECONDS = 0.1


class StatusLine:
    """A context manager; silent if ``quiet``."""

    def __init__(self, quiet: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self._page = page(stderr=True)
        self._quiet, self._clock = quiet, clock
        self._live = Live(console=self._page, transient=True, auto_refresh=False) if sys.stderr.isatty() else None
        self._next = clock() + (0.0 if self._live else PLAIN_SECONDS)

    def __enter__(self) -> StatusLine:
        if self._live is not None and not self._quiet:
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._live is not None and not self._quiet:
            self._live.stop()

    def show(self, line: Callable[[], str]) -> None:
        """Show a line, which is made only if it is time for one."""
        if self._quiet or self._clock() < self._next:
            return
        self._next = self._clock() + (TERMINAL_SECONDS if self._live is not None else PLAIN_SECONDS)
        if self._live is not None:
            self._live.update(Text(line()), refresh=True)
        else:
            self._page.say(line())
