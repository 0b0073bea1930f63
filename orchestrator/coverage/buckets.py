"""Buckets: how values without bound become few."""

from __future__ import annotations

from functools import cache

from actors.node.messages import Api
from actors.versions import API_VERSIONS


def few(number: int) -> str:
    """0, 1, or 2+: epochs apart, members of an ELR."""
    return "0" if number <= 0 else "1" if number == 1 else "2+"


def size(number: int) -> str:
    """Of an ISR: up to 3, or 4+."""
    return str(number) if number <= 3 else "4+"


def lag(offsets: int) -> str:
    """Offsets between two ends, by their order of magnitude: 0, 1 (to 9), 10 (to 99), 100+; "-" behind each other."""
    if offsets <= 0:
        return "0" if offsets == 0 else "-"
    return "1" if offsets < 10 else "10" if offsets < 100 else "100+"


def wait(ms: int) -> str:
    """How long something waited: 0 (less than 10 ms), 10, 100, 1000+."""
    return "0" if ms < 10 else "10" if ms < 100 else "100" if ms < 1_000 else "1000+"


def beside_min_isr(isr: int, min_isr: int) -> str:
    """Size of an ISR beside min.insync.replicas: below, at, above."""
    return "below" if isr < min_isr else "at" if isr == min_isr else "above"


def compared(one: object, other: object) -> str:
    """behind, equal or ahead, of two values of one kind that are ordered."""
    return "equal" if one == other else "behind" if one < other else "ahead"  # type: ignore[operator]


@cache
def version_group(api: str, version: int) -> str:
    """Of an API's versions: newest, oldest, or between."""
    low, high = API_VERSIONS[Api[api]]
    return "newest" if version >= high else "oldest" if version <= low else "between"


@cache
def kind_of(node: str) -> str:
    """controller, broker, producer, consumer, list-offsets, admin, driver."""
    return node.rpartition("-")[0] or node
