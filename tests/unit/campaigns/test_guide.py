"""Guides: what they hand out, on landscapes made up for the tests."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import islice
from typing import Any

import yaml

from chaos.scenario.yaml_text import to_yaml
from orchestrator.campaigns.guide import CoverageGuide, Guide, RandomGuide
from orchestrator.campaigns.order import SimOrder

KINDS = ("crash", "pause", "power-loss", "torn-tail", "wipe", "partition")
NEEDLE = ("pause", "wipe", "crash", "torn-tail")
BUDGET = 150


def drawn(seed: int) -> dict[str, Any]:
    """A scenario with four faults, one a second."""
    draw = random.Random(seed)
    return {
        "schema": "krift/v1",
        "name": "toy",
        "seed": seed,
        "duration": "10s",
        "cluster": {"topics": {"t": {"partitions": 1}}},
        "workload": [{"producer": {"topic": "t", "rate": "1/s"}}],
        "chaos": [
            {"when": {"at": f"{second}s"}, "fault": _fault(draw.choice(KINDS)), "for": "1s"} for second in range(1, 5)
        ],
    }


def _fault(kind: str) -> dict[str, Any]:
    return {kind: {"isolate": "broker-1"} if kind == "partition" else "broker-1"}


def fresh() -> Iterator[SimOrder]:
    for seed in range(BUDGET):
        yield SimOrder("toy.yaml", text=to_yaml(drawn(seed)), seed=seed)


def depth(order: SimOrder) -> int:
    """How much of the needle an order's faults show, in the order in which they are written."""
    found = 0
    for entry in yaml.safe_load(order.text)["chaos"]:
        (kind,) = entry["fault"]
        found += found < len(NEEDLE) and kind == NEEDLE[found]
    return found


def carried_out(guide: Guide, backwards: bool = False) -> Iterator[SimOrder]:
    """The orders of a guide that is told how deep each one gets, ten at a time, in their order or backwards."""
    for _ in range(BUDGET // 10):
        given = guide.next_orders(10)
        yield from given
        for order in reversed(given) if backwards else given:
            guide.learn(order, [f"depth/{number}" for number in range(depth(order) + 1)])


def finds(guide: Guide) -> bool:
    """Whether one of its orders has the whole needle."""
    return any(depth(order) == len(NEEDLE) for order in carried_out(guide))


def test_coverage_leads_where_chance_does_not() -> None:
    """Shows that the guide uses what it learns: of six kinds of fault four must come in one order, which takes one
    draw in about 1,300; each step on the way is a new point, and the guided campaign goes up it, while as many fresh
    draws do not find the end."""
    assert finds(CoverageGuide(fresh(), 1, "schedules"))
    assert not finds(RandomGuide(fresh()))


def test_a_guide_may_go_by_some_families_alone() -> None:
    """Shows that what other points are new makes no schedule worth a mutation."""
    guide = CoverageGuide(fresh(), 1, "schedules", families=("depth",))
    for _ in range(3):
        for order in guide.next_orders(10):
            guide.learn(order, ["depth/0", f"deeper/{order.key}"])
    guide.next_orders(1)
    assert (len(guide.corpus), list(guide.seen)) == (1, ["depth/0"])


def test_without_news_there_is_nothing_to_go_by() -> None:
    """Shows that it is coverage which leads: where every run covers the same, one schedule is all there is."""
    guide = CoverageGuide(fresh(), 1, "schedules")
    for _ in range(3):
        for order in guide.next_orders(10):
            guide.learn(order, ["the/same"])
    guide.next_orders(1)
    assert len(guide.corpus) == 1


def test_a_guided_campaign_repeats_whatever_the_order_of_its_results() -> None:
    """Shows that the same guide hands out the same orders, texts and all, when results come in another order; with
    another seed it goes another way."""

    def orders(seed: int, backwards: bool = False) -> list[SimOrder]:
        return list(islice(carried_out(CoverageGuide(fresh(), seed, "schedules"), backwards), 30))

    assert orders(1) == orders(1, backwards=True)
    assert orders(1) != orders(2)


def test_a_mutated_order_carries_its_scenario() -> None:
    """Shows that a mutated order names the file that its scenario belongs into, and has its text: the whole run."""
    guide = CoverageGuide(fresh(), 1, "runs/campaign-toy/schedules", fresh=0.0)
    (order,) = guide.next_orders(1)
    guide.learn(order, ["something/new"])
    mutated, another = guide.next_orders(2)
    assert mutated.source.startswith("runs/campaign-toy/schedules/")
    assert mutated.key != another.key
    assert mutated.plan().schedule != order.plan().schedule
    assert mutated.plan().document["about"].endswith("from toy.yaml.")


def test_rare_points_have_the_energy() -> None:
    """Shows the rule of selection: the fewer runs covered a point, the more it counts."""
    guide = CoverageGuide(fresh(), 1, "schedules", fresh=1.0)
    covered = (["common"], ["common", "a", "b"], ["common"], ["common", "b"])
    for order, points in zip(guide.next_orders(4), covered, strict=True):
        guide.learn(order, points)
    guide.next_orders(1)
    assert [guide.energy(kept) for kept in guide.corpus] == [0.25, 1.75]


def test_a_scenario_that_says_what_happens_in_it_stays_as_it_is() -> None:
    """Shows that incidents of the library are run, learned from, and never mutated."""
    incidents = (SimOrder("kip-207", "kafka", seed) for seed in range(BUDGET))
    guide = CoverageGuide(incidents, 1, "schedules", fresh=0.0)
    for number in range(2):
        orders = guide.next_orders(2)
        assert [order.source for order in orders] == ["kip-207", "kip-207"]
        for order in orders:
            guide.learn(order, [f"new/{number}"])
    assert not guide.corpus
