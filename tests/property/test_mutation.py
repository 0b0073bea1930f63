"""Mutated scenarios: valid whatever they are made from, within the bounds of a drawn run, and the same every time."""

from __future__ import annotations

import copy
import random
from functools import cache
from typing import Any

import pytest
import yaml
from hypothesis import given, settings, strategies as st

from chaos.incidents import library
from chaos.mutation import schedule, settings as other_ways
from chaos.mutation.cast import cast_of
from chaos.mutation.mutate import mutate
from chaos.nemesis import library as nemeses
from chaos.nemesis.draw import draw
from chaos.scenario.durations import parse_duration_us, parse_rate
from chaos.scenario.loader import load_text
from chaos.scenario.yaml_text import to_yaml
from tests.harness.examples import examples

Part = dict[str, Any]
SEEDS = st.integers(1, 40)


@cache
def _read(seed: int) -> Part:
    if not seed:
        document = library.load("kip-207").document.value
    else:
        document = yaml.safe_load(to_yaml(draw(nemeses.load("everything").nemesis, seed)))
    assert isinstance(document, dict)
    return document


def drawn(seed: int) -> Part:
    """A drawn document; seed 0: the incident of KIP-207, which is written otherwise. It is the caller's."""
    return copy.deepcopy(_read(seed))


@settings(max_examples=examples(25))
@given(st.one_of(st.just(0), SEEDS), SEEDS, st.integers(0, 2**31))
def test_mutations_are_valid_and_stay_within_the_bounds_of_a_run(one: int, other: int, seed: int) -> None:
    """Shows that whatever a mutation does, the loader takes it, it is something else than before, the chaos is as long
    as before, producers send about 2,000 records at most, and nothing is hit that must not be: no voter is wiped,
    and records are given up only where the configuration says so. What it was made from stays as it was."""
    document, material = drawn(one), drawn(other)
    before = copy.deepcopy((document, material))
    mutated = mutate(document, material, seed)
    assert (document, material) == before
    assert mutated != document
    scenario = load_text(to_yaml(mutated)).scenario
    assert scenario.duration == parse_duration_us(document["duration"])
    producers = [entry.producer for entry in scenario.workload if entry.producer is not None]
    sent = sum(each.rate * each.count for each in producers) * (scenario.duration + other_ways.AROUND_US) / 1_000_000
    assert sent <= other_ways.RECORDS_MAX + len(producers) * 30
    assert len(scenario.chaos) <= max(schedule.ENTRIES_MAX, len(document["chaos"]))
    unclean = cast_of(mutated).unclean
    for entry in scenario.chaos:
        if entry.fault is not None and entry.fault.wipe is not None:
            assert not any("controller" in str(selector) for selector in entry.fault.wipe.nodes)
        if entry.action is not None and entry.action.elect is not None:
            assert unclean or entry.action.elect.type == "preferred"


@settings(max_examples=5)
@given(SEEDS, SEEDS, st.integers(0, 2**31))
def test_a_mutation_is_decided_by_its_seed(one: int, other: int, seed: int) -> None:
    """Shows that the same documents and seed give the same document."""
    assert mutate(drawn(one), drawn(other), seed) == mutate(drawn(one), drawn(other), seed)


@pytest.mark.parametrize("way", schedule.WAYS, ids=lambda way: way.__name__)
def test_each_way_changes_schedules(way: Any) -> None:
    """Shows that no way to change a schedule is without effect."""
    changed = 0
    for seed in range(10):
        document = drawn(seed + 1)
        entries = copy.deepcopy(document["chaos"])
        draw = random.Random(seed)
        cast, duration_us = cast_of(document), parse_duration_us(document["duration"])
        draft = schedule.Draft(draw, copy.deepcopy(entries), drawn(seed + 2)["chaos"], cast, duration_us)
        changed += way(draft) and draft.entries != entries
    assert changed >= 5


@pytest.mark.parametrize("way", other_ways.WAYS, ids=lambda way: way.__name__)
def test_each_way_changes_settings(way: Any) -> None:
    """Shows that no way to change the rest of a scenario is without effect, and that it leaves the schedule alone."""
    changed = 0
    for seed in range(20):
        before, document = drawn(seed + 1), drawn(seed + 1)
        way(document, drawn(seed + 2), random.Random(seed))
        changed += document != before
        assert document["chaos"] == before["chaos"]
    assert changed >= 3


def test_what_comes_from_elsewhere_is_made_to_fit() -> None:
    """Shows that names of nodes and topic partitions that are not there become such as are: brokers, followers by their
    number, partitions, clients, also within what a trigger names."""
    cast = cast_of(
        {
            "cluster": {"voters": 1, "brokers": 2, "topics": {"orders": {"replicas": [[1, 2]]}}},
            "workload": [{"producer": {"topic": "orders", "rate": "10/s"}}],
        }
    )
    entry = {
        "when": {"seen": {"committed": {"tp": "orders-2", "offset": 30}}},
        "fault": {"crash": ["broker-5", "controller-3", "followers(orders-1)[1]", "broker-1"]},
        "for": "1s",
    }
    assert cast.fit(entry) == {
        "when": {"seen": {"committed": {"tp": "orders-0", "offset": 30}}},
        "fault": {"crash": ["broker-1", "controller-1", "followers(orders-0)[0]"]},
        "for": "1s",
    }
    assert cast.fit({"isolate": "consumer-2", "and": "any(3)"}) == {"isolate": "producer-1", "and": "any(2)"}


def test_rates_are_cut_to_what_a_run_may_have() -> None:
    """Shows the bound itself: two producers of 100/s over 12 s and what is around them send 2,000 records in all."""
    document: Part = {
        "duration": "12s",
        "workload": [{"producer": {"rate": "100/s", "count": 2}}, {"consumer": {}}],
    }
    other_ways.within_bounds(document)
    assert parse_rate(document["workload"][0]["producer"]["rate"]) == 50
