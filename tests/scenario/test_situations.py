"""What patterns are made for does occur: each situation in some of the first runs of a nemesis that draws it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from actors.defects.catalogue import DEFECTS
from chaos.nemesis import library
from chaos.nemesis.situations.clients import CLIENTS
from chaos.nemesis.situations.groups import GROUPS
from chaos.nemesis.situations.metadata import METADATA
from chaos.nemesis.situations.quorum import QUORUM
from chaos.nemesis.situations.recovery import RECOVERY
from chaos.nemesis.situations.replicas import REPLICAS
from chaos.nemesis.situations.retention import RETENTION
from chaos.nemesis.situations.tiers import TIERS
from chaos.nemesis.situations.transactions import TRANSACTIONS
from chaos.scenario.resolve import resolve
from orchestrator.sim_run import run_in_sim
from tests.harness.nemeses import drawing
from tests.harness.situations import Situations

SEEDS = range(1, 13)
NEMESES = {
    "late-begin": "quorum",
    "struck-voter": "quorum",
    "stands-in-vain": "quorum",
    "quorum-leads-twice": "quorum",
    "change-at-election": "voters",
    "bounce-at-election": "quorum",
    "slow-commits": "replication",
    "busy-slow-leader": "quorum",
    "late-answer": "isr",
    "leads-twice": "sparse",
    "long-tail": "isr",
    "asks-late": "isr",
    "fetches-on": "isr",
    "late-fetch": "isr",
    "restarts-alone": "isr",
    "unheard-life": "isr",
    "late-push": "replication",
    "keeps-behind": "isr",
    "waits-to-stop": "upgrade",
    "again-in-recovery": "isr",
    "again-in-truncation": "isr",
    "again-in-rejoin": "isr",
    "again-lagging": "clients",
    "again-unclean": "unclean",
    "unanswered": "sparse",
    "again-in-retry": "clients",
    "old-producer": "clients",
    "stale-client": "clients",
    "divergent-reader": "unclean",
    "failover-in-rebalance": "groups",
    "dies-in-rebalance": "groups",
    "commits-wait": "groups",
    "former-coordinator": "groups",
    "late-commit": "groups",
    "late-join": "groups",
    "late-beat": "groups",
    "lost-member": "groups",
    "dies-unheard": "groups",
    "all-away": "groups",
    "made-anew": "metadata",
    "stale-push": "metadata",
    "former-push": "metadata",
    "failover-at-mint": "metadata",
    "starts-behind": "metadata",
    "goes-back-behind": "metadata",
}
"""Pattern -> a nemesis that has a weight for it."""
_PUSHED = {"metadata.propagation": {"push": 1.0}, "offsets.topic.num.partitions": {"1": 1.0}}
OTHERS = {
    "all-away": {
        "config": {
            "offsets.topic.num.partitions": {"1": 1.0},
            "offsets.retention.check.interval.ms": {"300": 1.0},
            "krift.offsets.retention.ms": {"500": 1.0},
        }
    },
    "late-push": {"config": {"metadata.propagation": {"push": 1.0}}},
    "stale-push": {"config": _PUSHED},
    "former-push": {"config": _PUSHED, "features": {"kip-232": {"seed": 1.0}}},
    "failover-at-mint": {"config": _PUSHED, "features": {"kip-232": {"seed": 1.0}}},
    "starts-behind": {"config": _PUSHED, "features": {"kip-232": {"seed": 1.0}}},
    "goes-back-behind": {"config": _PUSHED, "features": {"kip-232": {"kafka": 1.0}}},
}
"""Pattern -> what its nemesis draws otherwise here."""
GIVEN_AWAY = {
    "late-end": ("transactions", "older-end-taken"),
    "late-markers": ("transactions", "markers-counted-unanswered"),
    "markers-twice": ("transactions", "late-marker-taken"),
    "decided-and-gone": ("transactions", "markers-not-resumed"),
    "taken-over": ("transactions", "timeouts-forgotten-at-load"),
    "markers-of-former": ("transactions", "former-coordinators-marker-taken"),
    "read-again": ("transactions", "aborted-index-of-leaders-only"),
    "open-positions": ("processors", "offsets-taken-at-abort"),
    "late-batch": ("transactions", "verification-outlives-marker"),
    "late-raise": ("transactions", "former-raises-epoch"),
    "repeated-init": ("transactions", "repeated-init-fenced"),
    "markers-of-one": ("unclean-transactions", "markers-cut-with-the-rest"),
    "slow-lookups": ("tiers", "lookup-outlives-leadership"),
    "crowded-lookups": ("tiers", "expiry-drops-finished"),
    "moved-lookups": ("tiers", "loss-leaves-reads"),
    "crowded-fetches": ("tiers", "remote-fetch-waits-as-asked"),
    "forgotten-start": ("tiers", "log-start-unfound"),
    "untold-copies": ("tiers", "metadata-topic-given-up"),
    "passed-reader": ("retention", "below-start-served"),
    "start-in-segment": ("retention", "log-starts-uncheckpointed"),
    "changed-limits": ("retention", "limits-not-taken-up"),
}
"""Pattern of transactions, tiers or deletions -> a nemesis that has a weight for it, and a defect that shows in it."""
BEGIN_WITH = {
    "late-answer": 5,
    "late-fetch": 2,
    "late-join": 5,
    "again-in-recovery": 3,
    "again-in-rejoin": 3,
    "old-producer": 3,
    "stale-client": 3,
    "late-end": 5,
    "late-markers": 4,
    "late-batch": 25,
    "late-raise": 8,
    "taken-over": 9,
    "markers-of-one": 5,
    "slow-lookups": 3,
    "crowded-lookups": 3,
}
"""Pattern -> the seed to try first. Those before it do not show what it is about, and one has two million events."""


LARGE = (
    *("crowded-lookups", "forgotten-start", "slow-lookups", "moved-lookups"),
    *("untold-copies", "crowded-fetches", "passed-reader"),
)
"""Patterns whose run is large."""


def seeds_of(pattern: str) -> Iterable[int]:
    """The seeds to try, in their order."""
    return dict.fromkeys([BEGIN_WITH.get(pattern, SEEDS[0]), *SEEDS])


def one_of_each(patterns: dict[str, str]) -> list[Any]:
    """Patterns with their nemeses: the first of each nemesis for ``make test``, the others for ``make test-all``."""
    first = {name: pattern for pattern, name in reversed(patterns.items()) if pattern not in LARGE}
    further = set(patterns).difference(first.values())
    return [pytest.param(each, marks=pytest.mark.further) if each in further else each for each in patterns]


@pytest.mark.parametrize("pattern", one_of_each(NEMESES))
def test_a_situation_occurs_and_breaks_no_promise(pattern: str) -> None:
    """Shows that what a pattern is about occurs within a dozen runs, and that nothing is violated until then."""
    loaded = drawing(NEMESES[pattern], pattern, **OTHERS.get(pattern, {}))
    for seed in seeds_of(pattern):
        situations = Situations()
        run = run_in_sim(resolve(loaded.drawn(seed), "", seed), [situations])
        assert run.exit_code == 0, (seed, run.verdict.unexpected, run.verdict.undecided)
        if situations.seen.get(pattern):
            return
    pytest.fail(f"{pattern} did not occur in {len(SEEDS)} runs")


def test_each_situation_is_drawn_by_its_nemesis_and_by_everything() -> None:
    """Shows that none is forgotten here or in the files."""
    assert set(NEMESES) == {*QUORUM, *REPLICAS, *RECOVERY, *CLIENTS, *GROUPS, *METADATA}
    everything = library.load("everything").nemesis.chaos.pattern
    for pattern, name in NEMESES.items():
        assert library.load(name).nemesis.chaos.pattern[pattern]
        assert everything[pattern]


@pytest.mark.parametrize("pattern", one_of_each({each: name for each, (name, _) in GIVEN_AWAY.items()}))
def test_a_situation_gives_a_defect_away(pattern: str) -> None:
    """Shows that what a pattern is about occurs in the run that is named, or within a dozen: the defect is caught that
    shows in it."""
    name, defect = GIVEN_AWAY[pattern]
    meant = DEFECTS[defect].caught_by
    settings = [each for each in DEFECTS[defect].settings if not each.startswith("features.")]
    features = dict(
        each.removeprefix("features.").split("=") for each in DEFECTS[defect].settings if each not in settings
    )
    others = {"features": {feature: {value: 1.0} for feature, value in features.items()}} if features else {}
    loaded = drawing(name, pattern, **others)
    for seed in seeds_of(pattern):
        plan = resolve(loaded.drawn(seed), "", seed, settings, (defect,))
        verdict = run_in_sim(plan, stop_at=meant, only=[meant]).verdict
        if any(each.violated for each in verdict.invariants):
            return
    pytest.fail(f"{pattern} did not occur in {len(SEEDS)} runs")


@pytest.mark.further
def test_a_producer_that_lingers_gives_a_defect_away() -> None:
    """Shows that a drawn producer stays in its last transaction for longer than the bound of T9: a coordinator is
    caught that never ends one, and one that does breaks no promise."""
    drawn = library.load("transactions")
    workload = drawn.nemesis.workload.model_copy(update={"lingers": {"yes": 1.0}})
    loaded = msgspec.structs.replace(drawn, nemesis=drawn.nemesis.model_copy(update={"workload": workload}))
    for seed in SEEDS:
        plan = resolve(loaded.drawn(seed), "", seed, (), ("transactions-never-time-out",))
        verdict = run_in_sim(plan, stop_at="T9", only=["T9"]).verdict
        if any(each.violated for each in verdict.invariants):
            run = run_in_sim(resolve(loaded.drawn(seed), "", seed))
            assert run.exit_code == 0, (seed, run.verdict.unexpected, run.verdict.undecided)
            return
    pytest.fail(f"no producer lingered in {len(SEEDS)} runs")


def test_each_other_situation_is_drawn_by_its_nemesis() -> None:
    """Shows that none is forgotten here or in the files."""
    assert set(GIVEN_AWAY) == {*TRANSACTIONS, *TIERS, *RETENTION}
    for pattern, (name, _) in GIVEN_AWAY.items():
        assert library.load(name).nemesis.chaos.pattern[pattern]
