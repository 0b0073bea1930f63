"""Durations, rates and ranges of versions."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from chaos.scenario.durations import Malformed, format_duration, parse_duration_us, parse_rate, parse_versions


@pytest.mark.parametrize(
    ("text", "us"),
    [("3s", 3_000_000), ("4500ms", 4_500_000), ("1.5s", 1_500_000), ("2m", 120_000_000), ("7us", 7), ("0s", 0)],
)
def test_durations_are_microseconds(text: str, us: int) -> None:
    """Shows the units and that fractions are exact."""
    assert parse_duration_us(text) == us


@pytest.mark.parametrize("text", ["3", "s", "-3s", "3 seconds", "1e3s", "1.5us", "", "3s 4ms", "1.0000001s"])
def test_what_is_not_a_duration(text: str) -> None:
    """Shows that units are never guessed and nothing is rounded."""
    with pytest.raises(Malformed):
        parse_duration_us(text)


@given(st.integers(min_value=0, max_value=10**15 - 1))
def test_a_duration_is_read_back_as_it_was(us: int) -> None:
    """Shows that a resolved scenario keeps every duration to the microsecond."""
    assert parse_duration_us(format_duration(us)) == us


def test_rates_and_versions() -> None:
    """Shows rates by second and minute, and ranges of one or several versions."""
    assert (parse_rate("100/s"), parse_rate("30/m"), parse_rate("0.5/s")) == (100, 0.5, 0.5)
    assert (parse_versions("1-4"), parse_versions("4")) == ((1, 4), (4, 4))
    for text in ("0/s", "100", "-1/s"):
        with pytest.raises(Malformed):
            parse_rate(text)
    for text in ("4-1", "1-", "a"):
        with pytest.raises(Malformed):
            parse_versions(text)
