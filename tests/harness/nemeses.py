"""Nemeses of which a test wants one pattern and no other."""

from __future__ import annotations

from typing import Any

import msgspec

from chaos.nemesis import library
from chaos.nemesis.library import LoadedNemesis


def drawing(name: str, pattern: str, **others: Any) -> LoadedNemesis:
    """A nemesis of the library that draws this pattern beside its faults: as it does itself in the runs in which it
    draws it. ``others``: what else of it is otherwise."""
    loaded = library.load(name)
    chaos = loaded.nemesis.chaos.model_copy(update={"pattern": {pattern: 1.0}})
    return msgspec.structs.replace(loaded, nemesis=loaded.nemesis.model_copy(update={"chaos": chaos, **others}))
