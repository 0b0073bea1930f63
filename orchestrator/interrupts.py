"""Ctrl-C while something must come to an orderly end: the first asks for that, a second one gives it up."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

INTERRUPTED = 130
"""The exit code of what a user ended."""


class Interrupts:
    """A context manager. ``ask`` is called once, within the signal handler, so it may only set a flag or wake a loop;
    the next signal raises KeyboardInterrupt. Does nothing outside the main thread, where no signals arrive."""

    def __init__(self, ask: Callable[[], object] = lambda: None) -> None:
        self.asked = False
        self._ask = ask
        self._before: Any = None

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._on_signal)
        return self

    def __exit__(self, *error: object) -> None:
        if self._before is not None and signal.getsignal(signal.SIGINT) == self._on_signal:
            signal.signal(signal.SIGINT, self._before)

    def from_now_on(self, ask: Callable[[], object]) -> None:
        """Call this instead; at once, if there was a signal already."""
        self._ask = ask
        if self.asked:
            ask()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
        self._ask()
