"""What must hold of the clocks of a machine whatever faults overlap on it."""

from __future__ import annotations

from hypothesis import given, settings, strategies as st

from actors.control import AnyAction, ClockSkew, RestoreClock, SkewClock
from actors.machine_clock import MILLION, RATE_MIN_PPM, MachineClock
from actors.node.effects import AnyEffect, Record, SetTimer
from actors.node.events import AnyEvent, ClockStepped, Started, TimedOut
from actors.trace.events import MetaImage
from tests.harness.toys import Script, Stage

offsets = st.integers(-40_000_000, 40_000_000)
rates = st.one_of(st.just(0), st.integers(RATE_MIN_PPM, 9 * MILLION))
changes = st.lists(
    st.tuples(st.integers(0, 3_000_000), st.sampled_from("abc"), st.one_of(st.none(), st.tuples(offsets, rates))),
    max_size=20,
)
"""Time that passes, and then a fault that begins (offset and rate) or ends (None)."""


@settings(max_examples=200)
@given(changes)
def test_the_monotonic_clock_never_goes_back_and_the_wall_clock_is_right_again(
    steps: list[tuple[int, str, tuple[int, int] | None]],
) -> None:
    """Shows that under any overlapping faults the monotonic clock only rises, that a change says how far the wall
    clock stepped, and that a machine on which no fault is left has the true time."""
    clock, now_us, last_us = MachineClock(), 0, 0
    for passed, fault, error in steps:
        now_us += passed
        assert clock.monotonic_us(now_us) >= last_us
        before_us = clock.monotonic_us(now_us) + clock.offset_us
        change = clock.end(fault, now_us) if error is None else clock.begin(ClockSkew(fault, *error), now_us)
        last_us = clock.monotonic_us(now_us)
        assert last_us + clock.offset_us - before_us == change.step_us
        assert change.after_ppm == clock.rate_ppm >= RATE_MIN_PPM
    for fault in list(clock.skews):
        clock.end(fault, now_us)
    assert clock.monotonic_us(now_us) + clock.offset_us == now_us
    assert clock.monotonic_us(now_us + 1000) - clock.monotonic_us(now_us) == 1000


@settings(max_examples=200)
@given(st.integers(RATE_MIN_PPM, 9 * MILLION), st.integers(0, 10**9))
def test_a_delay_is_as_long_on_the_clock_as_it_was_set(rate_ppm: int, delay_us: int) -> None:
    """Shows that a timer set for a delay fires, within rounding, when the node's monotonic clock has gone that far."""
    clock = MachineClock()
    clock.begin(ClockSkew("a", 0, rate_ppm), 0)
    assert 0 <= delay_us - clock.monotonic_us(clock.true_us(delay_us)) <= 11


schedules = st.lists(
    st.tuples(st.integers(0, 400), st.sampled_from("ab"), st.one_of(st.none(), st.tuples(offsets, rates))), max_size=8
)


@settings(max_examples=60)
@given(schedules, st.integers(0, 1000))
def test_a_node_under_clock_faults_sees_time_pass_and_is_told_of_every_step(
    schedule: list[tuple[int, str, tuple[int, int] | None]], seed: int
) -> None:
    """Shows that in the sim the times a node is given never go back, that timers fire when they should by them, that a
    timer of the wall clock alone notices its steps, and that the trace keeps the true time."""
    skews: set[str] = set()
    at: dict[int, list[AnyAction]] = {}
    for time_ms, fault, error in sorted(schedule, key=lambda item: item[0]):
        if error is not None:
            skews.add(fault)
            at.setdefault(time_ms * 1000, []).append(SkewClock("node", ClockSkew(fault, *error)))
        elif fault in skews:
            skews.remove(fault)
            at.setdefault(time_ms * 1000, []).append(RestoreClock("node", fault))
    due: dict[str, int] = {}
    offset_ms = [0]

    def behave(now_ms: int, event: AnyEvent) -> list[AnyEffect]:
        if isinstance(event, ClockStepped):
            offset_ms[0] = event.offset_ms
            return []
        name = event.timer if isinstance(event, TimedOut) else ""
        if name == "steady":
            assert now_ms >= due[name] - 1
        if name == "wall":
            assert now_ms + offset_ms[0] >= due[name] - 2
        again = [name] if name else ["steady", "wall"] if isinstance(event, Started) else []
        due.update({name: now_ms + 20 + (offset_ms[0] if name == "wall" else 0) for name in again})
        return [Record(MetaImage(now_ms, 0)), *(SetTimer(each, 20, 20, each == "wall") for each in again)]

    stage = Stage({"node": behave}, Script(500_000, at), seed)
    result = stage.world.run(1_000_000)
    assert not result.failures, result.failures[0].traceback
    times = [now for now, _ in stage.seen["node"]]
    assert times == sorted(times)
    walls = [event.wall for event in result.trace]
    assert walls == sorted(walls)
    assert walls[-1] <= 500_000
