"""Kafka's exponential back-off (``ExponentialBackoff.java``), as a promise."""

from __future__ import annotations

import msgspec

from actors.trace.events import CtlFault, Stamped
from chaos.faults.kinds import kinds_of
from chaos.faults.process import NodePause
from orchestrator.invariants.folds.bounds import NEVER_US, SLACK_US
from orchestrator.invariants.folds.fold import Profile

DOUBLINGS_MAX = 30
EARLY_US = 5_000
"""By how much a pause may seem shorter than it is: times are recorded in milliseconds of the node's clock."""


TICK_US = 2_000
"""By how much the time may be wrong at which a call was sent: when it ended and how long it took are rounded."""
LATE_US = 20_000
"""By how much what is due may come late in the sim, where nothing takes longer than its timers say: the rounding of
times. On a machine that is busy with other things, as in live runs, ``SLACK_US``."""
STOPS = kinds_of(NodePause)


def late_us(profile: Profile) -> int:
    """By how much what is due may come late in a run."""
    return LATE_US if profile.runtime == "sim" else SLACK_US


class StoppedProcess(msgspec.Struct):
    """When a node's process was stopped by faults, and did nothing. by: faults that stop it now; until_us: up to when
    it was stopped last, -1 never."""

    by: set[str] = set()
    until_us: int = -1

    def take(self, node: str, event: Stamped, body: CtlFault) -> None:
        """A fault of any kind begins, or ends."""
        if body.kind not in STOPS or node not in body.targets:
            return
        if body.phase == "start":
            self.by.add(body.fault)
        else:
            self.by.discard(body.fault)
        self.until_us = NEVER_US if self.by else event.wall

    def since(self, at_us: int) -> bool:
        """Whether it has been stopped at some time since ``at_us``."""
        return self.until_us >= at_us


def longest_us(initial_ms: int, max_ms: int, failures: int) -> int:
    """The longest pause after so many failures before: doubled each time, and a fifth more, up to the longest."""
    if max_ms <= initial_ms:
        return 1000 * max_ms
    return min(1200 * min(initial_ms << min(failures, DOUBLINGS_MAX), max_ms), 1000 * max_ms)


def shortest_us(initial_ms: int, max_ms: int, failures: int) -> int:
    """The shortest pause after so many failures before: doubled each time, up to the longest, and a fifth less."""
    if max_ms <= initial_ms:
        return 1000 * max_ms
    return 800 * min(initial_ms << min(failures, DOUBLINGS_MAX), max_ms)
