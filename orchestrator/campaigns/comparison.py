"""The same seeds under two settings: what became of each pair of runs, and how the two sides differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec
import numpy as np

from chaos.plan import Expectation, Plan
from chaos.words import switched
from orchestrator.campaigns.intervals import mean_intervals, rate_interval, sign_test
from orchestrator.campaigns.order import SimOrder
from orchestrator.campaigns.record import RunRecord
from orchestrator.campaigns.work import carry_out
from orchestrator.invariants.registry import INVARIANTS
from orchestrator.metrics import Metrics, RunMetrics, rank, title, unit
from orchestrator.sim_run import Observer
from orchestrator.verdict import NOT_CARRIED_OUT


class Pair(msgspec.Struct, frozen=True):
    """One seed, to be run both ways."""

    a: SimOrder
    b: SimOrder


class Measured(msgspec.Struct, frozen=True):
    """One run of a pair. metrics: empty if it could not be carried out."""

    record: RunRecord
    metrics: Metrics


class MeasuredPair(msgspec.Struct, frozen=True):
    """Both runs of a seed."""

    a: Measured
    b: Measured

    @property
    def counts(self) -> bool:
        """Whether both could be carried out: else there is nothing to compare."""
        return NOT_CARRIED_OUT not in (self.a.record.exit_code, self.b.record.exit_code)


def measure(pair: Pair, code: str = "") -> MeasuredPair | None:
    """Do both runs; None if a signal cut one short. ``code``: as for ``carry_out``. Raises RunError like it."""
    a = _measured(pair.a, code)
    b = _measured(pair.b, code) if a is not None else None
    return MeasuredPair(a, b) if a is not None and b is not None else None


def _measured(order: SimOrder, code: str) -> Measured | None:
    observers: list[RunMetrics] = []

    def observe(plan: Plan) -> Observer:
        observers.append(RunMetrics(plan))
        return observers[0]

    record = carry_out(order, code, observe)
    if record is None:
        return None
    return Measured(record, observers[0].metrics() if record.exit_code != NOT_CARRIED_OUT else {})


def alike(one: Plan, other: Plan) -> bool:
    """Whether two plans make the same run, whatever is expected of it."""
    return _bare(one) == _bare(other)


def _bare(plan: Plan) -> Plan:
    return msgspec.structs.replace(plan, variant="", about="", expect=Expectation(), document={})


# ---- what it amounts to ----------------------------------------------------------------------------------


class Side(msgspec.Struct, frozen=True):
    """One of the two settings. settings: those of this side alone. not_carried_out, undecided: runs of which nothing,
    or not everything that was to be seen, can be told; why: of those, how many there are of each reason."""

    variant: str
    settings: list[str]
    not_carried_out: int = 0
    undecided: int = 0
    why: dict[str, int] = {}

    @property
    def label(self) -> str:
        """``features.kip-207=seed (as proposed)``."""
        parts = [f"variant {switched(self.variant)}"] if self.variant else []
        return ", ".join([*parts, *map(_in_words, self.settings)]) or "the scenario as it is"


def _in_words(setting: str) -> str:
    """A setting, with the name of a switch's value beside it where that is another one."""
    key, _, value = setting.partition("=")
    name = switched(value) if key.startswith("features.") else value
    return setting if name == value else f"{setting} ({name})"


class Violated(msgspec.Struct, frozen=True):
    """An invariant that was violated in at least one run. a, b: in how many runs of each side; a_rate, b_rate: exact
    95 % intervals for how often it is. only_a, only_b: pairs in which one side violated it and the other did not.
    p: how likely they fall so unevenly if the setting made no difference (McNemar's exact test)."""

    invariant: str
    title: str
    a: int
    b: int
    a_rate: tuple[float, float]
    b_rate: tuple[float, float]
    only_a: int
    only_b: int
    p: float


