"""What patterns are made for does occur: each situation in some of the first runs of a nemesis that draws it."""

from __future__ import annotations

import pytest

from chaos.nemesis import library
from chaos.nemesis.situations.clients import CLIENTS
from chaos.nemesis.situations.groups import GROUPS
from chaos.nemesis.situations.metadata import METADATA
from chaos.nemesis.situations.quorum import QUORUM
from chaos.nemesis.situations.recovery import RECOVERY
from chaos.nemesis.situations.replicas import REPLICAS
from chaos.scenario.resolve import resolve
from orchestrator.sim_run import run_in_sim
from tests.harness.nemeses import drawing
from tests.harness.situations import Situations

SEEDS = range(1, 13)
NEMESES = {
    "late-begin": "quorum",
    "struck-voter": "quorum",
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
    "late-push": "replication",
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
    "lost-member": "groups",
    "made-anew": "metadata",
    "stale-push": "metadata",
    "former-push": "metadata",
    "failover-at-mint": "metadata",
    "starts-behind": "metadata",
}
"""Pattern -> a nemesis that has a weight for it."""
_PUSHED = {"metadata.propagation": {"push": 1.0}, "offsets.topic.num.partitions": {"1": 1.0}}
OTHERS = {
    "late-push": {"config": {"metadata.propagation": {"push": 1.0}}},
    "stale-push": {"config": _PUSHED},
    "former-push": {"config": _PUSHED, "features": {"kip-232": {"seed": 1.0}}},
    "failover-at-mint": {"config": _PUSHED, "features": {"kip-232": {"seed": 1.0}}},
    "starts-behind": {"config": _PUSHED, "features": {"kip-232": {"seed": 1.0}}},
}
"""Pattern -> what its nemesis draws otherwise here."""


@pytest.mark.parametrize("pattern", NEMESES)
def test_a_situation_occurs_and_breaks_no_promise(pattern: str) -> None:
    """Shows that what a pattern is about occurs within a dozen runs, and that nothing is violated until then."""
    loaded = drawing(NEMESES[pattern], pattern, **OTHERS.get(pattern, {}))
    for seed in SEEDS:
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
