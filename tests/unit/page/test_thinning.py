"""What is too close together to be told apart."""

from __future__ import annotations

from hypothesis import given, strategies as st

from orchestrator.page.model import Bar
from orchestrator.page.thinning import joined, steps


def test_few_bars_stay_as_they_are() -> None:
    """Shows that nothing is joined that there is room for."""
    bars = [Bar("ok", number, number) for number in range(5)]
    assert joined(bars, 5, 5.0) == (bars, 0)


def test_joined_bars_say_what_all_have_in_common() -> None:
    """Shows the number, and that text and partition stay only if they are the same."""
    bars = [Bar("ok", 0.0, 1.0, hover="a", tp="t-0"), Bar("ok", 1.0, 2.0, hover="b", tp="t-0")]
    assert joined(bars, 1, 2.0) == ([Bar("ok", 0.0, 2.0, tp="t-0", number=2)], 2)


@given(st.lists(st.tuples(st.integers(0, 500), st.integers(0, 20), st.sampled_from(["ok", "fail"])), max_size=200))
def test_joining_loses_no_time_and_no_bar(given_bars: list[tuple[int, int, str]]) -> None:
    """Shows that joined bars count all of their parts, and cover each."""
    bars = [Bar("ok" if style == "ok" else "fail", at, at + length) for at, length, style in sorted(given_bars)]
    found, _ = joined(bars, 10, 520.0)
    assert len(found) <= max(10, 2)
    assert sum(bar.number for bar in found) == len(bars)
    for bar in bars:
        assert any(each.style == bar.style and each.start <= bar.start and bar.end <= each.end for each in found)


@given(st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 100)), min_size=1, max_size=500))
def test_a_line_keeps_its_ends_and_its_extremes(points: list[tuple[int, int]]) -> None:
    """Shows that a thinned line begins and ends as the whole one, reaches its least and greatest values, and has at
    most as many points as asked for."""
    points.sort(key=lambda point: point[0])
    last = dict(points)  # of several at one moment the last stands
    x, y = steps([at for at, _ in points], [value for _, value in points], 40)
    assert len(x) == len(y) <= 40 + 4
    assert (x[0], y[0]) == (points[0][0], last[points[0][0]])
    assert (x[-1], y[-1]) == (points[-1][0], points[-1][1])
    assert (min(y), max(y)) == (min(last.values()), max(last.values()))
    assert x == sorted(x)


def test_waits_go_with_their_returns() -> None:
    """Shows that of operations that are joined each is counted once."""
    bars = [bar for at in range(9) for bar in (Bar("waits", at, at + 0.5), Bar("ok", at + 0.5, at + 0.5))]
    assert joined(bars, 2, 9.0) == ([Bar("waits", 0.0, 8.5, number=9), Bar("ok", 0.5, 8.5, number=9)], 9)


def test_bars_around_what_matters_stay_alone() -> None:
    """Shows that what happened at a telling moment can be told apart, while the rest is joined."""
    bars = [Bar("ok", float(number), number + 0.9) for number in range(1_000)]
    found, hidden = joined(bars, 60, 1_000.0, [500.0])
    alone = [bar for bar in found if bar.number == 1]
    assert bars[500] in alone
    assert len(found) <= 60
    assert hidden == 1_000 - len(alone)
