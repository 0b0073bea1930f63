"""Quantiles of what was measured."""

from __future__ import annotations

import math
from collections.abc import Sequence

QUANTILES = {"p50": 0.50, "p99": 0.99, "max": 1.0}


def quantile(rising: Sequence[int], share: float) -> int:
    """The least value that is not below ``share`` (0 to 1) of the values, which rise."""
    return rising[max(0, math.ceil(share * len(rising)) - 1)]
