"""When a workload acts: rates and intervals as due times, kept in state so that nothing drifts.

Times are milliseconds of node time. A clock that jumps, or a process that was stopped, leaves at most
CATCH_UP_MS of missed acts to make up for.
"""

from __future__ import annotations

import msgspec

CATCH_UP_MS = 1000


class Rate(msgspec.Struct):
    """``per_1000_s`` acts in 1000 seconds, evenly spread: the n-th one is due n * 10^6 / per_1000_s ms after start."""

    per_1000_s: int = 0
    start_ms: int = 0
    taken: int = 0

    def begin(self, now_ms: int, per_second: float) -> None:
        """Start over: the first act is due now. A rate of 0 never acts."""
        self.per_1000_s = round(per_second * 1000)
        self.rebase(now_ms)

    def rebase(self, now_ms: int) -> None:
        """The next act is due now, and what was missed is forgotten."""
        self.start_ms = now_ms
        self.taken = 0

    def next_due_ms(self) -> int:
        """When the next act is due."""
        return self.start_ms + self.taken * 1_000_000 // self.per_1000_s

    def take(self, now_ms: int) -> int:
        """How many acts are due by now; they count as done."""
        if not self.per_1000_s:
            return 0
        due = self.next_due_ms()
        interval = 1_000_000 // self.per_1000_s + 1
        if due < now_ms - CATCH_UP_MS or due > now_ms + interval:
            self.rebase(now_ms)
        count = (now_ms - self.start_ms + 1) * self.per_1000_s
        # the acts 0..k are due when k * 10^6 / per_1000_s, rounded down, is at most the time since start
        reached = (count - 1) // 1_000_000 + 1
        taken = max(0, reached - self.taken)
        self.taken += taken
        return taken

    def give_back(self, count: int) -> None:
        """So many of the acts that were taken last were not done: they are due still."""
        self.taken -= count


class Every(msgspec.Struct):
    """Acts at multiples of ``interval_ms`` after ``start_ms``, skipping those that pass while one is under way."""

    interval_ms: int = 1
    start_ms: int = 0

    def delay_ms(self, now_ms: int) -> int:
        """Milliseconds to the next multiple after now: 1 to ``interval_ms``."""
        return self.interval_ms - (now_ms - self.start_ms) % self.interval_ms
