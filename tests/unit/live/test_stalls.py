"""How a live node notices that it gets too little time."""

from __future__ import annotations

import itertools

import pytest

from actors.live.stalls import StallWatch
from tests.unit.live.loop import HandLoop


class Fixture:
    """A watch, and what it told."""

    def __init__(self) -> None:
        self.loop = HandLoop()
        self.told: list[tuple[int, int]] = []
        self.awake_s: list[float] = []
        self.watch = StallWatch(self._take)
        self.watch.start(self.loop)

    def _take(self, ms: int, of_ms: int) -> None:
        if ms:
            self.told.append((ms, of_ms))
        else:
            self.awake_s.append(self.loop.now_s)

    def stand_still(self, seconds: float) -> None:
        """Nothing runs meanwhile; then what was due does."""
        self.loop.now_s += seconds
        self.loop.pass_time(0)


def test_a_node_with_time_says_nothing() -> None:
    """Shows that short delays, as every process has them, are no stalls."""
    fixture = Fixture()
    for _ in range(50):
        fixture.loop.pass_time(0.1)
        fixture.stand_still(0.015)
    assert not fixture.told


def test_a_node_says_that_it_is_awake() -> None:
    """Shows that a node says about once a second, without a longer pause but for a stall, that it has had time."""
    fixture = Fixture()
    fixture.loop.pass_time(5)
    fixture.stand_still(4)
    fixture.loop.pass_time(5)
    apart = sorted(later - sooner for sooner, later in itertools.pairwise(fixture.awake_s))
    assert len(apart) == 7
    assert apart[:-1] == pytest.approx([1.0] * 6, abs=0.11)
    assert apart[-1] == pytest.approx(6.0, abs=0.11), "the stall was told of in between"


def test_one_long_stall() -> None:
    """Shows that a process that stood still says for how long, once, and from when on."""
    fixture = Fixture()
    fixture.loop.pass_time(2.05)
    fixture.stand_still(2.0)
    ((ms, of_ms),) = fixture.told
    assert (ms, of_ms) == (pytest.approx(1950, abs=2), pytest.approx(2050, abs=2))
    fixture.loop.pass_time(3)
    assert len(fixture.told) == 1


def test_many_short_stalls() -> None:
    """Shows that a process that always waits for its turn says so about once a second, and every time is covered."""
    fixture = Fixture()
    for _ in range(40):
        fixture.stand_still(0.25)
    covered = sum(of_ms for _, of_ms in fixture.told)
    assert covered == pytest.approx(10_000, abs=1_100)
    assert all(of_ms <= 1_300 for _, of_ms in fixture.told)


def test_nothing_is_told_after_the_end() -> None:
    """Shows that a watch that was stopped is silent."""
    fixture = Fixture()
    fixture.watch.stop()
    fixture.stand_still(5)
    assert not fixture.told
