"""Krift's sim is asked what the real Kafka was asked, and answers as that did."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.real_kafka.cases import SECTIONS, run_section
from tests.real_kafka.outcomes import KNOWN, differences, recorded
from tests.real_kafka.sim_cluster import SimCluster

LEDGER = Path(__file__).parents[2] / "docs" / "fidelity.md"


@pytest.mark.parametrize("name", SECTIONS)
def test_krift_answers_as_kafka_did(name: str) -> None:
    """Shows that every outcome which a client can see is that of Kafka 4.3.1, but for those that the ledger names."""
    cluster = SimCluster()
    try:
        told = run_section(name, cluster)
    finally:
        cluster.end()
    different = differences(recorded()[name], told)
    unexplained = [each for each in different if each.partition("\n")[0] not in KNOWN]
    assert not unexplained, "\n".join(unexplained)
    explained = [each.partition("\n")[0] for each in different]
    assert explained == [key for key in told if key in KNOWN], "a known difference is one no more"


@pytest.mark.parametrize("key", KNOWN)
def test_known_differences_are_in_the_ledger(key: str) -> None:
    """Shows that what differs was asked, and has its row in docs/fidelity.md."""
    assert key in recorded()[key.partition(":")[0]]
    assert f"\n| {KNOWN[key]} |" in LEDGER.read_text(encoding="utf-8")
