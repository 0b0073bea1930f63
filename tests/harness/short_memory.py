"""Folds that forget early: of records and changes they remember a few, in place of hundreds of thousands.

What is remembered is bounded by constants, so large that no run of a test reaches them. With these in their place a run
of minutes shows whether states stop growing, and whether what was forgotten is taken for a violation.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pkgutil import walk_packages
from typing import Any

import orchestrator.invariants as invariants

RECORDS = 4
NAMES = ("REMEMBERED", "KEPT", "TRIM_AT", "POSITIONS", "UNCOMMITTED", "LIMIT", "AT_A_TIME")


def _places() -> Iterator[tuple[Any, str, int]]:
    """Modules and classes of invariants, with the constants that bound what they remember."""
    names = [found.name for found in walk_packages(invariants.__path__, f"{invariants.__name__}.")]
    for found in (*names, "actors.trace.metadata_history"):
        module = import_module(found)
        classes = [each for each in vars(module).values() if isinstance(each, type) and each.__module__ == found]
        for place in (module, *classes):
            for name, value in list(vars(place).items()):
                if name.isupper() and name.endswith(NAMES) and isinstance(value, int):
                    yield place, name, value


@contextmanager
def short_memory(records: int = RECORDS) -> Iterator[None]:
    """Bounds above ``records`` are that for as long as this lasts."""
    before = [(place, name, value) for place, name, value in _places() if value > records]
    assert len(before) > 10, "the constants have other names now"
    try:
        for place, name, _ in before:
            setattr(place, name, records)
        yield
    finally:
        for place, name, value in before:
            setattr(place, name, value)