class Difference(msgspec.Struct, frozen=True):
    """A measure. a, b: means of each side; difference: mean of b - a over pairs; low, high: its 95 % interval, null
    where one pair says nothing. lower, higher: pairs in which b is lower, or higher, than a."""

    metric: str
    title: str
    unit: Literal["", "s", "ms"]
    a: float
    b: float
    difference: float
    low: float | None
    high: float | None
    lower: int
    higher: int


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """What ``krift compare`` ends in. seeds: first and last. pairs: that were compared."""

    schema: Literal["krift-comparison/v1"] = "krift-comparison/v1"
    krift: str
    scenario: str
    common: list[str]
    a: Side
    b: Side
    seeds: tuple[int, int]
    pairs: int
    violated: list[Violated]
    differences: list[Difference]
    again: str
    kept_in: str


def side(given: Side, runs: Sequence[RunRecord]) -> Side:
    """A side with what could not be told of its runs."""
    why: Counter[str] = Counter()
    for run in runs:
        if run.exit_code == NOT_CARRIED_OUT:
            why[run.signature] += 1
        else:
            why.update(run.undecided)
    return msgspec.structs.replace(
        given,
        not_carried_out=sum(run.exit_code == NOT_CARRIED_OUT for run in runs),
        undecided=sum(bool(run.undecided) and run.exit_code != NOT_CARRIED_OUT for run in runs),
        why=dict(why.most_common()),
    )


def violations(pairs: Sequence[MeasuredPair]) -> list[Violated]:
    """Of pairs that count: each invariant that was violated anywhere, in the order of the registry."""
    found = []
    for name, invariant in INVARIANTS.items():
        both = [tuple(_is_violated(run, name) for run in (pair.a.record, pair.b.record)) for pair in pairs]
        in_a, in_b = sum(a for a, _ in both), sum(b for _, b in both)
        if in_a or in_b:
            only_a, only_b = both.count((True, False)), both.count((False, True))
            rates = rate_interval(in_a, len(pairs)), rate_interval(in_b, len(pairs))
            found.append(Violated(name, invariant.title, in_a, in_b, *rates, only_a, only_b, sign_test(only_a, only_b)))
    return found


def _is_violated(run: RunRecord, invariant: str) -> bool:
    tally = run.tallies.get(invariant)
    return tally is not None and tally.status == "violated"


def differences(pairs: Sequence[MeasuredPair]) -> list[Difference]:
    """Of pairs that count, each measure; what a run does not have counts as 0, except that a latency is compared only
    over pairs that both have it."""
    rows = [(_all_metrics(pair.a), _all_metrics(pair.b)) for pair in pairs]
    names = sorted({name for row in rows for metrics in row for name in metrics}, key=rank)
    whole = [name for name in names if not name.startswith("latency.")]
    found = {each.metric: each for each in _differences(rows, whole)}
    for name in names:
        if name not in found:
            both = [row for row in rows if name in row[0] and name in row[1]]
            found |= {each.metric: each for each in _differences(both, [name])} if both else {}
    return [found[name] for name in names if name in found]


def _all_metrics(run: Measured) -> Metrics:
    """With what the invariants found."""
    tallies = run.record.tallies.items()
    found = {f"findings.{name}": float(tally.violated) for name, tally in tallies if tally.violated}
    excused = {f"excused.{name}": float(tally.excused) for name, tally in tallies if tally.excused}
    return run.metrics | found | excused


def _differences(rows: Sequence[tuple[Metrics, Metrics]], names: Sequence[str]) -> Iterator[Difference]:
    if not rows or not names:
        return
    a, b = (np.array([[row[one].get(name, 0.0) for name in names] for row in rows]) for one in (0, 1))
    apart = b - a
    for column, (name, interval) in enumerate(zip(names, mean_intervals(apart), strict=True)):
        means = float(a[:, column].mean()), float(b[:, column].mean()), float(apart[:, column].mean())
        lower, higher = int((apart[:, column] < 0).sum()), int((apart[:, column] > 0).sum())
        low, high = interval or (None, None)
        yield Difference(name, title(name), unit(name), *means, low, high, lower, higher)


def per_pair(pairs: Sequence[MeasuredPair], metric: str) -> list[float]:
    """b - a of a measure, of each pair that has it."""
    rows = [(_all_metrics(pair.a), _all_metrics(pair.b)) for pair in pairs]
    if metric.startswith("latency."):
        rows = [row for row in rows if metric in row[0] and metric in row[1]]
    return [b.get(metric, 0.0) - a.get(metric, 0.0) for a, b in rows]
