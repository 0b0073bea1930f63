"""Failures that campaigns keep, and try again."""

from __future__ import annotations

import pytest

from chaos.errors import InputError
from chaos.failure_store import MemoryStore
from orchestrator.campaigns.failures import failure_of, order_again, settle
from orchestrator.campaigns.order import SimOrder
from orchestrator.campaigns.record import RunRecord, record_of
from orchestrator.sim_run import run_in_sim

FAILS = SimOrder("kip-207", "kafka", settings=("features.kip-207=off", "duration=13s"))


def run(order: SimOrder) -> RunRecord:
    return record_of(order, run_in_sim(order.plan()), 0.0)


def test_a_stored_failure_is_the_same_run_again() -> None:
    """Shows that an entry has everything that the run needs: settings and seed with it."""
    record = run(FAILS)
    store = MemoryStore()
    store.save(failure_of(FAILS.plan(), record.signature, record.sentence, "a campaign"))
    (kept,) = store.contents().failures
    again = run(order_again(kept))
    assert (again.signature, again.digest) == (record.signature, record.digest)
    assert settle(store, kept, again) == ""
    assert store.contents().failures == [kept]


def test_what_fails_no_longer_is_reported_and_forgotten() -> None:
    """Shows the words for a failure that is gone, and that it leaves the store."""
    held = SimOrder("kip-207", "kafka", seed=3)
    store = MemoryStore()
    gone = failure_of(held.plan(), "H1: something", "it was so", "a campaign")
    store.save(gone)
    assert settle(store, gone, run(order_again(gone))).endswith("fails no longer; it is forgotten")
    assert store.contents().failures == []


def test_a_document_of_another_time_is_a_mistake_of_input() -> None:
    """Shows that an entry which this version no longer takes says so, as any scenario does."""
    failure = failure_of(FAILS.plan(), "H1: something", "it was so", "a campaign")
    failure.document["features"]["kip-9999"] = "on"
    with pytest.raises(InputError, match="unknown feature kip-9999"):
        order_again(failure).plan()
