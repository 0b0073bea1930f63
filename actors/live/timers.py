"""The timers of a live node, on the event loop's monotonic clock."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import msgspec

from actors.machine_clock import Change

LATE_S = 0.05
"""A timer that fires so much later than it should does so because the process stood still: what has arrived meanwhile
comes first, as Kafka's NetworkClient handles what it received before it looks for time-outs."""
GRACE_S = 0.05
"""How long gRPC's own threads may need to hand over what has arrived."""


class PatientTimer:
    """Calls ``fire`` once, ``delay_s`` from now; ``GRACE_S`` later where the process stood still in between."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, delay_s: float, fire: Callable[..., object], *args: Any
    ) -> None:
        self._loop = loop
        self._due_s = loop.time() + delay_s
        self._fire = fire
        self._args = args
        self._over = False
        self._handle = loop.call_at(self._due_s, self._look)

    def cancel(self) -> None:
        """Do not fire."""
        self._handle.cancel()

    def when(self) -> float:
        """When it fires, by the event loop's clock."""
        return self._handle.when()

    def adjust(self, change: Change, wall: bool) -> None:
        """Go on by the machine's clock as it is now. ``wall``: the end is a time of the wall clock."""
        if self._over:
            return
        self._handle.cancel()
        now_s = self._loop.time()
        self._due_s = now_s + change.left_us(int((self._due_s - now_s) * 1e6), wall) / 1e6
        self._handle = self._loop.call_at(self._due_s, self._look)

    def _look(self) -> None:
        if self._loop.time() - self._due_s > LATE_S:
            self._handle = self._loop.call_later(GRACE_S, self._end)
        else:
            self._end()

    def _end(self) -> None:
        self._over = True
        self._fire(*self._args)


class Setting(msgspec.Struct, eq=False):
    """A timer that runs or is over: the number of its setting, and whether its end is a time of the wall clock."""

    number: int
    wall: bool
    timer: PatientTimer


class Timers:
    """A name denotes one timer. A timer that is over calls ``fire(name, setting)``; since the step that it asks for
    may come later, ``take`` says whether that setting still counts then. ``true_s``: seconds of a delay in ms."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        draws: random.Random,
        fire: Callable[[str, int], None],
        true_s: Callable[[int], float] = lambda delay_ms: delay_ms / 1000,
    ) -> None:
        self._loop = loop
        self._draws = draws
        self._fire = fire
        self._true_s = true_s
        self._settings = 0
        self._running: dict[str, Setting] = {}

    def set(self, name: str, min_ms: int, max_ms: int, wall: bool = False) -> None:
        """(Re)start a timer with a delay drawn from [min_ms, max_ms]."""
        self.cancel(name)
        self._settings += 1
        delay_ms = min_ms if min_ms == max_ms else self._draws.randint(min_ms, max_ms)
        timer = PatientTimer(self._loop, self._true_s(delay_ms), self._fire, name, self._settings)
        self._running[name] = Setting(self._settings, wall, timer)

    def cancel(self, name: str) -> None:
        """Stop a timer, also one that is over but not taken yet."""
        running = self._running.pop(name, None)
        if running is not None:
            running.timer.cancel()

    def take(self, name: str, setting: int) -> bool:
        """Whether the timer was neither cancelled nor set anew since; it is over then."""
        running = self._running.get(name)
        if running is None or running.number != setting:
            return False
        del self._running[name]
        return True

    def clock_changed(self, change: Change) -> None:
        """Go on by the machine's clock as it is now."""
        for setting in self._running.values():
            setting.timer.adjust(change, setting.wall)

    def cancel_all(self) -> None:
        """Stop every timer."""
        for setting in self._running.values():
            setting.timer.cancel()
        self._running.clear()
