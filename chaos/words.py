"""Counts, times and names of variants, in words."""

from __future__ import annotations


def times(number: int) -> str:
    """``once``, ``1,271 times``."""
    return "once" if number == 1 else f"{number:,} times"


def some(number: int, what: str, many: str = "") -> str:
    """``1 run``, ``1,271 runs``. ``many``: where an s is not enough."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {many or f'{what}s'}"


def ordinal(number: int) -> str:
    """``1st``, ``2nd``, ``11th``, ``22nd``."""
    teens = number % 100 in (11, 12, 13)
    return f"{number:,}{'th' if teens else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"


def duration(seconds: float) -> str:
    """Time for people: ``40 s``, ``12 min``, ``3 h 05 min``."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"


SWITCHED = {"seed": ("as proposed", "KIP text"), "kafka": ("as shipped", "Kafka")}
"""Value of a switch -> its name for people, and where that version of the proposal comes from."""


def switched(value: str) -> str:
    """A value of a switch, or a variant named after one, for people: ``seed`` is ``as proposed``,
    ``kafka-old-consumer`` is ``as shipped, old consumer``. Any other name stays as it is. Commands and files take the
    value itself."""
    first, dash, rest = value.partition("-")
    if first not in SWITCHED:
        return value
    return f"{SWITCHED[first][0]}, {rest.replace('-', ' ')}" if dash else SWITCHED[first][0]


def switched_in_full(value: str) -> str:
    """The same with its source, where there is room: ``as proposed (KIP text)``."""
    source = f" ({SWITCHED[value][1]})" if value in SWITCHED else ""
    return f"{switched(value)}{source}"


def varied(name: str, variant: str) -> str:
    """A scenario with its variant, if it has one, for people: ``kip-207 (as proposed)``."""
    return f"{name} ({switched(variant)})" if variant else name
