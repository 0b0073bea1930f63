"""Clocks of brokers that were ahead: what they wrote down as the time is later than the true one."""

from __future__ import annotations

import msgspec

from actors.trace.events import ClockSet, Stamped


class WrongSince(msgspec.Struct, frozen=True):
    """A clock was set: by how much it was ahead at ``since_us``, and what it gains from then on, in millionths."""

    since_us: int
    offset_us: int
    rate_ppm: int

    def ahead_us(self, now_us: int) -> int:
        """By how much it is ahead."""
        return self.offset_us + (now_us - self.since_us) * self.rate_ppm // 1_000_000


class FastClocks(msgspec.Struct):
    """wrong: broker -> how its clock was set last. ahead_us: the most that any of their clocks was ahead so far."""

    wrong: dict[str, WrongSince] = {}
    ahead_us: int = 0

    def take(self, event: Stamped, body: ClockSet) -> None:
        """A clock was set, or set right."""
        if not event.node.startswith("broker-"):
            return
        before = self.wrong.get(event.node)
        gained_us = 0 if before is None else before.ahead_us(event.wall)
        self.wrong[event.node] = WrongSince(event.wall, body.offset_us, body.rate_ppm)
        self.ahead_us = max(self.ahead_us, gained_us, body.offset_us)
