"""Every random number of a run: one stream per purpose, so that a new draw in one place shifts no other."""

from __future__ import annotations

from hashlib import sha256
from random import Random

NETWORK = "network"
"""Latency of every message."""
LINKS = "links"
"""Delays by link rules; what becomes of held messages whose connection has closed."""


def link_of(source: str, target: str) -> str:
    """Purpose: what link rules hit of the messages that ``source`` sends to ``target``."""
    return f"links/{source}>{target}"


DISK = "disk"
"""Duration of every Sync."""
SLOW_DISK = "slow-disk"
"""How much longer a Sync takes on a disk that is slow."""


def stream(seed: int, purpose: str) -> Random:
    """The stream of a purpose: depends on the run's seed and the name alone, on any machine."""
    return Random(int.from_bytes(sha256(f"{seed}/{purpose}".encode()).digest()[:16], "big"))


def timers_of(node: str) -> str:
    """Purpose: the delays of a node's timers."""
    return f"timers/{node}"


def choices_of(node: str) -> str:
    """Purpose: a node's choices."""
    return f"choices/{node}"


def uniform(draws: Random, low: int, high: int) -> int:
    """A number in [low, high]; none is drawn where there is nothing to choose. (``randint`` takes three times as
    long, and the spans here are far below 2**53.)"""
    if low >= high:
        return low
    return low + int(draws.random() * (high - low + 1))
