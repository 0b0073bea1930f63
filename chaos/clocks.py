"""The clocks of the nodes, as far as faults set them: how long timers may still be late."""

from __future__ import annotations

import msgspec

from actors.trace.events import ClockSet, Stamped


class _Clock(msgspec.Struct, frozen=True):
    """By how much a clock is ahead at ``since_us``, and what it gains from then on, in millionths."""

    since_us: int
    offset_us: int
    rate_ppm: int

    def ahead_us(self, now_us: int) -> int:
        return self.offset_us + (now_us - self.since_us) * self.rate_ppm // 1_000_000


class Clocks(msgspec.Struct):
    """What was set so far. A timer that was set by a clock that is then put back ends later by as much: a follower goes
    on waiting for a leader that is long gone. One that is put forward again makes up for it."""

    clocks: dict[str, _Clock] = {}
    late_until_us: dict[str, int] = {}

    def take(self, now_us: int, event: Stamped) -> None:
        """A clock was set."""
        body = event.body
        assert isinstance(body, ClockSet)
        before = self.clocks.get(event.node, _Clock(now_us, 0, 0))
        back_us = before.ahead_us(now_us) - body.offset_us
        self.clocks[event.node] = _Clock(now_us, body.offset_us, body.rate_ppm)
        self.late_until_us[event.node] = max(self.late_until_us.get(event.node, 0), now_us) + back_us

    def forget(self, node: str) -> None:
        """A node ended, and its timers with it."""
        self.late_until_us.pop(node, None)

    @property
    def settled_us(self) -> int:
        """When the last timer that is late for this has ended."""
        return max(self.late_until_us.values(), default=0)
