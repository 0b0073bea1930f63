"""Draws less where nobody could tell: what is closer together than a screen can show becomes one."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from orchestrator.page.model import Bar

AROUND = 100
"""So small a part of the run before and after what matters is left as it is."""
PIXELS = 700
"""Stretches into which the time of a run is divided: what is nearer is one."""


def joined(bars: Sequence[Bar], most: int, span: float, telling: Sequence[float] = ()) -> tuple[list[Bar], int]:
    """At most about ``most`` bars in place of those given, which come in order of their starts, and how many of those
    given are no longer drawn by themselves (the wait of an operation goes with its return). Only bars of one style are
    joined, those that are nearest first: failures are not lost among successes. ``span``: seconds of the whole run.
    ``telling``: moments around which bars stay as they are, as far as there is room."""
    if len(bars) <= most:
        return list(bars), 0
    close = span / AROUND
    alone = [bar for bar in bars if any(bar.start - close <= at <= bar.end + close for at in telling)][: most // 2]
    kept = set(map(id, alone))
    found, hidden = _fewer([bar for bar in bars if id(bar) not in kept], most - len(alone), span)
    return sorted([*found, *alone], key=lambda bar: bar.start), hidden


def _fewer(bars: Sequence[Bar], most: int, span: float) -> tuple[list[Bar], int]:
    found = list(bars)
    near = span / PIXELS
    for _ in range(20):
        found = _join(bars, near)
        if len(found) <= most:
            break
        near *= 2
    return found, sum(bar.number for bar in found if bar.number > 1 and bar.style != "waits")


def _join(bars: Sequence[Bar], near: float) -> list[Bar]:
    """Bars of a style become one where the gap between them is at most ``near``."""
    found: list[Bar] = []
    last: dict[str, int] = {}
    for bar in bars:
        place = last.get(bar.style)
        if place is not None and bar.start - found[place].end <= near:
            before = found[place]
            found[place] = msgspec.structs.replace(
                before,
                end=max(before.end, bar.end),
                label="",
                hover=before.hover if before.hover == bar.hover else "",
                tp=before.tp if before.tp == bar.tp else "",
                number=before.number + bar.number,
            )
        else:
            last[bar.style] = len(found)
            found.append(bar)
    return found


def steps(x: Sequence[int], y: Sequence[int], most: int) -> tuple[list[int], list[int]]:
    """A step line of at most about ``most`` points, with every stretch's first, least, greatest and last value."""
    x, y = _changes(x, y)
    if len(x) <= most or most < 8:
        return list(x), list(y)
    stretches = most // 4
    begin, width = x[0], max(1, x[-1] - x[0])
    kept: list[int] = []
    group: list[int] = []
    current = 0
    for number, at in enumerate(x):
        stretch = min(stretches - 1, (at - begin) * stretches // width)
        if stretch != current:
            kept += _telling(group, y)
            group, current = [], stretch
        group.append(number)
    kept += _telling(group, y)
    return [x[number] for number in kept], [y[number] for number in kept]


def _telling(group: Sequence[int], y: Sequence[int]) -> list[int]:
    """First, least, greatest and last of a stretch, in order."""
    if not group:
        return []
    return sorted({group[0], min(group, key=y.__getitem__), max(group, key=y.__getitem__), group[-1]})


def _changes(x: Sequence[int], y: Sequence[int]) -> tuple[Sequence[int], Sequence[int]]:
    """Without points at which nothing changes, but for the last; the last of several at one moment stands."""
    kept: list[int] = []
    for number in range(len(x)):
        if kept and x[kept[-1]] == x[number]:
            kept[-1] = number
        elif not kept or y[kept[-1]] != y[number] or number == len(x) - 1:
            kept.append(number)
    return [x[number] for number in kept], [y[number] for number in kept]
