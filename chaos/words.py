"""Counts in words, with one way to say one."""

from __future__ import annotations


def times(number: int) -> str:
    """``once``, ``1,271 times``."""
    return "once" if number == 1 else f"{number:,} times"


def some(number: int, what: str, many: str = "") -> str:
    """``1 run``, ``1,271 runs``. ``many``: where an s is not enough."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {many or f'{what}s'}"
