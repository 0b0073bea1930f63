"""Notices that a process gets too little time: its machine is busy, or one of its steps takes so long."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

LOOK_S = 0.1
"""So often it looks at the clock."""
SPAN_S = 1.0
"""So much time is judged as a whole; a single stall may be longer."""
LATE_SHARE = 0.3
"""From this share of it on that the process waited for its turn, it says so. Less, the checks' bounds allow for."""


class StallWatch:
    """Calls ``report(ms, of_ms)``: in the last ``of_ms`` the event loop came too late by ``ms`` in all; 0: not by so
    much that it matters. It says the one or the other about once in ``SPAN_S``."""

    def __init__(self, report: Callable[[int, int], object]) -> None:
        self._report = report
        self._handle: asyncio.TimerHandle | None = None
        self._looks: deque[tuple[float, float]] = deque()
        """When it began to wait for a look, and by how much that came too late."""

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Look from now on."""
        self._loop = loop
        self._began_s = self._told_s = loop.time()
        self._handle = loop.call_later(LOOK_S, self._look)

    def stop(self) -> None:
        """Look no more."""
        if self._handle is not None:
            self._handle.cancel()

    def _look(self) -> None:
        now_s = self._loop.time()
        self._looks.append((self._began_s, now_s - self._began_s - LOOK_S))
        self._began_s = now_s
        self._handle = self._loop.call_later(LOOK_S, self._look)
        while self._looks[0][0] < now_s - SPAN_S and len(self._looks) > 1:
            self._looks.popleft()
        late_s = sum(late for _, late in self._looks)
        since_s = self._looks[0][0]
        if late_s >= LATE_SHARE * SPAN_S:
            self._looks.clear()
        elif now_s < self._told_s + SPAN_S:
            return
        else:
            late_s = 0.0
        self._told_s = now_s
        self._report(int(late_s * 1000), int((now_s - since_s) * 1000))
