"""How sure differences are: intervals and tests against values known from elsewhere."""

from __future__ import annotations

import math

import numpy as np
import pytest

from orchestrator.campaigns.intervals import mean_intervals, rate_interval, sign_test


@pytest.mark.parametrize(
    ("happened", "of", "low", "high"),
    [(0, 10, 0.0, 0.3085), (10, 10, 0.6915, 1.0), (5, 20, 0.0866, 0.4910), (0, 200, 0.0, 0.0183), (0, 0, 0.0, 1.0)],
)
def test_rates(happened: int, of: int, low: float, high: float) -> None:
    """Shows the interval of Clopper and Pearson, as tables have it."""
    assert rate_interval(happened, of) == pytest.approx((low, high), abs=1e-4)


@pytest.mark.parametrize(
    ("one_way", "other_way", "p"), [(0, 0, 1.0), (10, 0, 0.001953), (3, 7, 0.34375), (5, 5, 1.0), (200, 0, 0.0)]
)
def test_pairs_that_differ(one_way: int, other_way: int, p: float) -> None:
    """Shows McNemar's exact test, two-sided."""
    assert sign_test(one_way, other_way) == pytest.approx(p, abs=1e-6)
    assert sign_test(other_way, one_way) == sign_test(one_way, other_way)


def test_the_interval_of_a_mean_is_that_of_theory() -> None:
    """Shows that it is as wide as theory says where theory knows, each column by itself, and the same each time."""
    draws = np.random.default_rng(7)
    values = np.stack([draws.normal(3, 1, 400), draws.normal(-30, 10, 400)], axis=1)
    found = mean_intervals(values)
    for interval, column, deviation in zip(found, values.T, (1, 10), strict=True):
        half = 1.96 * deviation / math.sqrt(400)
        assert interval == pytest.approx((column.mean() - half, column.mean() + half), abs=0.25 * half)
    assert mean_intervals(values) == found


def test_the_interval_holds_the_mean_about_as_often_as_it_says() -> None:
    """Shows that of 200 samples of 30 from a skewed distribution the interval holds its mean in about 95 %."""
    draws = np.random.default_rng(11)
    found = mean_intervals(draws.exponential(1.0, (30, 200)))
    assert 0.89 <= sum(each is not None and each[0] <= 1.0 <= each[1] for each in found) / 200 <= 0.99


def test_where_nothing_can_be_told() -> None:
    """Shows that one pair gives no interval, that pairs which differ alike give one without width, and that one pair
    among many that differs pulls it to one side only."""
    assert mean_intervals(np.array([[1.0, 2.0]])) == [None, None]
    assert mean_intervals(np.full((5, 1), 0.1)) == [(pytest.approx(0.1), pytest.approx(0.1))]
    [interval] = mean_intervals(np.array([[0.0]] * 9 + [[1.0]]))
    assert interval is not None
    assert interval[0] == 0.0
    assert 0.2 <= interval[1] <= 0.5
