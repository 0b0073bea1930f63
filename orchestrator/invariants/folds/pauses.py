"""Kafka's exponential back-off (``ExponentialBackoff.java``), as a promise."""

from __future__ import annotations

DOUBLINGS_MAX = 30
EARLY_US = 5_000
"""By how much a pause may seem shorter than it is: times are recorded in milliseconds of the node's clock."""


def shortest_us(initial_ms: int, max_ms: int, failures: int) -> int:
    """The shortest pause after so many failures before: doubled each time, up to the longest, and a fifth less."""
    if max_ms <= initial_ms:
        return 1000 * max_ms
    return 800 * min(initial_ms << min(failures, DOUBLINGS_MAX), max_ms)
