"""How many examples a property test tries that can try as many as one likes."""

from __future__ import annotations

import os


def examples(many: int) -> int:
    """So many with KRIFT_RANDOM, as in ``make test-all``; two fifths of them, always the same, without."""
    return many if os.environ.get("KRIFT_RANDOM") else many * 2 // 5
