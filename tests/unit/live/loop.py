"""An event loop whose time is set by hand: callbacks run when the test says so, and nothing is waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

LATE_S = 1e-8


class HandLoop(asyncio.BaseEventLoop):
    """``pass_time`` runs every callback that falls due, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        self._calls: list[asyncio.TimerHandle] = []

    def time(self) -> float:
        return self.now_s

    def call_at(self, when: float, callback: Callable[..., object], *args: Any, context: Any = None) -> Any:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._calls.append(handle)
        return handle

    def pass_time(self, seconds: float) -> None:
        """Let time go on."""
        until = self.now_s + seconds
        while due := sorted((handle for handle in self._calls if handle.when() <= until), key=asyncio.TimerHandle.when):
            self._calls.remove(due[0])
            # As on any clock, a callback is a little late.
            self.now_s = max(self.now_s, due[0].when()) + LATE_S
            if not due[0].cancelled():
                due[0]._run()
        self.now_s = max(self.now_s, until)
