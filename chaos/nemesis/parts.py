"""What patterns are put together from: entries of the chaos, at a time or when something is seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from chaos.faults.kinds import entry_of
from chaos.nemesis.scene import Part, Scene

Pattern = Callable[[Scene, int], list[Part]]
"""Draws entries of the chaos; the first begins at a given time (microseconds)."""


FIRST_US = 200_000
"""Nothing begins before that, after the beginning of the chaos."""


def entry(scene: Scene, at_us: int, fault: Part, lasts_us: int) -> Part:
    """A fault, or a lasting action, at a time, over before the chaos is."""
    lasts = max(1000, min(lasts_us, scene.chaos_us - at_us))
    ((kind, body),) = fault.items()
    return {"when": {"at": scene.duration(at_us)}, **entry_of(kind, body), "for": scene.duration(lasts)}


def lasting(scene: Scene, low_us: int, high_us: int) -> int:
    """A length of time, in whole milliseconds."""
    return scene.draw.randint(low_us // 1000, high_us // 1000) * 1000


def early(at_us: int) -> int:
    """A moment nearer to the beginning of the chaos, for what needs time to unfold."""
    return FIRST_US + (at_us - FIRST_US) // 4 // 1000 * 1000


def later(scene: Scene, at_us: int, low_us: int, high_us: int) -> int:
    """A moment that much later, within the chaos."""
    return min(at_us + lasting(scene, low_us, high_us), scene.chaos_us - 1000)


def when(scene: Scene, trigger: str, delays_ms: Sequence[int] = (0,), nth: Sequence[int] = (1,), **given: Any) -> Part:
    """A moment when something is seen for the n-th time, or that much later."""
    delay = f"{scene.draw.choice(tuple(delays_ms))}ms"
    return {"seen": {trigger: given}, "nth": scene.draw.choice(tuple(nth)), "delay": delay}


def as_seen(scene: Scene, moment: Part, fault: Part, low_us: int, high_us: int) -> Part:
    """A fault, or a lasting action, that begins at such a moment."""
    ((kind, body),) = fault.items()
    return {"when": moment, **entry_of(kind, body), "for": scene.duration(lasting(scene, low_us, high_us))}
