"""The timers of a live node, on the event loop's monotonic clock."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable


class Timers:
    """A name denotes one timer. A timer that is over calls ``fire(name, setting)``; since the step that it asks for
    may come later, ``is_current`` says whether that setting still counts then."""

    def __init__(self, loop: asyncio.AbstractEventLoop, draws: random.Random, fire: Callable[[str, int], None]) -> None:
        self._loop = loop
        self._draws = draws
        self._fire = fire
        self._settings = 0
        self._running: dict[str, tuple[int, asyncio.TimerHandle]] = {}

    def set(self, name: str, min_ms: int, max_ms: int) -> None:
        """(Re)start a timer with a delay drawn from [min_ms, max_ms]."""
        self.cancel(name)
        self._settings += 1
        delay_ms = min_ms if min_ms == max_ms else self._draws.randint(min_ms, max_ms)
        self._running[name] = (
            self._settings,
            self._loop.call_later(delay_ms / 1000, self._fire, name, self._settings),
        )

    def cancel(self, name: str) -> None:
        """Stop a timer, also one that is over but not taken yet."""
        running = self._running.pop(name, None)
        if running is not None:
            running[1].cancel()

    def take(self, name: str, setting: int) -> bool:
        """Whether the timer was neither cancelled nor set anew since; it is over then."""
        running = self._running.get(name)
        if running is None or running[0] != setting:
            return False
        del self._running[name]
        return True

    def cancel_all(self) -> None:
        """Stop every timer."""
        for _, handle in self._running.values():
            handle.cancel()
        self._running.clear()
