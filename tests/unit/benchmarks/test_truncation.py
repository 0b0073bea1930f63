"""The round trips of truncation: what the study says."""

from __future__ import annotations

from benchmarks.truncation import RULES, SHAPES, measure, reconcile, table
from tests.architecture.sources import ROOT

STUDY = ROOT / "docs" / "studies" / "kip-595-divergence.md"


def test_the_study_has_what_is_measured() -> None:
    """Shows that the table of the study is what the nodes' rules give, and that none cuts what both logs share."""
    assert "\n".join(table()) in STUDY.read_text(encoding="utf-8")


def test_an_epoch_says_more_than_an_offset() -> None:
    """Shows where the forms differ: the follower's epoch 1 ends at 3 and it has an epoch 2 that the leader lacks, whose
    epoch 1 ends at 6. Told epoch and offset it cuts at 3 at once, told the offset alone only at the second time."""
    follower, leader = [1] * 3 + [2] * 7, [1] * 6 + [3] * 2
    rounds = {name: reconcile(rule, follower, leader) for name, rule in RULES.items()}
    assert [(each.rounds, each.dropped) for each in rounds.values()] == [(1, 7), (2, 7), (7, 7)]


def test_logs_that_agree_need_nothing() -> None:
    """Shows that a follower that is merely behind cuts nothing."""
    assert all(reconcile(rule, [1, 1], [1, 1, 2]).rounds == 0 for rule in RULES.values())
    assert all(
        each.dropped > 0 or each.rounds == 0
        for some in measure(SHAPES["one epoch of its own"], 20).values()
        for each in some
    )
