"""The round trips of truncation: what the study says."""

from __future__ import annotations

import pytest

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


@pytest.mark.parametrize("shape", SHAPES)
def test_every_form_drops_the_same_records_and_none_that_both_share(shape: str) -> None:
    """Shows pair by pair that the forms differ in round trips alone, and that neither of KIP-595's takes more of them
    than dropping record by record."""
    found = measure(SHAPES[shape], 60)
    kafka, seed, one_by_one = (found[name] for name in ("kafka", "seed", "one by one"))
    assert not any(each.shared for each in (*kafka, *seed, *one_by_one))
    assert [each.dropped for each in kafka] == [each.dropped for each in seed] == [each.dropped for each in one_by_one]
    for told, slow in zip([*kafka, *seed], [*one_by_one, *one_by_one], strict=True):
        assert min(1, slow.rounds) <= told.rounds <= slow.rounds == slow.dropped
