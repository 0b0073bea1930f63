"""The clocks of a node's machine as a JVM reads them, with what faults do to them: the same in both runtimes.

Like Java, a node has two. The *monotonic* one (``System.nanoTime``) never steps; the *wall* clock
(``System.currentTimeMillis``) can. A machine has both from one oscillator: a wrong rate shows in both, a step in the
wall clock alone.
"""

from __future__ import annotations

import msgspec

from actors.control import ClockSkew

MILLION = 1_000_000
RATE_MIN_PPM = -900_000
"""Slowest clock, also where several faults slow it down: a tenth of the true rate."""


class Change(msgspec.Struct, frozen=True):
    """What a fault's beginning or end did. step_us: how far the wall clock stepped. before_ppm, after_ppm: rates."""

    step_us: int
    before_ppm: int
    after_ppm: int

    def left_us(self, left_us: int, wall: bool) -> int:
        """True time left to a timer which had ``left_us`` to run. ``wall``: it ends at a time of the wall clock."""
        on_clock_us = left_us * (MILLION + self.before_ppm) // MILLION - (self.step_us if wall else 0)
        return max(0, on_clock_us) * MILLION // (MILLION + self.after_ppm)


class MachineClock:
    """Microseconds in, microseconds out. ``skews``: what is in force, by the id of its fault; several add up.

    While no skew has a rate, the wall clock is true but for the offsets in force, as if somebody had set it; the
    monotonic one keeps what it gained or lost.
    """

    __slots__ = ("_correction_us", "_monotonic_us", "_since_us", "offset_us", "rate_ppm", "skews")

    def __init__(self) -> None:
        self.skews: dict[str, ClockSkew] = {}
        self.rate_ppm = 0
        """Parts per million that both clocks run too fast."""
        self.offset_us = 0
        """What the wall clock is ahead of the monotonic one."""
        self._correction_us = 0
        self._since_us = 0
        self._monotonic_us = 0

    def monotonic_us(self, true_us: int) -> int:
        """The monotonic clock at a moment of true time; it never runs backwards."""
        if not self.rate_ppm:
            return true_us - self._since_us + self._monotonic_us
        return self._monotonic_us + (true_us - self._since_us) * (MILLION + self.rate_ppm) // MILLION

    def true_us(self, delay_us: int) -> int:
        """How long a delay on this clock truly is."""
        return delay_us * MILLION // (MILLION + self.rate_ppm) if self.rate_ppm else delay_us

    def begin(self, skew: ClockSkew, true_us: int) -> Change:
        """A fault begins."""
        self.skews[skew.fault] = skew
        return self._adjust(true_us)

    def end(self, fault: str, true_us: int) -> Change:
        """A fault ends."""
        self.skews.pop(fault, None)
        return self._adjust(true_us)

    def _adjust(self, true_us: int) -> Change:
        before_us, before_ppm = self.offset_us, self.rate_ppm
        self._monotonic_us = self.monotonic_us(true_us)
        self._since_us = true_us
        self.rate_ppm = max(sum(skew.rate_ppm for skew in self.skews.values()), RATE_MIN_PPM)
        if not self.rate_ppm:
            self._correction_us = true_us - self._monotonic_us
        self.offset_us = self._correction_us + sum(skew.offset_us for skew in self.skews.values())
        return Change(self.offset_us - before_us, before_ppm, self.rate_ppm)
