"""What a run was set up with, as checks ask for it."""

from __future__ import annotations

from typing import Any

import pytest

from orchestrator.invariants.folds.fold import Profile
from orchestrator.invariants.mirrors.loss_budget import loss_budget

OWN = {"orders": {"config": {"min.insync.replicas": 3}}}
LONE = {"transaction.state.log.min.isr": 2, "transaction.state.log.replication.factor": 1}


@pytest.mark.parametrize(
    ("tp", "config", "expected"),
    [
        ("orders-0", {}, 3),
        ("payments-0", {"min.insync.replicas": 2}, 2),
        ("__consumer_offsets-0", {"min.insync.replicas": 1}, 1),
        ("__transaction_state-0", {"min.insync.replicas": 1}, 2),
        ("__transaction_state-0", LONE, 1),
        ("__remote_log_metadata-1", {"rlmm.config.remote.log.metadata.topic.min.isr": 1}, 1),
    ],
)
def test_the_least_isr_that_a_topic_was_made_with(tp: str, config: dict[str, Any], expected: int) -> None:
    """Shows that topics which brokers make for themselves have a min.insync.replicas of their own, whatever the
    cluster's is, of at most as many as they have replicas; and that so many replicas must lose a committed record."""
    profile = Profile(topics=OWN, config=config)
    assert profile.min_isr(tp) == expected
    assert loss_budget(profile, tp).min_isr == expected
