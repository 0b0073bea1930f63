"""How sure a difference between paired runs is: a bootstrap interval for means, exact tests for yes and no."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

LEVEL = 0.95
RESAMPLES = 5000
CHUNK = 4_000_000
"""Numbers drawn at a time: what bounds the memory that resampling takes."""

_NORMAL = NormalDist()


def mean_intervals(differences: NDArray[np.float64], seed: int = 0) -> list[tuple[float, float] | None]:
    """For each column of ``differences`` (a row a pair) an interval that holds the mean of such differences with
    ``LEVEL`` confidence.

    Pairs are drawn with replacement ``RESAMPLES`` times, from a fixed seed and the same for all columns; bias-corrected
    and accelerated (Efron 1987: BCa). Of fewer than two pairs nothing can be said: None. Where all pairs
    differ alike the interval has no width, which says nothing about pairs still to come.
    """
    pairs, columns = differences.shape
    if pairs < 2:
        return [None] * columns
    draws = np.random.default_rng(seed)
    at_a_time = max(1, CHUNK // pairs)
    shares = np.full(pairs, 1 / pairs)
    means = np.concatenate(
        [
            draws.multinomial(pairs, shares, size=min(at_a_time, RESAMPLES - done)) @ differences / pairs
            for done in range(0, RESAMPLES, at_a_time)
        ]
    )
    return [_accelerated(np.sort(means[:, each]), differences[:, each]) for each in range(columns)]


def _accelerated(means: NDArray[np.float64], differences: NDArray[np.float64]) -> tuple[float, float]:
    mean = float(differences.mean())
    around = differences - mean
    spread = float((around**2).sum())
    if spread <= 1e-18 * max(1.0, mean * mean) * len(differences):
        return mean, mean
    below = (float((means < mean).sum()) + float((means <= mean).sum())) / 2 / len(means)
    bias = _NORMAL.inv_cdf(min(max(below, 1 / len(means)), 1 - 1 / len(means)))
    acceleration = float((around**3).sum()) / (6 * spread**1.5)
    ends = []
    for share in ((1 - LEVEL) / 2, (1 + LEVEL) / 2):
        z = bias + _NORMAL.inv_cdf(share)
        # A few extreme pairs can push the correction over its pole: then the plain percentile is what is left.
        corrected = _NORMAL.cdf(bias + z / (1 - acceleration * z)) if acceleration * z < 1 else share
        ends.append(float(np.quantile(means, corrected)))
    return ends[0], ends[1]


def rate_interval(happened: int, of: int) -> tuple[float, float]:
    """The exact interval (Clopper and Pearson) for how often something happens that happened ``happened`` times."""
    if of == 0:
        return 0.0, 1.0
    tail = (1 - LEVEL) / 2
    low = 0.0 if happened == 0 else _where(lambda rate: 1 - _at_most(happened - 1, of, rate) >= tail)
    high = 1.0 if happened == of else _where(lambda rate: _at_most(happened, of, rate) <= tail)
    return low, high


def sign_test(one_way: int, other_way: int) -> float:
    """How likely pairs that differ fall as unevenly as these, or more so, if either way is as likely (McNemar's test,
    exact and two-sided)."""
    of = one_way + other_way
    return min(1.0, 2 * _at_most(min(one_way, other_way), of, 0.5)) if of else 1.0


def _where(is_so: Callable[[float], bool]) -> float:
    """The rate from which on ``is_so``."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if is_so(middle) else (middle, high)
    return high


def _at_most(number: int, of: int, rate: float) -> float:
    """How likely at most ``number`` of ``of`` is, each being so at ``rate``."""
    if rate in (0.0, 1.0):
        return 1.0 if rate == 0.0 or number >= of else 0.0
    log_yes, log_no, whole = math.log(rate), math.log1p(-rate), math.lgamma(of + 1)
    terms: Sequence[float] = [
        math.exp(whole - math.lgamma(k + 1) - math.lgamma(of - k + 1) + k * log_yes + (of - k) * log_no)
        for k in range(number + 1)
    ]
    return min(1.0, math.fsum(terms))
