"""The timers of a live node."""

from __future__ import annotations

import random

from actors.live.timers import Timers
from actors.machine_clock import Change
from tests.unit.live.loop import HandLoop


class Fixture:
    """Timers, and what they told."""

    def __init__(self, seed: int = 1) -> None:
        self.loop = HandLoop()
        self.fired: list[tuple[float, str, int]] = []
        self.timers = Timers(self.loop, random.Random(seed), self.fire)

    def fire(self, name: str, setting: int) -> None:
        self.fired.append((round(self.loop.time(), 3), name, setting))


def test_a_timer_fires_once_within_its_range() -> None:
    """Shows that a delay is drawn from the range, both ends included, and that a fixed one is exact."""
    delays = set()
    for seed in range(50):
        fixture = Fixture(seed)
        fixture.timers.set("election", 10, 12)
        fixture.loop.pass_time(1)
        ((at, _name, _setting),) = fixture.fired
        delays.add(at)
    assert delays == {0.010, 0.011, 0.012}
    fixture = Fixture()
    fixture.timers.set("fetch", 7, 7)
    fixture.loop.pass_time(1)
    assert fixture.fired == [(0.007, "fetch", 1)]


def test_setting_again_and_cancelling_stop_the_one_before() -> None:
    """Shows that a name denotes one timer."""
    fixture = Fixture()
    fixture.timers.set("a", 10, 10)
    fixture.timers.set("b", 10, 10)
    fixture.loop.pass_time(0.005)
    fixture.timers.set("a", 10, 10)
    fixture.timers.cancel("b")
    fixture.loop.pass_time(1)
    assert fixture.fired == [(0.015, "a", 3)]


def test_a_timer_that_is_over_may_still_be_cancelled() -> None:
    """Shows that the step of a timer that fired is not taken if it was cancelled or set anew before, and once only."""
    fixture = Fixture()
    for name in ("taken", "cancelled", "renewed"):
        fixture.timers.set(name, 10, 10)
    fixture.loop.pass_time(0.010)
    assert [name for _, name, _ in fixture.fired] == ["taken", "cancelled", "renewed"]
    fixture.timers.cancel("cancelled")
    fixture.timers.set("renewed", 10, 10)
    assert [fixture.timers.take(name, setting) for _, name, setting in fixture.fired] == [True, False, False]
    assert not fixture.timers.take("taken", 1)


def test_all_are_cancelled_at_the_end() -> None:
    """Shows that a node that stopped gets no timer."""
    fixture = Fixture()
    fixture.timers.set("a", 10, 10)
    fixture.timers.cancel_all()
    fixture.loop.pass_time(1)
    assert not fixture.fired
    assert not fixture.timers.take("a", 1)


def test_what_arrived_while_the_process_stood_still_comes_before_its_timers() -> None:
    """Shows that a timer which finds itself long overdue, as after SIGCONT, waits a moment for what gRPC has to hand
    over, that a cancellation in that moment counts, and that a timer which is in time does not wait."""
    fixture = Fixture()
    fixture.timers.set("late", 10, 10)
    fixture.timers.set("cancelled", 10, 10)
    fixture.loop.now_s = 5.0
    fixture.loop.pass_time(0.001)
    assert fixture.fired == []
    fixture.timers.cancel("cancelled")
    fixture.timers.set("prompt", 20, 20)
    fixture.loop.pass_time(1)
    assert fixture.fired == [(5.021, "prompt", 3), (5.05, "late", 1)]


def test_timers_of_the_wall_clock_notice_its_steps() -> None:
    """Shows that a step forward brings a wall timer nearer, at most to now, that a step back puts it off, and that
    others do not notice."""
    fixture = Fixture()
    for name, wall in (("fetch", True), ("heartbeat", False), ("check", True)):
        fixture.timers.set(name, 2000 if name == "check" else 1000, 2000 if name == "check" else 1000, wall)
    fixture.timers.clock_changed(Change(1_500_000, 0, 0))
    fixture.loop.pass_time(0.1)
    assert fixture.fired == [(0.0, "fetch", 1)]
    fixture.timers.clock_changed(Change(-2_000_000, 0, 0))
    fixture.loop.pass_time(5)
    assert fixture.fired[1:] == [(1.0, "heartbeat", 2), (2.5, "check", 3)]


def test_a_clock_that_runs_too_fast_shortens_delays() -> None:
    """Shows that delays are measured by the node's clock, and what is left of a running one as well."""
    fixture = Fixture()
    fixture.timers.set("running", 1000, 1000)
    fixture.timers.clock_changed(Change(0, 0, 1_000_000))
    fixture.loop.pass_time(2)
    fixture.timers = Timers(fixture.loop, random.Random(1), fixture.fire, lambda ms: ms / 2000)
    fixture.timers.set("election", 1000, 1000)
    fixture.loop.pass_time(2)
    assert fixture.fired == [(0.5, "running", 1), (2.5, "election", 1)]
