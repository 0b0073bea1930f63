"""What is kept of each of many runs."""

from __future__ import annotations

import pickle

import pytest

from orchestrator.campaigns.order import SimOrder
from orchestrator.campaigns.record import record_of
from orchestrator.campaigns.signature import shape
from orchestrator.sim_run import run_in_sim

FAILS = SimOrder("kip-207", "kafka", settings=("features.kip-207=off",))


@pytest.mark.parametrize(
    ("sentence", "without"),
    [
        (
            "list-offsets-1 was told 1,204 by broker-2 (leader epoch 5) after broker-1 (leader epoch 4) had told 1,310",
            "list-offsets-# was told # by broker-# (leader epoch #) after broker-# (leader epoch #) had told #",
        ),
        ("orders-0 counts [1, 3], not producer-1/0/17", "orders-# counts [#], not producer-#"),
        ("controller-3 gave epoch -1", "controller-# gave epoch #"),
    ],
)
def test_signatures_leave_out_what_differs_from_run_to_run(sentence: str, without: str) -> None:
    """Shows that two failures of one kind have one signature, whichever nodes and offsets they are about."""
    assert shape(sentence) == without


def test_a_failure_is_recorded_with_its_signature() -> None:
    """Shows that the record of a run has the signature of what failed first, and when; and that it can travel."""
    plan = FAILS.plan()
    record = record_of(FAILS, run_in_sim(plan), 1.5)
    assert (record.exit_code, record.outcome) == (1, "violated")
    assert record.signature.startswith("H1: broker-# (leader epoch #) reported # as the latest offset of orders-# to")
    assert record.tallies["H1"].violated > 0
    assert 0 < record.tallies["H1"].first_us < record.virtual_us
    assert pickle.loads(pickle.dumps(record)) == record
    assert FAILS.reproduce(plan).startswith("krift run kip-207 --runtime sim --variant kafka --seed 7 --set features")


def test_a_run_that_holds_has_no_signature() -> None:
    """Shows that what goes as expected leaves none."""
    order = SimOrder("kip-207", "kafka", seed=3)
    record = record_of(order, run_in_sim(order.plan()), 0.1)
    assert (record.exit_code, record.signature, record.sentence, record.seed) == (0, "", "", 3)


def test_what_a_rule_allows_to_be_lost_is_recorded() -> None:
    """Shows that acknowledged records which an unclean election lost are counted by that rule, and not as losses that
    no rule allows."""
    order = SimOrder("unclean", seed=7)
    record = record_of(order, run_in_sim(order.plan()), 0.1)
    assert record.given_up == {"unclean-election": record.tallies["C1"].excused} and record.given_up["unclean-election"]
    assert (record.lost, record.exit_code) == (0, 0)
