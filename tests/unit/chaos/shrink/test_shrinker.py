"""The shrinker, with predicates in place of runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from chaos.scenario.loader import load_value
from chaos.shrink.measure import size_of
from chaos.shrink.shrinker import REDRAWN, Shown, Shrinker
from chaos.shrink.steady import steadier
from tests.unit.chaos.shrink.toys import fails_if, kinds, only, shrunk, toy


def two_steps(document: Mapping[str, Any]) -> bool:
    return {"crash", "elect"} <= set(kinds(document)) and document["cluster"]["brokers"] >= 2


def test_all_passes_together_leave_what_the_failure_needs() -> None:
    """Shows a scenario of six steps, five clients and nine nodes come down to what the predicate asks for."""
    shrinker = shrunk(two_steps)
    found = shrinker.best
    assert two_steps(found) and shrinker.why == "nothing gets smaller"
    assert sorted(kinds(found)) == ["crash", "elect"]
    assert (found["cluster"]["voters"], found["cluster"]["brokers"]) == (1, 2)
    assert len(found["workload"]) == 1
    assert "nodes" not in found and "versions" not in found
    assert sum(count.smaller for count in shrinker.counts.values()) > 10
    assert sum(count.tried for count in shrinker.counts.values()) == shrinker.runs


def test_every_candidate_is_a_legal_scenario_and_smaller() -> None:
    """Shows that nothing is run that the loader refuses, or that is not smaller than the best at that time; and nothing
    twice."""
    asked: list[Mapping[str, Any]] = []
    Shrinker(toy(), fails_if(two_steps, asked), budget=2_000, stall=2_000).run()
    assert len(asked) > 50
    best = size_of(toy())
    for document in asked:
        load_value(document)
        assert size_of(document) < best
        if two_steps(document):
            best = size_of(document)
    assert len({repr(document) for document in asked}) == len(asked)


@pytest.mark.parametrize("width", [2, 5])
def test_how_many_run_at_a_time_does_not_matter(width: int) -> None:
    """Shows the same outcome, with the same counters, whether candidates are run one by one or several at a time."""
    one, many = shrunk(two_steps), shrunk(two_steps, width=width)
    assert many.best == one.best
    assert (many.runs, many.counts) == (one.runs, one.counts)


@pytest.mark.parametrize("budget", [1, 7, 30])
def test_the_budget_is_kept(budget: int) -> None:
    """Shows that no more runs are done than there may be, also several at a time, and that the outcome still fails."""
    asked: list[Mapping[str, Any]] = []
    shrinker = Shrinker(toy(), fails_if(two_steps, asked), budget=budget, width=4)
    shrinker.run()
    assert (len(asked), shrinker.runs, shrinker.why) == (budget, budget, "the budget is spent")
    assert two_steps(shrinker.best)


def test_it_gives_up_when_nothing_helps_for_long() -> None:
    """Shows the stall budget."""
    shrinker = Shrinker(toy(), fails_if(lambda document: False), stall=12)
    assert shrinker.run() == toy()
    assert (shrinker.runs, shrinker.why) == (12, "no progress in 12 runs")


def test_other_seeds_are_tried_when_nothing_else_helps() -> None:
    """Shows that a step goes although the draws without it happen not to show the failure; the seed changes then, and
    at no other time."""

    def fails(document: Mapping[str, Any]) -> bool:
        return "crash" in kinds(document) and (len(document["chaos"]) > 1 or document["seed"] == 3)

    shrinker = shrunk(fails, only("fewer-steps"))
    assert (kinds(shrinker.best), shrinker.best["seed"]) == (["crash"], 3)
    assert shrinker.counts[REDRAWN].smaller == 1
    assert shrunk(two_steps, only("fewer-steps")).best["seed"] == toy()["seed"]


def test_who_is_interrupted_has_the_best_so_far() -> None:
    """Shows that an exception of a run leaves the smallest that was seen to fail."""

    def fails(documents: Sequence[Mapping[str, Any]]) -> Iterator[Shown]:
        for document in documents:
            if shrinker.runs == 8:
                raise KeyboardInterrupt
            yield Shown(two_steps(document))

    shrinker = Shrinker(toy(), fails)
    with pytest.raises(KeyboardInterrupt):
        shrinker.run()
    assert two_steps(shrinker.best)
    assert size_of(shrinker.best) < size_of(toy())


def test_it_tells_where_it_stands_and_what_was_odd() -> None:
    """Shows a line of progress for every run, and that what Krift stumbles over is told once and is no failure."""
    lines = []

    def fails(documents: Sequence[Mapping[str, Any]]) -> Iterator[Shown]:
        yield from (Shown(False, odd="AssertionError: so") for _ in documents)

    shrinker = Shrinker(toy(), fails, budget=5, show=lines.append)
    shrinker.run()
    assert [line.runs for line in lines] == [1, 2, 3, 4, 5]
    assert (lines[0].name, lines[0].size) == ("fewer-steps", size_of(toy()))
    assert shrinker.odd == ["AssertionError: so"]


def test_variants_with_more_time_are_legal_and_keep_the_schedule() -> None:
    """Shows what is tried where a scenario fails by a hair: the same steps, more time."""
    for document in steadier(shrunk(two_steps).best):
        load_value(document)
        assert sorted(kinds(document)) == ["crash", "elect"]
    most = steadier(shrunk(two_steps).best)[-1]
    assert [step["for"] for step in most["chaos"] if "for" in step] == ["3s"]
